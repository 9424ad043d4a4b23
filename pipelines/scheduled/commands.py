"""The command `report`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import datetime, tzinfo

from private_topk.pipelines.errors import InputError

__all__ = ["add_report_command"]

_EXAMPLE = """example:
  private-topk report reports/weekly.yaml --window-end 2026-08-31

Calling it twice publishes once. docs/reports.md describes the file."""


def add_report_command(commands: argparse._SubParsersAction, add: Callable[..., argparse.ArgumentParser]) -> None:
    """`private-topk report FILE`."""
    report = add(commands, "report", _report, "publish one period of a scheduled report, or what was missed")
    report.epilog = _EXAMPLE
    report.add_argument("file", metavar="FILE", help="the report, such as reports/weekly.yaml")
    asked = report.add_mutually_exclusive_group(required=True)
    asked.add_argument("--window-end", metavar="DATE", help="publish the period that ends here")
    asked.add_argument("--missed", action="store_true", help="list the periods that have ended and are not published")
    asked.add_argument("--catch-up", action="store_true", help="publish them all, oldest first")
    asked.add_argument("--check", action="store_true", help="only check the file")
    report.add_argument("--until", metavar="DATE", help="with --missed and --catch-up: look at periods up to here "
                        "(default: now)")  # fmt: skip
    report.add_argument("--correction", metavar="TEXT", help="with --window-end: publish again, over corrected input, "
                        "as a release of its own; costs budget")  # fmt: skip
    report.add_argument("--quiet", action="store_true", help="do not print rankings")


def _report(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    from private_topk.pipelines.scheduled.publish import ScheduledReport, now
    from private_topk.pipelines.scheduled.schema import read_report

    if arguments.correction is not None and arguments.window_end is None:
        raise InputError("--correction needs --window-end: a correction is of one period")
    file = read_report(arguments.file)
    report = ScheduledReport(file, arguments.correction, arguments.quiet)
    zone = file.schedule.zone
    if arguments.check:
        report.check()
        print(f"{arguments.file}: {file.name} is well described")
    elif arguments.window_end is not None:
        end = _moment("--window-end", arguments.window_end, zone)
        try:
            number = file.schedule.number(end)
        except ValueError as error:
            raise InputError(
                f"--window-end {arguments.window_end} ends no period of {arguments.file}: {error}"
            ) from None
        if end > now():
            raise InputError(f"--window-end {arguments.window_end} is not over yet: rows would still come")
        if not report.publish(number):
            print(f"{file.name}, {report.words(number)}: published before, in {report.output(number)}")
    else:
        until = now() if arguments.until is None else _moment("--until", arguments.until, zone)
        missed = report.missed(until)
        for number in missed:
            print(f"{file.name}, {report.words(number)}: {'catching up' if arguments.catch_up else 'missed'}")
            if arguments.catch_up:
                report.publish(number)
        if not missed:
            print(f"{file.name}: nothing was missed")


def _moment(option: str, text: str, zone: tzinfo) -> datetime:
    try:
        value = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise InputError(f"{option} must be a date or time such as 2026-08-31, got {text}") from None
    return value if value.tzinfo else value.replace(tzinfo=zone)
