"""The declared period and its windows, from what was asked for."""

from __future__ import annotations

from datetime import datetime, timedelta

from private_topk.pipelines.fields import Asked
from private_topk.transforms.refusal import Refusal
from private_topk.transforms.windows import CalendarWindows, Cut, Period, SlidingWindows
from private_topk.transforms.windows.calendar import time_zone

__all__ = ["period_of"]


def period_of(asked: Asked) -> Period | None:
    """The declared period, or None where all rows are ranked together. Raises Refusal for half of one."""
    start, end, zone = asked.get("period_from"), asked.get("period_to"), asked.get("time_zone", "UTC")
    if start is None and end is None:
        if "window" in asked:
            raise Refusal("window", "needs {period_from} and {period_to}", "windows that are inferred from the data "
                          "would tell of a user who is alone in one, so the period must be public")  # fmt: skip
        return None
    if start is None or end is None:
        raise Refusal("period_from", "and {period_to} go together", "give both, so that the period is public")
    return Period(_in_zone(start, zone), _in_zone(end, zone), _cut(asked, zone), asked.get("slack", timedelta(0)))


def _cut(asked: Asked, zone: str) -> Cut | timedelta | None:
    window, every = asked.get("window"), asked.get("every")
    if isinstance(window, str):
        if every is not None:
            raise Refusal("every", f"goes with a {{window}} of a length such as 7d, not with {window}")
        return CalendarWindows(window, zone)
    if every is None:
        return window
    if window is None:
        raise Refusal("every", "needs {window}: how long the windows are that start every so often")
    return SlidingWindows(window, every)


def _in_zone(moment: datetime, zone: str) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=time_zone(zone))
