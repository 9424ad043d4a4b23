"""Peeling the exponential mechanism, pure: k rounds, all drawn at once by Gumbel noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours
from private_topk.transforms.mechanisms.noisy_order import NoisyOrder


@dataclass(frozen=True)
class Peeling(NoisyOrder):
    """k exponential mechanisms, each over the items not yet chosen and each with budget epsilon / k.

    Adding Gumbel noise of scale k / epsilon to every count once and taking the k largest in order has the same law
    (Durfee & Rogers 2019, Lemma 4.2): P(s_1, ..., s_k) is the product over rounds of
    exp(epsilon c / k) over its sum over the items left.

    epsilon-DP by basic composition. A user added or removed moves all counts one way by 0 or 1, so a round needs no
    factor 2; under "replace-one" counts move both ways and the scale doubles.
    """

    about: ClassVar[About] = About(
        name="peeling",
        cost="one pass, then O(k)",
        source="Durfee & Rogers 2019, Lemma 4.2",
        when="small k; pure privacy with the exponential mechanism's simple law",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float
    neighbours: Neighbours = "add-remove"

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gumbel", self.sensitivity * k / Fraction(self.epsilon)

    def cost(self, k: int) -> Cost:
        """k exponential mechanisms at epsilon / k: rho = epsilon**2 / (8 k), but no bounded range of epsilon."""
        return Cost.peeled(k, Fraction(self.epsilon) / k)
