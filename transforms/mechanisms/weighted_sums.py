"""Mechanisms over sums of weights, which users share out over what they hold: what they have in common, and both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from flint import arb

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import (
    at_most,
    gaussian_delta,
    gaussian_scale,
    squared_order_sensitivity,
)
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.count_noise import as_int64, rounded
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import (
    COUNT_ERROR,
    NOISE_ERROR,
    certified_top,
    float_rate,
    noise_real,
    noisy_score,
    standard_noise,
)
from private_topk.transforms.mechanisms.exact.reals import Real, ball, floor, greater
from private_topk.transforms.mechanisms.mechanism import (
    About,
    Flags,
    Guarantee,
    Indices,
    Mechanism,
    Neighbours,
    sensitivity,
)
from private_topk.transforms.mechanisms.noisy_order import NoisyOrder
from private_topk.transforms.mechanisms.parameters import parameter
from private_topk.transforms.mechanisms.weighted import UNIT, Weighting

_HUNDREDTHS = 100
_NEW = Fraction(15, 16)
"""The part of delta that new items may take where noise takes all of it. Less than all: what is left is for the first
condition under "replace-one", and tells a ledger that the noise has a tail (`zcdp_delta` below delta)."""
_LARGE = Fraction(2**20)
"""Of epsilon, above which no noise is saved."""
_UNSEEN = 64
"""One part in so many of the threshold is spent on leaving out rare items before any noise is drawn."""
_MAX_ITEMS = 1_000_000


@dataclass(frozen=True)
class Weighted(Mechanism):
    """A mechanism over sums of weights, in units of 2**-16, that gives noise in l_2 and has a delta.

    A subclass is a frozen dataclass of its own that states `about` and its `weighting`.

    Args:
        epsilon, delta: of one release.
        max_items_per_user: L, which whoever adds up must have enforced.
        whole_items: m. A larger one bends the order less and needs more noise.

    Raises:
        InvalidArgument: `whole_items` is no whole number of at least 1, or L is above a million.
    """

    epsilon: float
    delta: float
    max_items_per_user: int
    whole_items: int = parameter(
        20, help="a user with at most W items counts as 1 for each, a user with more items as less"
    )
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_items_per_user > _MAX_ITEMS:
            raise InvalidArgument("max_items_per_user", f"must be at most {_MAX_ITEMS} for {self.about.name}")

    @property
    def whole(self) -> int:
        """The square of the l_2 norm of what one user adds, at most: m, or L if that is less."""
        return min(self.whole_items, self.max_items_per_user)


@dataclass(frozen=True)
class WeightedOrder(Weighted, NoisyOrder):
    """The k largest of sum of weights + Gaussian noise, in order.

    A user with t items, at most L = `max_items_per_user`, adds w(t) = min(1, sqrt(m / t)) to each of them, m =
    `whole_items` or L, whichever is less, rounded down to multiples of 2**-16. The counts that this mechanism is given
    are such sums in units of 2**-16, not numbers of users.

    Guarantee: as for `gaussian` an order tells only what is orthogonal to (1, ..., 1). A user who is added or removed
    reaches that part as far as t w(t)**2 (1 - t / d), squared: t (1 - t / d) up to m items, and at most m (1 - t / d)
    beyond; so r (d - r) / d with r = m, or d / 2 if that is less, is the most. Under "replace-one" two such moves, none
    of which is negative where the other counts, reach no further than 2 m, and no count moves by more than 1, which `d`
    bounds as there. The standard deviation is the least for which that is (epsilon, delta)-DP (Balle & Wang 2018,
    exact). The sums themselves are not published: their noise is calibrated to their order alone.
    Cost: a pass over the sums, then a few times k noises, whatever they are.
    """

    about: ClassVar[About] = About(
        name="weighted-order",
        cost="one pass, then O(k)",
        source="Balle & Wang 2018, Theorem 8; weights of Gopi et al. 2020",
        when="a delta is acceptable, k is above 200 times epsilon; users may hold many items",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "approximate", "public", "sequence", metric="weights", replacement_costs_one_draw=True
    )

    @property
    def weighting(self) -> Weighting:
        """What a user adds to each item."""
        return Weighting(self.whole, self.max_items_per_user, 0)

    def scale(self, d: int) -> Fraction:
        """The standard deviation of the noise in units, for d items."""
        return UNIT * gaussian_scale(Fraction(self.epsilon), Fraction(self.delta), self.squared_sensitivity(d))

    def squared_sensitivity(self, d: int) -> Fraction:
        """How far one user can move the order's part of d sums, squared; 1 for a single one, whose order is one."""
        return squared_order_sensitivity(d, self.whole, self.neighbours)

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", self.scale(d)

    def cost(self, k: int) -> Cost:
        """That of Gaussian noise of the least standard deviation that the budget allows."""
        return Cost.gaussian(Fraction(self.epsilon), Fraction(self.delta))


@dataclass(frozen=True)
class WeightedGaussian(Weighted):
    """Noise on the sum of the users' weights of every item; the k largest above a threshold, in order, or all of them.

    A user with t items, at most L = `max_items_per_user`, adds w(t) = min(1, sqrt(m / t)) to each of them, m =
    `whole_items` or L, whichever is less, rounded down to multiples of 2**-16 (`weighting`): nobody's items are dropped
    for an l_2 norm of sqrt(m). Of the items whose sum is above a public tau, those come out whose sum + N(0, s**2) is
    above T, at most k of them, the largest first. The counts that this mechanism is given are such sums in units of
    2**-16, not numbers of users. Items of a public list come out whatever their sum is, if they are among the k largest
    of all that may.

    Guarantee: let H(u) be the delta, at epsilon, of noise of standard deviation s at an l_2 distance of sqrt(u) (Balle
    & Wang 2018, exact). s is the least for which H(M) is at most delta_1, M = m, or 2 m under "replace-one"; and T =
    tau + max over 1 <= t <= L of w(t) + s q(t), where t normal numbers are all at most q(t) with a probability of 1 -
    delta_2.

    Let C be the items above tau in both of two neighbours D and D', and R the items of C that come out of either, with
    their noisy sums. Of the t items of a user who is in D' and not in D, let a part f be above tau in D' alone. Their
    sums are at most tau + w(t): that any of them comes out has a probability p' of at most 1 - (1 - delta_2)**f,
    independently of R(D'); likewise p for D. And the user moves sums on C by at most m (1 - f) in l_2, squared, so that
    R(D) and R(D') are (epsilon, h)-close for h = H(M - f m), f being the larger one of two users under "replace-one".

    For a set S of answers let x = P(R(D') in S). Then P(D in S) <= (1 - p) P(R(D) in S) + p and P(D' in S) >=
    (1 - p') x, so P(D in S) - exp(epsilon) P(D' in S) is at most (1 - p) (exp(epsilon) x + h) + p - exp(epsilon)
    (1 - p') x <= q + (1 - q) h, q = max(p, p'), where exp(epsilon) x <= 1 - h, and otherwise at most 1 - (1 - p')
    (1 - h). That is 1 - (1 - delta_2)**f (1 - H(M - f m)) in either case, and at most delta_1 + delta_2, of which each
    may be half of delta. But what is new moves nothing else: where H is convex from M - m to M, 1 - H(M - f m) is at
    least its mean of weights f and 1 - f of both ends, and so the geometric one. Then the whole is at most 1 -
    ((1 - delta_2) (1 - H(M - m)))**f (1 - delta_1)**(1 - f), which is delta at most if delta_1 is and (1 - delta_2)
    (1 - H(M - m)) is at least 1 - delta. The derivative of H is the normal density at x / 2 - epsilon / x over 2 x
    s**2, x = sqrt(u) / s, which rises while x**4 / 4 + x**2 <= epsilon**2. So delta_1 = delta and delta_2 = 15 / 16
    delta where both conditions are proved, as they are for any delta that is small beside epsilon.

    Listed items are always in C, and no part of f. So all items that come out, with their noisy sums, are (epsilon,
    delta)-DP, and the k largest and their order are post-processing. Without a k it is private partition selection: all
    of them are the answer.
    Cost: O(n) for the n items above tau, about 50 ns each.
    """

    about: ClassVar[About] = About(
        name="weighted-gaussian",
        cost="one pass over the items above tau",
        source="Gopi et al. 2020; Dick, Joseph & Raman 2026",
        when="the items are not public, and k is about 100 or epsilon small: others then return few items",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "approximate",
        "unknown",
        "sequence",
        metric="weights",
        replacement_costs_one_draw=True,
        publishes_weights=True,
        partition_selection=True,
        takes_catalogue=True,
    )

    @property
    def weighting(self) -> Weighting:
        return Weighting(self.whole, self.max_items_per_user, self.tau() + 1, self.scale())

    def scale(self) -> Fraction:
        """The standard deviation of the noise, in units."""
        return UNIT * gaussian_scale(Fraction(self.epsilon), self.deltas()[0], Fraction(self._reach()))

    def deltas(self) -> tuple[Fraction, Fraction]:
        """delta_1, of the noise, and delta_2, of the threshold."""
        return _deltas(Fraction(self.epsilon), Fraction(self.delta), self._reach(), self.whole)

    def tau(self) -> int:
        """Sums up to this never come out, in units: about one part in 64 of the threshold."""
        return self._bar() // _UNSEEN

    def threshold(self) -> int:
        """What a noisy sum has to be above, in units."""
        return self._bar() + self.tau()

    def cost(self, k: int) -> Cost:
        """The rho of the noise, but for delta_2: that something comes out besides R, of the proof above.

        That has a probability of p on D and p' on D', and is independent of R. Throw a coin besides so that this, or
        the coin, has a probability of delta_2 on either: what comes out but for it has the law of R(D), R(D'), which
        are rho-zCDP, being Gaussian sums, and told apart like two normal numbers.
        """
        noise, rest = self.deltas()
        rho = Cost.gaussian(Fraction(self.epsilon), noise).rho
        return Cost(Fraction(self.epsilon), Fraction(self.delta), rho, zcdp_delta=rest, gdp=True)

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        return self.select_with(None, histogram, k, draw)

    def select_with(self, listed: Flags | None, histogram: Histogram, k: int, draw: Draw) -> Indices:
        held = int(histogram.at_least(np.array([self.tau() + 1]))[0])
        sums, scale = histogram.counts_at(np.arange(held if listed is None else histogram.items)), self.scale()

        def score(rank: int) -> Real:
            return noisy_score(int(sums[rank]), scale, noise_real(draw, 0, rank, "gaussian"))

        steps = (sums - self.threshold()) * float_rate(1 / scale)
        scores, errors = standard_noise(len(sums), "gaussian", draw) + steps, np.abs(steps) * COUNT_ERROR + NOISE_ERROR
        above, bar = scores > 0, Fraction(self.threshold()) / scale
        for rank in np.flatnonzero(np.abs(scores) <= errors).tolist():
            above[rank] = greater(score(rank), lambda: ball(bar))
        above[held:] = False
        ranks = np.flatnonzero(above if listed is None else above | listed)
        if not len(ranks):
            return ranks
        return ranks[certified_top(scores[ranks], errors[ranks], min(k, len(ranks)), lambda i: score(int(ranks[i])))]

    def noisy_weights(self, histogram: Histogram, ranks: Indices, draw: Draw) -> Indices:
        """The sums of weights with the noise that the draw has decided by, rounded to hundredths of a user.

        The proof is of all items that come out *with* these sums; rounding them is post-processing. Noise has helped
        what stands above the threshold to get there, so that they are too high in the mean.
        """
        sums, scale = histogram.counts_at(ranks), self.scale()
        unit = scale * _HUNDREDTHS / UNIT

        def hundredths(total: int, rank: int) -> int:
            score = noisy_score(total, scale, noise_real(draw, 0, rank, "gaussian"))
            return rounded(lambda: score() * ball(unit))

        noise = standard_noise(int(ranks.max(initial=-1)) + 1, "gaussian", draw)[ranks]
        about = noise * float(unit) + sums * (_HUNDREDTHS / UNIT)
        error = np.abs(about) * COUNT_ERROR + 2 * NOISE_ERROR * float(unit)
        low, high = np.floor(about - error + 0.5), np.floor(about + error + 0.5)
        each = zip(low.tolist(), high.tolist(), sums.tolist(), ranks.tolist(), strict=True)
        return as_int64([int(least) if least == most else hundredths(total, rank) for least, most, total, rank in each])

    def _bar(self) -> int:
        return _highest(self.whole, self.max_items_per_user, self.scale(), self.deltas()[1])

    def _reach(self) -> int:
        """M: how far one user moves the sums, squared."""
        return sensitivity(self.neighbours) * self.whole


@lru_cache(maxsize=256)
def _deltas(epsilon: Fraction, delta: Fraction, reach: int, whole: int) -> tuple[Fraction, Fraction]:
    capped = min(epsilon, _LARGE)
    scale, new = gaussian_scale(capped, delta, Fraction(reach)), delta * _NEW
    told = reach / scale**2
    convex = told**2 / 4 + told <= capped**2
    spare = (delta - new) / (1 - new)
    if convex and (reach == whole or at_most(gaussian_delta(capped, scale**2, Fraction(reach - whole)), spare)):
        return delta, new
    return delta / 2, delta / 2


@lru_cache(maxsize=256)
def _highest(whole: int, limit: int, scale: Fraction, delta: Fraction) -> int:
    """At least w(t) + s q(t) for every t up to the limit, in units, and hardly more. Cost: some milliseconds, once."""
    weighting = Weighting(whole, limit, 0)
    return max(weighting.weight(first) + floor(_quantile(last, scale, delta)) + 1 for first, last in _runs(limit))


def _runs(limit: int) -> Iterator[tuple[int, int]]:
    """The numbers from 1 to the limit in runs of hardly different ones, by their first and last. w falls, q rises."""
    first = 1
    while first <= limit:
        last = min(first + first // 128, limit)
        yield first, last
        first = last + 1


def _quantile(items: int, scale: Fraction, delta: Fraction) -> Real:
    """That so many noises are all at most this has a probability of 1 - delta."""

    def value() -> arb:
        above = -((-ball(delta)).log1p() / items).expm1()
        return ball(scale) * arb(2).sqrt() * (2 * above).erfcinv()

    return value
