"""JOINT: an exponential mechanism over whole sequences of items."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.race import LossInterval, Race
from private_topk.transforms.mechanisms.exact.sequences import SequenceLosses
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours
from private_topk.transforms.mechanisms.parameters import check_decimal, parameter


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

    Cost: a pass over the counts, then up to 30 counts of sequences at k = 1, 60 at 100 and 120 at 1000, of k look-ups
    each: under 1 ms at k = 1, 1 to 4 ms at 100, up to 30 ms at 1000, whatever d and epsilon are. Easy counts are
    padded to three fifths of the most that was seen, since time is a side channel.

    Source: Gillenwater, Joseph, Munoz Medina & Ribero Diaz 2022, Equation 1. The skew is ours.
    """

    about: ClassVar[About] = About(
        name="joint",
        cost="one pass, then some tens of counts of sequences, 1 to 4 ms at k = 100 and up to 30 ms at k = 1000",
        source="Gillenwater et al. 2022, Equation 1; skew ours",
        when="the best pure sequence where the gaps between the top counts are large",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float | Fraction
    skew: float | Fraction = parameter(
        Fraction(1, 2),
        kind="fraction",
        help="from 1/2 (the published mechanism) to 1; more finds more of the top k, in a worse order",
    )
    noise: Literal["gumbel", "exponential"] = parameter(
        "gumbel", help="gumbel, or exponential, which is permute-and-flip"
    )
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        meaning = "1/2 is JOINT, 1 only looks at membership"
        object.__setattr__(self, "skew", check_decimal("skew", self.skew, Fraction(1, 2), Fraction(1), meaning))
        if self.noise not in ("gumbel", "exponential"):
            raise InvalidArgument(
                "noise", f"must be one of gumbel, exponential for joint, got {verbatim(repr(self.noise))}"
            )

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        """Draw the loss of the winner, then a uniform sequence of that loss."""
        skew = Fraction(1) if k == 1 else Fraction(self.skew)
        losses = SequenceLosses(histogram, k, skew)
        # Losses are counted in units of 1 / (the denominator of the skew).
        rate = Fraction(self.epsilon) / (self.sensitivity * skew.denominator)
        best = Race([LossInterval.of_all(losses)], rate, self.noise, draw).winner()
        losses.pad()
        return best.draw_ranks(draw)

    def cost(self, k: int) -> Cost:
        """With Gumbel noise that of an exponential mechanism whose scores move in an interval of width epsilon."""
        return Cost.exponential(Fraction(self.epsilon)) if self.noise == "gumbel" else super().cost(k)
