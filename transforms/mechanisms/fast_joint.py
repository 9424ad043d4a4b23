"""FastJoint: JOINT with the loss truncated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.race import LossInterval, Race
from private_topk.transforms.mechanisms.exact.reals import ball, floor
from private_topk.transforms.mechanisms.exact.sequences import SequenceLosses
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours
from private_topk.transforms.mechanisms.parameters import parameter


@dataclass(frozen=True)
class FastJoint(Mechanism):
    """A sequence S with probability proportional to exp(-epsilon min(loss(S), tau) / 2).

    loss(S) = max over i of c_i - c_{s_i} as in JOINT, and tau = ceil((2 / epsilon) log(|C| / beta)), where
    |C| = d!/(d-k)! is the number of sequences: with probability 1 - beta or more the loss is below tau.

    Guarantee: epsilon-DP, pure. One user added or removed moves the loss by at most 1, and so the truncated loss; one
    user replaced by at most 2, and epsilon/2 takes the place of epsilon, in tau too. With k = 1 a user who moves c_1 by
    t moves every loss by something in [t - 1, t], cut off or not, as 0 lies in it, and one replaced in [t - 1, t + 1]:
    an interval of half the width, so that 2 epsilon takes the place of epsilon.

    Args:
        epsilon: the budget of one release.
        beta: the probability of tau's bound failing; 2**-10 is the default of the published experiments.
        neighbours: what one user's change is.

    Cost: as JOINT. Truncating made the published algorithm fast; here it changes only the distribution.

    Source: Wu & Zhang 2024, Theorem 4.1.
    """

    about: ClassVar[About] = About(
        name="fast-joint",
        cost="as joint",
        source="Wu & Zhang 2024, Theorem 4.1",
        when="to repeat published results: joint costs the same here and is never less accurate",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float | Fraction
    beta: float | Fraction = parameter(
        2.0**-10, help="probability of a loss above the bound from which sequences count as equal"
    )
    neighbours: Neighbours = "add-remove"

    def tau(self, d: int, k: int) -> int:
        """The loss at which sequences of k of d items stop being told apart."""
        inverse = Fraction(math.perm(d, k)) / Fraction(self.beta)
        # 0 < beta < 1, so the logarithm of the rational is no rational and its floor always decided.
        return floor(lambda: ball(inverse).log() / ball(self._rate(k))) + 1

    def _rate(self, k: int) -> Fraction:
        return Fraction(self.epsilon) / ((1 if k == 1 else 2) * self.sensitivity)

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        """Draw the loss of the winner, cut off, then a uniform sequence of that loss."""
        losses = SequenceLosses(histogram, k, Fraction(1, 2), self.tau(histogram.items, k))
        best = Race([LossInterval.of_all(losses)], self._rate(k), "gumbel", draw).winner()
        losses.pad()
        return best.draw_ranks(draw)

    def cost(self, k: int) -> Cost:
        """That of an exponential mechanism whose scores move in an interval of width epsilon."""
        return Cost.exponential(Fraction(self.epsilon))
