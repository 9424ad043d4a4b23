"""Candidates, then rank: sums of weights find some more than k items, and numbers of users put them in order."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale, order_reach
from private_topk.transforms.mechanisms.exact.argmax import noisy_ranks
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices
from private_topk.transforms.mechanisms.weighted import UNIT, Weighting
from private_topk.transforms.mechanisms.weighted_order import WeightedOrder

__all__ = ["CandidatesThenRank"]

_FINDING = Fraction(1, 5)
"""Of the squared distance that the budget allows, what finds the candidates; the rest orders them."""
_ORDERING = 1  # lane


@dataclass(frozen=True)
class CandidatesThenRank(WeightedOrder):
    """The K = 1.5 k largest of sum of weights + Gaussian noise, and of these the k largest of users + Gaussian noise.

    Weights and parameters are those of `weighted-order`. The numbers of users are of the same pairs: a user adds 1 to
    each of up to `max_items_per_user` items.

    Guarantee, for the unit of `neighbours`: the first order of K items is one of independent Gaussian noise, and a user
    moves the part that it tells of by at most D_1, of `order_reach` for `whole_items`; the second, whichever the
    candidates are, by at most D_2, of `order_reach` of K items for `max_items_per_user`: sqrt(K) / 2 and no more,
    however many items a user has. Each is mu_i-GDP, mu_i = D_i / s_i for a standard deviation of s_i, and one after the
    other, the second chosen by the first, they are GDP with mu**2 = mu_1**2 + mu_2**2 (Dong, Roth & Su 2022, Corollary
    3.3): no more is told than by one Gaussian of that mu. So s_1 and s_2 are calibrated together: mu is the largest
    that is (epsilon, delta)-DP (Balle & Wang 2018, exact), mu_1**2 is a fifth of its square, and rho is mu**2 / 2 as of
    one Gaussian. Where there are fewer than K items, all are candidates, and all of mu orders them. The sums and
    numbers themselves are not published: their noise is calibrated to orders alone. Noise is of real numbers, so that
    there are no ties.

    Of sums alone (`select`) floor(sum) stands for the users: it moves by 0 or 1 too, all one way, so that the guarantee
    is the same; where nobody has more than `whole_items` items it is their number.
    Cost: a pass over the sums, then a few times k noises.
    """

    about: ClassVar[About] = About(
        name="candidates-then-rank",
        cost="one pass, then O(k)",
        source="ours; Dong, Roth & Su 2022, Balle & Wang 2018, Gopi et al. 2020",
        when="a delta is acceptable, k is about 100; users may hold many items",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "approximate", "public", "sequence", metric="weights", swap_costs_one_draw=True, two_stage=True
    )

    @property
    def weighting(self) -> Weighting:
        """What a user adds to each item, beside 1 to its number of users."""
        return Weighting(self.whole, self.max_items_per_user, 0, counted=True)

    def candidates(self, k: int, d: int) -> int:
        """K: how many of d items are candidates for the top k."""
        return min(k + (k + 1) // 2, d)

    def finding_scale(self, d: int) -> Fraction:
        """The standard deviation of the noise that finds candidates among d items, in units of the sums."""
        return UNIT * self._scale(self.squared_sensitivity(d) / _FINDING)

    def ordering_scale(self, candidates: int, k: int) -> Fraction:
        """The standard deviation of the noise on the numbers of users of so many candidates for the top k.

        Where they are fewer than K would be, they are all items there are: nothing was spent on finding them.
        """
        left = 1 if candidates < k + (k + 1) // 2 else 1 - _FINDING
        return self._scale(order_reach(candidates, self.max_items_per_user, self.neighbours) / left)

    def find(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        d = histogram.items
        if self.candidates(k, d) == d:
            return np.arange(d)
        return noisy_ranks(histogram, self.finding_scale(d), "gaussian", self.candidates(k, d), draw)

    def order(self, users: Indices, k: int, draw: Draw) -> Indices:
        by_rank, (values, sizes) = np.argsort(-users, kind="stable"), np.unique(-users, return_counts=True)
        scale = self.ordering_scale(len(users), k)
        return by_rank[noisy_ranks(Histogram(-values, sizes), scale, "gaussian", k, draw, _ORDERING)]

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        candidates = self.find(histogram, k, draw)
        return candidates[self.order(histogram.counts_at(candidates) // UNIT, k, draw)]

    def _scale(self, squared: Fraction) -> Fraction:
        return gaussian_scale(Fraction(self.epsilon), Fraction(self.delta), squared)
