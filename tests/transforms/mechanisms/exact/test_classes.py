from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np

from private_topk.transforms.mechanisms.exact.classes import Classes
from private_topk.transforms.mechanisms.exact.histogram import Histogram

HALF = Fraction(1, 2)


def test_class_sizes_are_the_papers() -> None:
    """Theorem A.1: binom(t - h - 2, k - 1 - h) sets in class (h, t), 1 + k (d - k) classes, all sets together."""
    for d, k in [(5, 1), (6, 3), (7, 6), (9, 4)]:
        counts = 10 * np.arange(d, 0, -1)
        classes = Classes(Histogram.of(counts), k, HALF, Fraction(1, 2))
        seen = Counter()
        for y in itertools.combinations(range(1, d + 1), k):
            seen[min(set(range(1, d + 2)) - set(y)) - 1, y[-1]] += 1
        parts, open_parts = [], [classes.everything()]
        while open_parts:
            part = open_parts.pop()
            halves = part.split()
            (parts.append(part) if halves is None else open_parts.extend(halves))
        assert len(parts) == k * (d - k)
        for part in parts:
            h, t = part.h, part.t
            assert part.size() == seen[h, t] == math.comb(t - h - 2, k - 1 - h)
            assert part.least_loss == (10 * (k - 1 - h)) + 10 * (t - k)


def test_gamma_one_counts_sets_by_their_last_rank_only() -> None:
    whole = Classes(Histogram.of(np.array([9, 8, 8, 5, 5, 5, 1])), 3, Fraction(1), Fraction(1)).everything()
    assert len(whole.classes.heads) == 2 and whole.size() == math.comb(7, 3) - 1
