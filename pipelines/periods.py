"""The declared period and its windows, from the arguments."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta

from private_topk.pipelines.errors import InputError
from private_topk.transforms.windows import CalendarWindows, Cut, Period, SlidingWindows
from private_topk.transforms.windows.calendar import time_zone

__all__ = ["make_period"]


def make_period(arguments: argparse.Namespace, slack: timedelta = timedelta(0)) -> Period | None:
    """The declared period, or None where all rows are ranked together. Raises InputError for half of one."""
    start, end = arguments.period_from, arguments.period_to
    if start is None and end is None:
        if arguments.window is not None:
            raise InputError("--window needs --from and --to: windows that are inferred from the data would tell of a "
                             "user who is alone in one, so the period must be public")  # fmt: skip
        return None
    if start is None or end is None:
        raise InputError("--from and --to go together: give both, so that the period is public")
    zone = arguments.time_zone or "UTC"
    try:
        return Period(_in_zone(start, zone), _in_zone(end, zone), _cut(arguments, zone), slack)
    except InputError:
        raise
    except ValueError as error:
        more = "".join(f", --{name}" for name in ("every", "time-zone") if getattr(arguments, name.replace("-", "_")))
        raise InputError(f"--from, --to, --window{more}: {error}") from None


def _cut(arguments: argparse.Namespace, zone: str) -> Cut | timedelta | None:
    window, every = arguments.window, arguments.every
    if isinstance(window, str):
        if every is not None:
            raise InputError(f"--every goes with a --window of a length such as 7d, not with {window}")
        return CalendarWindows(window, zone)
    if every is None:
        return window
    if window is None:
        raise InputError("--every needs --window: how long the windows are that start every so often")
    return SlidingWindows(window, every)


def _in_zone(moment: datetime, zone: str) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=time_zone(zone))
