"""Publishing the counts of the items that a mechanism has chosen, with noise whose size is public."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.bits import RandomBits
from private_topk.transforms.mechanisms.exact.count_noise import (
    CorrelatedGaussian,
    CountNoise,
    Cube,
    IndependentLaplace,
    Spread,
)
from private_topk.transforms.mechanisms.mechanism import Indices, Neighbours, sensitivity
from private_topk.transforms.mechanisms.parameters import check_parameter

__all__ = ["cost_of_counts", "noise_of_counts", "publish_counts"]

_ROOT_BITS = 32


def publish_counts(
    counts: ArrayLike,
    chosen: ArrayLike,
    bits: RandomBits,
    epsilon: float | Fraction,
    delta: float | Fraction | None = None,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
    cap: int = 1,
    moving: bool = False,
) -> Indices:
    """Noisy counts of the chosen items, for a budget of their own on top of the selection's.

    Args:
        counts: users per item, or units, shape (d,).
        chosen: what the selection released, indices into counts, shape (n,).
        bits: its next draw is taken.
        epsilon, delta, max_items_per_user, neighbours, cap, moving: of `noise_of_counts`, which says what noise and
            why.

    Returns:
        int64, shape (n,), in the order of `chosen`; a noisy count may be negative. What does not fit in int64, for
        epsilon below about 1e-18, becomes the nearest number that does.

    Raises:
        Refusal: epsilon, delta or max_items_per_user breaks its rule.
    """
    exact = np.asarray(counts)[np.asarray(chosen, np.int64)].astype(np.int64)
    noise = noise_of_counts(max(len(exact), 1), epsilon, delta, max_items_per_user, neighbours, cap, moving)
    draw = bits.draw()
    if not len(exact):
        return exact
    noisy = exact.astype(object) + noise.sample(len(exact), draw)  # Python's integers
    return np.clip(noisy, -(2**63), 2**63 - 1).astype(np.int64)


def noise_of_counts(
    size: int,
    epsilon: float | Fraction,
    delta: float | Fraction | None = None,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
    cap: int = 1,
    moving: bool = False,
) -> CountNoise:
    """The noise of `size` published counts: of what is proved below, the one of least variance.

    One user moves at most j of the n = `size` counts, each by 1: j is the smaller of n and m = `max_items_per_user`
    (2m under "swap"). A user who is added or removed moves all of these the same way.

    Without delta the counts are epsilon-DP by one of
    - discrete Laplace noise of scale j / epsilon for each: j is the l_1 sensitivity;
    - a vector of density proportional to exp(-epsilon N(z)), N a norm that is at most 1 for every move of one user
      (Hardt & Talwar 2010). Under add-remove N(z) = max(0, z_1, ...) - min(0, z_1, ...), 1 for the moves in {0, 1}**n
      and in {-1, 0}**n: variance (n + 2) (n + 3) / 6 epsilon**2, against 2 n**2 of Laplace noise. Under
      "swap" N is the largest |z_i|: (n + 1) (n + 2) / 3 epsilon**2. A rounded vector has 1/12 more.

    With delta they are (epsilon, delta)-DP by Gaussian noise, of which part is shared. Let s be the standard deviation
    for a sensitivity of 1 (Balle & Wang 2018, exact). With covariance s**2 (a I + b J), J all ones, and c = b / (a + n
    b), a move of r counts has the squared length (r - c r**2) / a in the noise's metric, since the inverse of a I + b J
    is (I - c J) / a. So a = max over r <= j of r - c r**2 is enough, and every c in [0, 1/n) is private. The variance
    a + b is least, up to r being whole, at c = (1 - t) / n, t = sqrt((n - l) / (l (n - 1))), with l the lesser of j and
    (n + sqrt(n)) / 2; whole r are searched beside it. Without a bound that is (sqrt(n) + 1) / 2 times s for each count
    in place of sqrt(n) (Lebeda 2024), and with one never more than sqrt(j). Under "swap" counts move both ways, r - c
    r**2 becomes r - c (sum of the moves)**2, largest where they cancel, and c = 0 is best.

    With `moving`, a user who is replaced may also leave the counts of one ranking and enter those of another, and both
    together must cost no more: one who comes or goes costs half. Pure noise is then that of "add-remove" at half of
    epsilon, which covers a swap as one step after another. Of Gaussian noise squared lengths add up, so that a is as
    under "swap" and c the least for which 2 (r - c r**2) <= a at every r <= min(n, m): (m - a / 2) / m**2, 0 where 2m
    <= n, and never more than 1 / 2n, which adds 1 to a variance of n.

    Where a user moves a count by anything in [0, cap], all of this grows in proportion to cap: N is at most cap, and
    the squared length, convex, is largest at a corner of the cube.

    Raises:
        Refusal: epsilon, delta or max_items_per_user breaks its rule.

    Cost: about 5 ms, once.
    """
    budget = Fraction(check_parameter("epsilon", epsilon))
    slack = None if delta is None else Fraction(check_parameter("delta", delta))
    limit = check_parameter("max_items_per_user", max_items_per_user)
    swapped, held = neighbours == "swap", min(size, limit or size)
    moved = min(size, sensitivity(neighbours) * held)
    if slack is None:
        if swapped and moving:
            return _pure(size, held, budget / (2 * cap), swapped=False)
        return _pure(size, moved, budget / cap, swapped)
    unit = cap**2 * gaussian_scale(budget, slack, Fraction(1)) ** 2
    if swapped and moving:
        c = max((held - Fraction(moved, 2)) / held**2, Fraction(0))
        return CorrelatedGaussian(unit * moved, unit * moved * c / (1 - size * c))
    return _gaussian(size, moved, unit, swapped)


def cost_of_counts(epsilon: float | Fraction, delta: float | Fraction | None = None) -> Cost:
    """What publishing counts costs: Gaussian noise is (1 / 2 s**2)-zCDP, whatever the number of counts."""
    budget = Fraction(epsilon)
    if not delta:
        return Cost.pure(budget)
    return Cost.gaussian(budget, Fraction(delta))


def _pure(size: int, moved: int, rate: Fraction, swapped: bool) -> CountNoise:
    laplace = IndependentLaplace(moved / rate)
    ball = Cube(size, rate) if swapped else Spread(size, rate)
    # Rounding adds 1/12 to the one; the other is whole-numbered from the start.
    return ball if ball.variance() + Fraction(1, 12) < laplace.variance() else laplace


@lru_cache(maxsize=1024)
def _gaussian(size: int, moved: int, unit: Fraction, swapped: bool) -> CountNoise:
    own, shared = _parts(size, moved, Fraction(0)) if swapped else min(_choices(size, moved), key=sum)
    return CorrelatedGaussian(unit * own, unit * shared)


def _choices(size: int, moved: int) -> Iterator[tuple[Fraction, Fraction]]:
    """a and b for the c that may be best, up to their last bits: any other is as private.

    For a given r that decides a, the best c is that with r for l, unless r + 1 decides from an earlier c on, 1 / (2r +
    1). Only those r matter that are next to l.
    """
    most = min(Fraction(moved), (size + _root(Fraction(size))) / 2)
    near = range(max(int(most) - 1, 1), min(int(most) + 2, moved) + 1)
    for r in sorted({most, *map(Fraction, near)}):
        best = (1 - _root((size - r) / (r * (size - 1)))) / size if size > 1 else Fraction(0)
        yield from (_parts(size, moved, c) for c in (best, 1 / (2 * r + 1)) if c * size < 1)


def _parts(size: int, moved: int, c: Fraction) -> tuple[Fraction, Fraction]:
    own = _longest(c, moved)
    return own, own * c / (1 - size * c)


def _longest(c: Fraction, moved: int) -> Fraction:
    """The largest r - c r**2 over whole r from 1 to `moved`."""
    turn = min(int(1 / (2 * c)), moved) if c else moved
    return max(r - c * r**2 for r in {max(turn, 1), min(turn + 1, moved)})


def _root(value: Fraction) -> Fraction:
    """The square root in exact arithmetic, up to 2**-32 of its unit: the same on every machine."""
    return Fraction(isqrt((value.numerator << 2 * _ROOT_BITS) // value.denominator), 1 << _ROOT_BITS)
