"""Beam's Flink runner, with the options that its job server takes, and a watch over the job."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer, FlinkRunner
from apache_beam.runners.portability.job_server import StopOnExitJobServer
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineResult

from private_topk.runners.flink_rest import Rest
from private_topk.runners.flink_watch import Watch
from private_topk.runners.loopback import LoopbackRunner

__all__ = ["FlinkJobRunner", "write_settings"]


class FlinkJobRunner(LoopbackRunner, FlinkRunner):
    """Hands a job over to Flink.

    Args:
        job_options: options of the job server, by their names.
        rest: the job manager's address, or nothing if it is not known: then nobody watches over the job.
        settings: a folder that is gone with this.

    `answered` is set by whoever sees that all that a stream has to publish is published.
    """

    def __init__(self, job_options: Mapping[str, Any], rest: str = "", settings: Path | None = None) -> None:
        super().__init__()
        self.job_options = job_options
        self.answered = threading.Event()
        self.rest = rest
        if settings is not None:
            weakref.finalize(self, shutil.rmtree, settings, ignore_errors=True)
        self._server: StopOnExitJobServer | None = None

    def job_server(self, options: PipelineOptions) -> StopOnExitJobServer:
        """The job server that this runner starts, one for asking it and for running."""
        if self._server is None:
            self._server = StopOnExitJobServer(FlinkJarJobServer(options))
        return self._server

    def default_job_server(self, options: PipelineOptions) -> Any:  # noqa: ANN401 - Beam's own
        if options.view_as(FlinkRunnerOptions).flink_submit_uber_jar:
            return super().default_job_server(options)
        return self.job_server(options)

    def create_job_service_handle(self, job_service: Any, options: PipelineOptions) -> JobServiceHandle:  # noqa: ANN401
        return _Handle(job_service, options, self.job_options)

    def run_portable_pipeline(self, pipeline: Any, options: PipelineOptions) -> PipelineResult:  # noqa: ANN401
        name = options.view_as(GoogleCloudOptions).job_name or "private-topk"

        def hand_over(slots: int) -> tuple[PipelineResult, Watch | None]:
            """Under a name of its own, to so many slots; 0 leaves them as they were chosen."""
            options.view_as(GoogleCloudOptions).job_name = own = f"{name}-{secrets.token_hex(4)}"
            if slots:
                options.view_as(FlinkRunnerOptions).parallelism = slots
            result = super(FlinkJobRunner, self).run_portable_pipeline(deepcopy(pipeline), options)
            if not self.rest:
                return result, None
            watch = Watch(Rest(self.rest), own, options.view_as(StandardOptions).streaming, self.answered)
            watch.start()
            return result, watch

        return _HandedOver(hand_over)


class _HandedOver(PipelineResult):
    """A job, or the one that was handed over in its place because it stood still.

    Which of them publishes makes no difference: both draw under the same release key, each window once.

    Args:
        hand_over: to so many slots, as `Watch.had` has them, or with 0 to as many as were chosen; who watches over it.
    """

    def __init__(self, hand_over: Callable[[int], tuple[PipelineResult, Watch | None]]) -> None:
        self._hand_over = hand_over
        self._job, self._watch = hand_over(0)

    @property
    def state(self) -> str:
        return self._job.state

    def cancel(self) -> None:
        self._job.cancel()

    def metrics(self) -> Any:  # noqa: ANN401 - Beam's own
        return self._job.metrics()

    def wait_until_finish(self, duration: int | None = None) -> str | None:
        while True:
            try:
                return self._job.wait_until_finish(duration)
            except RuntimeError:
                if self._watch is None or not self._watch.had:
                    raise
            self._job, self._watch = self._hand_over(self._watch.had)


class _Handle(JobServiceHandle):
    """Adds the options of the job server to those that Beam's Python knows."""

    def __init__(self, job_service: Any, options: PipelineOptions, more: Mapping[str, Any]) -> None:  # noqa: ANN401
        super().__init__(job_service, options)
        self._more = more

    def get_pipeline_options(self) -> Any:  # noqa: ANN401 - a message of protobuf
        return self.encode_pipeline_options({**self.options.get_all_options(), **self._more})


def write_settings(settings: Mapping[str, object], keeps_state: bool) -> Path:
    """A folder with Flink's settings for one job, for the runner that hands it over, which takes it away.

    Args:
        keeps_state: checkpoints go there too. In memory, which is a mini cluster's default, they must be small.
    """
    home = Path(tempfile.mkdtemp(prefix="private-topk-flink-"))
    state = {"state.checkpoints.dir": (home / "state").as_uri()} if keeps_state else {}
    lines = [f'{name}: "{value}"\n' for name, value in {**settings, **state}.items()]
    (home / "config.yaml").write_text("".join(lines))
    return home
