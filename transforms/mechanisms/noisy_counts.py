"""Publishing the counts of the items that a mechanism has chosen."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from private_topk.transforms.mechanisms.exact.bits import RandomBits
from private_topk.transforms.mechanisms.exact.discrete import (
    discrete_gaussian,
    discrete_gaussian_variance,
    discrete_laplace,
)
from private_topk.transforms.mechanisms.mechanism import Indices, Neighbours, sensitivity
from private_topk.transforms.mechanisms.parameters import check_parameter

__all__ = ["publish_counts"]


def publish_counts(
    counts: ArrayLike,
    chosen: ArrayLike,
    bits: RandomBits,
    epsilon: float | Fraction,
    delta: float | Fraction | None = None,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
) -> Indices:
    """Noisy counts of the chosen items, for a budget of their own on top of the selection's.

    One user moves at most j of these counts, each by 1: j is the smaller of their number and `max_items_per_user`
    (twice that under "swap"). Without delta: discrete Laplace noise of scale j / epsilon, epsilon-DP. With delta:
    discrete Gaussian noise of the least variance that `discrete_gaussian_delta` allows, (epsilon, delta)-DP.

    Args:
        counts: users per item, shape (d,).
        chosen: what the selection released, indices into counts, shape (n,).
        bits: its next draw is taken.

    Returns:
        int64, shape (n,), in the order of `chosen`; a noisy count may be negative. What does not fit in int64, for
        epsilon below about 1e-18, becomes the nearest number that does.

    Raises:
        Refusal: epsilon, delta or max_items_per_user breaks its rule.
    """
    budget = Fraction(check_parameter("epsilon", epsilon))
    slack = None if delta is None else Fraction(check_parameter("delta", delta))
    limit = check_parameter("max_items_per_user", max_items_per_user)
    exact = np.asarray(counts)[np.asarray(chosen, np.int64)].astype(np.int64)
    moved = min(len(exact), sensitivity(neighbours) * (limit or len(exact)))
    draw = bits.draw()
    if not moved:
        return exact
    if slack is None:
        noise = [discrete_laplace(draw, moved / budget) for _ in exact]
    else:
        variance = discrete_gaussian_variance(budget, slack, moved)
        noise = [discrete_gaussian(draw, variance) for _ in exact]
    noisy = exact.astype(object) + noise  # Python's integers
    return np.clip(noisy, -(2**63), 2**63 - 1).astype(np.int64)
