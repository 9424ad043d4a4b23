"""Google Cloud Dataflow. docs/dataflow.md has all steps, and says what has never run against the real service."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.pipeline import Pipeline
from apache_beam.runners.dataflow import dataflow_runner

from private_topk.runners import Launch
from private_topk.runners.options import BeamOptions
from private_topk.transforms.errors import InvalidArgument, install_extra

LAUNCHED = "FLEX_TEMPLATE_PYTHON_PY_FILE"
"""The variable by which the launcher of flex templates finds its program: set where that starts it."""

_MAX_WORKERS = 20
_MIN_SETUPTOOLS = 77


class DataflowRunner(dataflow_runner.DataflowRunner):
    """Beam's own runner, which also prints where the job is. Beam knows its service runner by this class's name."""

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions, *rest: Any, **named: Any) -> Any:  # noqa: ANN401
        result = super().run_pipeline(pipeline, options, *rest, **named)
        if getattr(result, "has_job", False):
            google = options.view_as(GoogleCloudOptions)
            place = f"{google.region}/{result.job_id()}?project={google.project}"
            # In Beam's own format, which schedulers such as Airflow look for.
            print(
                f"Created job with id: [{result.job_id()}]\nhttps://console.cloud.google.com/dataflow/jobs/{place}",
                file=sys.__stderr__,
                flush=True,
            )
        return result


def prepare(arguments: Sequence[str]) -> Launch:
    """Prepare a job, or one that the launcher of a flex template submits. The workers see nothing of this machine."""
    if not _googles_libraries():
        raise InvalidArgument("runner", "dataflow needs Google's libraries", install_extra("gcp"))
    options = BeamOptions(list(arguments))
    google = options.view_as(GoogleCloudOptions)
    handed_over = bool(google.template_location)
    if handed_over and LAUNCHED not in os.environ:
        raise InvalidArgument(
            "runner",
            "dataflow makes no classic template of --template_location: it would be charged once and could be run at "
            "any time",
            "use the flex template (docs/dataflow.md), each of whose runs is a report",
        )
    missing = [f"--{name}" for name in ("project", "region", "temp_location") if not getattr(google, name)]
    if missing:
        raise InvalidArgument(
            "runner", f"dataflow needs {', '.join(missing)}: see docs/dataflow.md for an empty project"
        )
    if not google.temp_location.startswith("gs://"):
        raise ValueError(
            f"--temp_location must be a folder of a bucket, gs://BUCKET/FOLDER, got {google.temp_location}"
        )
    _name_package(options)
    if not google.no_auth:
        if not has_credentials():
            raise ValueError(
                "no Google credentials here: `gcloud auth application-default login`, or run as a service account"
            )
    _check_bucket(google.temp_location, options)
    _settle(options)
    return Launch("dataflow", DataflowRunner(), options, remote=True, deferred=handed_over, at="elsewhere")


def _googles_libraries() -> bool:
    try:
        return find_spec("google.cloud.dataflow_v1beta3") is not None
    except (ImportError, ValueError):
        return False


def _name_package(options: PipelineOptions) -> None:
    """Set how this package gets to the workers: in their image, or as a source package made from this checkout."""
    setup, worker = options.view_as(SetupOptions), options.view_as(WorkerOptions)
    if setup.setup_file or setup.extra_packages or worker.sdk_container_image:
        return
    script = Path(__file__).resolve().parents[1] / "setup.py"
    if not script.is_file():
        raise ValueError(
            "the workers need this package: run from a source checkout, or give --setup_file PATH of one, "
            "or --sdk_container_image with the package installed"
        )
    try:
        installed = version("setuptools")
    except PackageNotFoundError:
        installed = "none"
    if installed == "none" or int(installed.split(".")[0]) < _MIN_SETUPTOOLS:
        raise ValueError(
            f"the source package for the workers is built with setuptools {_MIN_SETUPTOOLS} or later, "
            f"found {installed}: `pip install --upgrade setuptools`"
        )
    setup.setup_file = str(script)


def has_credentials() -> bool:
    """Whether there are Google credentials, or no library that would look for them."""
    try:
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError
    except ImportError:  # Beam says what to install
        return True
    try:
        google.auth.default()
    except DefaultCredentialsError:
        return False
    return True


def _check_bucket(folder: str, options: PipelineOptions) -> None:
    FileSystems.set_options(options)
    attempt = FileSystems.join(folder, f"private-topk-check-{time.time_ns()}")
    try:
        with FileSystems.create(attempt) as sink:
            sink.write(b"private-topk looks whether it may write here")
        FileSystems.delete([attempt])
    except Exception as error:  # every layer below raises its own kind
        raise ValueError(
            f"--temp_location {folder} cannot be written ({type(error).__name__}): make the bucket, and "
            "give this account roles/storage.objectAdmin on it"
        ) from None


def _settle(options: PipelineOptions) -> None:
    """Set defaults for options that were not given. Streaming jobs also use the streaming engine."""
    worker, google = options.view_as(WorkerOptions), options.view_as(GoogleCloudOptions)
    worker.autoscaling_algorithm = worker.autoscaling_algorithm or "THROUGHPUT_BASED"
    worker.max_num_workers = worker.max_num_workers or worker.num_workers or _MAX_WORKERS
    google.job_name = google.job_name or time.strftime("private-topk-%Y%m%d-%H%M%S", time.gmtime())
    options.view_as(DebugOptions).add_experiment("use_runner_v2")
    options.view_as(SetupOptions).save_main_session = False  # every DoFn is in an importable module
    if options.view_as(StandardOptions).streaming:
        google.enable_streaming_engine = True
