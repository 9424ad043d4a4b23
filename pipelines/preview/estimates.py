"""What is expected of a draw, and how well that is known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Estimate", "mean", "pooled", "share"]

_Z = 1.959963984540054  # the normal quantile of 0.975


@dataclass(frozen=True)
class Estimate:
    """A number that is expected, with an interval that holds it in 95 of 100 previews."""

    value: float
    low: float
    high: float

    @classmethod
    def known(cls, value: float) -> Estimate:
        """A number that no draw changes."""
        return cls(float(value), float(value), float(value))

    def plain(self) -> dict[str, float]:
        """As JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


def share(hits: float, draws: float) -> Estimate:
    """A chance, from how often it came: Wilson's interval, which is sound near 0 and 1 too."""
    p, z = hits / draws, _Z**2 / draws
    middle = (p + z / 2) / (1 + z)
    reach = math.sqrt(z * p * (1 - p) + z * z / 4) / (1 + z)
    return Estimate(p, min(max(middle - reach, 0.0), p), max(min(middle + reach, 1.0), p))


def mean(values: ArrayLike, most: float, least: float = 0.0) -> Estimate:
    """A mean of draws between bounds: Wilson's interval for as many yes and no as would vary like these draws.

    Far from the bounds that is the interval of the normal law, beside them it stays on their inner side and is wider.
    Where all draws are alike it is as wide as three draws in all could make it (the rule of three).
    """
    array = np.asarray(values, np.float64)
    value, spread, n = float(array.mean()), float(array.var(ddof=1)) if len(array) > 1 else 0.0, len(array)
    width = most - least
    if not spread or not width:
        reach = min(3 / n, 1.0)
        return Estimate(value, value - reach * (value - least), value + reach * (most - value))
    p = (value - least) / width
    chance = share(p * (alike := n * p * (1 - p) * width**2 / spread), alike)
    return Estimate(value, least + width * chance.low, least + width * chance.high)


def pooled(values: Iterable[float]) -> list[tuple[float, int]]:
    """The falling sequence that is nearest to the values in squares, as runs: each its value and its length.

    Neighbours that rise are pooled to their mean, as often as it takes (Ayer et al. 1955).
    """
    runs: list[tuple[float, int]] = []
    for value in values:
        total, size = value, 1
        while runs and runs[-1][0] * size <= total * runs[-1][1]:
            before, more = runs.pop()
            total, size = total + before, size + more
        runs.append((total, size))
    return [(total / size, size) for total, size in runs]
