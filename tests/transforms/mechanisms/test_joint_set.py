"""JOINT-SET: its law, its frequencies, its privacy, and the counting of sets between staircases."""

from __future__ import annotations

import itertools
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
    frequencies,
    total,
)
from private_topk.transforms.mechanisms import Cost, RandomBits
from private_topk.transforms.mechanisms.exact import race, reals, set_losses, strips
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.exact.reals import precision, uniform
from private_topk.transforms.mechanisms.exact.set_losses import SetLosses
from private_topk.transforms.mechanisms.exact.strips import Strip
from private_topk.transforms.mechanisms.joint_set import JointSet
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.set_laws import ROUNDING, joint_loss, law

STAIRCASES = [
    ([5, 5, 5], None),
    ([1, 2, 3], None),
    ([3, 5, 5, 9], None),
    ([4, 4, 8], [2, 4, 5]),
    ([3, 5, 5, 9], [1, 2, 3, 4]),
    ([6, 7, 7, 7], [6, 7, 7, 7]),
    ([2, 6, 7, 9], [2, 3, 7, 8]),
]


def law_of(mechanism: JointSet, counts: tuple[int, ...], k: int) -> dict[tuple[int, ...], arb]:
    rate = Fraction(mechanism.epsilon) / (4 if mechanism.neighbours == "swap" else 2)
    return law(joint_loss, rate, mechanism.noise, counts, k)


def sets_between(outer: list[int], inner: list[int] | None) -> list[tuple[int, ...]]:
    return [
        y
        for y in itertools.combinations(range(1, outer[-1] + 1), len(outer))
        if all(j <= o for j, o in zip(y, outer, strict=True))
        and (inner is None or any(j > i for j, i in zip(y, inner, strict=True)))
    ]


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
    [
        *((JointSet(1.0, noise), (5, 3, 3, 1, 0), 2) for noise in LIPSCHITZ_NOISES),
        (JointSet(1.0), (3, 0, 2, 4, 3), 3),
        (JointSet(2.0, "exponential", "swap"), (3, 0, 2, 4, 3), 3),
        (JointSet(1.0, neighbours="swap"), (6, 2, 2, 3), 1),
        (JointSet(1.0), (2, 2, 2, 2), 3),
    ],
    ids=repr,
)
def test_frequencies(mechanism: JointSet, counts: tuple[int, ...], k: int) -> None:
    assert_follows(frequencies(mechanism, counts, k, 2500, b"joint set"), law_of(mechanism, counts, k), 0.1)


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
    for y, n in frequencies(mechanism, counts, 6, 4000, b"losses").items():
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


@pytest.mark.parametrize(("outer", "inner"), STAIRCASES)
def test_sets_between_staircases_are_counted(outer: list[int], inner: list[int] | None) -> None:
    strip = Strip(np.array(outer), None if inner is None else np.array(inner))
    assert strip.number() == len(sets_between(outer, inner))


@pytest.mark.parametrize(("outer", "inner"), [pair for pair in STAIRCASES if sets_between(*pair)])
def test_members_of_segments_are_those_of_a_uniform_set(outer: list[int], inner: list[int] | None) -> None:
    strip = Strip(np.array(outer), None if inner is None else np.array(inner))
    ends = np.cumsum([segment.size for segment in strip.segments])
    sets = sets_between(outer, inner)
    expected, seen = Counter(), Counter()
    for y in sets:
        expected[tuple(np.bincount(np.searchsorted(ends, y), minlength=len(ends)).tolist())] += Fraction(1, len(sets))
    draw = Draw(bytes(32))
    for i in range(1500):
        seen[tuple(strip.members([uniform(draw, j, i) for j in range(len(ends))]))] += 1
    assert_follows(seen, expected, 0.13)


def test_members_are_the_same_at_any_precision() -> None:
    """Balls too wide to decide by must be noticed: at 8 bits nearly every walk has to be tried again."""
    descending = 10**6 // np.arange(1, 3001)
    losses = SetLosses(descending[::-1], 40)
    strip = Strip(losses.reach(30_000), losses.reach(20_000))
    for seed in range(5):
        numbers = [uniform(Draw(bytes([seed] * 32)), 0, i) for i in range(len(strip.segments))]
        members = strip.members(numbers)
        assert sum(members) == 40
        with precision(8):
            hasty = strip._walk(numbers)
        with precision(500):
            assert strip._walk(numbers) == members
        assert hasty is None or hasty == members


def test_numbers_of_sets_are_those_of_lattice_paths() -> None:
    """All 400 columns one by one, in integers: what the segments and their polynomials stand for."""
    counts = np.random.RandomState(4).randint(0, 2000, 400)
    losses, k = SetLosses(np.sort(counts), 30), 30
    for loss in (0, 7, 60, 300, 2500):
        reach = losses.reach(loss).tolist()
        assert reach == [int((counts >= c - loss).sum()) for c in np.sort(counts)[::-1][:k]]
        paths = [1] + [0] * k
        for rank in range(1, 401):
            for i in range(k, 0, -1):
                paths[i] += paths[i - 1] if rank <= reach[i - 1] else 0
        assert losses.number(loss).contains(arb(paths[k])) and losses.number(loss).rel_accuracy_bits() > 40


def test_intervals_partition_the_losses() -> None:
    """Splitting to the end gives one region for each loss of some set, of the right size."""
    counts = np.array([20, 17, 17, 12, 9, 8, 3, 1])
    parts, whole = Counter(), [SetLosses(counts[::-1], 3).everything()]
    while whole:
        part = whole.pop()
        halves = part.split()
        if halves is None:
            parts[part.least_loss] += round(float(part.size().mid()))
        else:
            whole.extend(halves)
    assert parts == Counter(int(joint_loss(tuple(counts.tolist()), y)) for y in itertools.combinations(range(8), 3))


def test_sets_come_in_the_order_of_the_items_not_of_their_ranks() -> None:
    counts = np.array([10, 1000, 0, 5000, 200, 0])
    assert JointSet(5.0)(counts, 4, RandomBits.keyed(b"order")).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
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
    assert min(done) >= 2 * 50 * set_losses._PADDING


def test_bad_noise() -> None:
    with pytest.raises(ValueError, match="noise must be one of gumbel, .*half-logistic, got 'gaussian'"):
        JointSet(1.0, noise="gaussian")


def test_only_gumbel_noise_has_the_exponential_mechanisms_cost() -> None:
    assert JointSet(2.0).cost(5) == JointSet(2.0, neighbours="swap").cost(5) == Cost.exponential(Fraction(2))
    assert JointSet(2.0, "laplace").cost(5) == Cost.pure(Fraction(2))
