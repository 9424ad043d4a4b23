"""Laplace noise on every count, calibrated to k or to the items per user, whichever is less."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost, rho_of_pure
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours, sensitivity
from private_topk.transforms.mechanisms.noisy_order import NoisyOrder


@dataclass(frozen=True)
class Laplace(NoisyOrder):
    """The k largest of count + Laplace noise of scale min(k, m) / epsilon, in order.

    Scale k / epsilon: noisy top-k for monotone counts (Ding et al. 2019; Qiao et al. 2021; the order is covered).
    Scale m / epsilon, where nobody holds more than m = `max_items_per_user` items: one user moves the counts by at most
    m in l_1, so all noisy counts together are epsilon-DP, and their order is post-processing. The caller must have
    enforced m. Under "replace-one" both double: 2k (scores not monotone), 2m (m items given up, m others taken).
    """

    about: ClassVar[About] = About(
        name="laplace",
        cost="one pass, then O(k)",
        source="Ding et al. 2019; Qiao, Su & Zhang 2021",
        when="pure privacy and far fewer items per user than k",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float
    max_items_per_user: int | None = None
    neighbours: Neighbours = "add-remove"

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        moved = min(k, self.max_items_per_user or k)
        return "laplace", self.sensitivity * moved / Fraction(self.epsilon)

    def cost(self, k: int) -> Cost:
        """Where the noise is calibrated to m items, rho adds up over the counts that one user moves.

        Each of these is published with Laplace noise: `moved` pure releases of epsilon / moved, all others the same.
        """
        moved = sensitivity(self.neighbours) * (self.max_items_per_user or k)
        if self.max_items_per_user is None or self.max_items_per_user > k:
            return super().cost(k)
        epsilon = Fraction(self.epsilon)
        return Cost(epsilon, rho=moved * rho_of_pure(epsilon / moved))
