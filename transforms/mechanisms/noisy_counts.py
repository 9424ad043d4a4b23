"""Publishing the counts of the items that a mechanism has chosen."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.bits import Draw, RandomBits
from private_topk.transforms.mechanisms.exact.discrete import (
    discrete_gaussian,
    discrete_gaussian_variance,
    discrete_laplace,
)
from private_topk.transforms.mechanisms.exact.noise import noise_real
from private_topk.transforms.mechanisms.exact.reals import ball, floor
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
    cap: int = 1,
) -> Indices:
    """Noisy counts of the chosen items, for a budget of their own on top of the selection's.

    One user moves at most j of these counts, each by at most `cap`: j is the smaller of their number and
    `max_items_per_user` (twice that under "swap"). Without delta: discrete Laplace noise of scale j cap / epsilon,
    epsilon-DP. With delta, and counts of users: discrete Gaussian noise of the least variance that
    `discrete_gaussian_delta` allows, (epsilon, delta)-DP. With delta, and amounts, whose moves are of any size up to
    cap: real Gaussian noise of the least standard deviation for the l_2 distance cap sqrt(j), exactly drawn, and the
    sum rounded, which costs nothing more (Balle & Wang 2018, Theorem 8).

    Args:
        counts: users per item, shape (d,).
        chosen: what the selection released, indices into counts, shape (n,).
        bits: its next draw is taken.
        cap: the most that one user adds to a count.

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
        noise = [discrete_laplace(draw, moved * cap / budget) for _ in exact]
    elif cap > 1:
        scale = cap * gaussian_scale(budget, slack, Fraction(moved))
        noise = [_rounded_gaussian(draw, place, scale) for place in range(len(exact))]
    else:
        variance = discrete_gaussian_variance(budget, slack, moved)
        noise = [discrete_gaussian(draw, variance) for _ in exact]
    noisy = exact.astype(object) + noise  # Python's integers
    return np.clip(noisy, -(2**63), 2**63 - 1).astype(np.int64)


def _rounded_gaussian(draw: Draw, place: int, scale: Fraction) -> int:
    """The integer nearest to a real Gaussian: added to an integer, that is their sum rounded."""
    noise = noise_real(draw, 0, place, "gaussian")
    return floor(lambda: ball(scale) * noise() + ball(Fraction(1, 2)))
