"""Mechanisms for an unknown domain: the lemma that carries them, their laws and bars, and the restricted framework."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from flint import arb

from private_topk.transforms.mechanisms import (
    MECHANISMS,
    Guarantee,
    LimitDomain,
    Mechanism,
    Peeling,
    RandomBits,
    WeightedGaussian,
)
from private_topk.transforms.mechanisms.exact import noise
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale, largest_delta_q, per_round_epsilon
from private_topk.transforms.mechanisms.exact.argmax import noisy_ranks
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.flips import FlipRounds
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import (
    QUERY_LANE,
    first_crossing,
    log_threshold,
    noise_real,
    noisy_score,
    noisy_top,
)
from private_topk.transforms.mechanisms.exact.reals import greater
from private_topk.transforms.mechanisms.noisy_order import Laplace, Oneshot, PnfPeeling
from private_topk.transforms.mechanisms.restricted import (
    ADDITIVE,
    Restricted,
    RestrictedGumbel,
    RestrictedLaplace,
    RestrictedNormal,
    RestrictedPnf,
)
from private_topk.transforms.mechanisms.unknown_domain import LaplaceLimitDomain, TopStable, UnknownDomainMechanism
from private_topk.transforms.mechanisms.weighted import UNIT
from tests.laws import SMALL_COUNTS, Law, check_law, check_neighbours, max_log_ratio, neighbours
from tests.nightly import nightly_but
from tests.refusals import refused
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.unknown_laws import (
    GRID,
    RELATIONS,
    Counts,
    Ranked,
    above_bottom,
    drift_of,
    least,
    named,
    passes,
    phantoms,
    restricted,
    top,
    top_stable,
)
from tests.transforms.mechanisms.weighted_laws import sums

SETTINGS = [(2.0, 1, 1), (0.5, 1, 2), (2.0, 2, 3), (3.0, 2, 2)]  # epsilon, k, kbar


class UnknownContract(Contract):
    """Subclasses also give the exact law by ranks, a sampler at the numbers of that law, where to check privacy, and
    where to compare frequencies.

    In the small data sets of these tests a count of 0 is an item that does not exist, so that neighbours have items
    which appear and vanish.
    """

    private: ClassVar[list[tuple[UnknownDomainMechanism, int]]]
    followed: ClassVar[list[tuple[UnknownDomainMechanism, Counts, int]]] = []
    tight: ClassVar[float] = 0.4
    """The worst divergence of all neighbours is at least this part of delta: the mechanism wastes no more."""

    def ranked(self, mechanism: UnknownDomainMechanism, largest: Counts, k: int) -> Ranked:
        """Of the kbar + 1 largest counts."""
        raise NotImplementedError

    def sampler(self, mechanism: UnknownDomainMechanism, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        """Ranks, of the kbar + 1 largest counts."""
        raise NotImplementedError

    def answers(self, mechanism: UnknownDomainMechanism, counts: np.ndarray, k: int, key: bytes) -> list[list[int]]:
        """Of decreasing counts, that of the mechanism and that of the sampler."""
        head = np.zeros(mechanism.kbar_for(k) + 1, np.int64)
        head[: len(counts)] = counts[: len(head)]
        ranks = self.sampler(mechanism, head, k, RandomBits.keyed(key).draw())
        expected = ranks[head[ranks] > 0].tolist()
        in_order = expected if mechanism.guarantee.answer == "sequence" else sorted(expected)
        return [mechanism(counts, k, RandomBits.keyed(key)).tolist(), in_order]

    def test_draws_are_those_of_the_sampler_at_the_numbers_of_the_law(self, mechanism: UnknownDomainMechanism) -> None:
        rng, sizes = np.random.default_rng(1), set()
        for number, (drawn, k) in enumerate([(mechanism, 2), (mechanism, 3), *self.private] * 8):
            counts = np.sort(rng.integers(0, int(10 ** rng.uniform(0.5, 3)), 9))[::-1]  # on both sides of any bar
            drawn_ranks, expected = self.answers(drawn, counts, k, b"%d" % number)
            assert drawn_ranks == expected
            sizes.add(len(expected))
        assert len(sizes) > 1

    def test_the_bar_is_exact(self) -> None:
        """The least count that comes out, alone or of k equal ones, under keys whose noises are known: at millions of
        counts a unit of noise. Odds, scales and shifts that are off by one part in a million move it.
        """
        for number, (usual, k) in enumerate([*((mechanism, 2) for mechanism in self.mechanisms), *self.private[::3]]):
            fine = replace(usual, epsilon=usual.epsilon / 2**32, delta=min(usual.delta, 1e-6))
            assert least(partial(self.any_of, fine, k, (1, k)[number % 2], b"%d" % number)) > 2**20

    def any_of(self, mechanism: UnknownDomainMechanism, k: int, equal: int, key: bytes, count: int) -> bool:
        """Whether any of so many equal counts comes out, of the mechanism as of the sampler."""
        drawn, stated = map(bool, self.answers(mechanism, np.full(equal, count), k, key))
        assert drawn == stated, (mechanism, k, equal, count)
        return drawn

    def law(self, mechanism: UnknownDomainMechanism, counts: Counts, k: int) -> Law:
        items, largest = top(counts, mechanism.kbar)
        return named(items, self.ranked(mechanism, largest, k))

    def test_hockey_stick_within_delta_and_not_far_below(self) -> None:
        worst = 0.0
        for mechanism, k in self.private:
            grid = [c for c in GRID if len(c) < 5 or mechanism.neighbours == "add-remove"]
            met = check_neighbours(mechanism, partial(self.law, mechanism), grid, [k], slack=0)
            worst = max(worst, met / mechanism.delta)
        assert worst >= self.tight

    @pytest.mark.nightly
    def test_draws_follow_the_law(self) -> None:
        for mechanism, counts, k in self.followed:
            check_law(mechanism, partial(self.law, mechanism), [counts], [k], smallest_error=0.07)

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

    def test_items_without_users_are_never_released(self, mechanism: UnknownDomainMechanism) -> None:
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
        with pytest.raises(ValueError, match="^k must be at most 10{6,7} in an unknown domain, got 10000001: choose"):
            with_kbar(None).kbar_for(10_000_001)
        with pytest.raises(ValueError, match="kbar must be at most 10000000 in an unknown domain, got 10000001"):
            with_kbar(10_000_001).kbar_for(4)
        with pytest.raises(ValueError, match="kbar must be a whole number of at least 1, got 0"):
            with_kbar(0)


class FrameworkContract(UnknownContract):
    """Of restricted mechanisms: candidates by a noise, then the tests. Draws of `restricted-gumbel` follow its law."""

    def noise_and_scale(self, mechanism: Mechanism, k: int, moved: int) -> tuple[str, Fraction]:
        """Of the candidates; `moved` of the slots move at most. "flips" at the inverse rate of permute-and-flip."""
        raise NotImplementedError

    def budget(self, mechanism: Mechanism, k: int) -> tuple[Fraction, Fraction]:
        """(epsilon_r, delta_r), written from the documentation."""
        raise NotImplementedError

    def ranked(self, mechanism: Mechanism, largest: Counts, k: int) -> Ranked:
        drift, slots = drift_of(mechanism), largest[:-1]
        epsilon_r, delta_r = self.budget(mechanism, k)
        noise, scale = self.noise_and_scale(mechanism, k, drift)
        order: Ranked = {
            "gumbel": lambda: laws.peeling(slots, k, 1 / scale),
            "flips": lambda: laws.permute_and_flip(slots, k, 1 / scale),
        }.get(noise, lambda: laws.noisy_order(slots, k, noise, scale))()
        return restricted(order, largest, drift, epsilon_r, largest_delta_q(delta_r))

    def order(self, mechanism: Mechanism, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        noise, scale = self.noise_and_scale(mechanism, k, drift_of(mechanism))
        return noisy_ranks(Histogram.of(head), scale, noise, k, draw).ranks

    def sampler(self, mechanism: Mechanism, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        drift = drift_of(mechanism)
        epsilon_r, delta_r = self.budget(mechanism, k)
        ranks = self.order(mechanism, head[:-1], k, draw)
        bar = log_threshold(1 / largest_delta_q(delta_r), "laplace", draw)
        gaps, where = head[ranks] - head[-1] - drift, {"addresses": np.arange(k), "lane": QUERY_LANE}
        return ranks[: first_crossing(gaps, 2 * drift / epsilon_r, bar, "laplace", draw, up=False, **where)]


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kbar", [1, 2, 3])
def test_slots_move_as_counts_do(relation: str, kbar: int) -> None:
    """Pair the items that leave the top kbar with those that enter, in every way: each pair, each item that stays and
    the (kbar + 1)-th count move by at most 1, all the same way when a user joins or leaves; no more of them move than
    the user has items; and every unstable item is within `drift` of the (kbar + 1)-th count."""
    drift, pairs = 2 if relation == "replace-one" else 1, 0
    for counts in [*SMALL_COUNTS, (3, 2, 2, 1), (2, 2, 2, 2), (4, 4, 3, 3, 3), (1, 0, 1, 0, 1)]:
        for other in neighbours(counts, relation):
            items, old = top(counts, kbar)
            others, new = top(other, kbar)
            before, after = phantoms(items[:-1]), phantoms(others[:-1])
            stay, gone, come = set(before) & set(after), set(before) - set(after), set(after) - set(before)
            assert len(gone) == len(come)
            assert all(_count(counts, i) <= old[-1] + drift for i in gone)
            assert all(_count(other, i) <= new[-1] + drift for i in come)
            for order in itertools.permutations(come):
                slots = [(i, i) for i in stay] + list(zip(gone, order, strict=True))
                moves = [_count(other, j) - _count(counts, i) for i, j in slots] + [new[-1] - old[-1]]
                allowed = {m for a, b in zip(counts, other, strict=True) if (m := b - a)}
                assert set(moves) <= {0, 1, -1} if relation == "replace-one" else set(moves) <= allowed | {0}
                changed = sum(a != b for a, b in zip(counts, other, strict=True))
                assert sum(m != 0 for m in moves) <= changed
                pairs += len(gone)
    assert pairs > 40, "the grid has to hold items that come and go"


def _count(counts: tuple[int, ...], item: object) -> int:
    return counts[item] if isinstance(item, int) else 0


@pytest.mark.parametrize("delta", [1e-300, 1e-9, 1e-6, 0.01, 0.5, 0.9])
def test_largest_delta_q_is_the_largest_that_meets_delta(delta: float) -> None:
    q = largest_delta_q(Fraction(delta))

    def bound(x: Fraction) -> arb:
        return arb(x.numerator) / x.denominator * (3 - (arb(x.numerator) / x.denominator).log()) / 4

    assert 0 < q <= 1 and not bound(q) > float(delta)
    assert q > Fraction(99, 100) or bound(q * (1 + Fraction(1, 2**40))) > arb(float(delta))
    if 1e-20 < delta < 0.6:
        hit, _ = passes((Fraction(0),), 1 / q, until=True)
        assert 0.6 * delta < float(hit) < delta, "a test of level 0 passes with probability q (2 + ln(1/q)) / 4"


def test_ties_at_the_cut_are_broken_by_position() -> None:
    """Two hundred equal counts compete for three places: only the first four positions are looked at."""
    mechanism, bits = LimitDomain(5.0, 0.1, kbar=3), RandomBits.keyed(b"ties")
    seen = {int(i) for _ in range(50) for i in mechanism(np.full(200, 10**6), 2, bits)}
    assert seen <= {0, 1, 2}
    order = np.argsort(-(np.arange(200) * 37 % 91), kind="stable")
    seen = {int(i) for _ in range(50) for i in mechanism((np.arange(200) * 37 % 91) * 10**6, 2, bits)}
    assert seen <= set(order[:3].tolist())


class TestLimitDomain(UnknownContract):
    mechanisms: ClassVar = [
        LimitDomain(1.0, 1e-6),
        LimitDomain(0.5, 1e-9, kbar=40, max_items_per_user=3, neighbours="replace-one"),
    ]
    private: ClassVar = [
        (LimitDomain(epsilon, 0.1, kbar, bound, relation), k)
        for relation in ("add-remove", "replace-one")
        for epsilon, k, kbar, bound in [(2.0, 1, 1, None), (0.5, 1, 2, None), (2.0, 2, 3, None), (3.0, 2, 2, 1)]
    ]
    followed: ClassVar = [
        (LimitDomain(3.0, 0.8, kbar=3), (6, 5, 5, 3, 1), 2),
        (LimitDomain(6.0, 0.8, kbar=4, neighbours="replace-one"), (0, 9, 7, 0, 6), 3),
    ]

    def numbers(self, mechanism: LimitDomain, k: int) -> tuple[int, Fraction, Fraction]:
        """By how much differences move, the scale and the odds."""
        drift, half, bound = drift_of(mechanism), Fraction(mechanism.delta) / 2, mechanism.max_items_per_user
        unstable = mechanism.kbar_for(k) if bound is None else min(drift * bound, mechanism.kbar_for(k))
        return drift, drift / per_round_epsilon(Fraction(mechanism.epsilon), half, k), unstable / half

    def ranked(self, mechanism: LimitDomain, largest: Counts, k: int) -> Ranked:
        drift, scale, odds = self.numbers(mechanism, k)
        return above_bottom([(c - largest[-1] - drift) / scale for c in largest[:-1]], odds, k, "gumbel")

    def sampler(self, mechanism: LimitDomain, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        drift, scale, odds = self.numbers(mechanism, k)
        return noise.above_bottom(head, drift, scale, "gumbel", odds, k, draw)

    def test_kbar_is_no_function_of_the_data(self) -> None:
        """Published code chooses it by the data and then prefers the worst threshold; here it is public."""
        assert [LimitDomain(1.0, 1e-6).kbar_for(k) for k in (1, 10, 11, 100)] == [100, 100, 110, 1000]


class TestLaplaceLimitDomain(UnknownContract):
    mechanisms: ClassVar = [
        LaplaceLimitDomain(1.0, 1e-6, 5),
        LaplaceLimitDomain(0.5, 1e-9, 50, kbar=40, neighbours="replace-one"),
    ]
    private: ClassVar = [
        (LaplaceLimitDomain(epsilon, 0.1, bound, kbar, relation), k)
        for relation in ("add-remove", "replace-one")
        for epsilon, k, kbar, bound in [(2.0, 1, 1, 1), (0.5, 1, 2, 2), (2.0, 2, 3, 1), (1.0, 2, 3, 4), (3.0, 3, 3, 2)]
    ]
    tight: ClassVar = 0.8

    def numbers(self, mechanism: LaplaceLimitDomain, k: int) -> tuple[int, Fraction, Fraction]:
        """By how much differences move, the scale and the odds."""
        drift, bound = drift_of(mechanism), mechanism.max_items_per_user
        unstable = min(drift * bound, mechanism.kbar_for(k))
        scale = drift * min(k, bound) / Fraction(mechanism.epsilon)
        return drift, scale, 1 / largest_delta_q(Fraction(mechanism.delta) / unstable)

    def ranked(self, mechanism: LaplaceLimitDomain, largest: Counts, k: int) -> Ranked:
        drift, scale, odds = self.numbers(mechanism, k)
        return above_bottom([(c - largest[-1] - drift) / scale for c in largest[:-1]], odds, k, "laplace")

    def sampler(self, mechanism: LaplaceLimitDomain, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        """Whose frequencies are compared in exact/test_noise."""
        drift, scale, odds = self.numbers(mechanism, k)
        return noise.above_bottom(head, drift, scale, "laplace", odds, k, draw)

    @pytest.mark.parametrize(("bound", "k"), [(1, 3), (2, 3), (3, 2)])
    def test_bound_over_scale_is_spent_and_no_more(self, bound: int, k: int) -> None:
        """The published proof needs (bound + 1) / scale: bound moved counts and the bar. On all moves of kbar = 3 slots
        and bar that one user's items allow (no more than bound of the four largest counts), bound / scale suffices,
        min(k, bound) in general; and some move takes nearly all of it."""
        epsilon, start, worst = Fraction(3), (5, 5, 4, 3), 0.0
        scale, odds = min(k, bound) / epsilon, Fraction(20)
        for moves in itertools.product((0, 1), repeat=4):
            if not 0 < sum(moves) <= bound:
                continue
            laws = []
            for *largest, rest in (start, tuple(c + m for c, m in zip(start, moves, strict=True))):
                laws.append(above_bottom([(c - rest - 1) / scale for c in largest], odds, k, "laplace"))
            worst = max(worst, max_log_ratio(*laws))
        assert 0.8 * float(epsilon) <= worst <= float(epsilon) * (1 + 1e-12)


class TestTopStable(UnknownContract):
    mechanisms: ClassVar = [TopStable(1.0, 1e-6), TopStable(0.5, 1e-9, kbar=40, neighbours="replace-one")]
    private: ClassVar = [
        (TopStable(epsilon, 0.1, kbar, relation), k)
        for relation in ("add-remove", "replace-one")
        for epsilon, k, kbar in [(2.0, 1, 1), (0.5, 2, 2), (3.0, 1, 2), (2.0, 2, 3), (1.0, 1, 4), (4.0, 3, 3)]
    ]
    followed: ClassVar = [
        (TopStable(4.0, 0.8, kbar=3), (9, 9, 6, 1, 1), 2),
        (TopStable(6.0, 0.8, kbar=4, neighbours="replace-one"), (0, 9, 7, 0, 6), 1),
    ]
    tight: ClassVar = 0.8

    def numbers(self, mechanism: TopStable, k: int) -> tuple[int, Fraction, Fraction, Fraction]:
        """By how much gaps move, the scale, the q of the threshold and the share of a draw from what is found."""
        drift, kbar = drift_of(mechanism), mechanism.kbar_for(k)
        parts = 1 if kbar == k else 2
        epsilon, delta = Fraction(mechanism.epsilon) / parts, Fraction(mechanism.delta) / parts
        return drift, 3 * drift / epsilon, largest_delta_q(delta / kbar), per_round_epsilon(epsilon, delta, k)

    def searched(self, mechanism: TopStable, largest: Counts, k: int) -> dict[tuple[int, tuple[int, ...]], float]:
        """The law of the size that is found and the ranks that come out."""
        return top_stable(largest, k, *self.numbers(mechanism, k))

    def sampler(self, mechanism: TopStable, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        drift, scale, q, share = self.numbers(mechanism, k)
        bar = log_threshold(1 / q, "laplace", draw)
        for size in [*range(k, len(head)), *range(k - 1, 0, -1)]:
            gap = max(int(head[size - 1] - head[size]) - drift, 0)
            if greater(noisy_score(gap, scale, noise_real(draw, QUERY_LANE, size - 1, "laplace")), bar):
                return np.arange(size) if size <= k else noisy_top(head[:size], drift / share, "gumbel", k, draw)
        return np.arange(0)

    def ranked(self, mechanism: TopStable, largest: Counts, k: int) -> Ranked:
        law: Ranked = defaultdict(float)
        for (_, ranks), p in self.searched(mechanism, largest, k).items():
            law[ranks] += p
        return law

    def law(self, mechanism: TopStable, counts: Counts, k: int) -> Law:
        items, largest = top(counts, mechanism.kbar)
        return named(items, self.ranked(mechanism, largest, k), as_set=True)

    def test_gap_below_the_released_items_is_the_one_tested(self) -> None:
        """Public code tests the gap one position lower. That answers (0,) here and (1,) on a neighbour."""
        mechanism, bits = TopStable(1.0, 1e-6), RandomBits.keyed(b"gap")
        for counts in ([10**6, 10**6, 0], [10**6, 10**6 + 1, 0], [10**6 + 1, 10**6, 0]):
            assert all(len(mechanism(counts, 1, bits)) == 0 for _ in range(50))
        assert all(mechanism([10**6, 10**6, 0], 2, bits).tolist() == [0, 1] for _ in range(50))

    def test_larger_sizes_draw_k_of_them(self) -> None:
        mechanism, bits = TopStable(2.0, 1e-6, kbar=3), RandomBits.keyed(b"sizes")
        answers = {tuple(mechanism([10**6] * 3, 2, bits).tolist()) for _ in range(100)}
        assert answers == {(0, 1), (0, 2), (1, 2)}

    def test_default_kbar_leaves_the_budget_to_the_search(self) -> None:
        assert [TopStable(1.0, 1e-6).kbar_for(k) for k in (1, 10, 500)] == [1, 10, 500]
        few, many = (TopStable(1.0, 1e-6, kbar) for kbar in (2, 3))
        counts, bits = np.array([500, 480, 432, 431]), RandomBits.keyed(b"budget")
        sizes = [sum(len(m(counts, 2, bits)) for _ in range(50)) for m in (few, many)]
        assert sizes[0] > sizes[1]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_named_restricted_mechanisms_equal_the_framework_over_their_inner_one(neighbours: str) -> None:
    counts = np.array([50, 3, 80, 80, 0, 61, 12] * 30)
    pairs = [
        (RestrictedPnf(4.0, 0.1, 50, neighbours), PnfPeeling(3.0, neighbours)),
        (RestrictedLaplace(4.0, 0.1, None, 50, neighbours), Laplace(3.0, None, neighbours)),
        (RestrictedLaplace(4.0, 0.1, None, 50, neighbours), Oneshot(3.0, "laplace", neighbours)),
    ]
    for fixed, inner in pairs:
        free = Restricted(inner, 1.0, 0.1, 50)
        assert (free.epsilon, free.delta, free.neighbours) == (Fraction(4), Fraction(0.1), neighbours)
        for i in range(20):
            answers = [m(counts, 5, RandomBits.keyed(b"%d" % i)).tolist() for m in (fixed, free)]
            assert answers[0] == answers[1]


def test_the_bound_of_the_mechanism_inside_is_the_bound_to_enforce() -> None:
    """A pipeline enforces `max_items_per_user`: left out, the noise would be too small for the counts."""
    assert Restricted(Laplace(1.0, 2), 1.0, 0.1).parameter("max_items_per_user") == 2
    assert Restricted(PnfPeeling(1.0), 1.0, 0.1).parameter("max_items_per_user") is None
    inner = [Laplace(1.0, 2), Oneshot(1.0)]
    seeds = {str(Restricted(mechanism, 1.0, 0.1).parameters()) for mechanism in inner}
    assert len(seeds) == 2, "the mechanism inside is a parameter"


def test_the_framework_refuses_a_mechanism_without_noise_on_counts() -> None:
    defaults = {"delta": 1e-6, "max_items_per_user": 3, "beta": 0.1}
    for name, kind in MECHANISMS.items():
        needed = {f: v for f, v in defaults.items() if f in kind.__dataclass_fields__}
        mechanism = kind(epsilon=1.0, **needed)
        if name in ADDITIVE:
            assert Restricted(mechanism, 0.5, 1e-6).kbar_for(3) == 100
        else:
            with refused("mechanism", "must be a built-in one that adds noise to counts", f"got {name}"):
                Restricted(mechanism, 0.5, 1e-6)


@pytest.mark.parametrize(("name", "told"), [("my-peeling", "my-peeling"), ("peeling", f"Mine of {__name__}")])
def test_the_framework_refuses_an_own_mechanism_inside(name: str, told: str) -> None:
    @dataclass(frozen=True)
    class Mine(Peeling):
        __qualname__ = "Mine"
        about = replace(Peeling.about, name=name)
        guarantee = Guarantee("pure", "public", "sequence")

    with pytest.raises(ValueError, match=f"^mechanism must be a built-in one .* got {told}: Lemma 1"):
        Restricted(Mine(1.0), 0.5, 1e-6)


@pytest.mark.parametrize(
    ("epsilon_r", "delta_r", "message"),
    [(0, 0.1, "epsilon_r must be a positive finite number"), (1.0, 1, "delta_r must lie strictly between 0 and 1")],
)
def test_checks_the_tests_budget(epsilon_r: float, delta_r: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Restricted(PnfPeeling(1.0), epsilon_r, delta_r)


@pytest.mark.parametrize(("kbar", "whole"), [(1, 1), (2, 1), (3, 1), (3, 2)])
def test_slots_of_weights_move_one_way_and_no_further_than_their_norm(kbar: int, whole: int) -> None:
    """Sums of the weights of every user there can be beside every two others, of five items: each slot, however items
    that come and go are paired, moves by 0 to 1, and all of them by the root of `whole` together.
    """
    kinds = [user for n in (1, 2, 4) for user in itertools.combinations(range(5), n)]
    furthest = 0.0
    for others in itertools.combinations_with_replacement(kinds, 2):
        before = np.array(sums(others, 5, whole))
        old = set(np.argsort(-before, kind="stable")[:kbar].tolist())
        for user in kinds:
            after = before + np.array(sums((user,), 5, whole))
            new = set(np.argsort(-after, kind="stable")[:kbar].tolist())
            gone, come = sorted(old - new), sorted(new - old)
            assert set(come) <= set(user)
            moves = np.array([after[list(p)] - before[gone] for p in itertools.permutations(come)]) / UNIT
            still = (after - before)[sorted(old & new)] / UNIT
            assert moves.size == 0 or 0 <= moves.min() <= moves.max() <= 1
            furthest = max(furthest, float((moves**2).sum(axis=1).max() + (still**2).sum()))
    assert 0.9 * min(whole, kbar) < furthest <= whole


class TestRestrictedGumbel(FrameworkContract):
    mechanisms: ClassVar = [RestrictedGumbel(1.0, 1e-6), RestrictedGumbel(0.5, 1e-9, kbar=40, neighbours="replace-one")]
    private: ClassVar = [
        (RestrictedGumbel(epsilon, 0.1, kbar, relation), k) for relation in RELATIONS for epsilon, k, kbar in SETTINGS
    ]
    followed: ClassVar = [(RestrictedGumbel(8.0, 0.8, kbar=4, neighbours="replace-one"), (0, 9, 7, 0, 6), 3)]

    def budget(self, mechanism: RestrictedGumbel, k: int) -> tuple[Fraction, Fraction]:
        epsilon, half = Fraction(mechanism.epsilon), Fraction(mechanism.delta) / 2
        return min(4 * per_round_epsilon(epsilon, half, k), epsilon / 2), half

    def noise_and_scale(self, mechanism: RestrictedGumbel, k: int, moved: int) -> tuple[str, Fraction]:
        epsilon_r, half = self.budget(mechanism, k)
        return "gumbel", moved / per_round_epsilon(Fraction(mechanism.epsilon) - epsilon_r, half, k)

    @pytest.mark.parametrize(
        ("epsilon", "delta"), nightly_but(product((0.01, 1.0, 8.0), (1e-12, 1e-3)), (0.01, 1e-3), (8.0, 1e-12))
    )
    def test_restricted_gumbel_never_exceeds_its_budget(self, epsilon: float, delta: float) -> None:
        """As published the tests take 4 shares: over the whole budget for k <= 3, all of it at k = 4."""
        whole, half = Fraction(epsilon), Fraction(delta) / 2
        for k in [*range(1, 12), 40, 100, 1000]:
            mechanism = RestrictedGumbel(epsilon, delta)
            (epsilon_r, delta_r), share = mechanism.test_budget(k), mechanism.share(k)
            published = 4 * per_round_epsilon(whole, half, k)
            assert (published > whole) if k <= 3 else (epsilon_r <= published)
            assert 0 < epsilon_r <= whole / 2 and share > 0 and delta_r + half == Fraction(delta)
            assert share == per_round_epsilon(whole - epsilon_r, half, k)


class TestRestrictedLaplace(FrameworkContract):
    mechanisms: ClassVar = [
        RestrictedLaplace(1.0, 1e-6),
        RestrictedLaplace(0.5, 1e-9, 3, kbar=40, neighbours="replace-one"),
    ]
    private: ClassVar = [
        (RestrictedLaplace(epsilon, 0.1, bound, kbar, relation), k)
        for relation in RELATIONS
        for epsilon, k, kbar in SETTINGS
        for bound in (None, 1)
    ]
    tight: ClassVar = 0.8

    def budget(self, mechanism: RestrictedLaplace, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(mechanism.epsilon) / 4, Fraction(mechanism.delta)

    def noise_and_scale(self, mechanism: RestrictedLaplace, k: int, moved: int) -> tuple[str, Fraction]:
        slots = moved * min(k, mechanism.max_items_per_user or k)
        return "laplace", slots / (Fraction(mechanism.epsilon) * Fraction(3, 4))


class TestRestrictedNormal(FrameworkContract):
    mechanisms: ClassVar = [
        RestrictedNormal(1.0, 1e-6, 5),
        RestrictedNormal(0.5, 1e-9, 50, kbar=40, neighbours="replace-one"),
    ]
    private: ClassVar = [
        (RestrictedNormal(epsilon, 0.1, bound, kbar, relation), k)
        for relation in RELATIONS
        for epsilon, k, kbar in SETTINGS
        for bound in (1, 2)
    ]

    def budget(self, mechanism: RestrictedNormal, k: int) -> tuple[Fraction, Fraction]:
        part = sorted([Fraction(1, 3), Fraction(4, mechanism.max_items_per_user), Fraction(1, 2)])[1]
        return part * Fraction(mechanism.epsilon), Fraction(mechanism.delta) / 2

    def noise_and_scale(self, mechanism: RestrictedNormal, k: int, moved: int) -> tuple[str, Fraction]:
        epsilon_r, half = self.budget(mechanism, k)
        slots = min(moved * mechanism.max_items_per_user, mechanism.kbar_for(k))
        return "gaussian", gaussian_scale(Fraction(mechanism.epsilon) - epsilon_r, half, Fraction(slots))


class TestRestrictedPnf(FrameworkContract):
    mechanisms: ClassVar = [RestrictedPnf(1.0, 1e-6), RestrictedPnf(0.5, 1e-9, kbar=40, neighbours="replace-one")]
    private: ClassVar = [
        (RestrictedPnf(epsilon, 0.1, kbar, relation), k) for relation in RELATIONS for epsilon, k, kbar in SETTINGS
    ]
    tight: ClassVar = 0.8

    def budget(self, mechanism: RestrictedPnf, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(mechanism.epsilon) / 4, Fraction(mechanism.delta)

    def noise_and_scale(self, mechanism: RestrictedPnf, k: int, moved: int) -> tuple[str, Fraction]:
        return "flips", moved * k / (Fraction(mechanism.epsilon) * Fraction(3, 4))

    def order(self, mechanism: RestrictedPnf, head: np.ndarray, k: int, draw: Draw) -> np.ndarray:
        rounds = FlipRounds(Histogram.of(head), 1 / self.noise_and_scale(mechanism, k, drift_of(mechanism))[1], k, draw)
        return np.array([rounds.next() for _ in range(k)])


def test_the_bar_of_every_mechanism_of_an_unknown_domain_is_tested() -> None:
    """That of sums of weights in test_weighted."""
    contracts = [*UnknownContract.__subclasses__(), *FrameworkContract.__subclasses__()]
    kinds = {type(mechanism) for contract in contracts for mechanism in getattr(contract, "mechanisms", ())}
    assert kinds | {WeightedGaussian} == {kind for kind in MECHANISMS.values() if kind.guarantee.domain == "unknown"}
