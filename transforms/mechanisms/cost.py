"""What releases cost: one as its mechanism states it, or several together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from private_topk.transforms.errors import InvalidArgument, plain, verbatim
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.reals import ball, floor

_DIGITS = 64
_SUMS = ("epsilon", "delta", "rho", "zcdp_delta")
_OF_ANY = Fraction(-1)  # until `__post_init__` has the rho of any release


@dataclass(frozen=True)
class Cost:
    """What is proved of one release, each by itself, for the neighbours of the mechanism that states it; or the sum of
    that over several.

    All are exact rationals, rounded up where the proved number is none.

    Args:
        epsilon, delta: the release is (epsilon, delta)-DP; delta is 0 where it is pure.
        rho: it is rho-zCDP, without any delta but `zcdp_delta`: every Renyi divergence of order a is at most rho a. By
            default what is so of every (epsilon, delta)-DP release, whose zcdp_delta is delta: but for a probability of
            delta it is an epsilon-DP one (Bun & Steinke 2016, Lemma 8.8), and these are what `rho_of_pure` proves of
            them.
        zcdp_delta: of rho: it holds but for an event of this probability. Each of two neighbours has a law of the
            answers and of one outcome more, "none". These two laws are rho-zCDP of each other; for every answer each is
            below the release's own law; and "none" has a probability of at most `zcdp_delta`. (The pair of Bun &
            Steinke 2016, Definition 8.1, is one: laws given an event of probability 1 - zcdp_delta, and none
            otherwise.)
        gdp: of rho: no more is told than whether a normal number of standard deviation 1 has the mean 0 or the square
            root of 2 rho (Gaussian differential privacy), but for the same event of probability `zcdp_delta`.
        bounded_range: the largest and the least log-ratio of an answer's probabilities on neighbours differ by at most
            this. None where nothing is proved beyond the 2 epsilon of every pure release.

    Of sums that mix two kinds of proof, which `zcdp_delta` tells apart, only the epsilons and deltas or only the rhos
    hold, whichever was fixed beforehand:

    - zcdp_delta = delta: there is one event of probability delta, and but for it the release is epsilon-DP and
      rho-zCDP. Of this kind are pure releases, releases of which only (epsilon, delta) is known, and pure draws over an
      unknown domain: there the event is that an item comes out which only one of two neighbours has among its
      candidates.
    - zcdp_delta < delta: zCDP is proved by itself, as of Gaussian noise: rho 0.1 needs no delta, while the
      (epsilon, delta) leave out a tail of probability delta, which is no part of that proof. Of this kind are Gaussian
      sums above a threshold, and k exponential mechanisms over an unknown domain, but for the event of probability
      `zcdp_delta`.

    Raises:
        InvalidArgument: a number is negative, or no finite number: it would give a budget back.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    rho: Fraction = _OF_ANY
    zcdp_delta: Fraction = Fraction(0)
    bounded_range: Fraction | None = field(default=None, kw_only=True)
    gdp: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.rho is _OF_ANY:
            object.__setattr__(self, "rho", rho_of_pure(at_least_0("epsilon", self.epsilon)))
            object.__setattr__(self, "zcdp_delta", self.delta)
        for name in _SUMS:
            object.__setattr__(self, name, at_least_0(name, getattr(self, name)))

    @property
    def adds_up(self) -> bool:
        """Whether its epsilon may be added to others' in a ledger: but for its `zcdp_delta`, it is epsilon-DP."""
        return self.zcdp_delta == self.delta

    def readings(self) -> list[Cost]:
        """The costs it may be charged as: as it is, or as a release of which only (epsilon, delta) is known."""
        return [self] if self.adds_up else [self, Cost(self.epsilon, self.delta)]

    @classmethod
    def sum(cls, costs: Iterable[tuple[int | Fraction, Cost]]) -> Cost:
        """What so many of each cost together, as they add up; nothing for none."""
        costs = [(number, cost) for number, cost in costs if number]
        sums = (sum((number * getattr(cost, name) for number, cost in costs), Fraction(0)) for name in _SUMS)
        return cls(*sums, gdp=all(cost.gdp for _, cost in costs))

    def __add__(self, other: Cost) -> Cost:
        return Cost.sum([(1, self), (1, other)])

    def __rmul__(self, number: int) -> Cost:
        return Cost.sum([(number, self)])

    @classmethod
    def exponential(cls, epsilon: Fraction) -> Cost:
        """The cost of one exponential mechanism: P(y) in proportion to exp(score), scores moving in width epsilon.

        The log-ratio of y is the move of its score less that of the normaliser, which is the same for all y.
        """
        return cls(epsilon, rho=rho_of_exponential(epsilon), bounded_range=epsilon)

    @classmethod
    def gaussian(cls, epsilon: Fraction, delta: Fraction) -> Cost:
        """The cost of Gaussian noise of the least standard deviation that is (epsilon, delta)-DP.

        Squared l_2 sensitivity over twice the variance (Bun & Steinke 2016, Proposition 1.6); needs no delta. The least
        standard deviation grows in proportion to the sensitivity, so this is 1 / (2 s**2) for any of them, s being that
        for 1. `gaussian_scale` is within a float of s.
        """
        least = gaussian_scale(epsilon, delta, Fraction(1)) * (1 - Fraction(1, 2**50))
        return cls(epsilon, delta, rho=1 / (2 * least**2), gdp=True)

    @classmethod
    def peeled(cls, draws: int, share: Fraction) -> Cost:
        """The cost of `draws` exponential mechanisms at `share` each, of which every one may depend on the ones before.

        Epsilons and rhos add up (Dwork & Roth 2014, Theorem 3.16; Bun & Steinke 2016, Lemma 2.3). Ranges do not: each
        round's log-ratio lies in an interval of width s = share whose place in [-s, s] depends on the rounds before,
        but for the first. Intervals that hold 0 have their lower end in [-s, 0], so the sum over k rounds varies by at
        most k s for the widths and (k - 1) s for the places.
        """
        return cls(draws * share, rho=draws * rho_of_exponential(share), bounded_range=(2 * draws - 1) * share)


def at_least_0(name: str, value: Fraction | float) -> Fraction:
    """A number as the fraction that it is. Raises InvalidArgument for a negative one, or none."""
    try:
        number = Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, f"must be a finite number, got {verbatim(repr(value))}") from None
    if number < 0:
        raise InvalidArgument(name, f"must be at least 0, got {plain(number)}")
    return number


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """epsilon tanh(epsilon / 2), rounded up: the least rho for which every epsilon-DP release is rho-zCDP.

    On neighbours it is a function of one randomised response (Kairouz, Oh & Viswanath 2015), so that this
    one's divergence bounds it: with u = a - 1/2, (a - 1) D_a is ln cosh(epsilon u) less its value at u = 1/2. That is
    concave in u**2, since tanh(x) / x falls, and so at most its slope at u**2 = 1/4, epsilon tanh(epsilon / 2), times
    u**2 - 1/4 = a (a - 1). At most epsilon**2 / 2, the bound of Bun & Steinke 2016, Proposition 3.3.
    """
    if epsilon >= _DIGITS:
        return epsilon  # 1 - tanh(32) is below 2**-91: no precision is worth finding it
    if not epsilon:
        return epsilon
    unit = min(epsilon, epsilon**2) / 2**_DIGITS
    return (floor(lambda: ball(epsilon / unit) * (ball(epsilon) / 2).tanh()) + 1) * unit


def rho_of_exponential(epsilon: Fraction) -> Fraction:
    """The lesser of epsilon**2 / 8 and `rho_of_pure`: what an epsilon-bounded-range release is.

    Cesar & Rogers 2021, Lemma 3.4: Hoeffding's lemma for a log-ratio that lies in an interval of width epsilon.
    """
    return min(epsilon**2 / 8, rho_of_pure(epsilon))
