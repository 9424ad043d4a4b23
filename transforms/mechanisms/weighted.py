"""Weights of users, who share themselves out over what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

UNIT = 1 << 16
"""What a user adds to an item who counts wholly."""

Whole = NDArray[np.int64]


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
