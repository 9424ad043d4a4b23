"""Gaussian noise on every count, calibrated to the items per user."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale, squared_order_sensitivity
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours
from private_topk.transforms.mechanisms.noisy_order import NoisyOrder


@dataclass(frozen=True)
class Gaussian(NoisyOrder):
    """The k largest of count + Gaussian noise, in order.

    An order is the same when all scores move together, so only the part of the noisy counts that is orthogonal to
    (1, ..., 1) matters. Of independent Gaussian noise of one standard deviation that part is independent Gaussian noise
    in d - 1 dimensions, and a user's move v reaches it as P v, |P v|**2 = |v|**2 - (sum of v)**2 / d. Where nobody
    holds more than m = `max_items_per_user` items (the caller must have enforced it), a user who is added or removed
    moves r <= m counts by 1: |P v|**2 = r (d - r) / d, largest at r = m, or without a bound, or with one above d / 2,
    at r = d / 2: a sensitivity of sqrt(d) / 2 at most. Under "replace-one" up to m counts go up and up to m others
    down: 2m, and where that is above d, d less 1 / d for an odd d, since as many go up as down but for one. The
    standard deviation is the smallest for which that distance is (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8,
    exact), and the answer is post-processing. No calibration to k is proved for Gaussian noise, so none is offered: its
    tail is not Lipschitz, and the arguments for the other noises fail.
    """

    about: ClassVar[About] = About(
        name="gaussian",
        cost="one pass, then O(k)",
        source="Balle & Wang 2018, Theorem 8; the order's sensitivity ours",
        when="a delta is acceptable and far fewer items per user than k",
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
    max_items_per_user: int | None = None
    neighbours: Neighbours = "add-remove"

    def scale(self, d: int) -> Fraction:
        """The standard deviation of the noise in units of the counts, for d items."""
        return self.cap * gaussian_scale(Fraction(self.epsilon), Fraction(self.delta), self.squared_sensitivity(d))

    def squared_sensitivity(self, d: int) -> Fraction:
        """How far one user can move the order's part of d counts, squared, in units of `cap`; 1 for a single count,
        whose order is one. The distance is convex in the move, so that moves between 0 and cap reach no further.
        """
        return squared_order_sensitivity(d, self.max_items_per_user or d, self.neighbours)

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", self.scale(d)

    def cost(self, k: int) -> Cost:
        """That of Gaussian noise of the least standard deviation that the budget allows."""
        return Cost.gaussian(Fraction(self.epsilon), Fraction(self.delta))
