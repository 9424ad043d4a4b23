"""An Airflow DAG (2.9 or later): last week's period of a report file, every Monday, charged to its ledger.

The one to start from. The file says all of the report: source, budget, privacy unit, release key, sink and ledger, as
does examples/reports/weekly-plays.yaml; docs/reports.md describes it. Airflow says when. A task that is retried,
cleared or run twice publishes once and is charged once, since the release's id comes from the period. Put this beside
your other DAGs, install private-topk for the workers, and set the Airflow variable `private_topk_report` to the path of
the file.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta

from airflow.decorators import dag, task
from airflow.exceptions import AirflowFailException

BAD_INPUT = 2
"""The exit status of a file, a budget or an input that is refused: to try again would not help. An input that has not
come yet ends with 3, which Airflow tries again later."""


@dag(
    schedule="0 6 * * 1",
    start_date=datetime(2026, 1, 5, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 48, "retry_delay": timedelta(hours=1)},
    tags=["privacy"],
)
def private_report() -> None:
    """One task: the period that has just ended, where it is published, and how it went."""

    @task
    def publish(report: str, window_end: str) -> list[dict[str, str]]:
        words = ["report", report, "--window-end", window_end, "--json", "--log-format", "json"]
        done = subprocess.run(["private-topk", *words], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == BAD_INPUT:
            raise AirflowFailException("the report is refused: the log says why")
        done.check_returncode()
        return json.loads(done.stdout)["periods"]

    # The schedule's own Monday: the period of the file that ends there must have its time zone in mind.
    publish("{{ var.value.private_topk_report }}", "{{ data_interval_end | ds }}")


private_report()
