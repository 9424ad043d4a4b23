"""Publishing the counts of the items that a mechanism has chosen, with noise whose size is public."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from numbers import Real as AnyReal
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from private_topk.transforms.errors import InvalidArgument, by_signature, plain, verbatim
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.bits import RandomBits
from private_topk.transforms.mechanisms.exact.count_noise import (
    CountNoise,
    Cube,
    IndependentLaplace,
    SharedGaussian,
    Spread,
    as_int64,
)
from private_topk.transforms.mechanisms.mechanism import Indices, Neighbours, sensitivity
from private_topk.transforms.mechanisms.parameters import check_parameter

_ROOT_BITS = 32


def rounding() -> Any:  # noqa: ANN401 - a field
    """The field of what counts are rounded to."""
    reason = "rounding comes after the draw: the same noise either way"
    return field(default=1, metadata={"not_in_fingerprint": reason})


@by_signature
@dataclass(frozen=True)
class CountBudget:
    """What publishing noisy counts of the released items costs, on top of the mechanism's own budget.

    Args:
        delta: 0 for a pure release, above 0 for Gaussian noise.
        round_to: counts are published as multiples of this, the nearest ones: rounding what is public anyway.
    """

    identity_tag: ClassVar[str] = "count-budget"

    epsilon: float | Fraction
    delta: float | Fraction = 0.0
    round_to: int = rounding()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_parameter("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_parameter("delta", self.delta) if self.delta else 0.0)
        _check_rounding(self.round_to)

    def parameters(self) -> dict[str, Any]:
        """What the noise depends on, by name, as JSON."""
        return {"epsilon": plain(self.epsilon), "delta": plain(self.delta)}

    def cost(self) -> Cost:
        """What publishing counts costs: Gaussian noise is (1 / 2 s**2)-zCDP, whatever the number of counts."""
        epsilon, delta = Fraction(self.epsilon), Fraction(self.delta)
        return Cost.gaussian(epsilon, delta) if delta else Cost(epsilon)

    def share(self, epsilon: float, delta: float) -> CountBudget:
        """The same with the budget of one window."""
        return replace(self, epsilon=epsilon, delta=delta)

    def describe(self) -> dict[str, Any]:
        """What a manifest tells of the counts."""
        return self.parameters()


@dataclass(frozen=True)
class DrawnCounts:
    """Noisy counts that come with the draw: it has decided by them, and whoever pays for the items has paid for them.

    Noise has helped the items that are shown to be shown, so that their counts are too high in the mean. Only a
    mechanism whose guarantee says `publishes_counts` has them, and some of these add more noise for them.

    Args:
        round_to: as of a `CountBudget`.
    """

    identity_tag: ClassVar[str] = "drawn-counts"
    epsilon: ClassVar[float] = 0.0
    delta: ClassVar[float] = 0.0

    round_to: int = rounding()

    def __post_init__(self) -> None:
        _check_rounding(self.round_to)

    def parameters(self) -> dict[str, Any]:
        """What the noise depends on, by name, as JSON: all of it is the mechanism's."""
        return {"drawn": True}

    def cost(self) -> Cost:
        return Cost(Fraction(0), gdp=True)

    def share(self, epsilon: float, delta: float) -> DrawnCounts:
        """Itself: no window spends anything on it."""
        return self

    def describe(self) -> dict[str, Any]:
        return {**self.parameters(), "bias": "upwards: noise has helped the items shown to be shown"}


DRAWN = "drawn"
"""In place of an epsilon: counts come with the draw."""

Counts = CountBudget | DrawnCounts


def counts_of(given: object) -> Counts:
    """What is published of the counts: "drawn", or a budget, of which a number is the epsilon.

    Raises InvalidArgument for anything else.
    """
    if isinstance(given, CountBudget | DrawnCounts):
        return given
    if given == DRAWN:
        return DrawnCounts()
    if isinstance(given, bool) or not isinstance(given, AnyReal | Decimal):
        got = verbatim(repr(given)) if isinstance(given, str) else type(given).__name__
        rule = f"must be {DRAWN!r}, an epsilon such as 0.5, or a CountBudget, got {got}"
        raise InvalidArgument("publish_counts", rule)
    try:
        return CountBudget(cast(float, given))
    except InvalidArgument as refusal:
        raise InvalidArgument("publish_counts", refusal.rule) from None


def rounded_to(multiple: int, counts: Indices) -> Indices:
    """The nearest multiples, int64; halves go up."""
    if multiple == 1:
        return counts
    steps = (counts.astype(object) + multiple // 2) // multiple * multiple
    return as_int64(steps)


def _check_rounding(multiple: object) -> None:
    if isinstance(multiple, bool) or not isinstance(multiple, int) or multiple < 1:
        raise InvalidArgument("round_counts", f"must be a whole number of at least 1, got {multiple!r}")


def publish_counts(
    counts: ArrayLike,
    chosen: ArrayLike,
    bits: RandomBits,
    epsilon: float | Fraction,
    delta: float | Fraction | None = None,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
    cap: int = 1,
    moving: bool = False,
) -> Indices:
    """Noisy counts of the chosen items, for a budget of their own on top of the selection's.

    Args:
        counts: users per item, or units, shape (d,).
        chosen: what the selection released, indices into counts, shape (n,).
        bits: its next draw is taken.
        epsilon, delta, max_items_per_user, neighbours, cap, moving: of `noise_of_counts`, which says what noise and
            why.

    Returns:
        int64, shape (n,), in the order of `chosen`; a noisy count may be negative. What does not fit in int64, for
        epsilon below about 1e-18, becomes the nearest number that does.

    Raises:
        InvalidArgument: epsilon, delta or max_items_per_user breaks its rule.
    """
    exact = np.asarray(counts)[np.asarray(chosen, np.int64)].astype(np.int64)
    noise = noise_of_counts(max(len(exact), 1), epsilon, delta, max_items_per_user, neighbours, cap, moving)
    draw = bits.draw()
    if not len(exact):
        return exact
    return as_int64(exact.astype(object) + noise.sample(len(exact), draw))  # Python's integers


def noise_of_counts(
    size: int,
    epsilon: float | Fraction,
    delta: float | Fraction | None = None,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
    cap: int = 1,
    moving: bool = False,
) -> CountNoise:
    """The noise of `size` published counts: of what is proved below, the one of least variance.

    One user moves at most j of the n = `size` counts, each by 1: j is the smaller of n and m = `max_items_per_user`
    (2m under "replace-one"). A user who is added or removed moves all of these the same way.

    Without delta the counts are epsilon-DP by one of
    - discrete Laplace noise of scale j / epsilon for each: j is the l_1 sensitivity;
    - a vector of density proportional to exp(-epsilon N(z)), N a norm that is at most 1 for every move of one user
      (Hardt & Talwar 2010). Under add-remove N(z) = max(0, z_1, ...) - min(0, z_1, ...), 1 for the moves in {0, 1}**n
      and in {-1, 0}**n: variance (n + 2) (n + 3) / 6 epsilon**2, against 2 n**2 of Laplace noise. Under
      "replace-one" N is the largest |z_i|: (n + 1) (n + 2) / 3 epsilon**2. A rounded vector has 1/12 more.

    With delta they are (epsilon, delta)-DP by Gaussian noise, of which part is shared. Let s be the standard deviation
    for a sensitivity of 1 (Balle & Wang 2018, exact). With covariance s**2 (a I + b J), J all ones, and c = b / (a + n
    b), a move of r counts has the squared length (r - c r**2) / a in the noise's metric, since the inverse of a I + b J
    is (I - c J) / a. So a = max over r <= j of r - c r**2 is enough, and every c in [0, 1/n) is private. The variance
    a + b is least, up to r being whole, at c = (1 - t) / n, t = sqrt((n - l) / (l (n - 1))), with l the lesser of j and
    (n + sqrt(n)) / 2; whole r are searched beside it. Without a bound that is (sqrt(n) + 1) / 2 times s for each count
    in place of sqrt(n) (Lebeda 2024), and with one never more than sqrt(j). Under "replace-one" counts move both ways,
    r - c r**2 becomes r - c (sum of the moves)**2, largest where they cancel, and c = 0 is best.

    With `moving`, a user who is replaced may also leave the counts of one ranking and enter those of another, and both
    together must cost no more: one who comes or goes costs half. Pure noise is then that of "add-remove" at half of
    epsilon, which covers a replacement as one step after another. Of Gaussian noise squared lengths add up, so that a
    is as under "replace-one" and c the least for which 2 (r - c r**2) <= a at every r <= min(n, m): (m - a / 2) / m**2,
    0 where 2m <= n, and never more than 1 / 2n, which adds 1 to a variance of n.

    Where a user moves a count by anything in [0, cap], all of this grows in proportion to cap: N is at most cap, and
    the squared length, convex, is largest at a corner of the cube.

    Raises:
        InvalidArgument: epsilon, delta or max_items_per_user breaks its rule.

    Cost: about 5 ms, once.
    """
    budget = Fraction(check_parameter("epsilon", epsilon))
    slack = None if delta is None else Fraction(check_parameter("delta", delta))
    limit = check_parameter("max_items_per_user", max_items_per_user)
    swapped, held = neighbours == "replace-one", min(size, limit or size)
    moved = min(size, sensitivity(neighbours) * held)
    if slack is None:
        if swapped and moving:
            return _pure(size, held, budget / (2 * cap), swapped=False)
        return _pure(size, moved, budget / cap, swapped)
    unit = cap**2 * gaussian_scale(budget, slack, Fraction(1)) ** 2
    if swapped and moving:
        c = max((held - Fraction(moved, 2)) / held**2, Fraction(0))
        return SharedGaussian(unit * moved, unit * moved * c / (1 - size * c))
    return _gaussian(size, moved, unit, swapped)


def _pure(size: int, moved: int, rate: Fraction, swapped: bool) -> CountNoise:
    laplace = IndependentLaplace(moved / rate)
    ball = Cube(size, rate) if swapped else Spread(size, rate)
    # Rounding adds 1/12 to the one; the other is whole-numbered from the start.
    return ball if ball.variance() + Fraction(1, 12) < laplace.variance() else laplace


@lru_cache(maxsize=1024)
def _gaussian(size: int, moved: int, unit: Fraction, swapped: bool) -> CountNoise:
    own, shared = _parts(size, moved, Fraction(0)) if swapped else min(_choices(size, moved), key=sum)
    return SharedGaussian(unit * own, unit * shared)


def _choices(size: int, moved: int) -> Iterator[tuple[Fraction, Fraction]]:
    """a and b for the c that may be best, up to their last bits: any other is as private.

    For a given r that decides a, the best c is that with r for l, unless r + 1 decides from an earlier c on, 1 / (2r +
    1). Only those r matter that are next to l.
    """
    most = min(Fraction(moved), (size + _root(Fraction(size))) / 2)
    near = range(max(int(most) - 1, 1), min(int(most) + 2, moved) + 1)
    for r in sorted({most, *map(Fraction, near)}):
        best = (1 - _root((size - r) / (r * (size - 1)))) / size if size > 1 else Fraction(0)
        yield from (_parts(size, moved, c) for c in (best, 1 / (2 * r + 1)) if c * size < 1)


def _parts(size: int, moved: int, c: Fraction) -> tuple[Fraction, Fraction]:
    own = _longest(c, moved)
    return own, own * c / (1 - size * c)


def _longest(c: Fraction, moved: int) -> Fraction:
    """The largest r - c r**2 over whole r from 1 to `moved`."""
    turn = min(int(1 / (2 * c)), moved) if c else moved
    return max(r - c * r**2 for r in {max(turn, 1), min(turn + 1, moved)})


def _root(value: Fraction) -> Fraction:
    """The square root in exact arithmetic, up to 2**-32 of its unit: the same on every machine."""
    return Fraction(isqrt((value.numerator << 2 * _ROOT_BITS) // value.denominator), 1 << _ROOT_BITS)
