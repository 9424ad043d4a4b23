"""Publicly expected counts of one window: a shape, counts that are public, or an earlier release.

Every class gives a histogram, and one line of words that describes its origin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from private_topk.pipelines.preview.outlook import pooled
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.exact.histogram import Histogram, check_counts

if TYPE_CHECKING:  # it loads Arrow, which no preview needs
    from private_topk.transforms.metric import Amounts

__all__ = ["Expected", "InAmounts", "PublicCounts", "Released", "Zipf", "weight_of"]

Floats = NDArray[np.float64]

_SINGLE = 20_000
_GROWTH = 1.001
_MOST_ITEMS, _MOST_USERS, _MOST_GROUPS = 10**12, 10**12, 10**5


class Expected(Protocol):
    """The counts that are expected of one window. All of it is public."""

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        """The counts, bounded as in the run.

        Args:
            max_items_per_user: how many items of a user are counted, or None for all.
            unknown: the domain is unknown, so there are no items of count 0.
        """

    def words(self) -> str:
        """A description of these counts, in one line."""


@dataclass(frozen=True)
class InAmounts:
    """Expected sums of amounts: histograms are of sums, in units of the resolution.

    Args:
        expected: users per item, where `each` is given; otherwise sums of amounts already.
        amounts: the cap and the resolution of the run.
        each: what a user adds to an item that they hold, on average and after the cap.

    Raises:
        Refusal: `each` is above the cap, or not positive.
    """

    expected: Expected
    amounts: Amounts
    each: Fraction | float | None = None

    def __post_init__(self) -> None:
        most = self.amounts.max_value
        if self.each is not None and not 0 < self.each <= most:
            raise Refusal("amount", f"must be above 0 and at most {float(most):g}, got {float(self.each):g}", "it is "
                          "what a user adds on average, after the cap of {max_value}")  # fmt: skip

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        users = self.expected.histogram(max_items_per_user, unknown)
        worth = float(Fraction(1 if self.each is None else self.each) / self.amounts.value_resolution)
        return _histogram(users.values.astype(np.float64) * worth, users.sizes, unknown)

    def words(self) -> str:
        each = "" if self.each is None else f", who add {float(self.each):g} each"
        return f"{self.expected.words()}{each}; sums of amounts of at most {float(self.amounts.max_value):g}"


@dataclass(frozen=True)
class Zipf:
    """A shape: popularity falls as 1 / rank**exponent, and every user holds equally many items.

    The rule: a user holds item i with probability 1 - exp(-w i**-exponent), as somebody does who takes items one after
    the other until `items_per_user` different ones are there; w is such that the probabilities add up to that. The
    count of item i is `users` times its probability, rounded: what is expected, without chance. Where at most m items
    of a user are counted, each of a user's items is among them with probability m / items_per_user. Beyond 20,000 items
    ranks are taken in stretches of a thousandth, all of a stretch with the count of its middle.

    Args:
        exponent: at least 0; 1 is Zipf's law, 0 makes all items alike.
        items: how many there are, held or not.
        users: of one window.
        items_per_user: different ones, in one window; less than `items`.

    Raises:
        Refusal: a number breaks its rule.
    """

    exponent: float
    items: int
    users: int
    items_per_user: float

    def __post_init__(self) -> None:
        if not 0 <= self.exponent <= 10:
            raise Refusal("zipf", f"must be from 0 to 10, got {self.exponent:g}")
        for name, most in (("items", _MOST_ITEMS), ("users", _MOST_USERS)):
            if not 1 <= getattr(self, name) <= most:
                raise Refusal(name, f"must be a whole number from 1 to {most:,}, got {getattr(self, name)}")
        if not 0 < self.items_per_user < self.items:
            rule = f"must be above 0 and below the {self.items:,} items, got {self.items_per_user:g}"
            raise Refusal("items_per_user", rule, "it counts the different items of a user in one window")

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        ranks, sizes = _stretches(self.items)
        popularity = ranks**-self.exponent
        held = -np.expm1(-popularity * _weight(popularity, sizes, self.items_per_user))
        kept = min(1.0, (max_items_per_user or math.inf) / self.items_per_user)
        return _histogram(held * self.users * kept, sizes, unknown)

    def items_of_a_user(self, most: int) -> int:
        """How many items every user has, where at most so many are counted: a whole number."""
        return max(1, round(min(self.items_per_user, most)))

    def in_groups(self, sizes: Sequence[int] | Mapping[str, int]) -> dict[str, Zipf]:
        """The shape of each group, the largest first: as this one, with a number of users of its own."""
        named = sizes if isinstance(sizes, Mapping) else enumerate(sorted(sizes, reverse=True), 1)
        falling = sorted(dict(named).items(), key=lambda one: -one[1])
        return {f"{name}: {users:,} users": replace(self, users=users) for name, users in falling}

    def among(self, groups: int, exponent: float = 1) -> dict[str, Zipf]:
        """Likewise where the users are shared: the n-th largest group has n^-exponent times those of the largest."""
        if not 1 <= groups <= _MOST_GROUPS:
            raise Refusal("groups", f"must be a whole number from 1 to {_MOST_GROUPS:,}, got {groups}")
        if not 0 <= exponent <= 10:
            raise Refusal("groups_zipf", f"must be from 0 to 10, got {exponent:g}")
        parts = np.arange(1, groups + 1) ** -float(exponent)
        return self.in_groups([max(1, round(self.users * part)) for part in (parts / parts.sum()).tolist()])

    def words(self) -> str:
        return (f"Zipf {self.exponent:g}: {self.items:,} items, {self.users:,} users with {self.items_per_user:g} each "
                "in a window")  # fmt: skip


@dataclass(frozen=True)
class PublicCounts:
    """Counts that are public, or made up: users per item of one window, as they are after any bound of items per user.

    Never counts that a run has to protect: a preview of them is a release that no budget pays for.

    Raises:
        Refusal, TypeError: they are no valid counts.
    """

    counts: Sequence[int] | NDArray[np.int64]
    name: str = "counts"
    _checked: Histogram = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_checked", Histogram.of(check_counts(self.counts)))

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        return _seen(self._checked) if unknown else self._checked

    def words(self) -> str:
        return f"{self.name}: {self._checked.items:,} items, the largest count {self._checked.largest:,}"


@dataclass(frozen=True)
class Released:
    """An earlier ranking with its noisy counts: all of it is public, and costs nothing to use again.

    The rule: published ranks say that counts fall, so that noisy counts which rise are replaced by their mean (isotonic
    regression; the noise shrinks with it), one user apart from each other; those below 0 are 0. Counts of the items
    that were not published are extrapolated: they fall as the power of the rank that fits the published ones best.

    Args:
        noisy_counts: of one window, in the order of the ranks, or of a set in any order.
        items: of the domain; None where it is unknown. Then items are those with an extrapolated count of at least 1.
        ranked: whether their order was published.

    Raises:
        Refusal: there is no count above 0.
    """

    noisy_counts: Sequence[int]
    items: int | None = None
    ranked: bool = True
    name: str = "an earlier ranking"

    def __post_init__(self) -> None:
        if not len(self.noisy_counts) or max(self.noisy_counts) <= 0:
            raise Refusal("like", f"{self.name} has no noisy count above 0", "nothing can be told from it")

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        known = self._falling()
        after = np.arange(1, len(known) + 1)
        last, power = max(known[-1], 0.5), self._power(known)
        total = self.items if self.items is not None else math.ceil(len(known) * (2 * last) ** (1 / power))
        ranks, sizes = _stretches(min(max(total, len(known)), _MOST_ITEMS), len(known))
        values = np.concatenate((known, last * (ranks / len(known)) ** -power))
        return _histogram(values, np.concatenate((np.ones(len(after), np.int64), sizes)), unknown)

    def words(self) -> str:
        power = self._power(self._falling())
        return (f"{self.name}: {len(self.noisy_counts)} noisy counts, and beyond them counts that fall as "
                f"1 / rank^{power:.2f}")  # fmt: skip

    def _falling(self) -> Floats:
        counts = np.asarray(self.noisy_counts, np.float64)
        blocks = pooled((counts if self.ranked else np.sort(counts)[::-1]).tolist())
        # Pooled counts are not distinguishable, but are not made equal, since equal counts are right in any order.
        apart = np.concatenate([value + (size - 1) / 2 - np.arange(size) for value, size in blocks])
        return np.maximum(np.sort(apart)[::-1], 0.0)

    def _power(self, known: Floats) -> float:
        """The slope of log count over log rank by least squares, within [1/4, 4]; 1 if there is only one count."""
        logs = np.log(np.maximum(known, 0.5))
        ranks = np.log(np.arange(1, len(known) + 1))
        spread = ranks - ranks.mean()
        if not spread.any():
            return 1.0
        return float(np.clip(-(spread @ logs) / (spread @ spread), 0.25, 4.0))


def weight_of(mechanism: Mechanism, expected: Expected) -> int:
    """The weight that a user adds to an item, in the units of a mechanism that adds up weights; 1 if users are counted.

    Raises:
        Refusal: the number of items of each user is not known; it is for a shape, where all users have equally many.
    """
    weighting = mechanism.weighting
    if weighting is None:
        return 1
    if not isinstance(expected, Zipf):
        raise Refusal(
            "like",
            "must be a shape, such as zipf=1,users=2e4,items_per_user=10: the mechanism adds up weights of users, "
            "which numbers of users do not tell",
        )
    return weighting.weight(expected.items_of_a_user(weighting.limit))


def _stretches(items: int, after: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Stretches of the ranks after + 1 .. items: the middle of each, and how many ranks it has."""
    single = np.arange(after + 1, min(items, after + _SINGLE) + 1)
    first = int(single[-1]) if len(single) else after
    steps = math.ceil(math.log(max(items, 1) / max(first, 1)) / math.log(_GROWTH)) if items > first else 0
    ends = np.unique(np.minimum(np.ceil(first * _GROWTH ** np.arange(1, steps + 1)), items).astype(np.int64))
    starts = np.concatenate(([first], ends))[:-1].astype(np.int64)
    middles = (starts + 1 + ends) / 2
    return np.concatenate((single, middles)), np.concatenate((np.ones(len(single), np.int64), ends - starts))


def _weight(popularity: Floats, sizes: NDArray[np.int64], wanted: float) -> float:
    """The w for which 1 - exp(-w popularity) adds up to what is wanted, by bisection of its logarithm."""
    low, high = -200.0, 200.0
    for _ in range(60):
        middle = (low + high) / 2
        total = float(-np.expm1(-popularity * math.exp(middle)) @ sizes)
        low, high = (middle, high) if total < wanted else (low, middle)
    return math.exp((low + high) / 2)


def _histogram(values: Floats, sizes: NDArray[np.int64], unknown: bool) -> Histogram:
    rounded = np.floor(values + 0.5).astype(np.int64)
    different, places = np.unique(-rounded, return_inverse=True)
    numbers = np.zeros(len(different), np.int64)
    np.add.at(numbers, places.reshape(-1), sizes)
    histogram = Histogram(-different, numbers)
    return _seen(histogram) if unknown else histogram


def _seen(histogram: Histogram) -> Histogram:
    """A histogram without the items of count 0, unless there are no others."""
    held = histogram.values > 0
    return Histogram(histogram.values[held], histogram.sizes[held]) if held.any() else histogram
