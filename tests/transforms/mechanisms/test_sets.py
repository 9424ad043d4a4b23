"""What mechanisms over sets inherit on top of `Contract`: their draws are those of a race at the rate of their law.

The winner of a race follows the law of each noise: exact/test_race.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact import race, reals, sets
from private_topk.transforms.mechanisms.exact.classes import Classes, TopK
from private_topk.transforms.mechanisms.exact.histogram import Histogram, IndexedCounts
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.exact.race import Region
from private_topk.transforms.mechanisms.whole_answers import Canonical, JointSet
from tests.laws import SMALL_COUNTS, Law, assert_follows, check_law, check_neighbours, draws_to_see, frequencies
from tests.transforms.mechanisms import laws
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
        named = IndexedCounts.of(np.array([5, 3, 3, 1, 0, 9, 4, 4]))
        for number in range(15):
            k, draw = number % 3 + 1, RandomBits.keyed(b"%d" % number).draw()
            rate, regions = self.regions(mechanism, named.histogram, k)
            ranks = race.Race(regions, rate, mechanism.noise, draw).winner().draw_ranks(draw)
            answer = mechanism(named.vector, k, RandomBits.keyed(b"%d" % number))
            assert answer.tolist() == sorted(named.items(ranks).tolist())

    @pytest.mark.nightly
    def test_drawn_sets_follow_the_law(self) -> None:
        mechanism, counts, k = self.small
        check_law(mechanism, partial(self.law, mechanism), [counts], [1, k], smallest_error=0.1)

    def frequencies_by(self, mechanism: Mechanism, counts: tuple[int, ...], k: int, described: Callable) -> None:
        """Of a larger domain, where too many sets are there for a cell each."""
        expected, seen = Counter(), Counter()
        for y, p in self.law(mechanism, counts, k).items():
            expected[described(y)] += p
        for y, n in frequencies(mechanism, counts, k, draws_to_see(expected, 0.12), b"larger").items():
            seen[described(y)] += n
        assert_follows(seen, expected, 0.12)

    @pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
    def test_one_item_spends_all_of_the_budget(self, relation: str) -> None:
        """Of a set of one a single count decides, whatever else the loss is made of."""
        counts = (30, 0) if relation == "add-remove" else (30, 1)
        for parameters in self.private:
            mechanism = self.kind(3.0, neighbours=relation, **parameters)
            met = check_neighbours(mechanism, partial(self.law, mechanism), [counts], ks=(1,))
            assert met > 2.7

    @pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
    def test_neighbouring_sets_stay_within_epsilon(self, relation: str) -> None:
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
            monkeypatch.setattr(sets, "_PRECISION", bits)
            assert answers == [m(counts, 20, RandomBits.keyed(b"precision")).tolist() for m in mechanisms]


class TestJointSet(SetContract):
    kind = JointSet
    mechanisms: ClassVar = [
        JointSet(1.0),
        JointSet(0.5, "exponential", "replace-one"),
        JointSet(Fraction(1, 3), "laplace"),
    ]
    small: ClassVar = (JointSet(1.0), (5, 3, 3, 1, 0), 2)

    def rate(self, mechanism: JointSet, k: int) -> Fraction:
        return Fraction(mechanism.epsilon) / ((2 if mechanism.neighbours == "replace-one" else 1) * min(k, 2))

    def law(self, mechanism: JointSet, counts: tuple[int, ...], k: int) -> Law:
        return laws.best_set(counts, k, self.rate(mechanism, k), mechanism.noise)

    def regions(self, mechanism: JointSet, histogram: Histogram, k: int) -> tuple[Fraction, list[Region]]:
        return self.rate(mechanism, k), [race.LossInterval.of_all(sets.SetLosses(histogram, k))]

    @pytest.mark.nightly
    def test_drawn_sets_follow_the_law_on_a_larger_domain(self) -> None:
        """126 sets: many cuts of the losses, and sets drawn between two staircases; by loss and smallest count."""
        counts = (20, 9, 31, 17, 26, 20, 40, 4, 30)
        losses = laws.set_losses(counts, 4)
        self.frequencies_by(JointSet(0.3), counts, 4, lambda y: (losses[y], min(counts[i] for i in y)))


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_astronomical_numbers_of_sets_of_joint_set(noise: str) -> None:
    """ln binom(d, k) is 1,400: beyond what sums or products of floats hold (google-research's code raises past 745)."""
    counts = np.random.RandomState(3).permutation(10**6 // np.arange(1, 100_001))
    assert math.log(math.comb(100_000, 200)) > 745
    answer = JointSet(0.05, noise)(counts, 200, RandomBits.keyed(b"large"))
    assert len(set(answer.tolist())) == 200


def test_easy_counts_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without padding, all-equal counts need one product of polynomials and Zipf ones a thousand."""
    products = Counter()
    times = sets._Ways.times

    def counted(ways: sets._Ways, weights: sets.arb_poly, k: int) -> sets._Ways:
        products["all"] += len(weights) > 1
        return times(ways, weights, k)

    monkeypatch.setattr(sets._Ways, "times", counted)
    done = []
    for counts in (np.full(2000, 7), 10**6 // np.arange(1, 2001), 10**9 * np.arange(2000)):
        products.clear()
        JointSet(0.1)(counts, 50, RandomBits.keyed(b"time"))
        done.append(products["all"])
    assert min(done) >= 50 * sets._EASY


HALF = Fraction(1, 2)


class TestCanonical(SetContract):
    kind = Canonical
    mechanisms: ClassVar = [
        Canonical(1.0),
        Canonical(0.5, 1, "exponential", "replace-one"),
        Canonical(2, 0, "laplace"),
        Canonical(1.0, 2 / 3, "logistic"),
        Canonical(1.0, noise="half-logistic"),
    ]
    small: ClassVar = (Canonical(1.0, Fraction(2, 3)), (3, 0, 2, 4, 3), 3)
    private: ClassVar = [
        *({"gamma": gamma} for gamma in (0, HALF, Fraction(2, 3), 1)),
        *({"gamma": Fraction(2, 3), "noise": noise} for noise in LIPSCHITZ_NOISES[1:]),
    ]

    def law(self, mechanism: Canonical, counts: tuple[int, ...], k: int) -> Law:
        rate = Fraction(mechanism.epsilon) / (2 if mechanism.neighbours == "replace-one" else 1)
        return laws.best_set(counts, k, rate, mechanism.noise, Fraction(1) if k == 1 else mechanism.gamma)

    def regions(self, mechanism: Canonical, histogram: Histogram, k: int) -> tuple[Fraction, list[race.Region]]:
        """Losses are counted in units of 1 / the denominator of gamma."""
        sensitivity = 2 if mechanism.neighbours == "replace-one" else 1
        gamma = Fraction(1) if k == 1 else mechanism.gamma
        rate = Fraction(mechanism.epsilon) / (sensitivity * gamma.denominator)
        return rate, [TopK(k), Classes(histogram, k, gamma, rate).everything()]

    @pytest.mark.nightly
    def test_drawn_classes_follow_the_law_on_a_larger_domain(self) -> None:
        """All (h, t) of 10 ranks, so that rectangles are cut many times and sets drawn inside them."""
        counts = (20, 9, 31, 17, 26, 20, 40, 4, 20, 15)
        order = sorted(range(10), key=lambda i: (-counts[i], i))

        def described(y: tuple[int, ...]) -> tuple[int, int]:
            ranks = {order.index(i) for i in y}
            return min(set(range(10)) - ranks), max(ranks)

        self.frequencies_by(Canonical(0.25), counts, 4, described)


def test_exponential_noise_is_permute_and_flip() -> None:
    """Propose in random order, accept with exp(-excess loss), by listing all orders and flips."""
    counts, k = (4, 3, 1), 2
    losses = laws.set_losses(counts, k)
    heads = {y: math.exp(-loss / 2) for y, loss in losses.items()}
    chances = Counter()
    for order in itertools.permutations(losses):
        rejected = 1.0
        for y in order:
            chances[y] += rejected * heads[y] / math.factorial(len(losses))
            rejected *= 1 - heads[y]
    assert laws.best_set(counts, k, HALF, "exponential") == pytest.approx(chances)


@pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
def test_astronomical_numbers_of_sets(noise: str) -> None:
    """ln binom(d, k) is 5,000: sums over sets, or U ** (1/m), would leave the floats' range."""
    counts = np.random.RandomState(3).permutation(10**6 // np.arange(1, 100_001))
    top = set(np.argsort(-counts, kind="stable")[:1000].tolist())
    for gamma in (0, HALF, 1):
        answer = Canonical(1.0, gamma, noise)(counts, 1000, RandomBits.keyed(b"large"))
        assert len(set(answer.tolist())) == 1000
        assert len(top & set(answer.tolist())) < 1000 or gamma == 1


@pytest.mark.parametrize("counts", [np.zeros(500, int), 10**6 * np.arange(500), np.arange(500) // 3], ids=range(3))
def test_an_easy_draw_takes_at_least_half_the_splits_of_others(
    counts: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made-up classes are split where the counts leave little to decide, since the time of a draw can be seen."""
    splits, run = [0], race.Race.run

    def counted(self: race.Race, most: float = math.inf) -> None:
        before = self.splits
        run(self, most)
        splits[0] += self.splits - before

    monkeypatch.setattr(race.Race, "run", counted)
    for k in (1, 9, 100, 400):
        splits[0] = 0
        Canonical(1.0)(counts, k, RandomBits.keyed(b"pad"))
        assert splits[0] >= 7 * math.isqrt(k)
