from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from flint import arb

from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.staircase import SetLosses
from tests.transforms.mechanisms.laws import set_losses


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
    assert parts == Counter(set_losses(counts.tolist(), 3).values())


@pytest.mark.parametrize(
    "counts",
    [
        [20, 17, 17, 12, 9, 8, 3, 1],
        [5, 5, 5, 5, 5],
        [1000, 999, 400, 400, 0, 0, 0],
        [2**40, 2**40 - 1, 7, 6, 0],
        [90, 90, 80, 79, 79, 79, 40, 40, 39, 2, 2, 1],
        [300, 200, 100, 50],
    ],
    ids=["steps", "equal", "cliffs", "wide", "tied", "all but one"],
)
def test_around_are_the_nearest_losses_of_sets(counts: list[int]) -> None:
    """Against all losses of sets, listed: at every loss, or where there are too many of them, beside those of sets."""
    k = 3
    of_sets = sorted(set(set_losses(counts, k).values()))
    losses, most = SetLosses(Histogram.of(np.array(counts)), k), of_sets[-1]
    beside = {r + by for r in of_sets for by in (-2, -1, 0, 1, 2)}
    for loss in range(most) if most < 2000 else (r for r in beside if 0 <= r < most):
        nearest = max(r for r in of_sets if r <= loss), min(r for r in of_sets if r > loss)
        assert losses.around(loss) == nearest, loss


def test_from_the_largest_loss_on_all_sets_count() -> None:
    """The number that is not counted but known is the one that counting gives just below and would give at it."""
    counts = np.array([20, 17, 17, 12, 9, 8, 3, 1])
    losses = SetLosses(Histogram.of(counts), 3)
    of_sets = set_losses(counts.tolist(), 3).values()
    for loss in range(max(of_sets) + 3):
        assert losses.number(loss).contains(sum(r <= loss for r in of_sets))
        assert losses.number(loss).rel_accuracy_bits() > 40
