from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from flint import arb

from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.set_losses import SetLosses
from tests.transforms.mechanisms.set_laws import joint_loss


def test_numbers_of_sets_are_those_of_lattice_paths() -> None:
    """All 400 columns one by one, in integers: what the segments and their polynomials stand for."""
    counts = np.random.RandomState(4).randint(0, 2000, 400)
    losses, k = SetLosses(Histogram.of(counts), 30), 30
    for loss in (0, 7, 60, 300, 2500):
        reach = losses.reach(loss).tolist()
        assert reach == [int((counts >= c - loss).sum()) for c in np.sort(counts)[::-1][:k]]
        paths = [1] + [0] * k
        for rank in range(1, 401):
            for i in range(k, 0, -1):
                paths[i] += paths[i - 1] if rank <= reach[i - 1] else 0
        assert losses.number(loss).contains(arb(paths[k])) and losses.number(loss).rel_accuracy_bits() > 40


def test_intervals_partition_the_losses() -> None:
    """Splitting to the end gives one region for each loss of some set, of the right size."""
    counts = np.array([20, 17, 17, 12, 9, 8, 3, 1])
    parts, whole = Counter(), [SetLosses(Histogram.of(counts), 3).everything()]
    while whole:
        part = whole.pop()
        halves = part.split()
        if halves is None:
            parts[part.least_loss] += round(float(part.size().mid()))
        else:
            whole.extend(halves)
    assert parts == Counter(int(joint_loss(tuple(counts.tolist()), y)) for y in itertools.combinations(range(8), 3))
