"""What is added to what: a level that grows with the count, and a noise, in floats with bounds on their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.noise import COUNT_ERROR
from private_topk.transforms.mechanisms.exact.reals import Real

__all__ = ["Levels"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Levels:
    """The score of an item is level(count) + noise(A), A the exponential of its order statistic.

    Args:
        rate, rate_error: what one count adds to a level, and a bound on its relative error.
        level: the exact level of a count.
        noise, noise_error: the noise in floats as a function of A, and a bound on its error when A is off by one part
            in 2**31.
        quantile: the exact noise of an exact A; it falls.
    """

    rate: float
    rate_error: float
    level: Callable[[int], Real]
    noise: Callable[[Floats], Floats]
    noise_error: Callable[[Floats], Floats]
    quantile: Callable[[arb], arb]

    def steps(self, counts: Indices, least: int) -> tuple[Floats, Floats]:
        """The levels of counts less that of `least`, and bounds on their errors.

        Differences from it are exact integers, so counts near it keep their precision however large they are.
        """
        steps: Floats = np.asarray((counts - least) * self.rate, np.float64)
        return steps, np.abs(steps) * (COUNT_ERROR + self.rate_error)
