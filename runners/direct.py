"""Local runs: Beam's FnApiRunner, pinned by class.

`DirectRunner` by name is a switch that picks a runner of its own, and another one where it finds a network.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult

from private_topk.runners import Launch
from private_topk.runners.options import BeamOptions


def prepare(arguments: Sequence[str]) -> Launch:
    """Prepare one worker inside this process, on all cores or on --cores. More of Beam's workers would not be faster,
    and would listen on every address of the machine without authentication.
    """
    options = BeamOptions(list(arguments))
    direct, cores = options.view_as(DirectOptions), options.view_as(CoresOptions).cores
    if cores is not None and cores < 1:
        raise ValueError(f"--cores must be at least 1, got {cores}")
    if direct.direct_num_workers != 1 or direct.direct_running_mode != "in_memory":
        raise ValueError(
            "--direct_num_workers must be 1 and --direct_running_mode in_memory: Beam's other workers "
            "listen on every address of this machine, where anybody may read the rows and send them code; "
            "one fills the cores by itself, see --cores"
        )
    listener = ListeningRunner()
    return Launch(
        "direct",
        FnApiRunner(),
        options,
        cores=cores or _cores_here(),
        by_reference=not direct.direct_runner_bundle_repeat,
        listener=listener,
        answered=listener.answered,
    )


class ListeningRunner(BundleBasedDirectRunner):
    """The only local runner that receives from Pub/Sub. Its jobs do not end by themselves.

    The job ends when `answered` is set: when all windows of the stream are seen to be published.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answered = threading.Event()

    def run_pipeline(self, pipeline: Any, options: PipelineOptions) -> PipelineResult:  # noqa: ANN401 - as Beam has it
        result = super().run_pipeline(pipeline, options)
        threading.Thread(target=self._end, args=(result,), name="end of a stream", daemon=True).start()
        return _WithoutMetrics(result)

    def _end(self, result: Any) -> None:  # noqa: ANN401 - Beam's own
        self.answered.wait()
        executor = result._executor._executor
        executor.visible_updates.offer(executor._VisibleExecutorUpdate())  # signals that all is done


class _WithoutMetrics(PipelineResult):
    """A job without metrics: Beam's are those of the first bundle of every step, so that most dropped rows would not be
    told, and rows that are left not seen.
    """

    def __init__(self, job: PipelineResult) -> None:
        super().__init__(job.state)
        self.wait_until_finish, self.cancel = job.wait_until_finish, job.cancel  # type: ignore[method-assign]


class CoresOptions(PipelineOptions):
    """The one option that Beam lacks, added in Beam's own way, so that it can be given wherever Beam's options can."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:  # noqa: ANN401 - Beam's own
        parser.add_argument("--cores", type=int, help="cores that a worker may fill; default: all that it may use")


def _cores_here() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
