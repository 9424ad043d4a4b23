"""The canonical Lipschitz mechanism for sets (Shekelyan & Loukides 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.bits import Draw
from private_topk.transforms.mechanisms.canonical_classes import Classes, TopK
from private_topk.transforms.mechanisms.mechanism import About, Mechanism, Neighbours
from private_topk.transforms.mechanisms.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.race import winner
from private_topk.transforms.mechanisms.ranking import rank

__all__ = ["Canonical"]


@dataclass(frozen=True)
class Canonical(Mechanism):
    """A k-set of items by noisy canonical loss.

    With M the largest count left out and m the smallest count taken, a set loses `(1 - gamma) max(M, m) - gamma m`. The
    set of largest `noise - epsilon * loss` wins (`epsilon / 2` between swap neighbours), all sets having independent
    standard noise; Gumbel noise makes this the exponential mechanism.

    Guarantee: pure epsilon-DP (Theorems 3.5, 4.1 and A.15): adding a user moves every loss by something in
    [-gamma, 1 - gamma], replacing one by something in [-1, 1].

    Args:
        epsilon: the budget of a release.
        gamma: in [0, 1]. At 1/2 the loss is half the number of users that keep the set from being the top k; at 1 only
            the smallest count taken matters, at 0 only the largest count left out. A float is read as the decimal it
            prints.
        noise: gumbel, exponential, laplace, logistic or half-logistic.
        neighbours: what a neighbour is.

    Cost: a sort of the counts, then some tens of classes of sets, 1 to 10 ms for any d and k <= 1000.
    """

    about: ClassVar[About] = About(
        name="canonical",
        answer="set",
        guarantee="pure",
        domain="public",
        cost="one sort, then some tens of binomials of k factors",
        source="Shekelyan & Loukides 2023, Theorem 3.5 with Theorems 4.1 and A.15",
        when="sets, k large: the most accurate where the k-th and (k+1)-th counts are apart",
    )

    epsilon: float | Fraction
    gamma: float | Fraction = Fraction(1, 2)
    noise: str = "gumbel"
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in LIPSCHITZ_NOISES:
            raise ValueError(f"noise must be one of {', '.join(LIPSCHITZ_NOISES)}, got {self.noise!r}")
        object.__setattr__(self, "gamma", _read_gamma(self.gamma))

    def select(self, counts: NDArray[np.int64], k: int, draw: Draw) -> NDArray[np.int64]:
        """Draw the class of sets that holds the winner, then a uniform set of the class."""
        d = len(counts)
        if k == d:
            return np.arange(d)
        ranking, gamma = rank(counts), Fraction(self.gamma)
        classes = Classes(ranking.ascending[::-1], k, gamma)
        # The classes count losses in units of 1 / (the denominator of gamma).
        rate = Fraction(self.epsilon) / (gamma.denominator * (2 if self.neighbours == "swap" else 1))
        best = winner([TopK(k), classes.everything()], rate, self.noise, draw)
        return ranking.items(best.draw_ranks(draw))

    def zcdp(self, k: int) -> float | None:
        """epsilon**2/8 for Gumbel noise, an exponential mechanism (Cesar & Rogers 2021, Lemma 3.4)."""
        return float(self.epsilon) ** 2 / 8 if self.noise == "gumbel" else super().zcdp(k)


def _read_gamma(gamma: Fraction | float | str) -> Fraction:
    try:
        value = None if isinstance(gamma, bool) else Fraction(gamma if isinstance(gamma, Fraction) else str(gamma))
    except ValueError:
        value = None
    if value is None or not 0 <= value <= 1:
        raise ValueError(f"gamma must be a number from 0 to 1, got {gamma}")
    return value
