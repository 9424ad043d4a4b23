"""JOINT: an exponential mechanism over whole sequences of items."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.bits import Draw
from private_topk.transforms.mechanisms.mechanism import About, Mechanism, Neighbours
from private_topk.transforms.mechanisms.permute_and_flip import permute_and_flip
from private_topk.transforms.mechanisms.ranking import rank
from private_topk.transforms.mechanisms.sequences import Sequences
from private_topk.transforms.mechanisms.thresholds import draw_threshold

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
    by something in [-1, 1] for every g, and epsilon/2 takes the place of epsilon.

    Args:
        epsilon: the budget of one release.
        skew: g, in [1/2, 1]: a Fraction, or a float read as the decimal it prints.
        noise: "gumbel" is the exponential mechanism; "exponential" is permute-and-flip with the same loss, which is
            never worse in expected loss (McKenna & Sheldon 2020, Theorem 2).
        neighbours: what one user's change is.

    Cost: a sort of the counts, then 20 to 200 times k look-ups whatever epsilon is. Memory O(d).

    Source: Gillenwater, Joseph, Munoz Medina & Ribero Diaz 2022, Equation 1. The skew is ours.
    """

    about: ClassVar[About] = About(
        name="joint",
        answer="sequence",
        guarantee="pure",
        domain="public",
        cost="d log d + (20 to 300) k log d, whatever epsilon",
        source="Gillenwater et al. 2022, Equation 1; skew ours",
        when="the best pure sequence where the gaps between the top counts are large",
    )

    epsilon: float | Fraction
    skew: float | Fraction = Fraction(1, 2)
    noise: Literal["gumbel", "exponential"] = "gumbel"
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "skew", _exact_skew(self.skew))
        if self.noise not in ("gumbel", "exponential"):
            raise ValueError(f"noise must be one of gumbel, exponential for joint, got {self.noise!r}")

    def select(self, counts: NDArray[np.int64], k: int, draw: Draw) -> NDArray[np.int64]:
        ranking = rank(counts)
        skew = Fraction(self.skew)
        width = 1 if self.neighbours == "add-remove" else 2
        sequences = Sequences(ranking, k, skew, Fraction(self.epsilon) / (width * skew.denominator))
        if self.noise == "exponential":
            return ranking.items(permute_and_flip(sequences, sequences.sample, sequences.loss, draw))
        return ranking.items(sequences.sample(draw_threshold(sequences, draw), draw))

    def zcdp(self, k: int) -> float:
        """epsilon**2/8 for the exponential mechanism (Cesar & Rogers 2021, Lemma 3.4), not for permute-and-flip."""
        return float(self.epsilon) ** 2 / (8 if self.noise == "gumbel" else 2)


def _exact_skew(value: object) -> Fraction:
    """The skew as the fraction it is written as, or a clear error."""
    try:
        skew = value if isinstance(value, Fraction) else Fraction(str(value))
    except ValueError:
        skew = None
    if skew is None or not Fraction(1, 2) <= skew <= 1:
        raise ValueError(f"skew must be a number from 1/2 to 1, got {value}: 1/2 is JOINT, 1 only looks at membership")
    return skew
