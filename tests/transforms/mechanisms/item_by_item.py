"""The evidence every item-by-item mechanism shows, over the law that its own test states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Mechanism, RandomBits
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.evidence import (
    SMALL_COUNTS,
    Law,
    assert_follows,
    frequencies,
    hockey_stick,
    max_log_ratio,
    neighbours,
    total,
)

COUNTS = (3, 1, 0, 2)
DRAWS, SMALLEST_ERROR = 4000, 0.08  # false alarm 1e-6 a seed, power 0.99: evidence.assert_follows asserts both
ROUNDING = 1e-8  # of quadrature laws; the inequalities checked are missed by far more when a factor 2 is


class ItemByItem(Contract):
    """Subclass with `mechanisms` and the method `law`."""

    mechanisms: ClassVar[list[Mechanism]]
    most_items: ClassVar[int] = 5  # of the grid's domains, where a law takes long

    def law(self, mechanism: Mechanism, counts: tuple[int, ...], k: int) -> Law:
        """P(answer) for every sequence of k indices, from the definition and the papers' formulas."""
        raise NotImplementedError

    @pytest.mark.parametrize("k", [1, 2, 4])
    def test_the_law_sums_to_one(self, mechanism: Mechanism, k: int) -> None:
        assert total(self.law(mechanism, COUNTS, k)).contains(1)

    @pytest.mark.parametrize("k", [1, 2, 4])
    def test_follows_its_law(self, mechanism: Mechanism, k: int) -> None:
        seen = frequencies(mechanism, COUNTS, k, DRAWS, b"law")
        assert_follows(seen, self.law(mechanism, COUNTS, k), SMALLEST_ERROR)

    def test_keeps_its_promise_on_all_neighbours(self, mechanism: Mechanism) -> None:
        for counts in (counts for counts in SMALL_COUNTS if len(counts) <= self.most_items):
            for k in {1, 2, min(3, len(counts)), len(counts)} if len(counts) < 5 else {2}:
                for moved in permitted_neighbours(mechanism, counts):
                    if k <= len(counts):
                        self.check_pair(mechanism, counts, moved, k)

    def check_pair(self, mechanism: Mechanism, counts: tuple[int, ...], moved: tuple[int, ...], k: int) -> None:
        here, there = self.law(mechanism, counts, k), self.law(mechanism, moved, k)
        if mechanism.about.guarantee == "pure":
            assert max_log_ratio(here, there) <= mechanism.epsilon + ROUNDING, (counts, moved, k)
        else:
            assert hockey_stick(here, there, mechanism.epsilon) <= mechanism.delta + ROUNDING, (counts, moved, k)
            assert hockey_stick(there, here, mechanism.epsilon) <= mechanism.delta + ROUNDING, (counts, moved, k)

    def test_relabelling_items_relabels_answers(self, mechanism: Mechanism) -> None:
        order = [2, 0, 3, 1]
        law = self.law(mechanism, tuple(COUNTS[i] for i in order), 2)
        seen = frequencies(mechanism, COUNTS, 2, DRAWS, b"relabel")
        assert_follows(seen, {tuple(order[i] for i in answer): p for answer, p in law.items()}, SMALLEST_ERROR)

    @pytest.mark.parametrize("epsilon", [1e-300, 1e-5, 1e5, 1e300])
    def test_any_epsilon_works(self, mechanism: Mechanism, epsilon: float) -> None:
        parameters = {**{name: getattr(mechanism, name) for name in mechanism.parameters()}, "epsilon": epsilon}
        answer = type(mechanism)(**parameters)(np.array(COUNTS), 3, RandomBits.keyed(b"any"))
        assert epsilon < 1 or answer.tolist() == [0, 3, 1]


def permitted_neighbours(mechanism: Mechanism, counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Neighbours in the mechanism's own sense, with no user holding more than `max_items_per_user`."""
    most = mechanism.parameter("max_items_per_user") or len(counts)
    for moved in neighbours(counts, mechanism.neighbours):
        change = np.array(moved) - counts
        if max((change > 0).sum(), (change < 0).sum()) <= most:
            yield moved
