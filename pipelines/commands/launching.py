"""From the arguments of `run` and `stream` to a report that has run."""

from __future__ import annotations

from argparse import Namespace

from private_topk.pipelines.commands.arguments import asked_of
from private_topk.pipelines.commands.parser import Parser, flag
from private_topk.pipelines.fields import require
from private_topk.pipelines.launching import check_words, launch_of, reach_files
from private_topk.pipelines.report import report_of
from private_topk.pipelines.run import Done, run
from private_topk.runners import UnknownArgument
from private_topk.runners.console import say

__all__ = ["publish"]


def publish(parser: Parser, arguments: Namespace, others: list[str], *, watch: bool = False) -> Done:
    """Check everything, then run to the end.

    Args:
        others: words for Beam.
        watch: the input is a stream, or files that still arrive.
    """
    asked, runner = asked_of(arguments), arguments.runner or "direct"
    try:
        check_words(runner, others)
    except UnknownArgument as error:
        raise parser.unknown(error.word, error.known, " or of Beam") from None
    require(asked, "input", "output", "mechanism", "k", "epsilon")
    reach_files(others, asked)
    report = report_of(asked, watch=watch)
    again = f"run again with the same arguments, {flag('release_id')} {report.question.release.id}"
    launch = launch_of(runner, others, streaming=not report.source.bounded)
    return run(report, launch, again, say)
