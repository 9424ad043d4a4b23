"""The arithmetic of a ledger: what the charges of a dataset cost one user, and whether one more fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from private_topk.budget.composition import Cost, Total, rho_within
from private_topk.transforms.refusal import Refusal
from private_topk.transforms.windows import MICROSECOND, CalendarWindows, Period, from_microseconds, microseconds

__all__ = ["Budget", "Charge", "Spent", "Windows", "heaviest"]

_EVER = 1 << 61


class Windows(NamedTuple):
    """Regular windows of event time: `number` of them, `size` microseconds long, one every `step` from `start`.

    The last ones end with `end`. One window of all rows reaches from -2**61 to 2**61.
    """

    start: int
    end: int
    size: int
    step: int
    number: int

    @classmethod
    def of(cls, period: Period | None) -> Windows:
        if period is None:
            return cls(-_EVER, _EVER, 2 * _EVER, 2 * _EVER, 1)
        if isinstance(period.cut, CalendarWindows):
            raise Refusal("ledger", "keeps windows of one length: give {window} as a length such as 7d, not as "
                          f"{period.cut.unit}")  # fmt: skip
        size, step = int(period.ends[0] - period.starts[0]), period.step // MICROSECOND
        return cls(microseconds(period.start), microseconds(period.end), size, step, len(period))

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of every window, shape (number,) each."""
        starts = self.start + np.arange(self.number, dtype=np.int64) * self.step
        return starts, np.minimum(starts + self.size, self.end)

    def overlapping(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """How many of these windows overlap each of the given stretches, shape as given."""
        first = np.maximum(-((self.start + self.size - starts - 1) // self.step), 0)
        last = np.minimum((ends - 1 - self.start) // self.step, self.number - 1)
        return np.where(starts < self.end, np.maximum(last - first + 1, 0), 0)

    def words(self) -> str:
        """How a person reads them."""
        if self.size > _EVER:
            return "all rows"
        start, end = (from_microseconds(at).isoformat(" ").removesuffix("+00:00") for at in (self.start, self.end))
        span = f"{start.removesuffix(' 00:00:00')} to {end.removesuffix(' 00:00:00')}"
        return span if self.number == 1 else f"{self.number} windows of {_length(self.size)}, {span}"


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
