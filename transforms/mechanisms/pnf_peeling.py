"""Peeling permute-and-flip: k rounds of fresh exponential noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms.cost import Cost, rho_of_pure
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.flips import FlipRounds
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours


@dataclass(frozen=True)
class PnfPeeling(Mechanism):
    """k rounds of permute-and-flip, each over the items not yet chosen and each with budget epsilon / k.

    A round of permute-and-flip is the largest of count + exponential noise of scale k / epsilon (McKenna & Sheldon
    2020, who prove a round's DP; the noise form is Ding et al. 2021). Every round has fresh noise: epsilon-DP by basic
    composition. Counts are monotone under "add-remove" (Remark 1 of the former), so no factor 2; under "replace-one"
    the scale doubles. Cost: a histogram of the counts, then D + k log D, about 10 microseconds a round.
    """

    about: ClassVar[About] = About(
        name="pnf-peeling",
        cost="one pass, then k log k",
        source="McKenna & Sheldon 2020; Gillenwater et al. 2022, Lemma 4.1",
        when="pure privacy item by item: for a single release never worse than peeling",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float
    neighbours: Neighbours = "add-remove"

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        rounds = FlipRounds(histogram, Fraction(self.epsilon) / (self.sensitivity * k), k, draw)
        return np.fromiter((rounds.next() for _ in range(k)), np.int64, k)

    def cost(self, k: int) -> Cost:
        """k pure draws of epsilon / k: their rhos add up (Bun & Steinke 2016, Lemma 2.3).

        No bounded range: permute-and-flip is no exponential mechanism. From six zero counts, a user who joins three of
        the items makes log-ratios of four draws that lie 1.17 apart at epsilon = 1.
        """
        epsilon = Fraction(self.epsilon)
        return Cost(epsilon, rho=k * rho_of_pure(epsilon / k))
