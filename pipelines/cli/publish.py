"""`private-topk run` and `private-topk stream`: a ranking from files, or one per window from a stream."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from private_topk.pipelines.cli.arguments import Command, options_of
from private_topk.pipelines.cli.output import once_done, print_json
from private_topk.pipelines.cli.parser import flag
from private_topk.pipelines.options import require
from private_topk.transforms.errors import InvalidArgument, printable, verbatim

if TYPE_CHECKING:
    from private_topk.pipelines.progress import Health
    from private_topk.pipelines.report import Report
    from private_topk.pipelines.run import Done


_RUN = """examples:
  private-topk run --input 'plays-*.avro' --domain catalogue.txt \\
      --k 10 --epsilon 1 --privacy-unit user \\
      --window 7d --from 2026-01-05 --to 2026-02-16 --output ranking.avro
  private-topk run --input plays.avro --unknown-domain \\
      --max-items-per-user 100 --k 10 --epsilon 1 --delta 1e-6 --output unlisted.csv --dry-run

Without --mechanism one is chosen by public facts alone; stderr says which, and why (docs/choosing.md).
Other arguments go to Beam, such as --cores=4.
Exit status: 0 published, 2 bad input (nothing done), 1 failed, 129, 130 or 143 interrupted. stderr says
what is published."""

_STREAM = """examples:
  private-topk stream --input kafka://broker:9092/plays --domain catalogue.txt \\
      --k 10 --epsilon 1 --delta 1e-6 --privacy-unit user --runner flink --flink_master jobmanager:8081 \\
      --window day --time-zone Europe/Berlin --from 2026-01-01 --to 2026-02-01 --output rankings/
  private-topk stream --input 'incoming/*.jsonl' --domain catalogue.txt --clock event \\
      --k 10 --epsilon 1 --privacy-unit user --window day --from 2026-01-05 --to 2026-01-08 --output rankings/

With --clock event a log is replayed whose rows are in the order of their times; by default a row arrives when its
file is written. Every window is published once, when it has closed; the command ends when the horizon is over.
Exit status: 0 published, 2 bad input (nothing done), 1 failed, 129, 130 or 143 interrupted. Published windows stay;
stderr says which."""


def _run(arguments: Namespace, others: list[str]) -> Done | None:
    from private_topk.pipelines.cli.show import print_published, show_rows

    done = _publish(arguments, others)
    if done is None or done.deferred:
        return done
    with once_done():
        tell_operator(done, arguments)
        if arguments.json:
            print_published(done.report.sink)
        elif not arguments.quiet:
            show_rows(done.report.sink)
    return done


def _stream(arguments: Namespace, others: list[str]) -> Done | None:
    from private_topk.pipelines.process import JsonLines
    from private_topk.pipelines.progress import Health
    from private_topk.runners import Line

    health = None if arguments.health_file is None or arguments.dry_run else Health(arguments.health_file)
    with nullcontext() if health is None else health.ending_told():
        done = _publish(arguments, others, health, watch=True)
    if done is None or done.deferred:
        return done
    uri, period = done.report.sink.uri, done.report.question.period
    with once_done():
        tell_operator(done, arguments)
        over = f"the horizon is over: {len(period or ()):,} windows published to {printable(uri)}"
        if done.job is not None and isinstance(sys.stderr, JsonLines):
            sys.stderr.say(Line(over, event="over", published=len(period or ()), output=uri))
        if arguments.json:
            print_json({"output": uri, "release_id": done.report.question.release.id, "windows": len(period or ())})
        elif period is not None:
            print(over)
    return done


def _publish(
    arguments: Namespace, others: list[str], health: Health | None = None, *, watch: bool = False
) -> Done | None:
    """Check everything, then run to the end; with --dry-run only check, and return None.

    Args:
        others: words for Beam.
        watch: the input is a stream, or files that still arrive.
    """
    from private_topk.pipelines.files import refuse_replacing
    from private_topk.pipelines.preview.forewarning import forewarn
    from private_topk.pipelines.report import report_of
    from private_topk.pipelines.run import check_words, launch_of, reach_files, run
    from private_topk.runners import say

    check_sign_off(arguments)
    options, runner = options_of(arguments), arguments.runner if arguments.runner is not None else "direct"
    check_words(runner, others)
    require(options, *(_STREAMS if watch else _FILES))
    reach_files(others, options)
    report = report_of(options, watch=watch)
    earlier = report.sink.files(report.question.period) or ()
    known = partial(forewarn, report.question, options, earlier)
    again = f"run again with the same arguments, {flag('release_id')} {report.question.release.id}"
    launch = launch_of(runner, others, streaming=not report.source.bounded)
    if (file := getattr(arguments, "health_file", None)) is not None:
        refuse_replacing([file], report.reads(), "health_file")
        if os.path.isdir(file) or not os.access(f"{os.path.dirname(file) or '.'}/", os.W_OK):
            rule = f"{verbatim(file)} cannot be written"
            raise InvalidArgument("health_file", rule, "give a file in a folder of this machine")
    if arguments.dry_run:
        from private_topk.pipelines.dry_run import dry_run, sign_off_of_run

        document = tell_dry_run(arguments, report, [*dry_run(report, launch), ("recall", known(None))])
        if arguments.sign_off:
            print(*sign_off_of_run(report, launch), sep="\n")
        if arguments.json:
            print_json(document)
        return None
    return run(report, launch, again, say, bool(arguments.exact_counters), health, known)


def check_sign_off(arguments: Namespace) -> None:
    """Raise InvalidArgument unless a sheet is asked for alone, and before the run."""
    if arguments.sign_off and not arguments.dry_run:
        remedy = "for what is published, `private-topk show RANKING --sign-off` prints the sheet"
        raise InvalidArgument("sign_off", "needs {dry_run}", remedy)
    if arguments.sign_off and arguments.json:
        raise InvalidArgument("sign_off", "does not go with {json}", "give one of them")


def tell_operator(done: Done, arguments: Namespace) -> None:
    """Tell on stderr of the rows that were dropped: on a terminal unless `--quiet`, elsewhere with the option."""
    from private_topk.pipelines.dropped_rows import tell_dropped_rows

    asked = arguments.show_dropped_rows or (False if getattr(arguments, "quiet", None) else None)
    tell_dropped_rows(done, asked, bool(arguments.exact_counters))


def tell_dry_run(
    arguments: Namespace, report: Report, facts: Sequence[tuple[str, str]], done: bool = False
) -> dict[str, object]:
    """Print what a run would do, and statistics of its rows for the operator. Raises InvalidArgument for too few rows.

    Returns the same as a document, which with `--json` the caller prints; with `--sign-off` it prints the sheet alone.

    Args:
        done: the run would find all published, and do nothing.
    """
    from private_topk.pipelines.dropped_rows import data_quality_of
    from private_topk.pipelines.dry_run import READY, lines_of

    in_lines = not (arguments.json or arguments.sign_off)
    if in_lines:
        print(*lines_of(facts), sep="\n")
    if arguments.show_dropped_rows:
        lines = data_quality_of(report).lines(bool(arguments.exact_counters))
        print("\n".join(map(printable, lines)), file=sys.stderr)
    if not done:
        report.check_rows()  # which the look explains
    if in_lines:
        print("published before: nothing to do" if done else READY)
    return {"ready": True, **dict(facts)}


_FILES = ("input", "output", "epsilon")
_STREAMS = (*_FILES, "period_from", "period_to")
_CHOOSE = ("domain", "found", "domain_range", "unknown_domain")
_FIRST = (
    *("input", "user_column", "item_column", "time_column", "domain", "unknown_domain", "mechanism", "k"),
    *("epsilon", "delta", "privacy_unit", "window", "period_from", "period_to", "output", "dry_run"),
)
COMMANDS = {
    "run": Command(_run, "Publish a ranking from files.", _RUN, _FILES, _CHOOSE, beam=True, first=_FIRST),
    "stream": Command(
        _stream, "Publish a ranking per window from a stream.", _STREAM, _STREAMS, _CHOOSE, beam=True, first=_FIRST
    ),
}
