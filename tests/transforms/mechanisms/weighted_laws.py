"""The law of `weighted-gaussian`, and the sums of weights that it draws from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.special import ndtr

from private_topk.transforms.mechanisms import WeightedGaussian
from private_topk.transforms.mechanisms.weighted import UNIT
from tests.laws import Law
from tests.transforms.mechanisms.laws import NOISE_LAWS

User = tuple[int, ...]
"""The items of one."""


def sums(users: tuple[User, ...], items: int, whole: int) -> tuple[int, ...]:
    """The sums of weights in units, by definition."""
    found = [0] * items
    for user in users:
        for item in user:
            found[item] += math.floor(
                UNIT * min(Fraction(1), Fraction(math.isqrt(whole * 10**40 // len(user)), 10**20))
            )
    return tuple(found)


@cache
def law(weights: tuple[int, ...], k: int, scale: float, bar: float, tau: int, listed: tuple[int, ...] = ()) -> Law:
    """P(answer): the items above tau with noisy sums above the bar, in order, by quadrature from the top down; and the
    listed ones, which need neither.
    """
    present = [i for i, w in enumerate(weights) if w > tau or i in listed]
    low = min([bar, *(weights[i] - 9 * scale for i in listed)])
    grid = np.linspace(bar, bar + 14 * scale + max(weights), 6001)
    if listed:  # densities jump at the bar: it is there twice, from below and from above
        grid = np.append(np.append(np.linspace(low, bar, 4001)[:-1], np.nextafter(bar, low)), grid)
    cut = {i: 0 if i in listed else int(np.searchsorted(grid, bar)) for i in present}
    density = {i: NOISE_LAWS["gaussian"].pdf((grid - weights[i]) / scale) / scale for i in present}
    below = {i: ndtr((grid - weights[i]) / scale) for i in present}
    for i in present:
        density[i][: cut[i]] = 0
        below[i][: cut[i]] = below[i][cut[i]]

    def walk(chosen: tuple[int, ...], above: np.ndarray) -> Iterator[tuple[User, float]]:
        """`above`: the density at each point that the last of the chosen is there, the others above it in order."""
        rest = [i for i in present if i not in chosen]
        if len(chosen) == k:
            yield chosen, float(np.trapezoid(above * np.prod([below[i] for i in rest], axis=0), grid))
            return
        mass = float(np.trapezoid(above, grid)) if chosen else 1.0
        yield chosen, mass * math.prod(float(below[i][0]) for i in rest)
        # P that those chosen so far are all above x, in order.
        parts = (above[1:] + above[:-1]) / 2 * np.diff(grid) if chosen else np.zeros(0)
        tail = np.flip(np.cumsum(np.flip(parts))) if chosen else np.ones(len(grid) - 1)
        tail = np.append(tail, 0.0 if chosen else 1.0)
        for i in rest:
            yield from walk((*chosen, i), density[i] * tail)

    return dict(walk((), np.ones(len(grid))))


def law_of(mechanism: WeightedGaussian, weights: tuple[int, ...], k: int, listed: tuple[int, ...] = ()) -> Law:
    return law(weights, k, float(mechanism.scale()), float(mechanism.threshold()), mechanism.tau(), listed)
