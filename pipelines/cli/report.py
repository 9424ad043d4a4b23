"""`private-topk report`: the periods of a report file."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from private_topk.pipelines.cli.arguments import Command
from private_topk.pipelines.cli.output import NOT_YET, once_done, print_json, report_error
from private_topk.pipelines.process import Interrupted, RunFailed, level, quietly, received_signal, status_of
from private_topk.pipelines.scheduled.file import read_report
from private_topk.pipelines.scheduled.periods import Periods, now
from private_topk.pipelines.scheduled.schedule import in_zone
from private_topk.transforms.errors import InputNotReady, InvalidArgument, printable, refused, verbatim

if TYPE_CHECKING:
    from private_topk.pipelines.report import Report
    from private_topk.pipelines.scheduled.publish import ScheduledReport


_EXAMPLE = """examples:
  private-topk report reports/weekly.yaml --dry-run
  private-topk report reports/weekly.yaml --window-end 2026-01-12
  private-topk report reports/weekly.yaml --backfill --until 2026-02-02 --json

Calling it twice publishes once. docs/reports.md describes the file."""
_ASKED = ("window_end", "missed", "backfill", "forget_users", "dry_run")
_BEFORE = {True: "published before", False: "published"}
_DONE = {"published before", "withdrawn"}


def _report(arguments: Namespace, others: list[str]) -> bool:
    """Check, list or publish periods; returns whether it was to publish."""
    _check(arguments)
    file = read_report(arguments.file)
    periods = Periods(file, arguments.correction)
    numbers = _numbers(periods, arguments)
    from private_topk.pipelines.scheduled.publish import ScheduledReport

    report = ScheduledReport(file, arguments.correction)
    report.check_windowing()
    if arguments.forget_users is not None:
        users = report.forget(arguments.forget_users)
        print(f"{report.name}: whatever its state held of the {len(users):,} listed users is of random users now")
        if blank := sum(user != user.strip() for user in users):
            print(f"Of these {blank:,} begin or end with a blank, which was taken as part of their names.")
    elif arguments.dry_run:
        _look(report, numbers, arguments)
    elif arguments.window_end is not None:
        _publish_one(report, numbers[0], arguments)
    else:
        _go_through(report, numbers, arguments)
    return not (arguments.dry_run or arguments.missed or arguments.forget_users)


def _look(report: ScheduledReport, numbers: Sequence[int], arguments: Namespace) -> None:
    """Check the file, and whether a period could be published if one is given."""
    from private_topk.pipelines.cli.publish import tell_dry_run
    from private_topk.pipelines.dry_run import lines_of

    report.check()
    in_lines = not (arguments.json or arguments.sign_off)
    document: dict[str, object] = {"report": report.name, "well_described": True}
    accepted: list[tuple[Report, Sequence[tuple[str, str]], bool]] = []
    facts: list[tuple[str, str]] = []
    try:
        facts.extend(() if numbers else report.prospects())
    except InvalidArgument:  # what needs no ledger decides how large a budget to open
        if in_lines:
            print(*lines_of(facts), sep="\n", end="\n" * bool(facts), flush=True)
        raise
    for number in numbers:
        other = bool(report.other_key(number))
        known = not report.is_withdrawn(number) and (other or report.is_known_by_correction(number))
        if known and report.published(number):
            told = f"published before{' under another release key' * other}, in {printable(report.where(number))}"
            told += "; rows are not compared"
            facts += [("release", told), *report.lacking(number)]
        else:
            report.dry_run(number, lambda *found: accepted.append(found))
    if in_lines:
        unseen = "" if numbers else "; its input is not looked at without --window-end"
        print(f"{arguments.file} is a valid report{unseen}", flush=True)
    for found in accepted:
        with report.pointing():
            document.update(tell_dry_run(arguments, *found))
    document.update(facts)
    if report.lost:
        document["lost"] = " ".join(report.lost)
    if in_lines:
        print(*lines_of(facts), sep="\n", end="\n" * bool(facts))
    elif arguments.sign_off:
        print(*report.sign_off(numbers[0] if numbers else None), sep="\n")
    else:
        print_json(document)
    with report.pointing():
        if report.unpaid:
            raise report.unpaid


def _check(arguments: Namespace) -> None:
    from private_topk.pipelines.cli.publish import check_sign_off

    if arguments.correction is not None and arguments.window_end is None:
        raise InvalidArgument("correction", "needs {window_end}: a correction replaces one period")
    actions = [name for name in _ASKED if getattr(arguments, name) is not None]
    if len(actions) != 1 and actions != ["window_end", "dry_run"]:
        given = "give one of {window_end}, {missed}, {backfill}, {forget_users} and {dry_run}"
        raise InvalidArgument("", f"{given}; only {{window_end}} goes with {{dry_run}}")
    check_sign_off(arguments)
    if arguments.until is not None and not (arguments.missed or arguments.backfill):
        raise InvalidArgument("until", "goes with {missed} or {backfill}")


def _numbers(periods: Periods, arguments: Namespace) -> Sequence[int]:
    """The numbers of the periods to look at; none if only the file is checked. Raises InvalidArgument."""
    if arguments.window_end is not None:
        return (_number(periods, arguments),)
    if not (arguments.missed or arguments.backfill):
        return ()
    until = _until(periods, arguments)
    if until > now():
        raise InvalidArgument(
            "until",
            f"{arguments.until.isoformat()} is not over yet",
            "of a period that is not over, rows would still come",
        )
    return range(periods.schedule.ended(until))


def _until(periods: Periods, arguments: Namespace) -> datetime:
    return now() if arguments.until is None else in_zone(arguments.until, periods.schedule.zone)


def _number(periods: Periods, arguments: Namespace) -> int:
    """The number of the period that ends at --window-end. Raises InvalidArgument if none does, or it is not over."""
    end = in_zone(arguments.window_end, periods.schedule.zone)
    shown = arguments.window_end.isoformat().removesuffix("T00:00:00")
    try:
        number = periods.schedule.number(end)
    except ValueError as error:
        raise InvalidArgument("window_end", f"{shown} ends no period of {verbatim(arguments.file)}: {error}") from None
    if end > now():
        raise InputNotReady("window_end", f"{shown} is not over yet: rows would still come")
    return number


def _publish_one(report: ScheduledReport, number: int, arguments: Namespace) -> None:
    published = _publish(report, number, arguments)
    if arguments.json:
        with once_done():
            print_json(_document(report, [_as_json(report, number, _BEFORE[not published])]))
    elif not published and not arguments.quiet:
        print(f"{report.name}, {report.words(number)}: published before, in {printable(report.where(number))}")


@dataclass
class _Whys:
    """Why periods of a backfill are not published.

    Attributes:
        of_all: why every call is refused, which is told once.
        unchecked: periods that failed before it was known whether they are published.
        waits: what those wait for whose input has not come.
        told: the first period that was refused for each reason.
    """

    of_all: InvalidArgument | None = None
    unchecked: list[int] = field(default_factory=list)
    waits: list[InputNotReady] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)


def _go_through(report: ScheduledReport, numbers: Sequence[int], arguments: Namespace) -> None:
    """List or publish every missed period in turn: a failure does not keep later ones from being published."""
    went, whys = list[str](), _Whys()
    try:
        for number in numbers:
            went.append(_went(report, number, len(numbers), arguments, whys))
        _tell_how_they_went(report, went, arguments, whys)
    except KeyboardInterrupt as error:
        if not arguments.backfill:
            raise
        state = f", {error.state}" if isinstance(error, Interrupted) else ""
        before = f"earlier periods that this call has published: {went.count('published'):,}"
        at_work = f"; of {report.words(len(went))}{state}" if len(went) < len(numbers) else ""
        raise Interrupted(f"{before}{at_work}", error) from None


def _tell_how_they_went(report: ScheduledReport, went: Sequence[str], arguments: Namespace, whys: _Whys) -> None:
    """What became of all periods. Raises RunFailed, InvalidArgument or InputNotReady if some are not published."""
    failed = [number for number, how in enumerate(went) if how in ("failed", "refused")]
    if not arguments.backfill and ("missed" in went or not failed) and (why := report.refused()):
        told = f"{report.name}: every call is refused: {why}"
        print(printable(told), file=sys.stderr if arguments.json else None, flush=True)
    if not failed:
        report.tell_lost()
    if arguments.json:
        print_json(_document(report, [_as_json(report, *each) for each in enumerate(went)]))
    elif set(went) <= _DONE and not (arguments.backfill and arguments.quiet):  # cron would mail it
        print(f"{report.name}: no period is left to publish")
    if failed:
        absent = [number for number in failed if number not in whys.unchecked]
        told = "".join(
            f"{len(numbers)} of {len(went)} periods {what}, as said above: {', '.join(map(report.words, numbers))}. "
            for numbers, what in ((whys.unchecked, "could not be checked"), (absent, "are not published"))
            if numbers
        )
        told += "Fix this and run the command again"
        raise RunFailed(told) if "failed" in went else refused(told)
    waiting = [report.words(number) for number, how in enumerate(went) if how == "not yet"]
    if waiting:
        told = f"{len(waiting)} of {len(went)} periods wait for their input: {', '.join(waiting)}"
        if not arguments.quiet:
            raise InputNotReady("", verbatim(told))
        raise InputNotReady("", f"{verbatim(told)}; {'of the first: ' * (len(waiting) > 1)}{whys.waits[0]}")
    if ended := report.schedule.over(_until(report, arguments)):
        with level("warning"):  # and status 0: a call that is made twice ends as it did
            print(printable(f"{report.name}: {ended}"), file=sys.stderr, flush=True)


def _went(report: ScheduledReport, number: int, of: int, arguments: Namespace, whys: _Whys) -> str:
    """The outcome of a period: one of the words of docs/command-line.md. Says first which it is, of how many."""
    checked = False
    try:
        withdrawn = report.is_withdrawn(number)
        if not withdrawn and report.published(number):
            return "published before"
        corrected = report.is_corrected(number)
        checked = True
        if withdrawn or corrected:
            told = f"{report.name}, {report.words(number)}: {'withdrawn' if withdrawn else 'is not here'}"
            told += ", and its correction stands for it" * corrected
            if not arguments.backfill and (corrected or not arguments.json):  # which cron would mail every time
                print(printable(told), file=sys.stderr if arguments.json else None, flush=True)
            return "withdrawn" if withdrawn else "published before"
        if not arguments.backfill:
            what = report.prospect(number)
            if what or not arguments.json:
                place = f", and belongs in {report.uri(number)}; {what}" if what else ""
                told = f"{report.name}, {report.words(number)}: missed{place}"
                print(printable(told), file=sys.stderr if arguments.json else None, flush=True)
            return "missed"
        which = f"{report.name}, {report.words(number)}: backfill, period {number + 1} of {of}"
        if whys.of_all is not None:
            whys.unchecked.append(number)
            return "refused"
        if not arguments.quiet:  # what waits would be mailed at every call
            print(which, file=sys.stderr if arguments.json else None, flush=True)
        return _BEFORE[not _publish(report, number, arguments)]
    except Exception as error:
        if received_signal() is not None:  # a signal, whatever error a library turned it into
            raise
        if isinstance(error, InputNotReady):
            whys.waits.append(error)
            if arguments.quiet:
                return "not yet"
        elif status_of(error) == InvalidArgument.status and (every := whys.of_all or report.refused()) is not None:
            if whys.of_all is None:
                report_error(every)
            whys.of_all = every
            whys.unchecked.append(number)
            return "refused"
        whys.unchecked += [number] * (not checked)
        first = whys.told.setdefault(str(error), report.words(number))
        if first != report.words(number) and isinstance(error, InvalidArgument):
            error = type(error)("", verbatim(f"the same as is said of {first}"))
        status = report_error(error, about=f"private-topk: {report.words(number)}: ")
        return {NOT_YET: "not yet", InvalidArgument.status: "refused"}.get(status, "failed")


def _document(report: ScheduledReport, periods: Sequence[dict[str, object]]) -> dict[str, object]:
    lost = {"lost": " ".join(report.lost)} if report.lost else {}
    return {"report": report.name, "periods": periods, **lost}


def _as_json(report: ScheduledReport, number: int, how: str) -> dict[str, object]:
    from private_topk.pipelines.cli.show import empty_of
    from private_topk.pipelines.show.reading import read_published

    period, place = report.schedule.period(number), report.uri(number)
    facts = {
        "start": period.start,
        "end": period.end,
        "release_id": report.release_id(number),
        "output": place,
        "outcome": how,
    }
    if how in _BEFORE.values():
        with suppress(InvalidArgument):  # a place that cannot be read back, such as a topic
            facts["empty"] = empty_of(read_published(place))
    return facts


def _publish(report: ScheduledReport, number: int, arguments: Namespace) -> bool:
    """Publish a period; returns whether there was anything to publish."""
    from private_topk.pipelines.cli.publish import tell_operator
    from private_topk.pipelines.cli.show import show_rows

    with quietly(arguments.quiet):
        done = report.publish(number, bool(arguments.exact_counters))
    if done is None:
        return False
    with once_done():
        tell_operator(done, arguments)
        if not (arguments.quiet or arguments.json or done.deferred):
            show_rows(done.report.sink)
    return True


COMMANDS = {
    "report": Command(
        _report,
        "Publish one period of a scheduled report, or what was missed.",
        _EXAMPLE,
        choose=_ASKED,
        alone=("FILE", "the report, such as reports/weekly.yaml"),
        takes="the report, such as reports/weekly.yaml",
    ),
}
