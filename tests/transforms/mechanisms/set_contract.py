"""What mechanisms over sets inherit on top of `Contract`: their draws are those of a race at the rate of their law.

The winner of a race follows the law of each noise: exact/test_race.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Cost, Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact import race, reals, staircase
from private_topk.transforms.mechanisms.exact.histogram import Histogram, Named
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.testing import (
    SMALL_COUNTS,
    Law,
    assert_follows,
    check_law,
    check_neighbours,
    draws_to_see,
    frequencies,
)
from tests.transforms.mechanisms.contract import Contract


class SetContract(Contract):
    kind: ClassVar[Callable[..., Mechanism]]
    small: ClassVar[tuple[Mechanism, tuple[int, ...], int]]
    """What is drawn and compared set by set."""
    private: ClassVar[list[dict[str, Any]]] = [{"noise": noise} for noise in LIPSCHITZ_NOISES]

    def law(self, mechanism: Mechanism, counts: tuple[int, ...], k: int) -> Law:
        raise NotImplementedError

    def regions(self, mechanism: Mechanism, histogram: Histogram, k: int) -> tuple[Fraction, list[race.Region]]:
        """The rate of the race, from the documentation, and who runs."""
        raise NotImplementedError

    def test_draws_are_those_of_the_race_at_the_rate_of_the_law(self, mechanism: Mechanism) -> None:
        named = Named.of(np.array([5, 3, 3, 1, 0, 9, 4, 4]))
        for number in range(15):
            draw = RandomBits.keyed(b"%d" % number).draw()
            rate, regions = self.regions(mechanism, named.histogram, 3)
            ranks = race.Race(regions, rate, mechanism.noise, draw).winner().draw_ranks(draw)
            answer = mechanism(named.vector, 3, RandomBits.keyed(b"%d" % number))
            assert answer.tolist() == sorted(named.items(ranks).tolist())

    def test_frequencies(self) -> None:
        mechanism, counts, k = self.small
        check_law(mechanism, partial(self.law, mechanism), counts, [k], smallest_error=0.1)

    def frequencies_by(self, mechanism: Mechanism, counts: tuple[int, ...], k: int, described: Callable) -> None:
        """Of a larger domain, where too many sets are there for a cell each."""
        expected, seen = Counter(), Counter()
        for y, p in self.law(mechanism, counts, k).items():
            expected[described(y)] += p
        for y, n in frequencies(mechanism, counts, k, draws_to_see(expected, 0.12), b"larger").items():
            seen[described(y)] += n
        assert_follows(seen, expected, 0.12)

    @pytest.mark.parametrize("relation", ["add-remove", "swap"])
    def test_privacy(self, relation: str) -> None:
        """No log-probability moves by more than epsilon; some by more than half: a lost factor 2 would show."""
        grid = SMALL_COUNTS if relation == "add-remove" else SMALL_COUNTS[:-1]
        for parameters in self.private:
            mechanism = self.kind(3.0, neighbours=relation, **parameters)
            assert 1.5 < check_neighbours(mechanism, partial(self.law, mechanism), grid, ks=(1, 2)) <= 3 + 1e-9

    def test_sets_come_in_the_order_of_the_items_not_of_their_ranks(self) -> None:
        assert self.kind(5.0)([10, 1000, 0, 5000, 200, 0], 4, RandomBits.keyed(b"order")).tolist() == [0, 1, 3, 4]

    def test_answers_do_not_depend_on_the_precision_decisions_start_with(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = np.random.RandomState(2).randint(0, 300, 500)
        mechanisms = [self.kind(0.3, noise=noise) for noise in LIPSCHITZ_NOISES]
        answers = [m(counts, 20, RandomBits.keyed(b"precision")).tolist() for m in mechanisms]
        for bits in (30, 250):
            monkeypatch.setattr(race, "_PRECISION", bits)
            monkeypatch.setattr(reals, "_START_PRECISION", bits)
            monkeypatch.setattr(staircase, "_PRECISION", bits)
            assert answers == [m(counts, 20, RandomBits.keyed(b"precision")).tolist() for m in mechanisms]

    def test_bad_noise(self) -> None:
        with pytest.raises(ValueError, match="noise must be one of gumbel, .*half-logistic, got 'gaussian'"):
            self.kind(1.0, noise="gaussian")

    def test_only_gumbel_noise_has_the_exponential_mechanisms_cost(self) -> None:
        assert self.kind(2.0).cost(5) == self.kind(2.0, neighbours="swap").cost(5) == Cost.exponential(Fraction(2))
        assert self.kind(2.0, noise="laplace").cost(5) == Cost.pure(Fraction(2))
