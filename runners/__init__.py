"""Where a report runs. A runner module prepares options and checks beforehand what it needs; it holds no arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineRunner

__all__ = ["RUNNERS", "Launch", "prepare", "refuse_unknown", "unknown_words"]

RUNNERS = {
    "direct": "private_topk.runners.direct",
    "flink": "private_topk.runners.flink",
    "prism": "private_topk.runners.prism",
    "portable": "private_topk.runners.portable",
    "dataflow": "private_topk.runners.dataflow",
}
"""Every runner by its name on the command line, and its module."""


_YEARS = 10 * 365 * 86_400
"""In seconds: longer than any job."""


@dataclass(frozen=True)
class Launch:
    """A runner and its options, checked and ready.

    Args:
        remote: the workers are machines that see no local file and no environment variable of this one.
        deferred: running only writes a template, which somebody else runs later.
        waits_for_timers: its watermark waits for what a window's timers hand on.
    """

    name: str
    runner: PipelineRunner
    options: PipelineOptions
    remote: bool = False
    deferred: bool = False
    waits_for_timers: bool = True


def prepare(name: str, arguments: Sequence[str]) -> Launch:
    """Make a runner ready by its name (`direct`) or Beam's name for it (`DirectRunner`).

    Args:
        arguments: Beam's own options, passed through.

    Raises:
        ValueError: the runner is unknown or lacks something, with what is missing and how to get it.
    """
    short = name.lower().removesuffix("runner")
    if short not in RUNNERS:
        raise ValueError(f"--runner must be one of {', '.join(RUNNERS)}, got {name}")
    launch = import_module(RUNNERS[short]).prepare(list(arguments))
    if not any(word.startswith(("--job_server_timeout", "--job-server-timeout")) for word in arguments):
        _wait_without_end(launch)
    return launch


def _wait_without_end(launch: Launch) -> None:
    """Let a portable job run as long as it needs: after five minutes Beam stops listening to it, and fails."""
    from apache_beam.options.pipeline_options import PortableOptions
    from apache_beam.runners.portability.portable_runner import PortableRunner

    if isinstance(launch.runner, PortableRunner):
        launch.options.view_as(PortableOptions).job_server_timeout = _YEARS


def refuse_unknown(arguments: Sequence[str]) -> None:
    """Raise ValueError for an argument that no Beam options class knows: Beam itself would drop it without a word."""
    unknown = unknown_words(arguments)
    if unknown:
        raise ValueError(f"{unknown[0].partition('=')[0]} is no argument of private-topk or of Beam: see "
                         "`private-topk run --help`")  # fmt: skip


def unknown_words(arguments: Sequence[str]) -> list[str]:
    """The words of a command line that no Beam options class takes."""
    from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

    parser = _BeamArgumentParser(allow_abbrev=False, add_help=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return parser.parse_known_args(list(arguments))[1]
