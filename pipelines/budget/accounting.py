"""A dataset's charges and budgets: what one user has spent over all charges, and whether one more charge fits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import numpy as np

from private_topk.pipelines.budget.composition import UNITS, Total, check_delta, check_epsilon, rho_within
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.errors import InvalidArgument, by_signature, verbatim
from private_topk.transforms.mechanisms.cost import Cost, rho_of_pure
from private_topk.transforms.mechanisms.exact.accounting import epsilon_within, largest
from private_topk.transforms.mechanisms.mechanism import Neighbours
from private_topk.transforms.stated import number

ADOPTED = "adopted"
"""The outcome of a release that was published, and written down from its manifest: of its input nothing is known."""

HORIZON = "horizon_ends"
"""The key, in what a question has asked, of the two ends of a report's horizon: a note, on which no answer depends."""

_MAX_DIGITS = 60
LEAST = Fraction(1, 10**6)
"""The part of a total's epsilon up to which nothing fits: less is what the rounding of shares has left."""


@dataclass(frozen=True)
class Charge:
    """What one release costs a user who is in one of its windows.

    Args:
        cost: of one window.
        windows_of_a_user: how many of the windows one user can change, where that is bounded; None for all.
        bounded: a bound decides which rows of a user count in a window.
    """

    windows: Windows
    cost: Cost
    windows_of_a_user: int | None = None
    bounded: bool = False

    def __post_init__(self) -> None:
        most = 1 if self.windows_of_a_user is None else self.windows_of_a_user
        if not 1 <= most <= self.windows.number:
            raise ValueError("a charge has a bound of 1 up to the number of its windows")

    def reached(self, overlapping: int | None = None) -> int:
        """How many of its windows change with the rows of one user.

        Args:
            overlapping: the rows are those within a slice of time that so many windows overlap; None for all rows.
                With a bound these may give way to as many others, and others to them: a user who counts in a of them
                before and in b after counts in abs(a - b) others more or fewer. That is up to two for each that
                overlaps, or for each that the bound allows.
        """
        most = self.windows_of_a_user
        if overlapping is None:
            return self.windows.number if most is None else most
        if most is None:
            return overlapping
        return min(2 * overlapping, 2 * most, self.windows.number if overlapping else 0)


OF_A_LOST_LEDGER = (
    "bring a lost one back from its backup, or open it with its old total, then let `private-topk budget adopt` write "
    "down what is published (docs/operations.md)"
)


def ledger_named(url: str) -> str:
    """A ledger in a command that is told: a URL of a server may hold a password."""
    return "URL" if "@" in url else url


class NoBudget(InvalidArgument):
    """The error of a budget that was never opened."""


@dataclass(frozen=True, kw_only=True)
class Entry(Charge):
    """The charge of a release, as a ledger holds it.

    Args:
        id: its number; charges are numbered in the order in which they were made.
        unit: the privacy unit in terms of which the cost is stated.
        release_id, key_id, fingerprint, rows: as in `Request`.
        question: JSON of all that the answer depends on but key, id and data, for `asks_as`.
        mechanism, k: of a ranking, where these were named.
        stream: JSON of what the fingerprint of a stream is of; None of other input, and of charges of older versions.
        charged, finished: moments in UTC.
        outcome: "started", "released" or "failed"; or `ADOPTED`.
    """

    id: int
    dataset: str
    unit: str
    release_id: str
    key_id: str
    fingerprint: str
    question: str
    mechanism: str | None
    k: int | None
    neighbours: str
    rows: Mapping[str, str]
    charged: str = ""
    finished: str | None = None
    outcome: str = "started"
    stream: str | None = None

    def asks_as(self, earlier: Entry) -> bool:
        """Whether both ask the same, of the same windows: `day` and `1d` are one, where their moments are."""
        return self.question == earlier.question or _in_moments(self.question) == _in_moments(earlier.question)

    def repeats(self, earlier: Entry) -> bool:
        """Whether this is the earlier release again, of which every answer is known: it draws the same, once more."""
        cheaper = self.cost.epsilon <= earlier.cost.epsilon and self.cost.delta <= earlier.cost.delta
        return self.asks_as(earlier) and cheaper

    @property
    def is_published(self) -> bool:
        return self.outcome in ("released", ADOPTED)

    def pays_for(self, published: Entry) -> bool:
        """Whether this is the charge of a published release, as its manifest states it. What was published uncharged,
        whose outcome is `ADOPTED` from the start, is paid for by its adoption alone.
        """
        names = ("release_id", "key_id", "windows")
        same = all(getattr(self, name) == getattr(published, name) for name in names)
        same &= self.outcome == ADOPTED or (published.outcome != ADOPTED and self.dataset == published.dataset)
        enough = self.cost.epsilon >= published.cost.epsilon and self.cost.delta >= published.cost.delta
        return same and enough and self.reached() >= published.reached()


_OF_MOMENTS = ("whole", "fixed-windows", "sliding-windows", "calendar-windows")
"""The windowings that say which windows there are and no more: nothing else of an answer depends on them."""


def _in_moments(question: str) -> dict[str, Any]:
    """A question without the words that its windows were declared in, since it has their moments too, nor the ends of
    its horizon.
    """
    facts: dict[str, Any] = json.loads(question)
    asked = facts.get("asked") or {}
    asked.pop(HORIZON, None)
    period = asked.get("period") or {}
    if (period.get("windowing") or {}).get("kind") in _OF_MOMENTS:
        del period["windowing"]
    return facts


@dataclass(frozen=True)
class Renewal:
    """The beginning of a new period of a budget, in which the whole of it can be spent again.

    Args:
        length: how long the period lasts at least.
        last_charge: the number of the last charge of the period before, 0 for none.
    """

    dataset: str
    unit: str
    began: str
    length: timedelta
    last_charge: int
    id: int = 0


@dataclass(frozen=True)
class Budget:
    """What a dataset may spend on one privacy unit.

    Two sums are kept of the releases that reach a unit, and they fit while either does: the epsilons add up to at most
    epsilon, or the rhos to at most `rho`, which is what zCDP turns into (epsilon, delta - kept); and in either case the
    `zcdp_delta`s to at most `kept`. A release whose zCDP is not proved but for one event (`Cost.adds_up`) has no
    epsilon to add, so with one of these only the rhos count.

    Guarantee: all releases together are (epsilon, delta)-DP for the unit, even where each is chosen after seeing the
    answers of the others, and so also by which of the two sums it fits.

    Proof. Compare a dataset and a neighbour; P and Q are the laws of the whole history of answers. (1) Every release
    but for an event of conditional probability `zcdp_delta` is rho-zCDP and, where it adds up, epsilon-DP, by one and
    the same event: an (epsilon, delta)-DP pair of laws is, but for delta, a pair of epsilon-DP ones (Kairouz, Oh &
    Viswanath 2015; Murtagh & Vadhan 2016, Lemma 3.2), and that pair is epsilon**2/2-zCDP; pure draws over the slots of
    an unknown domain are both, but for an answer that names an unstable one. On no history do the rests sum to more
    than `kept`, so that is a bound on the probability of any of these events. Leave them out: P' <= P, Q' <= Q. (2) Let
    A be the histories whose rhos fit at the end, B the others that were let through. On B epsilons fit and add up
    factor by factor: P'(h) <= exp(epsilon) Q'(h). Stop the process where its rhos would pass the limit: the histories
    of A are untouched by that, since rhos only grow, and what is stopped so is a filter's (Feldman & Zrnic 2021,
    Theorem 4.5; Whitehouse et al. 2023, Theorem 1): P'(S) <= exp(epsilon) Q'(S) + delta - kept for all S in A. (3) Add
    the two parts of any set of histories, and the events: P(S) <= exp(epsilon) Q(S) + delta.

    Where (1) fails, so does the sum: Gaussian noise spends its delta on a tail when it is added up, and on nothing when
    its rho counts. Whoever goes on by epsilons after a tail and by rhos otherwise spends `kept` twice; the test of this
    rule has the numbers. So a release is charged by one reading of its cost, fixed before it is drawn.

    Args:
        total: with `release_delta`, the part of delta that is kept for the releases' own deltas.
        unit: a key of `UNITS`.

    Raises:
        InvalidArgument: the dataset's name, the unit or the neighbours break their rule.
    """

    dataset: str
    unit: str
    total: Total
    neighbours: str = "add-remove"
    created: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, str) or not self.dataset.isprintable() or not 0 < len(self.dataset) <= 200:
            raise InvalidArgument("dataset", "must be 1 to 200 printable characters")
        for field, value, known in (
            ("privacy_unit", self.unit, tuple(UNITS)),
            ("neighbours", self.neighbours, get_args(Neighbours)),
        ):
            if value not in known:
                raise InvalidArgument(field, f"must be one of {', '.join(known)}, got {verbatim(value)}")

    @classmethod
    @by_signature
    def of(
        cls,
        dataset: str,
        epsilon: Fraction | float,
        delta: Fraction | float = 0,
        release_delta: Fraction | float | None = None,
        *,
        unit: str = "user-window",
        neighbours: str = "add-remove",
    ) -> Budget:
        """A checked budget. By default half of delta is kept for releases' own deltas.

        Raises:
            InvalidArgument: a number, a name or a choice breaks its rule.
        """
        check_epsilon(epsilon)
        check_delta(delta)
        if release_delta is not None and not 0 <= release_delta <= delta:
            raise InvalidArgument("release_delta", f"must be from 0 to {{delta}}, got {float(release_delta):g}")
        kept = Fraction(delta) / 2 if release_delta is None else Fraction(release_delta)
        return cls(dataset, unit, Total(Fraction(epsilon), Fraction(delta), kept), neighbours)

    @property
    def kept(self) -> Fraction:
        """The part of delta that is kept for the deltas of single releases."""
        return self.total.release_delta or Fraction(0)

    @property
    def rho(self) -> Fraction:
        """The limit on the sum of rhos, 0 where the budget has no delta to spare for it."""
        return rho_within(self.total.epsilon, self.total.delta - self.kept)

    def fits(self, spent: Cost) -> bool:
        added = spent.adds_up and spent.epsilon <= self.total.epsilon
        return spent.zcdp_delta <= self.kept and (added or spent.rho <= self.rho)

    def used(self, spent: Cost) -> Fraction:
        """The used part of the budget, by whichever sum uses less; above 1 does not fit."""
        return self.binding(spent)[0]

    def binding(self, spent: Cost) -> tuple[Fraction, str]:
        """The used part of the budget, and which sum it is of: "epsilon", "rho", or the "delta" that releases have."""

        def part(value: Fraction, limit: Fraction) -> Fraction:
            return value / limit if limit else Fraction(10**6 if value else 0)

        added = part(spent.epsilon, self.total.epsilon if spent.adds_up else Fraction(0))
        either = min((added, "epsilon"), (part(spent.rho, self.rho), "rho"))
        return max(either, (part(spent.zcdp_delta, self.kept), "delta"), key=lambda found: found[0])

    def guarantee(self, spent: Cost) -> Total:
        """The sums as one (epsilon, delta): the least budget that they fit in, with its delta parted as this one's."""
        spare = self.total.delta - self.kept
        found = [Total(spent.epsilon, spent.delta)] if spent.adds_up or not spare else []
        if spare:
            found.append(Total(max(epsilon_within(spent.rho, spare), Fraction(0)), spare + spent.zcdp_delta))
        return min(found, key=lambda total: (total.epsilon, total.delta))

    def left(self, spent: Cost, releases: int = 1) -> Cost:
        """The budget that is left, by each sum; its epsilon is the largest at which any pure release fits by either.

        Args:
            releases: what each of so many equal ones may spend.
        """
        if not self.fits(spent):
            return Cost.sum([])
        rest, rho = (self.kept - spent.zcdp_delta) / releases, (self.rho - spent.rho) / releases
        added = (self.total.epsilon - spent.epsilon) / releases if spent.adds_up else Fraction(0)
        least = Fraction(1, 2**100)
        if rho_of_pure(least) <= rho:
            added = max(added, largest(lambda epsilon: rho_of_pure(epsilon) <= rho, least))
        return Cost(*(max(left, Fraction(0)) for left in (added, rest, rho, rest)))


class Books(NamedTuple):
    """What a ledger holds, of one dataset or of all: each in the order in which it was written."""

    budgets: list[Budget]
    charges: list[Entry]
    renewals: list[Renewal]


@dataclass(frozen=True)
class BudgetUsage:
    """The charges that count against a budget, and the period that they are of.

    Args:
        charges: of the releases of the current period.
        period: the number of the current period, from 1.
        since: when it began.
        length: how long each lasts at least; None before the first renewal.
    """

    charges: Sequence[Charge]
    period: int
    since: str
    length: timedelta | None


def budget_usage(budget: Budget, books: Books) -> BudgetUsage:
    """The charges of a dataset that count against one of its budgets: those of the current period."""
    *before, current = charges_by_period(budget, books)
    if not before:
        return BudgetUsage(current, 1, budget.created, None)
    last = renewals_of(budget, books)[-1]
    return BudgetUsage(current, len(before) + 1, last.began, last.length)


def charges_by_period(budget: Budget, books: Books) -> list[list[Entry]]:
    """The charges of a dataset that count against one of its budgets, of every period, the current one last."""
    charges = [entry for entry in books.charges if entry.dataset == budget.dataset]
    bounds = [-math.inf, *(each.last_charge for each in renewals_of(budget, books)), math.inf]
    return [[entry for entry in charges if after < entry.id <= last] for after, last in pairwise(bounds)]


def renewals_of(budget: Budget, books: Books) -> list[Renewal]:
    return [each for each in books.renewals if (each.dataset, each.unit) == (budget.dataset, budget.unit)]


def heaviest(budget: Budget, charges: Sequence[Charge], near: Windows | None = None) -> list[tuple[int, Cost]]:
    """The spending of the privacy unit that has used most of the budget: of every charge, in how many windows the unit
    is, and what a window costs.

    Args:
        near: look only at slices that these windows overlap.
    """
    return max(units(budget.unit, charges, near), key=lambda unit: budget.used(Cost.sum(unit)), default=[])


def most(unit: str, charges: Sequence[Charge]) -> Cost:
    """An upper bound on what any privacy unit has spent: the largest of each sum over all units."""
    return largest_sums(units(unit, charges))


def most_by_kind(unit: str, charges: Sequence[Charge]) -> list[Cost]:
    """The same, of the units whose epsilons add up and of the others: one of these would rule it out for all."""
    kinds: dict[bool, list[list[tuple[int, Cost]]]] = {}
    for spent in units(unit, charges):
        kinds.setdefault(Cost.sum(spent).adds_up, []).append(spent)
    return [largest_sums(each) for each in kinds.values()] or [Cost.sum([])]


def largest_sums(spending: Sequence[Sequence[tuple[int, Cost]]]) -> Cost:
    """The largest of each sum over the spending of some privacy units."""
    spent = [Cost.sum(each) for each in spending] or [Cost.sum([])]
    tail = max(each.delta - each.zcdp_delta for each in spent)
    epsilon, rho, rest = (max(getattr(each, name) for each in spent) for name in ("epsilon", "rho", "zcdp_delta"))
    return Cost(epsilon, rest + tail, rho, rest, gdp=all(each.gdp for each in spent))


def units(unit: str, charges: Sequence[Charge], near: Windows | None = None) -> list[list[tuple[int, Cost]]]:
    """The spending of every privacy unit: of every charge, in how many windows the unit is, and what a window costs.

    A `user` is in all windows, or in as many as a bound allows. For `user-window` the unit is a user's rows within one
    window of any of the charges, which are in all windows that overlap it; where there is a bound, see `reached`.
    """
    if unit == "user":
        return [[(charge.reached(), charge.cost) for charge in charges]]
    return [
        [(charge.reached(overlapping), charge.cost) for charge, overlapping in zip(charges, row, strict=True)]
        for row in _overlaps(charges, near).tolist()
    ]


def _overlaps(charges: Sequence[Charge], near: Windows | None) -> np.ndarray:
    """How many windows of each charge overlap a window, for every window, equal rows once; shape (rows, charges)."""
    places = {windows: place for place, windows in enumerate(dict.fromkeys(charge.windows for charge in charges))}
    if not places:
        return np.zeros((0, 0), np.int64)
    starts, ends = (np.concatenate(parts) for parts in zip(*(kind.bounds() for kind in places), strict=True))
    if near is not None:
        chosen = near.overlapping(starts, ends) > 0
        starts, ends = starts[chosen], ends[chosen]
    counts = np.stack([kind.overlapping(starts, ends) for kind in places], axis=1)
    return np.unique(counts, axis=0)[:, [places[charge.windows] for charge in charges]]


def explain(budget: Budget, before: Cost, asked: Cost, after: Cost, fitting: str = "") -> str:
    """The message for a release that does not fit.

    Args:
        before: what the windows in question have cost one user so far; `asked`, `after`: with the new release, or all
            that are asked together.
        fitting: what of the request would fit; by default, what fits of any pure release.
    """
    total = budget.total
    kept, spare = budget.kept, total.delta - budget.kept
    lines = [f"the {budget.unit} budget of dataset {budget.dataset} does not suffice, and nothing was charged"]
    if after.adds_up:
        lines.append(_sum("epsilon", before.epsilon, asked.epsilon, after.epsilon, total.epsilon))
    else:
        lines.append("epsilons do not add up here: of Gaussian noise and its like only the rhos count (docs/budget.md)")
    if after.zcdp_delta:
        lines.append(
            _sum("delta", before.zcdp_delta, asked.zcdp_delta, after.zcdp_delta, kept) + " kept for releases' own delta"
        )
    if budget.rho:
        under = f" (zCDP at epsilon {number(total.epsilon)}, delta {number(spare)})"
        lines.append(_sum("rho", before.rho, asked.rho, after.rho, budget.rho) + under)
    left = budget.left(before).epsilon
    lines.append(fitting or _remedy(left if left > total.epsilon * LEAST else Fraction(0)))
    if after.adds_up or budget.rho or not before.adds_up:  # what was adopted fits in a period of its own only
        renewed = "`private-topk budget renew` begins a new period once the last one is over, in which the same people "
        lines.append(f"{renewed}can lose as much again")
    else:
        lines.append(
            "This budget has no delta to spare for rhos: take a mechanism without a delta, or open one with it"
        )
    return "\n  ".join(lines)


def _sum(name: str, before: Fraction, asked: Fraction, after: Fraction, limit: Fraction) -> str:
    digits = 6
    while after > limit and _look_alike(after, limit, digits) and digits < _MAX_DIGITS:
        digits += 3  # 0.9 + 0.1 = 1 is not over 1: as floats they are 1.00000000000000003, which then has to be seen
    added, allowed = number(after, digits), number(limit, digits)  # rounded alike: what is within does not look over
    terms = f"{number(before, digits)} spent + {number(asked, digits)} asked = {added}"
    rounded = 0 < after - limit <= limit / 2**50  # by decimals it would be more
    more = ", by less than the rounding of a float (docs/budget.md)" if rounded else ""
    return f"adding up {name}: {terms}, {'over' if after > limit else 'within'} {allowed}{more}"


def _look_alike(one: Fraction, other: Fraction, digits: int) -> bool:
    return any(number(one, digits, way) == number(other, digits, way) for way in (ROUND_HALF_EVEN, ROUND_CEILING))


def _remedy(left: Fraction) -> str:
    if left > 0:
        return (
            f"It holds a pure release of epsilon {number(left, rounding=ROUND_FLOOR)}: ask for less, or fewer windows"
        )
    return "Nothing is left; `private-topk budget history` lists what was spent"
