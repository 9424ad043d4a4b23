"""Exponential mechanisms over whole sequences or sets, and their Lipschitz kin: which loss, and at which rate."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import ClassVar, Literal

import numpy as np

from private_topk.transforms.errors import InvalidArgument, kind_shown
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.classes import Classes, TopK
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import check_noise
from private_topk.transforms.mechanisms.exact.race import LossInterval, Race
from private_topk.transforms.mechanisms.exact.reals import ball, floor
from private_topk.transforms.mechanisms.exact.sequences import SequenceLosses
from private_topk.transforms.mechanisms.exact.sets import SetLosses
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours
from private_topk.transforms.mechanisms.parameters import check_range, parameter

_PURE = Guarantee("pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True)
_PURE_SET = replace(_PURE, answer="set")
_PADDED = 7  # splits, in units of the root of k: evenly stepped counts have been seen to take 19
_STEPS, _RATE = 10_000, Fraction(1, 2)


@lru_cache(maxsize=4)
def _steps(k: int) -> Classes:
    """Those of made-up counts: 0, 1, 2, ..., one item each."""
    size = 1 << (3 * k + _STEPS).bit_length()
    table = Histogram(np.arange(size)[::-1], np.ones(size, np.int64))
    return Classes(table, k, Fraction(1, 2), _RATE)


@dataclass(frozen=True)
class WholeAnswer(Mechanism):
    """The answer of largest `noise - rate * loss`: every answer has standard noise of its own, Gumbel or `noise`."""

    def cost(self, k: int) -> Cost:
        """With Gumbel noise that of an exponential mechanism whose scores move in an interval of width epsilon."""
        gumbel = self.parameter("noise", "gumbel") == "gumbel"
        return Cost.exponential(Fraction(self.parameter("epsilon"))) if gumbel else super().cost(k)


@dataclass(frozen=True)
class JointLoss(WholeAnswer):
    """One of the largest difference between places: a subclass says which, and at which rate."""

    @abc.abstractmethod
    def losses_and_rate(self, histogram: Histogram, k: int) -> tuple[SequenceLosses | SetLosses, Fraction]:
        """The losses of all answers of k items, in whole units, and what a unit lowers a score by."""

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        """Draw the loss of the winner, then a uniform answer of that loss."""
        return self.sampler(histogram, k)(draw)

    def sampler(self, histogram: Histogram, k: int) -> Callable[[Draw], Indices]:
        """The losses of all answers are told once: a further draw counts only those at which no other has looked."""
        losses, rate = self.losses_and_rate(histogram, k)

        def drawn(draw: Draw) -> Indices:
            best = Race([LossInterval.of_all(losses)], rate, self.parameter("noise", "gumbel"), draw).winner()
            losses.pad()
            return best.draw_ranks(draw)

        return drawn


@dataclass(frozen=True)
class Joint(JointLoss):
    """A sequence S with probability proportional to exp(-epsilon loss_g(S)), g the skew.

    loss_g(S) = max over i of (1 - g) c_i - g c_{s_i}, where c_i is the i-th largest count and c_{s_i} that of the i-th
    item of S. With g = 1/2 this is JOINT: half the largest amount by which a place's true count exceeds the given one.
    A larger g asks less for the order and more for the right items.

    Guarantee: epsilon-DP, pure. One user added or removed moves every count the same way, each by 0 or 1, and with
    them every sorted count; so loss_g moves by something in [-g, 1 - g], an interval of width 1, and the factor 2 of
    the exponential mechanism falls away. One user replaced moves counts and sorted counts both ways: loss_g then moves
    by something in [-1, 1] for every g, and epsilon/2 takes the place of epsilon. With k = 1 a single count decides, as
    (1 - g) c_1 is the same for all: g is 1 there, whatever is asked for, which spends all of epsilon on that count.

    Args:
        epsilon: the budget of one release.
        skew: g, in [1/2, 1]: a Fraction, or a float read as the decimal it prints.
        noise: "gumbel" is the exponential mechanism; "exponential" is permute-and-flip with the same loss, which is
            never worse in expected loss (McKenna & Sheldon 2020, Theorem 2).
        neighbours: what one user's change is.

    Cost: a pass over the counts, then up to 30 counts of sequences at k = 1, 60 at 100 and 120 at 1000, of k look-ups
    each: under 1 ms at k = 1, 1 to 4 ms at 100, up to 30 ms at 1000, whatever d and epsilon are. Easy counts are
    padded to three fifths of the most that was seen, since time is a side channel.

    Source: Gillenwater, Joseph, Munoz Medina & Ribero Diaz 2022, Equation 1. The skew is ours.
    """

    about: ClassVar[About] = About(
        name="joint",
        cost="one pass, then some tens of counts of sequences, 1 to 4 ms at k = 100 and up to 30 ms at k = 1000",
        source="Gillenwater et al. 2022, Equation 1; skew ours",
        when="the best pure sequence where the gaps between the top counts are large",
    )
    guarantee: ClassVar[Guarantee] = _PURE

    epsilon: float | Fraction
    skew: float | Fraction = parameter(
        Fraction(1, 2),
        kind="fraction",
        help="from 1/2 (the published mechanism) to 1; more finds more of the top k, in a worse order",
    )
    noise: Literal["gumbel", "exponential"] = parameter(
        "gumbel", help="gumbel, or exponential, which is permute-and-flip"
    )
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        meaning = "1/2 is JOINT, 1 only looks at membership"
        check_range("skew", self.skew, Fraction(1, 2), Fraction(1), meaning)
        if self.noise not in ("gumbel", "exponential"):
            raise InvalidArgument(
                "noise", f"must be one of gumbel, exponential for joint, got {kind_shown(self.noise)}"
            )

    def losses_and_rate(self, histogram: Histogram, k: int) -> tuple[SequenceLosses, Fraction]:
        skew = Fraction(1) if k == 1 else Fraction(self.skew)
        # Losses are counted in units of 1 / (the denominator of the skew).
        return SequenceLosses(histogram, k, skew), Fraction(self.epsilon) / (self.sensitivity * skew.denominator)


@dataclass(frozen=True)
class FastJoint(JointLoss):
    """A sequence S with probability proportional to exp(-epsilon min(loss(S), tau) / 2).

    loss(S) = max over i of c_i - c_{s_i} as in JOINT, and tau = ceil((2 / epsilon) log(|C| / beta)), where
    |C| = d!/(d-k)! is the number of sequences: with probability 1 - beta or more the loss is below tau.

    Guarantee: epsilon-DP, pure. One user added or removed moves the loss by at most 1, and so the truncated loss; one
    user replaced by at most 2, and epsilon/2 takes the place of epsilon, in tau too. With k = 1 a user who moves c_1 by
    t moves every loss by something in [t - 1, t], cut off or not, as 0 lies in it, and one replaced in [t - 1, t + 1]:
    an interval of half the width, so that 2 epsilon takes the place of epsilon.

    Args:
        epsilon: the budget of one release.
        beta: the probability of tau's bound failing; 2**-10 is the default of the published experiments.
        neighbours: what one user's change is.

    Cost: as JOINT. Truncating made the published algorithm fast; here it changes only the distribution.
    """

    about: ClassVar[About] = About(
        name="fast-joint",
        cost="as joint",
        source="Wu & Zhang 2024, Theorem 4.1",
        when="to repeat published results: joint costs the same here and is never less accurate",
    )
    guarantee: ClassVar[Guarantee] = _PURE

    epsilon: float | Fraction
    beta: float | Fraction = parameter(
        2.0**-10, help="probability of a loss above the bound from which sequences count as equal"
    )
    neighbours: Neighbours = "add-remove"

    def tau(self, d: int, k: int) -> int:
        """The loss at which sequences of k of d items stop being told apart."""
        inverse = Fraction(math.perm(d, k)) / Fraction(self.beta)
        # 0 < beta < 1, so the logarithm of the rational is no rational and its floor always decided.
        return floor(lambda: ball(inverse).log() / ball(self._rate(k))) + 1

    def _rate(self, k: int) -> Fraction:
        return Fraction(self.epsilon) / ((1 if k == 1 else 2) * self.sensitivity)

    def losses_and_rate(self, histogram: Histogram, k: int) -> tuple[SequenceLosses, Fraction]:
        return SequenceLosses(histogram, k, Fraction(1, 2), self.tau(histogram.items, k)), self._rate(k)


@dataclass(frozen=True)
class JointSet(JointLoss):
    """A k-set of items by noisy joint loss.

    A set loses the largest difference c_i - c_{j_i}, c_i being the i-th largest count and c_{j_i} the i-th largest of
    the set. The set of largest `noise - epsilon / 2 * loss` wins (`epsilon / 4` between replace-one neighbours), all
    sets having independent standard noise; Gumbel noise makes this the exponential mechanism.

    Guarantee: pure epsilon-DP. Adding a user moves every sorted count by 0 or 1 and so the loss by at most 1 (Joseph et
    al. 2021, Lemma 5), replacing one moves it by at most 2; then Shekelyan & Loukides 2023, Theorem 4.1. With k = 1 the
    count of the set decides, as c_1 is the same for all, and moves one way by at most 1: the rate is twice as high.

    Args:
        epsilon: the budget of a release.
        noise: gumbel, exponential (permute-and-flip), laplace, logistic or half-logistic.
        neighbours: what a neighbour is.

    Cost: a pass over the counts, then up to 140 counts of sets, each up to k products of rows along the band of paths
    that matter: about 0.1 s at k = 100, 0.2 to 0.4 s at 200, 3 to 5 s at 1000, whatever d is. Easy counts are padded to
    three fifths of the most that was seen, since time is a side channel.
    """

    about: ClassVar[About] = About(
        name="joint-set",
        cost="one pass, then some tens of counts of sets, 0.1 s at k = 100 and 3 to 5 s at k = 1000, whatever d is",
        source="Joseph et al. 2021, Lemma 5; Shekelyan & Loukides 2023, Theorem 4.1",
        when="sets of up to a few hundred items, where the largest gap to the true counts is what matters",
    )
    guarantee: ClassVar[Guarantee] = _PURE_SET

    epsilon: float | Fraction
    noise: str = parameter("gumbel", help="gumbel, exponential, laplace, logistic or half-logistic")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.noise)

    def losses_and_rate(self, histogram: Histogram, k: int) -> tuple[SetLosses, Fraction]:
        return SetLosses(histogram, k), Fraction(self.epsilon) / ((1 if k == 1 else 2) * self.sensitivity)


@dataclass(frozen=True)
class Canonical(WholeAnswer):
    """A k-set of items by noisy canonical loss.

    With M the largest count left out and m the smallest count taken, a set loses `(1 - gamma) max(M, m) - gamma m`. The
    set of largest `noise - epsilon * loss` wins (`epsilon / 2` between replace-one neighbours), all sets having
    independent standard noise; Gumbel noise makes this the exponential mechanism.

    Guarantee: pure epsilon-DP (Theorems 3.5, 4.1 and A.15): adding a user moves every loss by something in
    [-gamma, 1 - gamma], replacing one by something in [-1, 1]. With k = 1 max(M, m) is the same for all sets: gamma
    is 1 there, whatever is asked for, which spends all of epsilon on m.

    Args:
        epsilon: the budget of a release.
        gamma: in [0, 1]. At 1/2 the loss is half the number of users that keep the set from being the top k; at 1 only
            the smallest count taken matters, at 0 only the largest count left out. A float is read as the decimal it
            prints.
        noise: gumbel, exponential, laplace, logistic or half-logistic.
        neighbours: what a neighbour is.

    Cost: a pass over the counts, then 7 to 19 sqrt(k) splits of classes of sets, some 15 microseconds each for any d.
    Draws that need fewer split made-up classes as well, since time is a side channel.
    """

    about: ClassVar[About] = About(
        name="canonical",
        cost="one pass, then some times sqrt(k) binomials",
        source="Shekelyan & Loukides 2023, Theorem 3.5 with Theorems 4.1 and A.15",
        when="sets, k large: the most accurate where the k-th and (k+1)-th counts are apart",
    )
    guarantee: ClassVar[Guarantee] = _PURE_SET

    epsilon: float | Fraction
    gamma: float | Fraction = parameter(
        Fraction(1, 2), kind="fraction", help="from 0 to 1; at 1 only the smallest count of a set matters"
    )
    noise: str = parameter("gumbel", help="gumbel, exponential, laplace, logistic or half-logistic")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.noise)
        check_range("gamma", self.gamma, Fraction(0), Fraction(1))

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        """Draw the class of sets that holds the winner, then a uniform set of the class."""
        if k == histogram.items:
            return np.arange(k)
        gamma = Fraction(1) if k == 1 else Fraction(self.gamma)
        # The classes count losses in units of 1 / (the denominator of gamma).
        rate = Fraction(self.epsilon) / (gamma.denominator * self.sensitivity)
        classes = Classes(histogram, k, gamma, rate)
        race = Race([TopK(k), classes.everything()], rate, self.noise, draw)
        best = race.winner()
        self._pad(k, _PADDED * isqrt(k) - race.splits)
        return best.draw_ranks(draw)

    def _pad(self, k: int, splits: int) -> None:
        """Split made-up classes after an easy draw: how long a draw takes must not tell much of the data."""
        if splits > 0:
            Race([_steps(k).anew().everything()], _RATE, self.noise, Draw(bytes(32))).run(splits)
