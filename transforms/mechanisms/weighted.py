"""Weights of users, who share themselves out over what they hold, and what mechanisms over sums of them share."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.mechanism import Mechanism, Neighbours
from private_topk.transforms.mechanisms.parameters import parameter

UNIT = 1 << 16
"""What a user adds to an item who counts wholly."""

Whole = NDArray[np.int64]

_MAX_ITEMS = 1_000_000


@dataclass(frozen=True)
class Weighting:
    """A user with t items adds floor(UNIT * min(1, sqrt(whole_items / t))) to each of them.

    That is an l_2 norm of at most UNIT * sqrt(whole_items) for every t: rounding down keeps the bound. What a user adds
    depends on that user's own items alone.

    Args:
        limit: no user has more items than this: what is above is left out before, by a keyed hash.
        least: a sum below this never comes out, so nobody need hand it on.
        noise: the standard deviation of the noise on a sum, in units.
    """

    whole_items: int
    limit: int
    least: int
    noise: Fraction = Fraction(0)

    def weight(self, items: int) -> int:
        """What a user with so many items, at least 1, adds to each."""
        return min(UNIT, isqrt((self.whole_items * UNIT**2) // items))

    def weights(self, users: Whole) -> Whole:
        """What each pair adds, shape (n,), from the number in [0, number of users) of its user, shape (n,)."""
        table = np.array([0, *(self.weight(items) for items in range(1, self.limit + 1))])
        return table[np.bincount(users)[users]]


def checked_items(name: str, whole: object, most: int) -> int:
    """How many items count wholly, as an int.

    Raises InvalidArgument for any other, and for a bound that is too large.
    """
    if isinstance(whole, bool) or not isinstance(whole, int | np.integer) or whole < 1:
        raise InvalidArgument("whole_items", f"must be a whole number of at least 1, got {whole!r}")
    if most > _MAX_ITEMS:
        raise InvalidArgument("max_items_per_user", f"must be at most {_MAX_ITEMS} for {name}")
    return int(whole)


@dataclass(frozen=True)
class Weighted(Mechanism):
    """A mechanism over sums of weights, in units of 2**-16, that gives noise in l_2 and has a delta.

    A subclass is a frozen dataclass of its own that states `about` and its `weighting`.

    Args:
        epsilon, delta: of one release.
        max_items_per_user: L, which whoever adds up must have enforced.
        whole_items: m. A larger one bends the order less and needs more noise.

    Raises:
        InvalidArgument: `whole_items` is no whole number of at least 1, or L is above a million.
    """

    epsilon: float
    delta: float
    max_items_per_user: int
    whole_items: int = parameter(
        20, help="a user with at most W items counts as 1 for each, a user with more items as less"
    )
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = checked_items(self.about.name, self.whole_items, self.max_items_per_user)
        object.__setattr__(self, "whole_items", whole)

    @property
    def whole(self) -> int:
        """The square of the l_2 norm of what one user adds, at most: m, or L if that is less."""
        return min(self.whole_items, self.max_items_per_user)
