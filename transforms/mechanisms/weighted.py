"""What mechanisms share whose users weigh: how many items count wholly, of how many at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from private_topk.transforms.mechanisms.mechanism import Mechanism, Neighbours
from private_topk.transforms.mechanisms.parameters import parameter
from private_topk.transforms.mechanisms.weighting import checked_items

__all__ = ["Weighted"]


@dataclass(frozen=True)
class Weighted(Mechanism):
    """A mechanism over sums of weights, in units of 2**-16, that gives noise in l_2 and has a delta.

    A subclass is a frozen dataclass of its own that states `about` and its `weighting`.

    Args:
        epsilon, delta: of one release.
        max_items_per_user: L, which whoever adds up must have enforced.
        whole_items: m. A larger one bends the order less and needs more noise.

    Raises:
        Refusal: `whole_items` is no whole number of at least 1, or L is above a million.
    """

    weighs_users: ClassVar[bool] = True

    epsilon: float
    delta: float
    max_items_per_user: int
    whole_items: int = parameter(20, help="users with at most so many items count as 1 for each, others as less")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = checked_items(self.about.name, self.whole_items, self.max_items_per_user)
        object.__setattr__(self, "whole_items", whole)

    @property
    def whole(self) -> int:
        """The square of the l_2 norm of what one user adds, at most: m, or L if that is less."""
        return min(self.whole_items, self.max_items_per_user)
