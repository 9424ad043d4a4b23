"""A mechanism of one's own: a part of epsilon for the first place, the rest for peeling (docs/own-mechanism.md)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import About, Cost, Guarantee, Histogram, Mechanism, parameter
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import noisy_top
from private_topk.transforms.mechanisms.mechanism import Neighbours


@dataclass(frozen=True)
class WinnerFirst(Mechanism):
    """An exponential mechanism for the first place, then k - 1 more, each over the items left."""

    about: ClassVar[About] = About(
        name="winner-first",
        cost="O(d)",
        source="Durfee & Rogers 2019, Lemma 4.2, with two budgets",
        when="the first place matters most",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence")  # what is proved, of this class alone

    epsilon: float
    first: float | Fraction = parameter(Fraction(1, 2), kind="fraction", help="the part of epsilon for the first place")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.first < 1:  # above 1 more would be spent than epsilon
            raise InvalidArgument("first", f"must lie between 0 and 1, got {self.first}")

    def shares(self, k: int) -> tuple[Fraction, Fraction]:
        """The budgets of the first draw and of each other one."""
        epsilon = Fraction(self.epsilon)
        return (epsilon, epsilon) if k == 1 else (epsilon * self.first, epsilon * (1 - self.first) / (k - 1))

    def select(self, histogram: Histogram, k: int, draw: Draw) -> np.ndarray:
        counts = histogram.counts()  # in decreasing order: places here are ranks
        winner, other = self.shares(k)
        step = self.sensitivity  # by how much one user moves the difference of two counts
        chosen = noisy_top(counts, step / winner, "gumbel", 1, draw, lane=0)
        if k == 1:
            return chosen
        left = np.delete(np.arange(len(counts)), chosen)
        return np.concatenate([chosen, left[noisy_top(counts[left], step / other, "gumbel", k - 1, draw, lane=1)]])

    def cost(self, k: int) -> Cost:
        winner, other = self.shares(k)
        first = Cost.exponential(winner)
        if k == 1:
            return first
        return Cost(Fraction(self.epsilon), rho=first.rho + Cost.peeled(k - 1, other).rho)
