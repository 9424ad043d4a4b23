"""From the arguments of `run` and `stream` to a report that has run."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module

from private_topk.pipelines.commands.arguments import asked_of
from private_topk.pipelines.commands.parser import Parser, flag
from private_topk.pipelines.fields import require
from private_topk.pipelines.launching import check_words, launch_of, reach_files
from private_topk.pipelines.report import report_of
from private_topk.pipelines.run import Done, run
from private_topk.runners import UnknownArgument
from private_topk.runners.console import say
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["publish"]


def publish(parser: Parser, arguments: Namespace, others: list[str], *, watch: bool = False) -> Done:
    """Check everything, then run to the end.

    Args:
        others: words for Beam.
        watch: the input is a stream, or files that still arrive.
    """
    asked, runner = asked_of(arguments), arguments.runner if arguments.runner is not None else "direct"
    try:
        check_words(runner, others)
    except UnknownArgument as error:
        raise _unknown(parser, error, watch) from None
    require(asked, "input", "output", "mechanism", "k", "epsilon")
    reach_files(others, asked)
    report = report_of(asked, watch=watch)
    again = f"run again with the same arguments, {flag('release_id')} {report.question.release.id}"
    launch = launch_of(runner, others, streaming=not report.source.bounded)
    return run(report, launch, again, say, bool(arguments.exact_counters))


def _unknown(parser: Parser, error: UnknownArgument, watch: bool) -> Refusal:
    """What is said of a word that nobody knows, or that the other one of the two commands does."""
    name, other = error.word.partition("=")[0], "run" if watch else "stream"
    if name in import_module(f"private_topk.pipelines.commands.{other}").parser()._option_string_actions:
        return Refusal("", f"{verbatim(name)} is no argument of `{parser.prog}`, but of `private-topk {other}`")
    return parser.unknown(error.word, error.known, " or of Beam")
