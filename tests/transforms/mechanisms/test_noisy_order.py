"""The evidence every item-by-item mechanism shows, over the law that its own test states.

Mechanisms that are noise on counts answer as `noisy_ranks` does at the scale of their law, bit by bit; its draws follow
the law of each noise (`exact/test_argmax`).
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.correlated_gaussian import CorrelatedGaussian
from private_topk.transforms.mechanisms.exact.argmax import noisy_ranks
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.noisy_order import (
    CdpPeeling,
    Gamma,
    Gaussian,
    Laplace,
    Oneshot,
    Peeling,
    PnfPeeling,
)
from tests.laws import (
    SMALL_COUNTS,
    Law,
    assert_follows,
    check_law,
    check_neighbours,
    draws_to_see,
    max_log_ratio,
    neighbours,
)
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.laws import NOISE_LAWS, delta_of

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

    @pytest.mark.nightly
    def test_the_order_follows_its_law(self) -> None:
        first = self.mechanisms[0]
        check_law(first, partial(self.law, first), [COUNTS], self.drawn, smallest_error=0.08)

    def test_the_order_meets_its_stated_cost_on_all_neighbours(self, mechanism: Mechanism) -> None:
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
    def test_tiny_and_huge_epsilons_give_a_valid_answer(self, mechanism: Mechanism, epsilon: float) -> None:
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
            named = IndexedCounts.of(np.array(counts))
            for k in {1, 4, len(counts) // 4}:
                noise, scale = self.noise_and_scale(mechanism, len(counts), k)
                mine, its, off = (RandomBits.keyed(b"scale") for _ in range(3))
                for _ in range(10):
                    drawn = named.items(noisy_ranks(named.histogram, scale, noise, k, its.draw()).ranks).tolist()
                    assert mechanism(counts, k, mine).tolist() == drawn, (counts, k)
                    wider = noisy_ranks(named.histogram, scale * Fraction(101, 100), noise, k, off.draw()).ranks
                    apart += drawn != named.items(wider).tolist()
        assert apart > 0


class TestPeeling(NoisyOrder):
    mechanisms = [Peeling(1.0), Peeling(2.5, neighbours="replace-one")]

    def noise_and_scale(self, mechanism: Peeling, d: int, k: int) -> tuple[str, Fraction]:
        return "gumbel", (k if mechanism.neighbours == "add-remove" else 2 * k) / Fraction(mechanism.epsilon)

    def test_peeling_in_rounds_equals_gumbel_noise_drawn_once(self) -> None:
        product = laws.peeling(COUNTS, 3, Fraction(1, 3))
        quadrature = laws.noisy_order(COUNTS, 3, "gumbel", Fraction(3))
        assert all(abs(product[s] - quadrature[s]) < 1e-12 for s in product)


def lemma_4_2(share: float, k: int, delta: float) -> float:
    """Gillenwater et al. 2022, Lemma 4.2, as printed there."""
    return k * share**2 / 8 + 2 * share * math.sqrt(k * math.log(1 / delta) / 8)


def proposition_12(share: float, k: int, delta: float) -> float:
    """Canonne, Kamath & Steinke 2020, for rho = k share**2 / 8, at the best of many orders."""
    a = 1 + np.geomspace(1e-3, 1e5, 100_000)
    return float((a * k * share**2 / 8 - (math.log(delta) + np.log(a - 1) - a * np.log1p(-1 / a)) / (a - 1)).min())


def bounded_range(share: float, k: int, delta: float) -> float:
    """Dong, Durfee & Rogers 2020: the adaptive bound."""
    ratio = share / (1 - math.exp(-share))
    return min(k * share, k * (ratio - 1 - math.log(ratio)) + share * math.sqrt(k / 2 * math.log(1 / delta)))


class TestCdpPeeling(NoisyOrder):
    mechanisms = [CdpPeeling(1.0, 0.1), CdpPeeling(2.0, 0.3, neighbours="replace-one")]

    def noise_and_scale(self, mechanism: CdpPeeling, d: int, k: int) -> tuple[str, Fraction]:
        return "gumbel", (1 if mechanism.neighbours == "add-remove" else 2) / mechanism.share(k)

    @pytest.mark.parametrize(("epsilon", "delta", "k"), [(1.0, 1e-6, 100), (0.1, 1e-9, 1000), (5.0, 1e-3, 30)])
    def test_the_share_is_above_the_papers_formulas(self, epsilon: float, delta: float, k: int) -> None:
        published = [
            brentq(lambda s, f=f: f(s, k, delta) - epsilon, epsilon / k, epsilon, xtol=1e-15)
            for f in (lemma_4_2, bounded_range, proposition_12)
        ]
        share = float(CdpPeeling(epsilon, delta).share(k))
        assert max(published) < share < 1.05 * max(published)

    def test_a_delta_too_small_to_help_leaves_basic_composition(self) -> None:
        assert CdpPeeling(1.0, 1e-100).share(1) == 1
        assert CdpPeeling(0.3, 1e-100).share(2) == Fraction(0.3) / 2
        assert CdpPeeling(0.3, 1e-6).share(2) > Fraction(0.3) / 2


class TestOneshot(NoisyOrder):
    mechanisms = [Oneshot(1.0, noise=noise) for noise in LIPSCHITZ_NOISES] + [Oneshot(2.0, neighbours="replace-one")]

    def noise_and_scale(self, mechanism: Oneshot, d: int, k: int) -> tuple[str, Fraction]:
        return mechanism.noise, (k if mechanism.neighbours == "add-remove" else 2 * k) / Fraction(mechanism.epsilon)

    @pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
    def test_densities_fall_no_faster_than_the_proof_of_the_order_needs(self, noise: str) -> None:
        """f(x + s) >= exp(-s) f(x) for s >= 0, and log(1 - F) 1-Lipschitz."""
        law, x = NOISE_LAWS[noise], np.linspace(-30, 30, 1201)
        for s in (0.01, 0.5, 1.0, 3.0):
            assert (law.pdf(x + s) >= np.exp(-s) * law.pdf(x) * (1 - 1e-9)).all()
            assert (law.sf(x + s) >= np.exp(-s) * law.sf(x) * (1 - 1e-9)).all()


class TestLaplace(NoisyOrder):
    mechanisms = [
        Laplace(1.0),
        Laplace(1.0, max_items_per_user=1),
        Laplace(2.0, neighbours="replace-one"),
        Laplace(2.0, max_items_per_user=1, neighbours="replace-one"),
    ]

    def noise_and_scale(self, mechanism: Laplace, d: int, k: int) -> tuple[str, Fraction]:
        moved = min(k, mechanism.max_items_per_user or k) * (1 if mechanism.neighbours == "add-remove" else 2)
        return "laplace", moved / Fraction(mechanism.epsilon)


class TestGaussian(NoisyOrder):
    mechanisms = [
        Gaussian(1.0, 0.05),
        Gaussian(1.0, 0.05, max_items_per_user=1),
        Gaussian(1.0, 0.05, max_items_per_user=2, neighbours="replace-one"),
    ]

    def noise_and_scale(self, mechanism: Gaussian, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", mechanism.scale(d)

    @pytest.mark.parametrize(
        ("epsilon", "delta", "m", "d", "squared"),
        [(1.0, 1e-6, 4, 1000, 3.984), (0.1, 1e-9, None, 50, 12.5), (5.0, 1e-3, 30, 21, 110 / 21)],
    )
    def test_the_scale_is_the_papers(self, epsilon: float, delta: float, m: int | None, d: int, squared: float) -> None:
        best = brentq(lambda s: delta_of(s, epsilon, math.sqrt(squared)) - delta, 1e-2, 1e6, xtol=1e-12)
        assert float(Gaussian(epsilon, delta, max_items_per_user=m).scale(d)) == pytest.approx(best, rel=1e-8)

    @pytest.mark.parametrize(("neighbours", "step"), [("add-remove", 1), ("replace-one", 2)])
    def test_the_order_of_two_uses_its_budget_up(self, neighbours: str, step: int) -> None:
        """Which of two is first is told by one difference, for which the noise is as small as it may be."""
        mechanism = Gaussian(0.5, 1e-3, neighbours=neighbours)

        def worst(scale: float) -> float:
            gaps = ndtr(np.arange(300, -301, -1) / (scale * math.sqrt(2)))
            ups, downs = gaps[step:], gaps[:-step]
            return float(np.maximum(downs - math.exp(0.5) * ups, (1 - ups) - math.exp(0.5) * (1 - downs)).max())

        scale = float(mechanism.scale(2))
        assert 0.95e-3 < worst(scale) <= 1e-3 * (1 + 1e-9)
        assert worst(0.97 * scale) > 1e-3

    def test_one_item_has_one_order(self) -> None:
        assert Gaussian(1.0, 1e-6)([5], 1, RandomBits.keyed(b"one")).tolist() == [0]

    def test_zcdp_of_gaussian_noise(self) -> None:
        mechanism = Gaussian(1.0, 1e-6, max_items_per_user=4)
        for kind, moved in ((mechanism, Fraction(96 * 4, 100)), (Gaussian(1.0, 1e-6), 25)):
            rho = kind.cost(10).rho
            assert rho >= moved / (2 * kind.scale(100) ** 2)
            assert float(rho) == pytest.approx(float(moved) / (2 * float(kind.scale(100)) ** 2))


class TestCorrelatedGaussian(NoisyOrder):
    """A lone histogram is a series of one step, and its noise covers the counts. `test_series` has the rest."""

    mechanisms = [CorrelatedGaussian(1.0, 0.05, 1), CorrelatedGaussian(1.0, 0.05, 2, "replace-one")]

    def noise_and_scale(self, mechanism: CorrelatedGaussian, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", mechanism.scale()


class TestGamma(ItemByItem):
    mechanisms = [Gamma(1.0), Gamma(2.0, neighbours="replace-one")]
    drawn = (2,)
    grid = [counts for counts in SMALL_COUNTS if len(counts) <= 3]

    def law(self, mechanism: Gamma, counts: tuple[int, ...], k: int) -> Law:
        return laws.gamma_order(
            counts, k, Fraction(mechanism.epsilon) * (1 if mechanism.neighbours == "replace-one" else 2)
        )

    @pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
    def test_two_items_spend_most_of_the_budget(self, relation: str) -> None:
        """Half as much noise again as is needed would show no more than two thirds of it."""
        mechanism, worst = Gamma(1.0, relation), 0.0
        for counts in [(3, 0), (6, 0), (12, 0)]:
            for moved in neighbours(counts, relation):
                worst = max(worst, max_log_ratio(*(self.law(mechanism, of, 1) for of in (counts, moved))))
        assert 0.7 < worst <= 1 + 1e-9

    @pytest.mark.nightly
    def test_different_counts_of_one_block_follow_the_law(self) -> None:
        """Cuts lie 3 and more below the second count at this epsilon: 3 and 1 are read as one block."""
        mechanism = Gamma(0.05)
        check_law(mechanism, partial(self.law, mechanism), [(9, 4, 3, 1, 0)], [2], smallest_error=0.09)

    def test_a_swap_is_drawn_as_half_the_budget_without(self) -> None:
        for number in range(20):
            one, two = (RandomBits.keyed(b"%d" % number) for _ in range(2))
            counts = np.arange(30) * 7 % 31
            assert Gamma(1.0)(counts, 5, one).tolist() == Gamma(2.0, "replace-one")(counts, 5, two).tolist()

    def test_leaving_or_entering_a_ranking_costs_half_of_a_swap(self) -> None:
        """A user who leaves one ranking and enters another changes both as one who comes or goes."""
        mechanism = Gamma(1.0, "replace-one")
        for counts in [(2, 1), (3, 3, 3), (4, 3, 1, 0)]:
            for moved in neighbours(counts):
                for k in (1, 2):
                    here, there = (self.law(mechanism, of, k) for of in (counts, moved))
                    assert max_log_ratio(here, there) <= 0.5 + 1e-7


class TestPnfPeeling(ItemByItem):
    mechanisms = [PnfPeeling(1.0), PnfPeeling(2.5, neighbours="replace-one")]

    def law(self, mechanism: PnfPeeling, counts: tuple[int, ...], k: int) -> Law:
        return laws.permute_and_flip(
            counts, k, Fraction(mechanism.epsilon) / (k if mechanism.neighbours == "add-remove" else 2 * k)
        )

    @pytest.mark.nightly
    def test_permute_and_flip_follows_its_law_among_many_equal_scores(self) -> None:
        """The trap: as an alternating sum the law of permute-and-flip is garbage beyond 40 equal scores."""
        equal, p = 60, math.exp(-2)
        # The leader is met after j of the others, all of which were passed over: a geometric sum.
        leader = sum((1 - p) ** j for j in range(equal + 1)) / (equal + 1)
        law = {(0,): leader, (1,): 1 - leader}
        bits, draws = RandomBits.keyed(b"equal"), draws_to_see(law, 0.05)
        counts = np.array([2, *[0] * equal])
        seen = Counter((min(int(PnfPeeling(1.0)(counts, 1, bits)[0]), 1),) for _ in range(draws))
        assert_follows(seen, law, 0.05)

    def test_rounds_have_noise_of_their_own(self) -> None:
        """With one noise for all rounds the order of two equal items would tell nothing more; here it is fresh."""
        bits = RandomBits.keyed(b"fresh")
        answers = [PnfPeeling(1.0)(np.zeros(3, np.int64), 3, bits).tolist() for _ in range(100)]
        assert len({tuple(a) for a in answers}) == 6

    def test_all_of_many_items_take_time_in_proportion(self) -> None:
        """Eight times as many items, all of them asked for: about ten times the time and not 64 times, as once."""

        def seconds(size: int) -> float:
            counts, started = 10**7 // np.arange(1, size + 1), time.process_time()
            assert len(set(PnfPeeling(1.0)(counts, size, RandomBits.keyed(b"many")).tolist())) == size
            return time.process_time() - started

        seconds(1000)
        assert seconds(40_000) < 30 * seconds(5_000)
