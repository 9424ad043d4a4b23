"""JOINT-SET: its law, its frequencies, its privacy, and the counting of sets between staircases."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from flint import arb

from private_topk.testing import (
    SMALL_COUNTS,
    assert_follows,
    check_neighbours,
    draws_to_see,
    frequencies,
    total,
)
from private_topk.transforms.mechanisms import Cost, RandomBits
from private_topk.transforms.mechanisms.exact import race, reals, set_losses, strips
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.joint_set import JointSet
from tests.quick import few, smallest
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.set_laws import ROUNDING, joint_loss, law


def law_of(mechanism: JointSet, counts: tuple[int, ...], k: int) -> dict[tuple[int, ...], arb]:
    rate = Fraction(mechanism.epsilon) / (4 if mechanism.neighbours == "swap" else 2)
    return law(joint_loss, rate, mechanism.noise, counts, k)


class TestJointSet(Contract):
    mechanisms: ClassVar = [
        JointSet(1.0),
        JointSet(0.5, "exponential", "swap"),
        JointSet(Fraction(1, 3), "laplace"),
    ]


@pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
def test_probabilities_sum_to_one(noise: str) -> None:
    for counts in SMALL_COUNTS:
        for k in range(1, len(counts) + 1):
            assert abs(float(total(law_of(JointSet(1.0, noise), counts, k)).mid()) - 1) < ROUNDING


@pytest.mark.parametrize(
    ("mechanism", "counts", "k"),
    few(
        [
            *((JointSet(1.0, noise), (5, 3, 3, 1, 0), 2) for noise in LIPSCHITZ_NOISES),
            (JointSet(1.0), (3, 0, 2, 4, 3), 3),
            (JointSet(2.0, "exponential", "swap"), (3, 0, 2, 4, 3), 3),
            (JointSet(1.0, neighbours="swap"), (6, 2, 2, 3), 1),
            (JointSet(1.0), (2, 2, 2, 2), 3),
        ]
    ),
    ids=repr,
)
def test_frequencies(mechanism: JointSet, counts: tuple[int, ...], k: int) -> None:
    stated = law_of(mechanism, counts, k)
    least = smallest(0.1)
    assert_follows(frequencies(mechanism, counts, k, draws_to_see(stated, least), b"joint set"), stated, least)


@pytest.mark.long
def test_frequencies_on_a_larger_domain() -> None:
    """3,003 sets: many cuts of the losses, and sets drawn between two staircases; by loss and last rank."""
    counts = tuple(np.random.RandomState(5).permutation([40, 31, 30, 30, 26, 21, 20, 20, 20, 17, 15, 9, 4, 4]).tolist())
    mechanism = JointSet(0.3)

    def described(y: tuple[int, ...]) -> tuple[int, ...]:
        taken = [counts[i] for i in y]
        return int(joint_loss(counts, y)), min(taken), sum(taken) // 25

    expected, seen = Counter(), Counter()
    for y, p in law_of(mechanism, counts, 6).items():
        expected[described(y)] += p
    for y, n in frequencies(mechanism, counts, 6, draws_to_see(expected, 0.12), b"losses").items():
        seen[described(y)] += n
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


@pytest.mark.parametrize("noise", few(LIPSCHITZ_NOISES))
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
