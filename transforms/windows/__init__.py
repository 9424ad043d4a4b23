"""Which windows a report publishes, declared and never inferred from the data: periods and the ways of cutting them."""

from __future__ import annotations

from private_topk.transforms.windows.calendar import CalendarWindows
from private_topk.transforms.windows.cuts import Cut, FixedWindows, SlidingWindows, Whole
from private_topk.transforms.windows.instants import MICROSECOND, WindowBounds, from_microseconds, microseconds
from private_topk.transforms.windows.period import Period

__all__ = [
    "MICROSECOND",
    "CalendarWindows",
    "Cut",
    "FixedWindows",
    "Period",
    "SlidingWindows",
    "Whole",
    "WindowBounds",
    "from_microseconds",
    "microseconds",
]
