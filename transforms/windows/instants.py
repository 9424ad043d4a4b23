"""Moments as microseconds since 1970 UTC, exactly, and the bounds of a window by them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import numpy as np
from numpy.typing import NDArray

__all__ = ["MICROSECOND", "MILLISECOND", "Instants", "WindowBounds", "from_microseconds", "microseconds"]

Instants = NDArray[np.int64]
"""Microseconds since 1970 UTC."""

MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class WindowBounds:
    """A half-open window [start, end) of event time in UTC; both None for all rows whatever their time."""

    start: datetime | None = None
    end: datetime | None = None

    def label(self, group: str | None = None) -> str:
        """How the window is named in a release's seed and in file names: no spaces, brackets or colons.

        Args:
            group: names this group's ranking in the window, behind a bar, which no window's own name has.
        """
        if group is not None:
            return f"{self.label()}|{group}"
        if self.start is None or self.end is None:
            return "all"
        return f"{_stamp(self.start)}--{_stamp(self.end)}"


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC, exactly."""
    return (moment - _EPOCH) // MICROSECOND


def from_microseconds(value: int) -> datetime:
    """The moment in UTC. Raises OverflowError outside the years 1 to 9999."""
    return _EPOCH + value * MICROSECOND


def _stamp(moment: datetime) -> str:
    text = moment.astimezone(timezone.utc)
    return text.strftime("%Y%m%dT%H%M%SZ") if text.microsecond == 0 else text.strftime("%Y%m%dT%H%M%S.%fZ")
