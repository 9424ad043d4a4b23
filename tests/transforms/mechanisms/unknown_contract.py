"""What every mechanism for an unknown domain inherits on top of `Contract`, and every one of the framework."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.accounting import largest_delta_q
from private_topk.transforms.mechanisms.exact.argmax import noisy_ranks
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import QUERY_LANE, first_crossing, log_threshold
from private_topk.transforms.mechanisms.unknown_domain import UnknownDomainMechanism
from private_topk.transforms.testing import SMALL_COUNTS, Law, check_law, check_neighbours
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.unknown_laws import Counts, Ranked, drift_of, named, restricted, top

GRID = [(*counts, 0, 0)[: max(3, len(counts))] for counts in SMALL_COUNTS]
RELATIONS = ("add-remove", "swap")
SETTINGS = [(2.0, 1, 1), (0.5, 1, 2), (2.0, 2, 3), (3.0, 2, 2)]  # epsilon, k, kbar


class UnknownContract(Contract):
    """Subclasses also give the exact `law`, where to check privacy, and where to compare frequencies.

    In the small data sets of these tests a count of 0 is an item that does not exist, so that neighbours have items
    which appear and vanish.
    """

    private: ClassVar[list[tuple[UnknownDomainMechanism, int]]]
    followed: ClassVar[list[tuple[UnknownDomainMechanism, Counts, int]]] = []
    tight: ClassVar[float] = 0.4
    """The worst divergence of all neighbours is at least this part of delta: the mechanism wastes no more."""

    def law(self, mechanism: UnknownDomainMechanism, counts: Counts, k: int) -> Law:
        raise NotImplementedError

    def test_hockey_stick_within_delta_and_not_far_below(self) -> None:
        worst = 0.0
        for mechanism, k in self.private:
            grid = [c for c in GRID if len(c) < 5 or mechanism.neighbours == "add-remove"]
            met = check_neighbours(mechanism, partial(self.law, mechanism), grid, [k], slack=0)
            worst = max(worst, met / mechanism.delta)
        assert worst >= self.tight

    def test_draws_follow_the_law(self) -> None:
        for mechanism, counts, k in self.followed:
            check_law(mechanism, partial(self.law, mechanism), counts, [k], smallest_error=0.07)

    def test_looks_at_the_top_kbar_and_one_only(self, mechanism: UnknownDomainMechanism) -> None:
        counts = np.array([7, 900, 40, 40, 3, 900, 41] * 60)
        size = mechanism.kbar_for(2) + 1
        order = np.argsort(-counts, kind="stable")
        changed = counts.copy()
        changed[order[size:]] = 0
        for i in range(20):
            answer, of_top, of_changed = (
                mechanism(given, 2, RandomBits.keyed(b"%d" % i)) for given in (counts, counts[order[:size]], changed)
            )
            assert set(order[of_top]) == set(answer), "the pipeline hands over the largest kbar + 1 in order"
            assert of_changed.tolist() == answer.tolist()

    def test_what_is_not_there_never_comes_out(self, mechanism: UnknownDomainMechanism) -> None:
        """No item, items not seen, fewer than k; and what one user brings, with probability at most delta."""
        bits = RandomBits.keyed(b"none")
        for counts in ([], [0], [0] * 500):
            answer = mechanism(counts, 30, bits)
            assert answer.dtype == np.int64 and answer.shape == (0,)
        for _ in range(50):
            assert set(mechanism([0, 10**6, 0, 1, 0], 3, bits).tolist()) <= {1, 3}
            assert len(mechanism([1] * 1000, 3, bits)) == 0
        assert len(mechanism([10**9, 10**9 + 1], 20, bits)) <= 2

    def test_kbar_is_public_and_at_least_k(self, mechanism: UnknownDomainMechanism) -> None:
        given = {name: getattr(mechanism, name) for name in mechanism.parameters()}

        def with_kbar(kbar: int | None) -> UnknownDomainMechanism:
            return type(mechanism)(**{**given, "kbar": kbar})

        assert with_kbar(4).kbar_for(4) == 4
        assert all(with_kbar(None).kbar_for(k) >= k for k in (1, 7, 1000))
        with pytest.raises(ValueError, match="kbar must be at least k, got kbar = 4 and k = 5: leave it out"):
            with_kbar(4)([1, 2, 3], 5, RandomBits.keyed(b"kbar"))
        with pytest.raises(ValueError, match="kbar must be at most 10000000, got k = 10000001, for which it is"):
            with_kbar(None).kbar_for(10_000_001)
        with pytest.raises(ValueError, match="kbar must be at most 10000000, got kbar = 10000001"):
            with_kbar(10_000_001).kbar_for(4)
        with pytest.raises(ValueError, match="kbar must be a whole number of at least 1, got 0"):
            with_kbar(0)


class SampledContract(UnknownContract):
    """Of a mechanism whose draws are those of a sampler at the numbers of its law."""

    def sampler(self, mechanism: UnknownDomainMechanism, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        """Ranks, of the kbar + 1 largest counts."""
        raise NotImplementedError

    def test_draws_are_those_of_the_sampler_at_the_numbers_of_the_law(self, mechanism: UnknownDomainMechanism) -> None:
        rng, sizes = np.random.default_rng(1), set()
        for number, (drawn, k) in enumerate([(mechanism, 2), (mechanism, 3), *self.private] * 8):
            counts = np.sort(rng.integers(0, int(10 ** rng.uniform(0.5, 3)), 9))[::-1]  # on both sides of any bar
            key, head = b"%d" % number, np.zeros(drawn.kbar_for(k) + 1, np.int64)
            head[: len(counts)] = counts[: len(head)]
            ranks = self.sampler(drawn, head, k, RandomBits.keyed(key).draw())
            expected = ranks[head[ranks] > 0].tolist()
            assert drawn(counts, k, RandomBits.keyed(key)).tolist() == expected
            sizes.add(len(expected))
        assert len(sizes) > 1


class FrameworkContract(SampledContract):
    """Of restricted mechanisms: candidates by a noise, then the tests. Draws of `restricted-gumbel` follow its law."""

    def noise_and_scale(self, mechanism: Mechanism, k: int, moved: int) -> tuple[str, Fraction]:
        """Of the candidates; `moved` of the slots move at most. "flips" at the inverse rate of permute-and-flip."""
        raise NotImplementedError

    def budget(self, mechanism: Mechanism, k: int) -> tuple[Fraction, Fraction]:
        """(epsilon_r, delta_r), written from the documentation."""
        raise NotImplementedError

    def law(self, mechanism: Mechanism, counts: Counts, k: int) -> Law:
        drift = drift_of(mechanism)
        items, (*largest, rest) = top(counts, mechanism.kbar)
        epsilon_r, delta_r = self.budget(mechanism, k)
        noise, scale = self.noise_and_scale(mechanism, k, drift)
        order: Ranked = {
            "gumbel": lambda: laws.peeling(largest, k, 1 / scale),
            "flips": lambda: laws.permute_and_flip(largest, k, 1 / scale),
        }.get(noise, lambda: laws.noisy_order(largest, k, noise, scale))()
        return named(items, restricted(order, (*largest, rest), drift, epsilon_r, largest_delta_q(delta_r)))

    def order(self, mechanism: Mechanism, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        noise, scale = self.noise_and_scale(mechanism, k, drift_of(mechanism))
        return noisy_ranks(Histogram.of(head), scale, noise, k, draw)

    def sampler(self, mechanism: Mechanism, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        drift = drift_of(mechanism)
        epsilon_r, delta_r = self.budget(mechanism, k)
        ranks = self.order(mechanism, head[:-1], k, draw)
        bar = log_threshold(1 / largest_delta_q(delta_r), "laplace", draw)
        gaps, where = head[ranks] - head[-1] - drift, {"addresses": np.arange(k), "lane": QUERY_LANE}
        return ranks[: first_crossing(gaps, 2 * drift / epsilon_r, bar, "laplace", draw, up=False, **where)]
