"""Gaussian noise on every count, calibrated to the items per user."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noisy_ranks import noisy_ranks
from private_topk.transforms.mechanisms.mechanism import About, Indices, Mechanism, Neighbours, sensitivity

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """The k largest of count + Gaussian noise, in order.

    Where nobody holds more than m = `max_items_per_user` items (the caller must have enforced it), one user moves at
    most m counts by 1, an l_2 distance of sqrt(m). The standard deviation is the smallest for which that is
    (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8, exact), and the order of the noisy counts is post-processing.
    Without a bound a user may hold all d items: sqrt(d). No calibration to k is proved for Gaussian noise, so none is
    offered: its tail is not Lipschitz, and the arguments for the other noises fail. Under "swap" 2m counts move, at
    most d: sqrt(2m).
    Cost: a pass over the counts, then a few times k noises, whatever the counts are.
    """

    about: ClassVar[About] = About(
        name="gaussian",
        answer="sequence",
        guarantee="approximate",
        domain="public",
        cost="one pass, then O(k)",
        source="Balle & Wang 2018, Theorem 8",
        when="a delta is acceptable and far fewer items per user than k",
    )
    amounts_offered: ClassVar[bool] = True

    epsilon: float
    delta: float
    max_items_per_user: int | None = None
    neighbours: Neighbours = "add-remove"

    def scale(self, d: int) -> Fraction:
        """The standard deviation of the noise in units of the counts, for d items."""
        moved = min(d, sensitivity(self.neighbours) * (self.max_items_per_user or d))
        return self.cap * gaussian_scale(Fraction(self.epsilon), Fraction(self.delta), Fraction(moved))

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        return noisy_ranks(histogram, self.scale(histogram.items), "gaussian", k, draw)

    def cost(self, k: int) -> Cost:
        """Squared l_2 sensitivity over twice the variance (Bun & Steinke 2016, Proposition 1.6); needs no delta.

        The least standard deviation that the budget allows grows as the root of the number of counts moved, so this is
        1 / (2 s**2) for any of them, s being the least for one. `gaussian_scale` is within a float of s.
        """
        epsilon, delta = Fraction(self.epsilon), Fraction(self.delta)
        least = gaussian_scale(epsilon, delta, Fraction(1)) * (1 - Fraction(1, 2**50))
        return Cost(epsilon, delta, rho=1 / (2 * least**2))
