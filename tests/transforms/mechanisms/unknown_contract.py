"""What every mechanism for an unknown domain inherits on top of `Contract`."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from private_topk.testing import (
    SMALL_COUNTS,
    Law,
    assert_follows,
    draws_to_see,
    frequencies,
    hockey_stick,
    total,
)
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.unknown_domain import UnknownDomainMechanism
from tests.quick import few, smallest, thinned, tries
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.unknown_laws import Counts, reachable

SMALLEST_ERROR = 0.07


class UnknownContract(Contract):
    """Subclasses also give the exact `law`, where to check privacy, and where to compare frequencies.

    In the small data sets of these tests a count of 0 is an item that does not exist, so that neighbours have items
    which appear and vanish.
    """

    private: ClassVar[list[tuple[UnknownDomainMechanism, int]]]
    followed: ClassVar[list[tuple[UnknownDomainMechanism, Counts, int]]]
    tight: ClassVar[float] = 0.4
    """The worst divergence of all neighbours is at least this part of delta: the mechanism wastes no more."""

    def law(self, mechanism: UnknownDomainMechanism, counts: Counts, k: int) -> Law:
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        super().pytest_generate_tests(metafunc)
        if "case_followed" in metafunc.fixturenames:
            metafunc.parametrize("case_followed", [*few((case,) for case in self.followed)], ids=repr)

    def test_hockey_stick_within_delta_and_not_far_below(self) -> None:
        worst = 0.0
        for mechanism, k in thinned(self.private):
            law = cache(lambda counts, m=mechanism, k=k: self.law(m, counts, k))
            relation, bound = mechanism.neighbours, mechanism.parameter("max_items_per_user")
            for counts in SMALL_COUNTS:
                if relation == "swap" and len(counts) > 4:
                    continue
                for other in reachable(counts, relation, bound):
                    for one, two in ((counts, other), (other, counts)):
                        divergence = hockey_stick(law(one), law(two), float(mechanism.epsilon))
                        assert divergence <= mechanism.delta, (mechanism, k, one, two)
                        worst = max(worst, divergence / mechanism.delta)
        assert worst >= self.tight

    def test_frequencies_follow_the_law(self, case_followed: tuple[UnknownDomainMechanism, Counts, int]) -> None:
        mechanism, counts, k = case_followed
        law = self.law(mechanism, counts, k)
        assert total(law).contains(1) and total(law).rad() < 1e-9
        seen = frequencies(mechanism, counts, k, draws_to_see(law, smallest(SMALLEST_ERROR)), b"law")
        assert_follows(seen, law, smallest(SMALLEST_ERROR))

    def test_looks_at_the_top_kbar_and_one_only(self, mechanism: UnknownDomainMechanism) -> None:
        counts = np.array([7, 900, 40, 40, 3, 900, 41] * 60)
        size = mechanism.kbar_for(2) + 1
        order = np.argsort(-counts, kind="stable")
        everything = [mechanism(counts, 2, RandomBits.keyed(b"%d" % i)) for i in range(20)]
        changed = counts.copy()
        changed[order[size:]] = 0
        for i, answer in enumerate(everything):
            few = mechanism(counts[order[:size]], 2, RandomBits.keyed(b"%d" % i))
            assert set(order[few]) == set(answer), "the pipeline hands over the largest kbar + 1 in order"
            assert mechanism(changed, 2, RandomBits.keyed(b"%d" % i)).tolist() == answer.tolist()

    def test_no_items_no_answer(self, mechanism: UnknownDomainMechanism) -> None:
        for counts in ([], [0], [0] * 500):
            for k in (1, 30):
                answer = mechanism(counts, k, RandomBits.keyed(b"none"))
                assert answer.dtype == np.int64 and answer.shape == (0,)

    def test_items_not_seen_never_come_out(self, mechanism: UnknownDomainMechanism) -> None:
        counts, bits = np.array([0, 10**6, 0, 1, 0]), RandomBits.keyed(b"zeros")
        for _ in range(tries(300)):
            assert set(mechanism(counts, 3, bits).tolist()) <= {1, 3}

    def test_k_may_exceed_the_items_seen(self, mechanism: UnknownDomainMechanism) -> None:
        answer = mechanism([10**9, 10**9 + 1], 20, RandomBits.keyed(b"few"))
        assert len(answer) <= 2

    def test_a_lone_user_is_not_told(self, mechanism: UnknownDomainMechanism) -> None:
        """Items that one user brings come out with probability at most delta: never, here."""
        bits = RandomBits.keyed(b"lone")
        for counts in ([1], [1] * 5, [1] * 1000):
            for _ in range(tries(100)):
                assert len(mechanism(counts, 3, bits)) == 0

    def test_kbar_is_public_and_at_least_k(self, mechanism: UnknownDomainMechanism) -> None:
        small = type(mechanism)(**{**_fields(mechanism), "kbar": 4})
        assert small.kbar_for(4) == 4
        with pytest.raises(ValueError, match="kbar must be at least k, got kbar = 4 and k = 5: leave it out"):
            small([1, 2, 3], 5, RandomBits.keyed(b"kbar"))
        free = type(mechanism)(**{**_fields(mechanism), "kbar": None})
        assert all(free.kbar_for(k) >= k for k in (1, 7, 1000))
        with pytest.raises(ValueError, match="kbar must be at most 10000000, got k = 10000001, for which it is"):
            free.kbar_for(10_000_001)
        with pytest.raises(ValueError, match="kbar must be at most 10000000, got kbar = 10000001"):
            type(mechanism)(**{**_fields(mechanism), "kbar": 10_000_001}).kbar_for(4)
        with pytest.raises(ValueError, match="kbar must be a whole number of at least 1, got 0"):
            type(mechanism)(**{**_fields(mechanism), "kbar": 0})


def _fields(mechanism: UnknownDomainMechanism) -> dict[str, object]:
    return {name: getattr(mechanism, name) for name in mechanism.parameters()}
