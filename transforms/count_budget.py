"""The budget of published counts, and how far their noise puts them off. Nothing here loads Arrow."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from private_topk.transforms.mechanisms import noise_of_counts
from private_topk.transforms.mechanisms.mechanism import Neighbours
from private_topk.transforms.mechanisms.parameters import check_parameter
from private_topk.transforms.refusal import Refusal, plain

__all__ = ["CountBudget", "NoiseSize", "count_budget", "noise_size"]

_CENTRAL = Fraction(95, 100)


class NoiseSize(NamedTuple):
    """How far published counts may be off for their noise. Public: a function of the question and of how many counts
    are published. It says nothing of rows that a bound on the items per user leaves out.

    Args:
        stddev: the standard deviation of the noise of each count.
        within_95: with a probability of at least 95% a count is off by no more than this, its rounding included.
    """

    stddev: float
    within_95: int | float


@dataclass(frozen=True)
class CountBudget:
    """What publishing noisy counts of the released items costs, on top of the mechanism's own budget.

    Args:
        delta: 0 for a pure release, above 0 for Gaussian noise.
        round_to: counts are published as multiples of this, the nearest ones: rounding what is public anyway.
    """

    identity_tag: ClassVar[str] = "count-budget"

    epsilon: float | Fraction
    delta: float | Fraction = 0.0
    round_to: int = field(default=1, metadata={"unasked": "rounding comes after the draw: the same noise either way"})

    def parameters(self) -> dict[str, Any]:
        """What the noise depends on, by name, as JSON."""
        return {"epsilon": plain(self.epsilon), "delta": plain(self.delta)}

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_parameter("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_parameter("delta", self.delta) if self.delta else 0.0)
        if isinstance(self.round_to, bool) or not isinstance(self.round_to, int) or self.round_to < 1:
            raise Refusal("round_counts", f"must be a whole number of at least 1, got {self.round_to!r}")

    def rounded(self, counts: np.ndarray) -> np.ndarray:
        """The nearest multiples of `round_to`, int64; halves go up."""
        if self.round_to == 1:
            return counts
        steps = (counts.astype(object) + self.round_to // 2) // self.round_to * self.round_to
        return np.clip(steps, -(2**63), 2**63 - 1).astype(np.int64)


def count_budget(given: object) -> CountBudget | None:
    """The budget of published counts; a number is its epsilon. Raises Refusal for anything else."""
    if given is None or isinstance(given, CountBudget):
        return given
    if isinstance(given, bool) or not isinstance(given, Real):
        raise Refusal("publish_counts", f"must be an epsilon such as 0.5, or a CountBudget, got {type(given).__name__}")
    try:
        return CountBudget(cast(float, given))
    except Refusal as refusal:
        raise Refusal("publish_counts", refusal.rule) from None


def noise_size(
    published: int,
    budget: CountBudget,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
    cap: int = 1,
    moving: bool = False,
) -> NoiseSize:
    """The noise of so many published counts, at least 1, in units. Cost: about 5 ms, once."""
    delta = budget.delta or None
    noise = noise_of_counts(published, budget.epsilon, delta, max_items_per_user, neighbours, cap, moving)
    return NoiseSize(noise.stddev(), noise.half_width(_CENTRAL) + budget.round_to // 2)
