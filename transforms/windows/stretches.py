"""The stretches of time between neighbouring edges of windows: all rows of one share their windows."""

from __future__ import annotations

import numpy as np

from private_topk.transforms.windows.instants import Instants
from private_topk.transforms.windows.period import Period

__all__ = ["Stretches"]


class Stretches:
    """Where the rows of an unbounded input lie in a period, and which of their windows are still open to them.

    Args:
        first, after: by stretch, the first window of its rows and the one after their last, (stretches,).
    """

    def __init__(self, period: Period) -> None:
        self._period = period
        self._edges = np.union1d(period.starts, period.ends)
        before = np.append(self._edges[:1] - 1, self._edges)  # a time of every stretch
        self.first, self.after = period.spans(before)

    def __len__(self) -> int:
        return len(self.first)

    def of(self, times: Instants, arrived: Instants | None, closed: int) -> tuple[Instants, Instants]:
        """The stretch of every row, and the first of its windows that it is on time for: none if that is not before
        the stretch's `after`.

        Args:
            times, arrived: microseconds since 1970 UTC, (n,). A row is late for the windows closed when it arrived.
            closed: how many windows had closed before any of the rows was read.
        """
        stretch = np.searchsorted(self._edges, times, side="right")
        first = np.maximum(self.first[stretch], closed)
        if arrived is not None:
            first = np.maximum(first, np.searchsorted(self._period.closing, arrived, side="right"))
        return stretch, first
