"""Weighted order: Gaussian noise on every sum of weights, where users with many items weigh less and lose none."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale, squared_order_sensitivity
from private_topk.transforms.mechanisms.mechanism import About, Guarantee
from private_topk.transforms.mechanisms.noisy_order import NoisyOrder
from private_topk.transforms.mechanisms.weighted import UNIT, Weighted, Weighting


@dataclass(frozen=True)
class WeightedOrder(Weighted, NoisyOrder):
    """The k largest of sum of weights + Gaussian noise, in order.

    A user with t items, at most L = `max_items_per_user`, adds w(t) = min(1, sqrt(m / t)) to each of them, m =
    `whole_items` or L, whichever is less, rounded down to multiples of 2**-16. The counts that this mechanism is given
    are such sums in units of 2**-16, not numbers of users.

    Args:
        epsilon, delta: of one release.
        max_items_per_user: L, which whoever adds up must have enforced.
        whole_items: m. A larger one bends the order less and needs more noise.

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
