"""The evidence every item-by-item mechanism shows, over the law that its own test states.

Draws are dear, so that what can be shown bit by bit is: relabelled counts give relabelled answers, and mechanisms that
are noise on counts answer as `noisy_ranks` does at the scale of their law, whose own draws follow the law of each noise
(`test_oneshot`, `test_gaussian` and `exact/test_order_statistics`).
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from private_topk.testing import SMALL_COUNTS, Law, check_law, check_neighbours
from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.mechanisms.exact.noisy_ranks import noisy_ranks
from tests.quick import QUICK, few, smallest
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract

COUNTS = (3, 1, 0, 2)
VECTORS = [COUNTS, (5, 3, 3, 1, 0), (2, 2, 2, 2), tuple(range(40, 0, -3))]
SMALLEST_ERROR = 0.08  # false alarm 1e-6 a seed, power 0.99: assert_follows asserts both
ROUNDING = 1e-8  # of quadrature laws; the inequalities checked are missed by far more when a factor 2 is


class ItemByItem(Contract):
    """Subclass with `mechanisms` and the method `law`."""

    mechanisms: ClassVar[list[Mechanism]]
    most_items: ClassVar[int] = 5  # of the grid's domains, where a law takes long

    def law(self, mechanism: Mechanism, counts: tuple[int, ...], k: int) -> Law:
        """P(answer) for every sequence of k indices, from the definition and the papers' formulas."""
        raise NotImplementedError

    def ks(self, mechanism: Mechanism) -> tuple[int, ...]:
        """For which k draws are compared with the law: for none where others' draws are shown to be the same."""
        return (1, 2, 4) if mechanism is self.mechanisms[0] else (2,)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        super().pytest_generate_tests(metafunc)
        if "drawn" in metafunc.fixturenames:
            cases = [(m, k) for m in self.mechanisms for k in self.ks(m)]
            metafunc.parametrize(("drawn", "k"), few(cases, [cases.index((self.mechanisms[0], 2))]), ids=repr)
        if "kept" in metafunc.fixturenames:
            metafunc.parametrize("kept", few(self.mechanisms), ids=repr)

    def test_follows_its_law(self, drawn: Mechanism, k: int) -> None:
        check_law(drawn, partial(self.law, drawn), COUNTS, [k], smallest_error=smallest(SMALLEST_ERROR))

    def test_keeps_its_promises_on_all_neighbours(self, kept: Mechanism) -> None:
        """Epsilon or delta, the bounded range and rho, as `cost` states them."""
        law = partial(self.law, kept)
        small = [counts for counts in SMALL_COUNTS if len(counts) <= min(4, self.most_items)]
        check_neighbours(kept, law, small, slack=ROUNDING)
        if self.most_items > 4:
            check_neighbours(kept, law, [c for c in SMALL_COUNTS if len(c) == 5], [2], slack=ROUNDING)

    def test_relabelling_items_relabels_answers(self, mechanism: Mechanism) -> None:
        """Different counts in every order, draw by draw: it is their values that are drawn."""
        seeds = [b"relabel %d" % n for n in range(6)]
        answers = [mechanism(np.array(COUNTS), 3, RandomBits.keyed(seed)) for seed in seeds]
        for order in itertools.permutations(range(len(COUNTS))):
            moved = np.array(COUNTS)[list(order)]
            for seed, answer in zip(seeds, answers, strict=True):
                found = mechanism(moved, 3, RandomBits.keyed(seed))
                assert [order[i] for i in found] == answer.tolist(), (order, seed)

    @pytest.mark.parametrize("epsilon", [1e-300, 1e-5, 1e5, 1e300])
    def test_any_epsilon_works(self, mechanism: Mechanism, epsilon: float) -> None:
        parameters = {**{name: getattr(mechanism, name) for name in mechanism.parameters()}, "epsilon": epsilon}
        answer = type(mechanism)(**parameters)(np.array(COUNTS), 3, RandomBits.keyed(b"any"))
        assert epsilon < 1 or answer.tolist() == [0, 3, 1]


class NoisyOrder(ItemByItem):
    """Of a mechanism that is noise on counts. Subclass with `noise_and_scale`, from the papers' formulas."""

    def ks(self, mechanism: Mechanism) -> tuple[int, ...]:
        return (2,) if mechanism is self.mechanisms[0] else ()

    def noise_and_scale(self, mechanism: Mechanism, d: int, k: int) -> tuple[str, Fraction]:
        raise NotImplementedError

    def law(self, mechanism: Mechanism, counts: tuple[int, ...], k: int) -> Law:
        noise, scale = self.noise_and_scale(mechanism, len(counts), k)
        return laws.peeling(counts, k, 1 / scale) if noise == "gumbel" else laws.noisy_order(counts, k, noise, scale)

    def test_answers_are_those_of_the_noise_at_the_scale_of_the_law(self, mechanism: Mechanism) -> None:
        """From the same bits, draw by draw. Draws at a scale that is off by a hundredth are told apart."""
        for counts in VECTORS:
            named = Named.of(np.array(counts))
            for k in (1, 2, 4):
                noise, scale = self.noise_and_scale(mechanism, len(counts), k)
                one, two = RandomBits.keyed(b"scale"), RandomBits.keyed(b"scale")
                for _ in range(8 if QUICK else 25):
                    drawn = named.items(noisy_ranks(named.histogram, scale, noise, k, one.draw()))
                    assert mechanism(counts, k, two).tolist() == drawn.tolist(), (counts, k)

    def test_the_bits_would_show_another_scale(self) -> None:
        mechanism, apart = self.mechanisms[0], 0
        for counts in VECTORS:
            histogram = Named.of(np.array(counts)).histogram
            noise, scale = self.noise_and_scale(mechanism, len(counts), 4)
            one, two = RandomBits.keyed(b"scale"), RandomBits.keyed(b"scale")
            for _ in range(40):
                true = noisy_ranks(histogram, scale, noise, 4, one.draw()).tolist()
                apart += true != noisy_ranks(histogram, scale * Fraction(101, 100), noise, 4, two.draw()).tolist()
        assert apart > 0
