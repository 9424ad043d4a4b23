"""From the arguments of `run` and `stream` to a report that has run."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace

from private_topk.pipelines.cli.answering import print_json
from private_topk.pipelines.cli.arguments import options_of
from private_topk.pipelines.cli.parser import Parser, flag
from private_topk.pipelines.launching import check_words, launch_of, reach_files
from private_topk.pipelines.logs import level
from private_topk.pipelines.preview.from_options import forewarned
from private_topk.pipelines.protected_files import protected_files
from private_topk.pipelines.report import Report, report_of
from private_topk.pipelines.run import Done, run
from private_topk.runners import Launch, UnknownArgument, say
from private_topk.transforms.errors import printable

__all__ = ["publish", "tell_readiness"]


def publish(parser: Parser, arguments: Namespace, others: list[str], *, watch: bool = False) -> Done | None:
    """Check everything, then run to the end; with --check only the former, and None is returned.

    Args:
        others: words for Beam.
        watch: the input is a stream, or files that still arrive.
    """
    options, runner = options_of(arguments), arguments.runner if arguments.runner is not None else "direct"
    try:
        check_words(runner, others)
    except UnknownArgument as error:
        raise parser.unknown(error.word, error.known, " or of Beam") from None
    parser.require(options)
    reach_files(others, options)
    report = report_of(options, watch=watch)
    report = replace(report, kept=(*report.kept, *protected_files(vars(arguments))))  # also --config
    earlier = report.sink.files(report.spec.period) or ()
    warning = forewarned(report.spec, options.get("like"), earlier)
    if warning is not None:
        with level("warning"):
            print(f"private-topk: {warning}", file=sys.stderr, flush=True)
    again = f"run again with the same arguments, {flag('release_id')} {report.spec.release.id}"
    launch = launch_of(runner, others, streaming=not report.source.bounded)
    if arguments.check:
        found = tell_readiness(report, launch, arguments)
        if arguments.json:
            print_json(found)
        return None
    return run(report, launch, again, say, bool(arguments.exact_counters))


def tell_readiness(report: Report, launch: Launch, arguments: Namespace) -> dict[str, object]:
    """Print what a run would do, and for the operator what its rows look like. Raises Refusal as the run would.

    Returns the same as a document, which `--json` leaves to whoever calls.
    """
    from private_topk.pipelines.look import look_at
    from private_topk.pipelines.readiness import readiness

    facts = list(readiness(report, launch))
    width = max(len(name) for name, _ in facts)
    if not arguments.json:
        print("\n".join(f"{name:<{width}}  {printable(value)}" for name, value in facts))
    if arguments.show_dropped_rows:
        lines = look_at(report).lines(bool(arguments.exact_counters))
        print("\n".join(map(printable, lines)), file=sys.stderr)
    if not arguments.json:
        print("ready: nothing was drawn, charged or published")
    return {"ready": True, **dict(facts)}
