"""Mechanisms over weights against their laws, and the privacy inequality on neighbours made of users and their items.

Two draws of one user who moves, `replacement_costs_one_draw`, are those of test_moves.
"""

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
from scipy.special import log_ndtr, ndtr, ndtri_exp
from scipy.stats import kstest

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import RandomBits, WeightedGaussian, WeightedOrder
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.argmax import noisy_ranks
from private_topk.transforms.mechanisms.exact.histogram import Histogram, IndexedCounts
from private_topk.transforms.mechanisms.exact.noise import noise_real, noisy_score
from private_topk.transforms.mechanisms.mechanism import ALL
from private_topk.transforms.mechanisms.weighted import UNIT, Weighting
from private_topk.transforms.mechanisms.weighted_sums import Weighted
from tests.laws import Law, assert_follows, draws_to_see, hockey_stick, renyi
from tests.refusals import refused
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.laws import delta_of
from tests.transforms.mechanisms.unknown_laws import least
from tests.transforms.mechanisms.weighted_laws import User, law_of, sums


def test_weights_keep_the_norm_and_lose_little() -> None:
    for whole, limit in [(1, 100), (20, 1000), (7, 7)]:
        weighting = Weighting(whole, limit, 0)
        norms = [items * weighting.weight(items) ** 2 for items in range(1, limit + 1)]
        assert max(norms) == whole * UNIT**2
        assert all(norm >= 0.999 * whole * UNIT**2 for norm in norms[whole:])
    pairs = np.array([0, 2, 2, 2, 1])
    assert Weighting(1, 3, 0).weights(pairs).tolist() == [UNIT, 37837, 37837, 37837, UNIT]


KINDS: list[type[Weighted]] = [WeightedGaussian, WeightedOrder]


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_items_count_wholly_than_a_user_may_have(kind: type[Weighted]) -> None:
    assert [kind(1.0, 1e-6, limit).whole for limit in (5, 20, 50)] == [5, 20, 20]
    made = kind(1.0, 1e-6, 50, whole_items=np.int64(7))
    assert made.whole == 7 and type(made.whole_items) is int
    assert made.weighting.whole_items == 7 and made.weighting.limit == 50


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [0, -1, 1.5, True, "20", None])
def test_an_invalid_number_of_whole_items_is_refused(kind: type[Weighted], whole: object) -> None:
    with refused("whole_items", "must be a whole number of at least 1"):
        kind(1.0, 1e-6, 50, whole_items=whole)
    with pytest.raises(InvalidArgument, match=f"must be at most 1000000 for {kind.about.name}"):
        kind(1.0, 1e-6, 1_000_001)


def neighbouring_sums(mechanism: Weighted, crowds: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    """The sums of two neighbours: beside crowds of users of one item each, every user there can be, who comes or is
    replaced.
    """
    items = range(len(crowds[0]))
    kinds: list[User] = [u for n in range(mechanism.max_items_per_user) for u in itertools.combinations(items, n + 1)]
    for crowd in crowds:
        others = tuple((item,) for item, users in enumerate(crowd) for _ in range(users))
        swapped = mechanism.neighbours == "replace-one"
        for users in itertools.permutations(kinds, 2) if swapped else ((user, ()) for user in kinds):
            yield [sums((*others, *((u,) if u else ())), len(items), mechanism.whole) for u in users]


@cache
def order_law_of(weights: tuple[int, ...], k: int, scale: Fraction) -> Law:
    return laws.noisy_order(weights, k, "gaussian", scale)


class TestWeightedOrder(Contract):
    mechanisms: ClassVar = [
        WeightedOrder(1.0, 1e-6, 10),
        WeightedOrder(2.0, 0.01, 3, whole_items=1, neighbours="replace-one"),
    ]

    def test_draws_are_those_of_gaussian_noise_at_its_scale(self, mechanism: WeightedOrder) -> None:
        """`noisy_ranks`, whose draws follow the law of each noise: exact/test_argmax."""
        histogram = Histogram.of(np.arange(40) * UNIT // 3)
        for number in range(5):
            one, two = (RandomBits.keyed(b"%d" % number) for _ in range(2))
            noisy = noisy_ranks(histogram, mechanism.scale(40), "gaussian", 7, two.draw()).ranks
            assert mechanism.prepare(histogram).ranks(7, one).tolist() == noisy.tolist()

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    @pytest.mark.parametrize(("whole", "limit"), [(1, 1), (1, 3), (2, 3)])
    def test_no_user_tells_more_than_the_budget(self, neighbours: str, whole: int, limit: int) -> None:
        """Three items, crowds near each other, and every user there can be."""
        mechanism = WeightedOrder(0.5, 0.05, limit, whole, neighbours)
        scale, worst = mechanism.scale(3), 0.0
        for weights in neighbouring_sums(mechanism, [(1, 1, 1), (2, 1, 0), (5, 1, 1)]):
            here = [order_law_of(each, 3, scale) for each in weights]
            worst = max(worst, *(hockey_stick(*order, 0.5) for order in (here, here[::-1])))
        assert 0.005 < worst <= 0.05

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    @pytest.mark.parametrize(("whole", "limit"), [(1, 5), (2, 5), (4, 5)])
    def test_no_move_reaches_further_into_the_order(self, neighbours: str, whole: int, limit: int) -> None:
        """All users of five items, replaced or not: squared distances orthogonal to (1, ..., 1)."""
        mechanism = WeightedOrder(1.0, 1e-3, limit, whole, neighbours)
        kinds: list[User] = [u for n in range(limit + 1) for u in itertools.combinations(range(5), n)]
        adds = np.array([sums((u,) if u else (), 5, min(whole, limit)) for u in kinds]) / UNIT
        moves = adds if neighbours == "add-remove" else (adds[:, None] - adds[None]).reshape(-1, 5)
        reached = (moves**2).sum(axis=1) - moves.sum(axis=1) ** 2 / 5
        stated = float(mechanism.squared_sensitivity(5))
        assert reached.max() <= stated + 1e-9
        assert reached.max() > (0.95 if neighbours == "add-remove" else 0.5) * stated

    def test_the_scale_is_the_least(self) -> None:
        mechanism = WeightedOrder(1.0, 1e-6, 500, 20)
        scale = float(mechanism.scale(1000)) / UNIT
        assert delta_of(scale, 1.0, (20 * 0.98) ** 0.5) == pytest.approx(1e-6, rel=1e-6)
        assert mechanism.cost(9).rho == WeightedOrder(1.0, 1e-6, 7, 3).cost(1).rho and mechanism.scale(1) > 0


def given_only(law: Law, common: set[int], rest: float) -> Law:
    """The law of answers of common items alone, given that it is one; any other is as rare as is stated."""
    kept = {answer: float(p) for answer, p in law.items() if common.issuperset(answer)}
    assert 1 - rest - 1e-4 <= sum(kept.values())
    return {answer: p / sum(kept.values()) for answer, p in kept.items()}


SPLITS = [
    (1.0, 1e-6, 20, 60),
    (1.0, 1e-6, 5, 3),
    (0.1, 1e-9, 4, 40),
    (4.0, 1e-3, 10, 30),
    (2.0, 0.02, 3, 9),
    (0.3, 0.2, 3, 9),
]


class TestWeightedGaussian(Contract):
    mechanisms: ClassVar = [
        WeightedGaussian(1.0, 1e-6, 10),
        WeightedGaussian(2.0, 0.01, 3, whole_items=1, neighbours="replace-one"),
    ]

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    @pytest.mark.parametrize(("whole", "limit"), [(1, 1), (1, 3), (2, 3)])
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.2), (2.0, 0.02)])
    def test_no_user_tells_more_than_the_budget(
        self, neighbours: str, whole: int, limit: int, epsilon: float, delta: float
    ) -> None:
        """Crowds around the threshold, rare items on both sides of tau, and every user there can be: where delta is
        halved, and where noise and threshold have nearly all of it each."""
        mechanism = WeightedGaussian(epsilon, delta, limit, whole, neighbours)
        assert (mechanism.deltas()[0] == Fraction(delta)) == (delta < 0.1)
        near, rare = round(mechanism.threshold() / UNIT), mechanism.tau() // UNIT
        worst, some = (
            0.0,
            [(near, near, near), (near + 1, 0, 0), (0, 0, 0), (near, rare, rare + 1), (2 * near, near, 0)],
        )
        for weights in neighbouring_sums(mechanism, some):
            here = [law_of(mechanism, each, 3) for each in weights]
            worst = max(worst, *(hockey_stick(*order, epsilon) for order in (here, here[::-1])))
        assert worst <= delta
        assert worst > (0.2 if delta > 0.1 else 0.5) * delta, "the threshold alone is worth so much, less its safety"

    @pytest.mark.parametrize("k", [1, 2, 5])
    def test_listed_items_need_no_threshold(self, k: int) -> None:
        """Below it, below tau and held by nobody; all others as without a list."""
        mechanism = WeightedGaussian(1.0, 0.2, 3, whole_items=2)
        bar = mechanism.threshold()
        weights, listed = (bar, bar - UNIT, 0, bar // 2, mechanism.tau(), 0), (0, 2, 3)
        stated = law_of(mechanism, weights, k, listed)
        assert sum(stated.values()) == pytest.approx(1, abs=1e-4)
        assert all(len(answer) >= min(k, 3) and not {4, 5} & {*answer} for answer, p in stated.items() if p > 1e-9)
        named, bits = IndexedCounts.of(np.array(weights)), RandomBits.keyed(b"listed")
        flags = np.isin(named.items(np.arange(6)), listed)
        draws = draws_to_see(stated, 0.11)
        seen = Counter(
            tuple(named.items(mechanism.select_with(flags, named.histogram, k, bits.draw())).tolist())
            for _ in range(draws)
        )
        assert_follows(seen, stated, 0.11)
        none = np.zeros(6, bool)
        one, two = (RandomBits.keyed(b"none").draw() for _ in range(2))
        plain = mechanism.select(named.histogram, k, one).tolist()
        assert mechanism.select_with(none, named.histogram, k, two).tolist() == plain

    def test_sums_too_large_for_floats_are_ordered_exactly(self) -> None:
        mechanism = WeightedGaussian(1.0, 1e-3, 10, 5)
        base = 1 << 62
        sums = base + np.arange(300)[::-1]
        for number in range(3):
            draw = RandomBits.keyed(b"%d" % number).draw()
            noisy = []
            for rank, each in enumerate(sums.tolist()):
                score = noisy_score(each - base, mechanism.scale(), noise_real(draw, 0, rank, "gaussian"))
                noisy.append(float(score()))
            order = np.argsort(-np.array(noisy)).tolist()
            draw = RandomBits.keyed(b"%d" % number).draw()
            assert mechanism.select(Histogram.of(sums), 300, draw).tolist() == order

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    @pytest.mark.parametrize("listed", [(0,), (0, 2), (0, 1, 2)])
    def test_no_user_of_listed_items_tells_more_than_the_budget(self, neighbours: str, listed: tuple[int, ...]) -> None:
        mechanism, worst = WeightedGaussian(0.5, 0.2, 3, 2, neighbours), 0.0
        near, rare = round(mechanism.threshold() / UNIT), mechanism.tau() // UNIT
        for weights in neighbouring_sums(mechanism, [(near, near, near), (0, 0, 0), (rare, near, rare + 1)]):
            here = [law_of(mechanism, each, 3, listed) for each in weights]
            worst = max(worst, *(hockey_stick(*order, 0.5) for order in (here, here[::-1])))
        assert (0.01 if len(listed) == 3 else 0.05) < worst <= 0.2, "where all are listed the order alone tells"

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    def test_without_items_of_a_lone_user_the_release_satisfies_zcdp(self, neighbours: str) -> None:
        """The law given that no item comes out which only one of two neighbours has above tau: rho, and no delta."""
        mechanism = WeightedGaussian(1.0, 0.2, 3, 2, neighbours)
        cost, near, rare = mechanism.cost(3), round(mechanism.threshold() / UNIT), mechanism.tau() // UNIT
        assert cost.epsilon == 1 and cost.rho is not None
        assert (cost.delta, cost.zcdp_delta) == (Fraction(0.2), Fraction(0.2) / 2)
        moved = (2 if neighbours == "replace-one" else 1) * 2
        assert float(cost.rho) == pytest.approx(moved * UNIT**2 / (2 * float(mechanism.scale()) ** 2))
        worst = 0.0
        for weights in neighbouring_sums(mechanism, [(near, near, near), (near, rare, 0), (2 * near, near, rare)]):
            common = {i for i in range(3) if min(w[i] for w in weights) > mechanism.tau()}
            given = [given_only(law_of(mechanism, w, 3), common, float(cost.zcdp_delta)) for w in weights]
            for a, b in (given, given[::-1]):
                worst = max(worst, *(renyi(a, b, order) / order for order in (1, 1.5, 4, 30)))
        assert 0.2 * float(cost.rho) < worst <= float(cost.rho) + 1e-4

    def test_the_weights_are_those_that_the_draw_has_decided_by(self) -> None:
        """In the order of the answer, above the threshold, and of an item that always comes out exactly Gaussian."""
        mechanism = WeightedGaussian(1.0, 1e-3, 10, 5)
        bar, scale = mechanism.threshold(), float(mechanism.scale())
        named = IndexedCounts.of(np.array([bar, 3 * bar, bar, bar + UNIT, 0]))
        noises, seen = [], 0
        for number in range(400):
            key = b"%d" % number
            ranks = mechanism.prepare(named.histogram).ranks(4, RandomBits.keyed(key))
            weights = mechanism.noisy_weights(named.histogram, ranks, RandomBits.keyed(key).draw()) / 100
            assert (np.diff(weights) <= 0).all() and (weights > bar / UNIT - 0.01).all()
            noises.append((weights[ranks == 0][0] - 3 * bar / UNIT) / (scale / UNIT))
            seen += len(ranks)
        assert kstest(noises, ndtr).pvalue > 1e-4 and np.std(noises) == pytest.approx(1, abs=0.15)
        assert 400 < seen < 1600, "some pass, some do not"

    def test_without_a_k_every_item_above_the_threshold_is_released(self) -> None:
        """With weights as exact arithmetic rounds them."""
        mechanism = WeightedGaussian(1.0, 1e-3, 10, 5)
        bar, scale = mechanism.threshold(), mechanism.scale()
        named = IndexedCounts.of(np.random.default_rng(1).integers(0, 2 * bar, 3000))
        prepared, key = mechanism.prepare(named.histogram), b"all"
        ranks = prepared.ranks(ALL, RandomBits.keyed(key))
        assert 1000 < len(ranks) < 2000 and ranks.tolist() == prepared.ranks(3000, RandomBits.keyed(key)).tolist()
        draw, totals = RandomBits.keyed(key).draw(), named.histogram.counts_at(ranks).tolist()
        scores = [
            Fraction(float(noisy_score(total, scale, noise_real(draw, 0, rank, "gaussian"))().mid()))
            for total, rank in zip(totals, ranks.tolist(), strict=True)
        ]
        assert min(scores) * scale > bar and sorted(scores, reverse=True) == scores
        weights = mechanism.noisy_weights(named.histogram, ranks, RandomBits.keyed(key).draw())
        assert weights.tolist() == [math.floor(score * scale * 100 / UNIT + Fraction(1, 2)) for score in scores]

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    def test_items_with_their_weights_tell_no_more(self, neighbours: str) -> None:
        """The joint law of two items' weights in cells a fifth of a deviation wide, or of neither coming out."""
        mechanism = WeightedGaussian(0.5, 0.2, 2, 1, neighbours)
        near, scale = round(mechanism.threshold() / UNIT), float(mechanism.scale())
        edges = np.append(mechanism.threshold() + scale / 5 * np.arange(40), np.inf)
        worst = 0.0

        def cells(weights: tuple[int, ...]) -> np.ndarray:
            of_each = []
            for total in weights:
                below = ndtr((edges - total) / scale) if total > mechanism.tau() else np.ones(len(edges))
                of_each.append(np.diff(below, prepend=0))
            return np.multiply.outer(*of_each)

        some = [(near, near), (near, 0), (2 * near, mechanism.tau() // UNIT), (0, 0)]
        for one, two in (map(cells, weights) for weights in neighbouring_sums(mechanism, some)):
            for a, b in ((one, two), (two, one)):
                worst = max(worst, float(np.maximum(a - math.exp(0.5) * b, 0).sum()))
        assert 0.05 < worst <= 0.2

    @pytest.mark.parametrize(("epsilon", "part"), [(1.0, 15 / 16), (0.01, 1 / 2)])
    def test_items_of_the_worst_lone_user_are_released_with_probability_delta_2(
        self, epsilon: float, part: float
    ) -> None:
        mechanism = WeightedGaussian(epsilon, 0.02, 50, whole_items=4)
        weighting, s = mechanism.weighting, float(mechanism.scale())
        bar = mechanism.threshold() - mechanism.tau()
        chances = [-math.expm1(t * log_ndtr((bar - weighting.weight(t)) / s)) for t in range(1, 51)]
        assert 0.99 * part * 0.02 < max(chances) <= part * 0.02

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    @pytest.mark.parametrize(("epsilon", "delta", "whole", "limit"), SPLITS)
    def test_new_and_existing_items_share_the_weight_of_one_user(
        self, neighbours: str, epsilon: float, delta: float, whole: int, limit: int
    ) -> None:
        """For every number of items t of a user, of which j are new: q + (1 - q) h, with nothing but the definitions.

        Under replace-one another user moves all that one can. A split that gives new items all of delta twice is seen.
        """
        mechanism = WeightedGaussian(epsilon, delta, limit, whole, neighbours)
        s, bar = float(mechanism.scale()), mechanism.threshold() - mechanism.tau()
        other, worst, planted = (mechanism.whole if neighbours == "replace-one" else 0), 0.0, 0.0
        for t in range(1, limit + 1):
            weight = float(mechanism.weighting.weight(t))
            new = np.arange(t + 1)
            q = -np.expm1(new * log_ndtr((bar - weight) / s))
            mu = np.sqrt((t - new) * weight**2 + other * UNIT**2) / s
            h = np.zeros(t + 1)
            h[mu > 0] = [delta_of(1.0, epsilon, m) for m in mu[mu > 0]]
            worst, planted = max(worst, (q + (1 - q) * h).max()), max(planted, (2 * q + (1 - 2 * q) * h).max())
        assert worst <= delta * (1 + 1e-9)
        if delta < 0.1:
            assert mechanism.deltas()[0] == Fraction(delta) and worst > 0.9 * delta and planted > 1.5 * delta

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    @pytest.mark.parametrize(("epsilon", "delta", "whole", "limit"), SPLITS)
    def test_the_bar_is_exact(self, neighbours: str, epsilon: float, delta: float, whole: int, limit: int) -> None:
        """The least sum that comes out under a key whose noise is known, and the threshold by its definition."""
        mechanism = WeightedGaussian(epsilon, delta, limit, whole, neighbours)
        noise, rest = mechanism.deltas()
        reach = (2 if neighbours == "replace-one" else 1) * min(whole, limit)
        scale = UNIT * gaussian_scale(Fraction(epsilon), noise, Fraction(reach))
        highest = max(
            math.isqrt(min(whole, limit) * UNIT**2 // max(t, min(whole, limit)))
            + float(scale) * ndtri_exp(math.log1p(-float(rest)) / t)
            for t in range(1, limit + 1)
        )
        assert highest <= mechanism.threshold() - mechanism.tau() <= highest + 1
        for key in (b"one", b"two"):
            off = float(noise_real(RandomBits.keyed(key).draw(), 0, 0, "gaussian")().mid()) * float(scale)
            found = least(lambda total, key=key: len(mechanism(np.array([total]), 1, RandomBits.keyed(key))) == 1)
            assert found == pytest.approx(max(mechanism.threshold() - off, mechanism.tau()), abs=1)

    def test_delta_is_halved_where_more_is_not_proved(self) -> None:
        """In either case a ledger sees by the rest that the noise has a tail."""
        noise = [WeightedGaussian(epsilon, 0.02, 50, 4).deltas()[0] for epsilon in (0.01, 1.0)]
        assert noise == [Fraction(0.02) / 2, Fraction(0.02)]
        for neighbours in ("add-remove", "replace-one"):
            mechanism = WeightedGaussian(1.0, 1e-6, 50, 4, neighbours)
            assert mechanism.cost(3).zcdp_delta == Fraction(1e-6) * Fraction(15, 16) < mechanism.cost(3).delta

    def test_a_swap_is_calibrated_to_two_users(self) -> None:
        one, two = WeightedGaussian(1.0, 1e-6, 9, 5, "replace-one"), WeightedGaussian(1.0, 1e-6, 20, 10)
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
