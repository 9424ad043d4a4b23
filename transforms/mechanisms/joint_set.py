"""JOINT-SET: an exponential mechanism over whole sets of items (Joseph et al. 2021), or its Lipschitz kin."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import check_noise
from private_topk.transforms.mechanisms.exact.race import LossInterval, Race
from private_topk.transforms.mechanisms.exact.sets import SetLosses
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours
from private_topk.transforms.mechanisms.parameters import parameter


@dataclass(frozen=True)
class JointSet(Mechanism):
    """A k-set of items by noisy joint loss.

    A set loses the largest difference c_i - c_{j_i}, c_i being the i-th largest count and c_{j_i} the i-th largest of
    the set. The set of largest `noise - epsilon / 2 * loss` wins (`epsilon / 4` between replace-one neighbours), all
    sets having independent standard noise; Gumbel noise makes this the exponential mechanism.

    Guarantee: pure epsilon-DP. Adding a user moves every sorted count by 0 or 1 and so the loss by at most 1 (Joseph et
    al. 2021, Lemma 5), replacing one moves it by at most 2; then Shekelyan & Loukides 2023, Theorem 4.1. With k = 1 the
    count of the set decides, as c_1 is the same for all, and moves one way by at most 1: the rate is twice as high.

    Args:
        epsilon: the budget of a release.
        noise: gumbel, exponential (permute-and-flip), laplace, logistic or half-logistic.
        neighbours: what a neighbour is.

    Cost: a pass over the counts, then up to 140 counts of sets, each up to k products of rows along the band of paths
    that matter: about 0.1 s at k = 100, 0.2 to 0.4 s at 200, 3 to 5 s at 1000, whatever d is. Easy counts are padded to
    three fifths of the most that was seen, since time is a side channel.
    """

    about: ClassVar[About] = About(
        name="joint-set",
        cost="one pass, then some tens of counts of sets, 0.1 s at k = 100 and 3 to 5 s at k = 1000, whatever d is",
        source="Joseph et al. 2021, Lemma 5; Shekelyan & Loukides 2023, Theorem 4.1",
        when="sets of up to a few hundred items, where the largest gap to the true counts is what matters",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "set", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float | Fraction
    noise: str = parameter("gumbel", help="gumbel, exponential, laplace, logistic or half-logistic")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.noise)

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        """Draw the loss of the winner, then a uniform set of that loss."""
        losses = SetLosses(histogram, k)
        rate = Fraction(self.epsilon) / ((1 if k == 1 else 2) * self.sensitivity)
        best = Race([LossInterval.of_all(losses)], rate, self.noise, draw).winner()
        losses.pad()
        return best.draw_ranks(draw)

    def cost(self, k: int) -> Cost:
        """With Gumbel noise that of an exponential mechanism whose scores move in an interval of width epsilon."""
        return Cost.exponential(Fraction(self.epsilon)) if self.noise == "gumbel" else super().cost(k)
