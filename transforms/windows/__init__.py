"""Periods and their windowings: the windows that a report publishes, declared and never inferred from the data."""

from __future__ import annotations

from private_topk.transforms.windows.calendar import CalendarWindows
from private_topk.transforms.windows.period import Period
from private_topk.transforms.windows.windowing import (
    MICROSECOND,
    FixedWindows,
    SlidingWindows,
    ToDate,
    Whole,
    WindowBounds,
    Windowing,
    from_microseconds,
    microseconds,
    utc_text,
)

__all__ = [
    "MICROSECOND",
    "CalendarWindows",
    "FixedWindows",
    "Period",
    "SlidingWindows",
    "ToDate",
    "Whole",
    "WindowBounds",
    "Windowing",
    "from_microseconds",
    "microseconds",
    "utc_text",
]
