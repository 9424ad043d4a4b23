"""JOINT-SET: its law, its frequencies, its privacy, and the counting of sets between staircases."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from private_topk.testing import (
    SMALL_COUNTS,
    Law,
    assert_follows,
    check_law,
    check_neighbours,
    draws_to_see,
    frequencies,
)
from private_topk.transforms.mechanisms import Cost, RandomBits
from private_topk.transforms.mechanisms.exact import race, reals, set_losses, strips
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.joint_set import JointSet
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract


def law_of(mechanism: JointSet, counts: tuple[int, ...], k: int) -> Law:
    rate = Fraction(mechanism.epsilon) / (4 if mechanism.neighbours == "swap" else 2)
    return laws.best_set(counts, k, rate, mechanism.noise)


class TestJointSet(Contract):
    law = staticmethod(law_of)
    mechanisms: ClassVar = [
        JointSet(1.0),
        JointSet(0.5, "exponential", "swap"),
        JointSet(Fraction(1, 3), "laplace"),
    ]

    def test_draws_are_those_of_the_race_at_the_rate_of_the_law(self, mechanism: JointSet) -> None:
        """Whose winner follows the law of each noise: exact/test_race."""
        counts, rate = np.array([5, 3, 3, 1, 0, 9, 4, 4]), Fraction(mechanism.epsilon)
        rate /= 4 if mechanism.neighbours == "swap" else 2
        named = Named.of(counts)
        for number in range(10):
            draw = RandomBits.keyed(b"%d" % number).draw()
            everything = set_losses.SetLosses(named.histogram, 3).everything()
            ranks = race.Race([everything], rate, mechanism.noise, draw).winner().draw_ranks(draw)
            answer = mechanism(counts, 3, RandomBits.keyed(b"%d" % number))
            assert answer.tolist() == sorted(named.items(ranks).tolist())


def test_frequencies() -> None:
    mechanism = JointSet(1.0)
    check_law(mechanism, partial(law_of, mechanism), (5, 3, 3, 1, 0), [2], smallest_error=0.1)


def test_frequencies_on_a_larger_domain() -> None:
    """126 sets: many cuts of the losses, and sets drawn between two staircases; by loss and smallest count."""
    counts, mechanism = (20, 9, 31, 17, 26, 20, 40, 4, 20), JointSet(0.3)
    losses = laws.set_losses(counts, 4)
    expected, seen = Counter(), Counter()
    for y, p in law_of(mechanism, counts, 4).items():
        expected[losses[y], min(counts[i] for i in y)] += p
    for y, n in frequencies(mechanism, counts, 4, draws_to_see(expected, 0.12), b"losses").items():
        seen[losses[y], min(counts[i] for i in y)] += n
    assert_follows(seen, expected, 0.12)


@pytest.mark.parametrize("relation", ["add-remove", "swap"])
@pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
def test_privacy(noise: str, relation: str) -> None:
    """No log-probability moves by more than epsilon = 3; some move by more than half, so a lost factor 2 would show."""
    mechanism = JointSet(3.0, noise, relation)
    grid = SMALL_COUNTS if relation == "add-remove" else SMALL_COUNTS[:-1]
    worst = check_neighbours(mechanism, partial(law_of, mechanism), grid, ks=(1, 2))
    assert 1.5 < worst <= 3 + 1e-9


def test_sets_come_in_the_order_of_the_items_not_of_their_ranks() -> None:
    counts = np.array([10, 1000, 0, 5000, 200, 0])
    assert JointSet(5.0)(counts, 4, RandomBits.keyed(b"order")).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_astronomical_numbers_of_sets(noise: str) -> None:
    """ln binom(d, k) is 1,400: beyond what sums or products of floats hold (google-research's code raises past 745)."""
    counts = np.random.RandomState(3).permutation(10**6 // np.arange(1, 100_001))
    assert math.log(math.comb(100_000, 200)) > 745
    answer = JointSet(0.05, noise)(counts, 200, RandomBits.keyed(b"large"))
    assert len(set(answer.tolist())) == 200


def test_answers_do_not_depend_on_the_precision_decisions_start_with(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.RandomState(2).randint(0, 300, 500)
    mechanisms = [JointSet(0.3, noise=noise) for noise in LIPSCHITZ_NOISES]
    answers = [m(counts, 20, RandomBits.keyed(b"precision")).tolist() for m in mechanisms]
    for bits in (30, 250):
        monkeypatch.setattr(race, "_PRECISION", bits)
        monkeypatch.setattr(reals, "_START_PRECISION", bits)
        monkeypatch.setattr(strips, "_PRECISION", bits)
        assert answers == [m(counts, 20, RandomBits.keyed(b"precision")).tolist() for m in mechanisms]


def test_easy_counts_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without padding, all-equal counts need one product of polynomials and Zipf ones a thousand."""
    products = Counter()
    times = strips._Ways.times

    def counted(ways: strips._Ways, weights: strips.arb_poly, k: int) -> strips._Ways:
        products["all"] += len(weights) > 1
        return times(ways, weights, k)

    monkeypatch.setattr(strips._Ways, "times", counted)
    done = []
    for counts in (np.full(2000, 7), 10**6 // np.arange(1, 2001), 10**9 * np.arange(2000)):
        products.clear()
        JointSet(0.1)(counts, 50, RandomBits.keyed(b"time"))
        done.append(products["all"])
    assert min(done) >= 50 * set_losses._EASY


def test_bad_noise() -> None:
    with pytest.raises(ValueError, match="noise must be one of gumbel, .*half-logistic, got 'gaussian'"):
        JointSet(1.0, noise="gaussian")


def test_only_gumbel_noise_has_the_exponential_mechanisms_cost() -> None:
    assert JointSet(2.0).cost(5) == JointSet(2.0, neighbours="swap").cost(5) == Cost.exponential(Fraction(2))
    assert JointSet(2.0, "laplace").cost(5) == Cost.pure(Fraction(2))
