"""An Airflow DAG (2.7 or later, or Cloud Composer): last week's private ranking on Dataflow, every Monday.

Put it beside your other DAGs, with the packages apache-airflow-providers-apache-beam and -google, put a wheel of
private-topk, which is on no index, where the constant below says, and set the Airflow variables. A task that is retried
or cleared repeats the same release, since its id comes from the schedule.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow import DAG
from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.providers.google.cloud.operators.dataflow import DataflowConfiguration

WHEEL = "file:///home/airflow/gcs/data/private_topk-0.1.0-py3-none-any.whl"
"""What the task's own environment installs: here the data folder of a bucket of Cloud Composer."""

with DAG(
    dag_id="weekly_private_ranking",
    schedule="0 3 * * 1",
    start_date=datetime(2026, 1, 5, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["privacy"],
) as dag:
    BeamRunPythonPipelineOperator(
        task_id="publish_ranking",
        py_options=["-m", "private_topk"],
        py_file="run",
        py_requirements=[f"private-topk[gcp] @ {WHEEL}"],
        py_system_site_packages=False,
        runner="DataflowRunner",
        pipeline_options={
            "input": "{{ var.value.private_topk_input }}",
            "domain": "{{ var.value.private_topk_domain }}",
            "mechanism": "joint",
            "k": "10",
            "epsilon": "1",
            "window": "7d",
            "from": "{{ data_interval_start | ds }}",
            "to": "{{ data_interval_end | ds }}",
            "release-key": "{{ var.value.private_topk_release_key }}",
            "release-id": "plays-weekly-{{ data_interval_end | ds }}",
            "output": "{{ var.value.private_topk_output }}/{{ data_interval_end | ds }}.avro",
            "temp_location": "{{ var.value.private_topk_temp_location }}",
            "sdk_container_image": "{{ var.value.private_topk_image }}",
        },
        dataflow_config=DataflowConfiguration(
            job_name="private-topk-weekly",
            project_id="{{ var.value.private_topk_project }}",
            location="{{ var.value.private_topk_region }}",
        ),
        retries=3,
        retry_delay=timedelta(minutes=10),
    )
