"""Local runs: Beam's FnApiRunner, pinned by class.

`DirectRunner` by name is a switch that picks a runner of its own, and another one where it finds a network.
"""

from __future__ import annotations

import os
import threading
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers
from apache_beam.runners.runner import PipelineResult

from private_topk.runners import Launch, refuse_unknown

__all__ = ["ListeningRunner", "prepare"]


def prepare(arguments: Sequence[str]) -> Launch:
    """One worker inside this process, unless Beam's --direct_num_workers asks for more.

    It decodes ahead and handles as many blocks and user shards at a time as there are cores, or --cores; more of Beam's
    own workers pass all data through gRPC, which costs more than it gains below a few dozen cores.
    """
    refuse_unknown(arguments)
    options = PipelineOptions(list(arguments))
    direct, cores = options.view_as(DirectOptions), options.view_as(CoresOptions).cores
    if cores is not None and cores < 1:
        raise ValueError(f"--cores must be at least 1, got {cores}")
    if direct.direct_num_workers < 0:
        raise ValueError(
            f"--direct_num_workers must be at least 1, or 0 for all cores, got {direct.direct_num_workers}"
        )
    if direct.direct_num_workers != 1 and not any(word.startswith("--direct_running_mode") for word in arguments):
        direct.direct_running_mode = "multi_threading"
    _flush_whole_elements()
    listener = ListeningRunner()
    alone = direct.direct_num_workers == 1
    found = _cores_here() if alone else 1
    in_memory = direct.direct_running_mode == "in_memory"
    by_reference = alone and in_memory and not direct.direct_runner_bundle_repeat
    return Launch("direct", FnApiRunner(), options, cores=cores or found, by_reference=by_reference, listener=listener,
                  answered=listener.answered)  # fmt: skip


def _flush_whole_elements() -> None:
    """Let workers of their own send what they have by its size, and not every second besides.

    The thread that looks at the clock sends what there is in the middle of an element that is being encoded, and drops
    what is written while it sends: of runs that took seconds some ended in `NotImplementedError: Invalid
    PaneInfoEncoding` or in lost counts.
    """
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0


class ListeningRunner(BundleBasedDirectRunner):
    """The only local runner that receives from Pub/Sub. Its jobs have no end of their own.

    `answered` is set by whoever sees that all that a stream has to publish is published: the job then ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answered = threading.Event()

    def run_pipeline(self, pipeline: Any, options: PipelineOptions) -> PipelineResult:  # noqa: ANN401 - as Beam has it
        result = super().run_pipeline(pipeline, options)
        threading.Thread(target=self._end, args=(result,), name="end of a stream", daemon=True).start()
        return result

    def _end(self, result: Any) -> None:  # noqa: ANN401 - Beam's own
        self.answered.wait()
        executor = result._executor._executor
        executor.visible_updates.offer(executor._VisibleExecutorUpdate())  # that all is done


class CoresOptions(PipelineOptions):
    """What Beam has no option for."""

    @classmethod
    def _add_argparse_args(cls, parser: ArgumentParser) -> None:
        parser.add_argument("--cores", type=int, help="cores that a worker may fill; default: all that it may use")


def _cores_here() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
