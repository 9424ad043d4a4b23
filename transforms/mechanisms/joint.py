"""JOINT: an exponential mechanism over whole sequences of items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.flips import permute_and_flip
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.thresholds import Envelope, Sequences, draw_threshold
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours
from private_topk.transforms.mechanisms.parameters import check_decimal, parameter

__all__ = ["Joint"]


@dataclass(frozen=True)
class Joint(Mechanism):
    """A sequence S with probability proportional to exp(-epsilon loss_g(S)), g the skew.

    loss_g(S) = max over i of (1 - g) c_i - g c_{s_i}, where c_i is the i-th largest count and c_{s_i} that of the i-th
    item of S. With g = 1/2 this is JOINT: half the largest amount by which a place's true count exceeds the given one.
    A larger g asks less for the order and more for the right items.

    Guarantee: epsilon-DP, pure. One user added or removed moves every count the same way, each by 0 or 1, and with
    them every sorted count; so loss_g moves by something in [-g, 1 - g], an interval of width 1, and the factor 2 of
    the exponential mechanism falls away. One user replaced moves counts and sorted counts both ways: loss_g then moves
    by something in [-1, 1] for every g, and epsilon/2 takes the place of epsilon. With k = 1 a single count decides, as
    (1 - g) c_1 is the same for all: g is 1 there, whatever is asked for, which spends all of epsilon on that count.

    Args:
        epsilon: the budget of one release.
        skew: g, in [1/2, 1]: a Fraction, or a float read as the decimal it prints.
        noise: "gumbel" is the exponential mechanism; "exponential" is permute-and-flip with the same loss, which is
            never worse in expected loss (McKenna & Sheldon 2020, Theorem 2).
        neighbours: what one user's change is.

    Cost: a pass over the counts and an order of those near the top, then 20 to 600 times k look-ups whatever epsilon
    is. Memory: 1 MB beside the counts, and the part of them that is ordered.

    Source: Gillenwater, Joseph, Munoz Medina & Ribero Diaz 2022, Equation 1. The skew is ours.
    """

    about: ClassVar[About] = About(
        name="joint",
        cost="one pass, then (20 to 600) k look-ups, whatever epsilon",
        source="Gillenwater et al. 2022, Equation 1; skew ours",
        when="the best pure sequence where the gaps between the top counts are large",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "sequence", metric="amounts", translation_invariant=True, swap_costs_one_draw=True
    )

    epsilon: float | Fraction
    skew: float | Fraction = parameter(
        Fraction(1, 2), kind="fraction", help="from 1/2 (the published mechanism) to 1; trades order for membership"
    )
    noise: Literal["gumbel", "exponential"] = parameter("gumbel", help="exponential is permute-and-flip")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        meaning = "1/2 is JOINT, 1 only looks at membership"
        object.__setattr__(self, "skew", check_decimal("skew", self.skew, Fraction(1, 2), Fraction(1), meaning))
        if self.noise not in ("gumbel", "exponential"):
            raise Refusal("noise", f"must be one of gumbel, exponential for joint, got {verbatim(repr(self.noise))}")

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        return self.sampler(histogram, k)(draw)

    def sampler(self, histogram: Histogram, k: int) -> Callable[[Draw], Indices]:
        """The envelope of thresholds does not depend on the bits."""
        skew = Fraction(1) if k == 1 else Fraction(self.skew)
        rate = Fraction(self.epsilon) / (self.sensitivity * skew.denominator)
        sequences = Sequences(histogram, k, skew, rate)
        envelope = Envelope(sequences)
        if self.noise == "exponential":
            return lambda draw: permute_and_flip(envelope, sequences.sample, sequences.loss, draw)
        return lambda draw: sequences.sample(draw_threshold(envelope, draw), draw)

    def cost(self, k: int) -> Cost:
        """With Gumbel noise that of an exponential mechanism whose scores move in an interval of width epsilon."""
        return Cost.exponential(Fraction(self.epsilon)) if self.noise == "gumbel" else super().cost(k)
