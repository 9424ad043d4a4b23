"""Exact laws of the mechanisms for an unknown domain on small data sets.

A data set is a tuple of counts, one per conceivable item; an item with count 0 does not exist in it. Nothing here
shares code with the samplers: the top is taken by a plain sort.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from private_topk.transforms.mechanisms import Mechanism
from tests.laws import SMALL_COUNTS
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.laws import NOISE_LAWS

Counts = tuple[int, ...]
Ranked = dict[tuple[int, ...], float]
"""Probabilities of answers given as ranks 0, 1, ... from the largest count down."""
GRID = [(*counts, 0, 0)[: max(3, len(counts))] for counts in SMALL_COUNTS]
RELATIONS = ("add-remove", "replace-one")


def drift_of(mechanism: Mechanism) -> int:
    """By how much one user moves the difference of two counts."""
    return 2 if mechanism.parameter("neighbours") == "replace-one" else 1


def top(counts: Counts, kbar: int) -> tuple[list[int | None], Counts]:
    """Items and counts of the top kbar + 1: by count, then by position; None and 0 past the last one that exists."""
    seen = sorted((i for i, c in enumerate(counts) if c > 0), key=lambda i: (-counts[i], i))
    items = (seen + [None] * (kbar + 1))[: kbar + 1]
    return items, tuple(0 if i is None else counts[i] for i in items)


def least(comes_out: Callable[[int], bool]) -> int:
    """The least count that comes out, as one does from somewhere below 2**52 on."""
    low, high = 0, 1 << 52
    assert comes_out(high) and not comes_out(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if comes_out(middle) else (middle, high)
    return high


def phantoms(items: list[int | None]) -> list[object]:
    """Slots that hold no item get names: the first of them the same one in any two data sets, and so on."""
    names = (("none", n) for n in range(len(items)))
    return [next(names) if i is None else i for i in items]


def named(items: list[int | None], ranked: Ranked, as_set: bool = False) -> Ranked:
    """The law of the items that an answer by ranks shows: items that do not exist are left out."""
    law: Ranked = defaultdict(float)
    for ranks, p in ranked.items():
        shown = [items[r] for r in ranks if items[r] is not None]
        law[tuple(sorted(shown) if as_set else shown)] += p
    return dict(law)


def above_bottom(levels: Sequence[Any], odds: Any, k: int, noise: str) -> Ranked:  # noqa: ANN401
    """The largest of level + standard noise above ln(odds) + the same, in order, at most k."""
    places, bottom = (*levels, math.log(odds)), len(levels)
    order = laws.peeling(places, k, 1) if noise == "gumbel" else laws.noisy_order(places, k, noise, 1)
    law: Ranked = defaultdict(float)
    for ranks, p in order.items():
        law[ranks[: ranks.index(bottom)] if bottom in ranks else ranks] += p
    return dict(law)


@cache
def passes(levels: tuple[Any, ...], odds: Any, until: bool) -> list[float]:  # noqa: ANN401
    """P(the first t levels are on one side of ln(odds) + Laplace, and the next one on the other), t = 0 .. n.

    Each level has a Laplace noise of its own. The first ones are above where `until` is False, below where it is True.
    """
    law, bar = NOISE_LAWS["laplace"], math.log(odds)
    cuts = laws.cuts_around(np.array([bar, *map(float, levels)]))
    x, w = laws.legendre(16)
    half = np.diff(cuts)[:, None] / 2
    grid, weights = cuts[:-1, None] + half + half * x, half * w
    before, out = weights * law.pdf(grid - bar), []
    for level in levels:
        below, above = law.cdf(grid - float(level)), law.sf(grid - float(level))
        same, other = (below, above) if until else (above, below)
        out.append(float((before * other).sum()))
        before = before * same
    return [*out, float(before.sum())]


def restricted(order: Ranked, counts: Counts, drift: int, epsilon_r: Fraction, delta_q: Fraction) -> Ranked:
    """The framework over the law `order` of candidates; counts are the kbar + 1 largest."""
    law: Ranked = defaultdict(float)
    for ranks, p in order.items():
        levels = tuple((counts[r] - counts[-1] - drift) * epsilon_r / (2 * drift) for r in ranks)
        for t, q in enumerate(passes(levels, 1 / delta_q, until=False)):
            law[ranks[:t]] += p * q
    return dict(law)


def top_stable(
    counts: Counts, k: int, drift: int, scale: Fraction, delta_q: Fraction, share: Fraction
) -> dict[tuple[int, tuple[int, ...]], float]:
    """TopStable: the size that is found, and the ranks in increasing order; counts are the kbar + 1 largest."""
    kbar = len(counts) - 1
    sizes = [*range(k, kbar + 1), *range(k - 1, 0, -1)]
    levels = tuple(max(counts[i - 1] - counts[i] - drift, 0) / scale for i in sizes)
    *hits, none = passes(levels, 1 / delta_q, until=True)
    law: dict[tuple[int, tuple[int, ...]], float] = defaultdict(float, {(0, ()): none})
    for size, p in zip(sizes, hits, strict=True):
        if size <= k:
            law[size, tuple(range(size))] += p
            continue
        for ranks, q in laws.peeling(counts[:size], k, share / drift).items():
            law[size, tuple(sorted(ranks))] += p * q
    return dict(law)
