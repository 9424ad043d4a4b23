"""The arithmetic of a ledger: what the charges of a dataset cost one user, and whether one more fits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from private_topk.budget.composition import Cost, Total, rho_within
from private_topk.transforms.windows import Period, from_microseconds
from private_topk.transforms.windows.cuts import Run
from private_topk.transforms.windows.instants import Instants

__all__ = ["Budget", "Charge", "Spent", "Windows", "heaviest"]

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
        """The windows of a period; of None, one of all rows whatever their time."""
        return cls((Run(-_EVER, _EVER, 2 * _EVER, 2 * _EVER, 1),) if period is None else period.runs)

    @classmethod
    def read(cls, text: str) -> Windows:
        """What `text` wrote. Raises ValueError for anything else."""
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

    def overlapping(self, starts: Instants, ends: Instants) -> Instants:
        """How many of these windows overlap each of the given stretches, shape as given."""
        return np.sum([run.overlapping(starts, ends) for run in self.runs], axis=0)

    def words(self) -> str:
        """How a person reads them."""
        sizes = sorted({run.size for run in self.runs})
        if sizes[-1] > _EVER:
            return "all rows"
        moments = (from_microseconds(at) for at in (self.runs[0].start, self.runs[-1].end))
        start, end = (moment.isoformat(" ").removesuffix("+00:00").removesuffix(" 00:00:00") for moment in moments)
        lengths = _length(sizes[0]) if len(sizes) == 1 else f"{_length(sizes[0])} to {_length(sizes[-1])}"
        return f"{start} to {end}" if self.number == 1 else f"{self.number} windows of {lengths}, {start} to {end}"


def _length(size: int) -> str:
    return str(timedelta(microseconds=size)).removesuffix(", 0:00:00")


class Charge(NamedTuple):
    """One release: what every one of its windows costs a user who is in it."""

    windows: Windows
    cost: Cost


@dataclass(frozen=True)
class Spent:
    """What a set of releases costs one user.

    The sums of what `Cost` names, each by itself.
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    rest: Fraction = Fraction(0)

    @classmethod
    def of(cls, costs: Iterable[tuple[int, Cost]]) -> Spent:
        """The sum over pairs of how many windows are reached and what each costs."""
        costs = [(n, cost) for n, cost in costs if n]
        return cls(
            sum((n * cost.epsilon for n, cost in costs), Fraction(0)),
            sum((n * cost.delta for n, cost in costs), Fraction(0)),
            sum((n * cost.rho for n, cost in costs), Fraction(0)),
            sum((n * cost.rest for n, cost in costs), Fraction(0)),
        )


@dataclass(frozen=True)
class Budget:
    """What a dataset may spend on one privacy unit.

    A set of releases fits if it does by adding up epsilons, or by adding up rhos and turning the sum into (epsilon,
    delta).
    Choosing whichever fits is safe even when each release is chosen after seeing the others. On histories where rhos
    fit at the end they always did, so these cost what the zCDP filter proves (Feldman & Zrnic 2021); on the others
    epsilons add up. The deltas of the releases themselves have a part of their own in either case.
    """

    dataset: str
    unit: str
    total: Total
    neighbours: str = "add-remove"
    created: str = ""

    @property
    def kept(self) -> Fraction:
        """The part of delta that is kept for the deltas of single releases."""
        return self.total.release_delta or Fraction(0)

    @property
    def rho(self) -> Fraction:
        """The limit on the sum of rhos, 0 where the budget has no delta to spare for it."""
        return rho_within(self.total.epsilon, self.total.delta - self.kept)

    def fits(self, spent: Spent) -> bool:
        added = spent.epsilon <= self.total.epsilon and spent.delta <= self.kept
        return added or (spent.rho <= self.rho and spent.rest <= self.kept)

    def used(self, spent: Spent) -> Fraction:
        """The used part of the budget, by whichever accounting uses less; above 1 does not fit."""

        def part(value: Fraction, limit: Fraction) -> Fraction:
            return value / limit if limit else Fraction(10**6 if value else 0)

        release = self.kept
        added = max(part(spent.epsilon, self.total.epsilon), part(spent.delta, release))
        return min(added, max(part(spent.rho, self.rho), part(spent.rest, release)))


def heaviest(budget: Budget, charges: Sequence[Charge], near: Windows | None = None) -> list[tuple[int, Cost]]:
    """For the unit for which the charges cost most: how many windows of every charge it is in, and the cost of each.

    A `user` is in all windows. For `user-window` the unit is a user's rows within one window of any of the charges,
    which are in all windows that overlap it.

    Args:
        near: look only at stretches that these windows overlap.
    """
    costs = [charge.cost for charge in charges]
    if budget.unit == "user":
        return [(charge.windows.number, charge.cost) for charge in charges]
    units = [list(zip(row, costs, strict=True)) for row in _overlaps(charges, near).tolist()]
    return max(units, key=lambda unit: budget.used(Spent.of(unit)), default=[])


def _overlaps(charges: Sequence[Charge], near: Windows | None) -> np.ndarray:
    """The distinct rows of: how many windows of each charge overlap one window, shape (distinct, charges)."""
    kinds = sorted({charge.windows for charge in charges})
    if not kinds:
        return np.zeros((0, 0), np.int64)
    starts, ends = (np.concatenate(parts) for parts in zip(*(kind.bounds() for kind in kinds), strict=True))
    if near is not None:
        chosen = near.overlapping(starts, ends) > 0
        starts, ends = starts[chosen], ends[chosen]
    counts = np.stack([kind.overlapping(starts, ends) for kind in kinds], axis=1)
    distinct = np.unique(counts, axis=0)
    return distinct[:, [kinds.index(charge.windows) for charge in charges]]
