"""Windows of event time as a ledger holds them: by their moments, so that nothing that changes later changes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from private_topk.transforms.windows import Period, from_microseconds
from private_topk.transforms.windows.windowing import Instants, Run, microseconds

_EVER = 1 << 61


@dataclass(frozen=True, order=True)
class Windows:
    """Windows of event time as a ledger holds them: by their moments, so that nothing that changes later changes them.

    Args:
        runs: regular windows, runs in order of time. One window of all rows reaches from -2**61 to 2**61.
    """

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, period: Period | None) -> Windows:
        """The windows of a period that cost a draw each; of None, one of all rows whatever their time."""
        return cls((Run(-_EVER, _EVER, 2 * _EVER, 2 * _EVER, 1),) if period is None else period.released.runs)

    @classmethod
    def at(cls, bounds: Iterable[tuple[datetime | None, datetime | None]]) -> Windows:
        """The windows of some bounds, each once; where one has none, the one window of all rows."""
        ever = (-_EVER, _EVER)
        moments = {(microseconds(start), microseconds(end)) if start and end else ever for start, end in bounds}
        return cls._regular(moments or {ever})

    @classmethod
    def union(cls, parts: Sequence[Windows]) -> Windows:
        """All windows of the parts, each once."""
        if len(parts) == 1:
            return parts[0]
        return cls._regular({pair for each in parts for pair in each._pairs()})

    @classmethod
    def _regular(cls, moments: Iterable[tuple[int, int]]) -> Windows:
        """The windows as runs in order of time, as few as one pass over them finds."""
        runs: list[Run] = []
        for start, end in sorted(moments):
            last = runs[-1] if runs else None
            if last is not None and end - start == last.size:
                step = start - last.start - (last.number - 1) * last.step
                if last.number == 1 or step == last.step:
                    runs[-1] = Run(last.start, end, last.size, step, last.number + 1)
                    continue
            runs.append(Run(start, end, end - start, end - start, 1))
        return cls(tuple(runs))

    @classmethod
    def read(cls, text: str) -> Windows:
        """The windows of a row's text. Raises ValueError for any other text."""
        found = json.loads(text)
        runs = found if isinstance(found, list) and found and isinstance(found[0], list) else [found]
        if not all(isinstance(run, list) and len(run) == 5 and all(type(n) is int for n in run) for run in runs):
            raise ValueError("not windows")
        windows = cls(tuple(Run(*run) for run in runs))
        if not all(run.size > 0 and run.step > 0 and run.number > 0 and run.start < run.end for run in windows.runs):
            raise ValueError("not windows")
        return windows

    def plain(self) -> list[Any]:
        """As JSON: five numbers for regular windows, as ledgers have always held them; a list of such for others."""
        return list(self.runs[0]) if len(self.runs) == 1 else [list(run) for run in self.runs]

    @property
    def number(self) -> int:
        return sum(run.number for run in self.runs)

    def bounds(self) -> tuple[Instants, Instants]:
        """Start and end of every window, shape (number,) each."""
        starts, ends = zip(*(run.bounds() for run in self.runs), strict=True)
        return np.concatenate(starts), np.concatenate(ends)

    def _pairs(self) -> Iterable[tuple[int, int]]:
        return zip(*map(np.ndarray.tolist, self.bounds()), strict=True)

    def moments(self) -> Iterator[tuple[datetime | None, datetime | None]]:
        """The bounds of every window, as `at` takes them."""
        for start, end in self._pairs():
            yield (None, None) if end == _EVER else (from_microseconds(start), from_microseconds(end))

    def within(self, start: datetime, end: datetime) -> Windows | None:
        """The windows that lie between two moments; None if none does."""
        first, last = microseconds(start), microseconds(end)
        inside = {pair for pair in self._pairs() if first <= pair[0] and pair[1] <= last}
        return self._regular(inside) if inside else None

    def without(self, others: Windows) -> Windows | None:
        """Those that are none of the others; None if all are."""
        left = {*self._pairs()} - {*others._pairs()}
        return self._regular(left) if left else None

    def holds(self, bounds: Iterable[tuple[datetime | None, datetime | None]]) -> bool:
        """Whether windows of these bounds are all among them, which are not counted out."""
        return all(
            any(
                end - start == run.size and (start - run.start) in range(0, run.number * run.step, run.step)
                for run in self.runs
            )
            for start, end in self.at(bounds)._pairs()
        )

    def overlapping(self, starts: Instants, ends: Instants) -> Instants:
        """How many of these windows overlap each of the given slices, shape as given."""
        return np.sum([run.overlapping(starts, ends) for run in self.runs], axis=0)

    def cut_by(self, others: Windows) -> bool:
        """Whether one of these windows overlaps one of the others and is not wholly in it."""
        own_starts, own_ends = (np.sort(bounds) for bounds in self.bounds())
        starts, ends = others.bounds()
        within = np.searchsorted(own_ends, ends, "right") - np.searchsorted(own_starts, starts, "left")
        return bool((self.overlapping(starts, ends) > np.maximum(within, 0)).any())

    def summary(self) -> str:
        sizes = sorted({run.size for run in self.runs})
        if sizes[-1] > _EVER:
            return "all rows"
        moments = (from_microseconds(at) for at in (self.runs[0].start, self.runs[-1].end))
        start, end = (moment.isoformat(" ").removesuffix("+00:00").removesuffix(" 00:00:00") for moment in moments)
        lengths = _length(sizes[0]) if len(sizes) == 1 else f"{_length(sizes[0])} to {_length(sizes[-1])}"
        return f"{'' if self.number == 1 else f'{self.number} windows of {lengths}, '}{start} to {end} UTC"


def _length(size: int) -> str:
    return str(timedelta(microseconds=size)).removesuffix(", 0:00:00")
