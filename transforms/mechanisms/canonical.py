"""The canonical Lipschitz mechanism for sets (Shekelyan & Loukides 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.classes import Classes, TopK
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import check_noise
from private_topk.transforms.mechanisms.exact.race import Race
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours
from private_topk.transforms.mechanisms.parameters import check_decimal, parameter

_PADDED = 7  # splits, in units of the root of k: evenly stepped counts have been seen to take 19
_STEPS, _RATE = 10_000, Fraction(1, 2)


@lru_cache(maxsize=4)
def _steps(k: int) -> Classes:
    """Those of made-up counts: 0, 1, 2, ..., one item each."""
    size = 1 << (3 * k + _STEPS).bit_length()
    table = Histogram(np.arange(size)[::-1], np.ones(size, np.int64))
    return Classes(table, k, Fraction(1, 2), _RATE)


@dataclass(frozen=True)
class Canonical(Mechanism):
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
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "set", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float | Fraction
    gamma: float | Fraction = parameter(
        Fraction(1, 2), kind="fraction", help="from 0 to 1; at 1 only the smallest count of a set matters"
    )
    noise: str = parameter("gumbel", help="gumbel, exponential, laplace, logistic or half-logistic")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.noise)
        object.__setattr__(self, "gamma", check_decimal("gamma", self.gamma, Fraction(0), Fraction(1)))

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

    def cost(self, k: int) -> Cost:
        """With Gumbel noise that of an exponential mechanism whose scores move in an interval of width epsilon."""
        return Cost.exponential(Fraction(self.epsilon)) if self.noise == "gumbel" else super().cost(k)
