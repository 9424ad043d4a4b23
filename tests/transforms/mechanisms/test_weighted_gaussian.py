"""The weighted Gaussian against its law, and the privacy inequality on neighbours made of users and their items."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from private_topk.transforms.mechanisms import RandomBits, WeightedGaussian
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.testing import Law, assert_follows, draws_to_see, hockey_stick, renyi
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.noise_laws import NOISE_LAWS, kolmogorov

User = tuple[int, ...]
"""The items of one."""


def sums(users: tuple[User, ...], items: int, whole: int) -> tuple[int, ...]:
    """The sums of weights in units, by definition."""
    found = [0] * items
    for user in users:
        for item in user:
            found[item] += math.floor(
                UNIT * min(Fraction(1), Fraction(math.isqrt(whole * 10**40 // len(user)), 10**20))
            )
    return tuple(found)


@cache
def law(weights: tuple[int, ...], k: int, scale: float, bar: float, tau: int) -> Law:
    """P(answer): the items above tau with noisy sums above the bar, in order, by quadrature from the top down."""
    present = [i for i, w in enumerate(weights) if w > tau]
    grid = np.linspace(bar, bar + 14 * scale + max(weights), 6001)
    step = grid[1] - grid[0]
    density = {i: NOISE_LAWS["gaussian"].pdf((grid - weights[i]) / scale) / scale for i in present}
    below = {i: ndtr((grid - weights[i]) / scale) for i in present}

    def walk(chosen: tuple[int, ...], above: np.ndarray) -> Iterator[tuple[User, float]]:
        """`above`: the density at each point that the last of the chosen is there, the others above it in order."""
        rest = [i for i in present if i not in chosen]
        if len(chosen) == k:
            yield chosen, float(np.trapezoid(above * np.prod([below[i] for i in rest], axis=0), dx=step))
            return
        mass = float(np.trapezoid(above, dx=step)) if chosen else 1.0
        yield chosen, mass * math.prod(float(below[i][0]) for i in rest)
        # P that those chosen so far are all above x, in order.
        tail = np.flip(np.cumsum(np.flip((above[1:] + above[:-1]) / 2))) * step if chosen else np.ones(len(grid) - 1)
        tail = np.append(tail, 0.0 if chosen else 1.0)
        for i in rest:
            yield from walk((*chosen, i), density[i] * tail)

    return dict(walk((), np.ones(len(grid))))


def law_of(mechanism: WeightedGaussian, weights: tuple[int, ...], k: int) -> Law:
    return law(weights, k, float(mechanism.scale()), float(mechanism.threshold()), mechanism.tau())


def given_only(law: Law, common: set[int], rest: float) -> Law:
    """The law of answers of common items alone, given that it is one; any other is as rare as is stated."""
    kept = {answer: float(p) for answer, p in law.items() if common.issuperset(answer)}  # type: ignore[arg-type]
    assert 1 - rest - 1e-4 <= sum(kept.values())
    return {answer: p / sum(kept.values()) for answer, p in kept.items()}


class TestWeightedGaussian(Contract):
    mechanisms: ClassVar = [
        WeightedGaussian(1.0, 1e-6, 10),
        WeightedGaussian(2.0, 0.01, 3, whole_items=1, neighbours="swap"),
    ]

    @pytest.mark.parametrize("k", [1, 3])
    def test_follows_its_law(self, k: int) -> None:
        mechanism = WeightedGaussian(1.0, 0.2, 3, whole_items=2)
        bar = mechanism.threshold()
        weights = (bar, bar + UNIT, bar - UNIT, 0, mechanism.tau())
        stated = law_of(mechanism, weights, k)
        assert sum(stated.values()) == pytest.approx(1, abs=1e-5)
        bits = RandomBits.keyed(b"law")
        prepared = mechanism.prepare((named := Named.of(np.array(weights))).histogram)
        draws = draws_to_see(stated, 0.11)
        seen = Counter(tuple(named.items(prepared.ranks(k, bits)).tolist()) for _ in range(draws))
        assert_follows(seen, stated, 0.11)

    @pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
    @pytest.mark.parametrize(("whole", "limit"), [(1, 1), (1, 3), (2, 3)])
    def test_no_user_tells_more_than_the_budget(self, neighbours: str, whole: int, limit: int) -> None:
        """Crowds around the threshold, rare items on both sides of tau, and every user there can be."""
        mechanism = WeightedGaussian(0.5, 0.2, limit, whole, neighbours)
        near, rare = round(mechanism.threshold() / UNIT), mechanism.tau() // UNIT
        worst = 0.0
        kinds = [u for n in range(1, limit + 1) for u in itertools.combinations(range(3), n)]
        for crowd in [(near, near, near), (near + 1, 0, 0), (0, 0, 0), (near, rare, rare + 1), (2 * near, near, 0)]:
            others = tuple((item,) for item, users in enumerate(crowd) for _ in range(users))
            pairs = itertools.permutations(kinds, 2) if neighbours == "swap" else ((user, ()) for user in kinds)
            for mine, yours in pairs:
                one, two = (sums((*others, *((u,) if u else ())), 3, min(whole, limit)) for u in (mine, yours))
                for a, b in ((one, two), (two, one)):
                    worst = max(worst, hockey_stick(law_of(mechanism, a, 3), law_of(mechanism, b, 3), 0.5))
        assert worst <= 0.2
        assert worst > 0.04, "the threshold alone is worth half of delta, less its safety"

    @pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
    def test_but_for_what_one_user_alone_holds_it_is_zcdp(self, neighbours: str) -> None:
        """The law given that no item comes out which only one of two neighbours has above tau: rho, and no delta."""
        mechanism = WeightedGaussian(1.0, 0.2, 3, 2, neighbours)
        cost, near, rare = mechanism.cost(3), round(mechanism.threshold() / UNIT), mechanism.tau() // UNIT
        assert (cost.epsilon, cost.delta, cost.rest) == (1, Fraction(0.2), Fraction(0.2) / 2) and cost.rho is not None
        moved = (2 if neighbours == "swap" else 1) * 2
        assert float(cost.rho) == pytest.approx(moved * UNIT**2 / (2 * float(mechanism.scale()) ** 2))
        kinds, worst = [u for n in (1, 2, 3) for u in itertools.combinations(range(3), n)], 0.0
        for crowd in [(near, near, near), (near, rare, 0), (2 * near, near, rare)]:
            others = tuple((item,) for item, users in enumerate(crowd) for _ in range(users))
            pairs = itertools.permutations(kinds, 2) if neighbours == "swap" else ((user, ()) for user in kinds)
            for users in pairs:
                weights = [sums((*others, *((u,) if u else ())), 3, 2) for u in users]
                common = {i for i in range(3) if min(w[i] for w in weights) > mechanism.tau()}
                given = [given_only(law_of(mechanism, w, 3), common, float(cost.rest)) for w in weights]
                for a, b in (given, given[::-1]):
                    worst = max(worst, *(renyi(a, b, order) / order for order in (1, 1.5, 4, 30)))
        assert 0.2 * float(cost.rho) < worst <= float(cost.rho) + 1e-4

    def test_the_weights_are_those_that_the_draw_has_decided_by(self) -> None:
        """In the order of the answer, above the threshold, and of an item that always comes out exactly Gaussian."""
        mechanism = WeightedGaussian(1.0, 1e-3, 10, 5)
        bar, scale = mechanism.threshold(), float(mechanism.scale())
        named = Named.of(np.array([bar, 3 * bar, bar, bar + UNIT, 0]))
        noises, seen = [], 0
        for number in range(400):
            key = b"%d" % number
            ranks = mechanism.prepare(named.histogram).ranks(4, RandomBits.keyed(key))
            weights = mechanism.noisy_weights(named.histogram, ranks, RandomBits.keyed(key).draw()) / 100
            assert (np.diff(weights) <= 0).all() and (weights > bar / UNIT - 0.01).all()
            noises.append((weights[ranks == 0][0] - 3 * bar / UNIT) / (scale / UNIT))
            seen += len(ranks)
        assert kolmogorov(noises, ndtr) > 1e-4 and np.std(noises) == pytest.approx(1, abs=0.15)
        assert 400 < seen < 1600, "some pass, some do not"

    @pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
    def test_items_with_their_weights_tell_no_more(self, neighbours: str) -> None:
        """The joint law of two items' weights in cells a fifth of a deviation wide, or of neither coming out."""
        mechanism = WeightedGaussian(0.5, 0.2, 2, 1, neighbours)
        near, scale = round(mechanism.threshold() / UNIT), float(mechanism.scale())
        edges = np.append(mechanism.threshold() + scale / 5 * np.arange(40), np.inf)
        kinds, worst = [(0,), (1,), (0, 1)], 0.0

        def cells(users: tuple[User, ...]) -> np.ndarray:
            of_each = []
            for total in sums(users, 2, 1):
                below = ndtr((edges - total) / scale) if total > mechanism.tau() else np.ones(len(edges))
                of_each.append(np.diff(below, prepend=0))
            return np.multiply.outer(*of_each)

        for crowd in [(near, near), (near, 0), (2 * near, mechanism.tau() // UNIT), (0, 0)]:
            others = tuple((item,) for item, users in enumerate(crowd) for _ in range(users))
            pairs = itertools.permutations(kinds, 2) if neighbours == "swap" else ((user, None) for user in kinds)
            for mine, yours in pairs:
                one, two = (cells((*others, *((u,) if u else ()))) for u in (mine, yours))
                for a, b in ((one, two), (two, one)):
                    worst = max(worst, float(np.maximum(a - math.exp(0.5) * b, 0).sum()))
        assert 0.05 < worst <= 0.2

    def test_a_lone_user_with_the_worst_number_of_items_comes_out_with_half_of_delta(self) -> None:
        mechanism = WeightedGaussian(1.0, 0.02, 50, whole_items=4)
        weighting, s = mechanism.weighting, float(mechanism.scale())
        bar = mechanism.threshold() - mechanism.tau()
        chances = [-math.expm1(t * log_ndtr((bar - weighting.weight(t)) / s)) for t in range(1, 51)]
        assert 0.0099 < max(chances) <= 0.01

    def test_a_swap_is_calibrated_to_two_users(self) -> None:
        one, two = WeightedGaussian(1.0, 1e-6, 9, 5, "swap"), WeightedGaussian(1.0, 1e-6, 20, 10)
        assert one.scale() == two.scale()

    def test_fewer_items_than_count_wholly_need_no_more_noise(self) -> None:
        assert WeightedGaussian(1.0, 1e-6, 3).scale() == WeightedGaussian(1.0, 1e-6, 3, whole_items=3).scale()

    def test_items_up_to_tau_change_nothing(self) -> None:
        mechanism = WeightedGaussian(1.0, 1e-6, 10)
        bar, tau = mechanism.threshold(), mechanism.tau()
        counts = np.array([bar + UNIT, *[tau] * 500, bar, bar - UNIT])
        for number in range(20):
            few = mechanism(counts[[0, 501, 502]], 3, RandomBits.keyed(b"%d" % number))
            all_of_them = mechanism(counts, 3, RandomBits.keyed(b"%d" % number))
            assert np.array([0, 501, 502])[few].tolist() == all_of_them.tolist()
