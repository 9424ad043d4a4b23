"""Local runs: Beam's FnApiRunner, pinned by class.

`DirectRunner` by name is a switch that picks a runner of its own, and another one where it finds a network.
"""

from __future__ import annotations

from collections.abc import Sequence

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from private_topk.runners import Launch, refuse_unknown

__all__ = ["prepare"]


def prepare(arguments: Sequence[str]) -> Launch:
    """One worker inside this process, unless Beam's --direct_num_workers asks for more.

    The sources decode ahead in a thread of their own, which fills two cores; more of Beam's own workers pass all data
    through gRPC, which costs more than it gains below a few dozen cores.
    """
    refuse_unknown(arguments)
    options = PipelineOptions(list(arguments))
    direct = options.view_as(DirectOptions)
    if direct.direct_num_workers < 0:
        raise ValueError(
            f"--direct_num_workers must be at least 1, or 0 for all cores, got {direct.direct_num_workers}"
        )
    if direct.direct_num_workers != 1 and not any(word.startswith("--direct_running_mode") for word in arguments):
        direct.direct_running_mode = "multi_threading"
    # The only local runner that receives from Pub/Sub listens.
    return Launch("direct", FnApiRunner(), options, listener=BundleBasedDirectRunner())
