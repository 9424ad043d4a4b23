"""The evidence every item-by-item mechanism shows, over the law that its own test states.

Mechanisms that are noise on counts answer as `noisy_ranks` does at the scale of their law, bit by bit; its draws follow
the law of each noise (`exact/test_order_statistics`).
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.argmax import noisy_ranks
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.testing import SMALL_COUNTS, Law, check_law, check_neighbours
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract

COUNTS = (3, 1, 0, 2)
VECTORS = [COUNTS, (5, 3, 3, 1, 0), (2, 2, 2, 2), tuple(range(200, 0, -1))]


class ItemByItem(Contract):
    """Subclass with `mechanisms` and the method `law`."""

    drawn: ClassVar[tuple[int, ...]] = (2, 4)
    """For which k draws of the first mechanism are compared with the law; each other one is bit-equal to some."""
    grid: ClassVar[list[tuple[int, ...]]] = SMALL_COUNTS

    def law(self, mechanism: Mechanism, counts: tuple[int, ...], k: int) -> Law:
        """P(answer) for every sequence of k indices, from the definition and the papers' formulas."""
        raise NotImplementedError

    def test_follows_its_law(self) -> None:
        first = self.mechanisms[0]
        check_law(first, partial(self.law, first), COUNTS, self.drawn, smallest_error=0.08)

    def test_keeps_its_promises_on_all_neighbours(self, mechanism: Mechanism) -> None:
        """Epsilon or delta, the bounded range and rho, as `cost` states them."""
        law = partial(self.law, mechanism)
        check_neighbours(mechanism, law, [counts for counts in self.grid if len(counts) < 5])
        check_neighbours(mechanism, law, [counts for counts in self.grid if len(counts) == 5], [2])

    def test_relabelling_items_relabels_answers(self, mechanism: Mechanism) -> None:
        """Different counts in every order, draw by draw: it is their values that are drawn."""
        for seed in (b"1", b"2", b"3"):
            answer = mechanism(np.array(COUNTS), 3, RandomBits.keyed(seed)).tolist()
            for order in itertools.permutations(range(len(COUNTS))):
                found = mechanism(np.array(COUNTS)[list(order)], 3, RandomBits.keyed(seed))
                assert [order[i] for i in found] == answer, (order, seed)

    @pytest.mark.parametrize("epsilon", [1e-300, 1e300])
    def test_any_epsilon_works(self, mechanism: Mechanism, epsilon: float) -> None:
        parameters = {**{name: getattr(mechanism, name) for name in mechanism.parameters()}, "epsilon": epsilon}
        answer = type(mechanism)(**parameters)(np.array(COUNTS), 3, RandomBits.keyed(b"any"))
        assert epsilon < 1 or answer.tolist() == [0, 3, 1]


class NoisyOrder(ItemByItem):
    """Of a mechanism that is noise on counts. Subclass with `noise_and_scale`, from the papers' formulas."""

    drawn = ()

    def noise_and_scale(self, mechanism: Mechanism, d: int, k: int) -> tuple[str, Fraction]:
        raise NotImplementedError

    def law(self, mechanism: Mechanism, counts: tuple[int, ...], k: int) -> Law:
        noise, scale = self.noise_and_scale(mechanism, len(counts), k)
        return laws.peeling(counts, k, 1 / scale) if noise == "gumbel" else laws.noisy_order(counts, k, noise, scale)

    def test_answers_are_those_of_the_noise_at_the_scale_of_the_law(self, mechanism: Mechanism) -> None:
        """From the same bits, draw by draw; and these bits show a scale that is off by a hundredth."""
        apart = 0
        for counts in VECTORS:
            named = Named.of(np.array(counts))
            for k in {1, 4, len(counts) // 4}:
                noise, scale = self.noise_and_scale(mechanism, len(counts), k)
                mine, its, off = (RandomBits.keyed(b"scale") for _ in range(3))
                for _ in range(10):
                    drawn = named.items(noisy_ranks(named.histogram, scale, noise, k, its.draw())).tolist()
                    assert mechanism(counts, k, mine).tolist() == drawn, (counts, k)
                    wider = noisy_ranks(named.histogram, scale * Fraction(101, 100), noise, k, off.draw())
                    apart += drawn != named.items(wider).tolist()
        assert apart > 0
