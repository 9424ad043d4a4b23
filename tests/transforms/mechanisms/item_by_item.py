"""The evidence every item-by-item mechanism shows, over the law that its own test states."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from private_topk.testing import SMALL_COUNTS, Law, assert_follows, check_law, check_neighbours, frequencies
from private_topk.transforms.mechanisms import Mechanism, RandomBits
from tests.transforms.mechanisms.contract import Contract

COUNTS = (3, 1, 0, 2)
DRAWS, SMALLEST_ERROR = 4000, 0.08  # false alarm 1e-6 a seed, power 0.99: assert_follows asserts both
ROUNDING = 1e-8  # of quadrature laws; the inequalities checked are missed by far more when a factor 2 is


class ItemByItem(Contract):
    """Subclass with `mechanisms` and the method `law`."""

    mechanisms: ClassVar[list[Mechanism]]
    most_items: ClassVar[int] = 5  # of the grid's domains, where a law takes long

    def law(self, mechanism: Mechanism, counts: tuple[int, ...], k: int) -> Law:
        """P(answer) for every sequence of k indices, from the definition and the papers' formulas."""
        raise NotImplementedError

    def test_follows_its_law(self, mechanism: Mechanism) -> None:
        check_law(mechanism, partial(self.law, mechanism), COUNTS, draws=DRAWS, smallest_error=SMALLEST_ERROR)

    def test_keeps_its_promises_on_all_neighbours(self, mechanism: Mechanism) -> None:
        """Epsilon or delta, the bounded range and rho, as `cost` states them."""
        law = partial(self.law, mechanism)
        small = [counts for counts in SMALL_COUNTS if len(counts) <= min(4, self.most_items)]
        check_neighbours(mechanism, law, small, slack=ROUNDING)
        if self.most_items > 4:
            check_neighbours(mechanism, law, [c for c in SMALL_COUNTS if len(c) == 5], [2], slack=ROUNDING)

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
