"""Peeling the exponential mechanism, approximate: the same draw as pure peeling, better composed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import per_round_epsilon
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours
from private_topk.transforms.mechanisms.noisy_order import NoisyOrder


@dataclass(frozen=True)
class CdpPeeling(NoisyOrder):
    """k exponential mechanisms, each over the items not yet chosen, together (epsilon, delta)-DP.

    The share s of a round is the largest that one of two proofs allows (`per_round_epsilon`): basic composition, which
    gives epsilon / k; and the largest Renyi divergence of an s-bounded-range draw, added over rounds. Adding Gumbel
    noise of scale 1 / s once and taking the k largest in order has the same law. Under "replace-one" the scale doubles.
    """

    about: ClassVar[About] = About(
        name="cdp-peeling",
        cost="one pass, then O(k)",
        source="Gillenwater et al. 2022; Dong, Durfee & Rogers 2020; Canonne, Kamath & Steinke 2020",
        when="a delta is acceptable and k is large: noise grows as sqrt(k), not k",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "approximate",
        "public",
        "sequence",
        metric="amounts",
        replacement_costs_one_draw=True,
    )

    epsilon: float
    delta: float
    neighbours: Neighbours = "add-remove"

    def share(self, k: int) -> Fraction:
        """The budget of one of k rounds: each is this much DP, as an exponential mechanism."""
        return per_round_epsilon(Fraction(self.epsilon), Fraction(self.delta), k)

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gumbel", self.sensitivity / self.share(k)

    def cost(self, k: int) -> Cost:
        """k exponential mechanisms at the share, rho = k share**2 / 8: neither rho nor the range needs the delta."""
        peeled = Cost.peeled(k, self.share(k))
        return Cost(Fraction(self.epsilon), Fraction(self.delta), peeled.rho, bounded_range=peeled.bounded_range)
