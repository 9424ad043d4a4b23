"""Canonical: its law, its frequencies, its privacy, the traps of its kind."""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path
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
from private_topk.transforms.mechanisms.canonical import Canonical
from private_topk.transforms.mechanisms.exact import race, reals
from private_topk.transforms.mechanisms.exact.canonical_classes import Classes, TopK
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.exact.race import Race
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract

SHARED = Path(os.environ.get("PRIVATE_TOPK_SHARED", Path(__file__).resolve().parents[3].parent / "shared"))
HALF = Fraction(1, 2)
GAMMAS = [Fraction(0), HALF, Fraction(2, 3), Fraction(1)]


def law_of(mechanism: Canonical, counts: tuple[int, ...], k: int) -> Law:
    rate = Fraction(mechanism.epsilon) / (2 if mechanism.neighbours == "swap" else 1)
    return laws.best_set(counts, k, rate, mechanism.noise, mechanism.gamma)


class TestCanonical(Contract):
    law = staticmethod(law_of)
    mechanisms: ClassVar = [
        Canonical(1.0),
        Canonical(0.5, 1, "exponential", "swap"),
        Canonical(2, 0, "laplace"),
        Canonical(1.0, 2 / 3, "logistic"),
        Canonical(1.0, noise="half-logistic"),
    ]

    def test_draws_are_those_of_the_race_at_the_rate_of_the_law(self, mechanism: Canonical) -> None:
        """Whose winner follows the law of each noise: exact/test_race."""
        counts, sensitivity = np.array([5, 3, 3, 1, 0, 9, 4, 4]), 2 if mechanism.neighbours == "swap" else 1
        rate = Fraction(mechanism.epsilon) / (sensitivity * mechanism.gamma.denominator)
        named = Named.of(counts)
        for number in range(20):
            draw = RandomBits.keyed(b"%d" % number).draw()
            classes = Classes(named.histogram, 3, mechanism.gamma, rate).everything()
            ranks = Race([TopK(3), classes], rate, mechanism.noise, draw).winner().draw_ranks(draw)
            answer = mechanism(counts, 3, RandomBits.keyed(b"%d" % number))
            assert answer.tolist() == sorted(named.items(ranks).tolist())


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


def test_frequencies() -> None:
    mechanism = Canonical(1.0, Fraction(2, 3))
    check_law(mechanism, partial(law_of, mechanism), (3, 0, 2, 4, 3), [3], smallest_error=0.1)


def test_frequencies_of_classes_on_a_larger_domain() -> None:
    """All (h, t) of 10 ranks, so that rectangles are cut many times and sets drawn inside them."""
    counts = (20, 9, 31, 17, 26, 20, 40, 4, 20, 15)
    mechanism = Canonical(0.25, noise="gumbel")
    order = sorted(range(10), key=lambda i: (-counts[i], i))

    def described(y: tuple[int, ...]) -> tuple[int, int]:
        ranks = {order.index(i) for i in y}
        return min(set(range(10)) - ranks), max(ranks)

    by_class, seen = Counter(), Counter()
    for y, p in law_of(mechanism, counts, 4).items():
        by_class[described(y)] += p
    for y, n in frequencies(mechanism, counts, 4, draws_to_see(by_class, 0.12), b"classes").items():
        seen[described(y)] += n
    assert_follows(seen, by_class, 0.12)


@pytest.mark.parametrize("relation", ["add-remove", "swap"])
@pytest.mark.parametrize(
    ("gamma", "noise"),
    [*((gamma, "gumbel") for gamma in GAMMAS), *((Fraction(2, 3), noise) for noise in LIPSCHITZ_NOISES[1:])],
)
def test_privacy(gamma: Fraction, noise: str, relation: str) -> None:
    """No log-probability moves by more than epsilon = 3; some move by more than half, so a lost factor 2 would show."""
    mechanism = Canonical(3.0, gamma, noise, relation)
    grid = SMALL_COUNTS if relation == "add-remove" else SMALL_COUNTS[:-1]
    worst = check_neighbours(mechanism, partial(law_of, mechanism), grid, ks=(1, 2))
    assert 1.5 < worst <= 3 + 1e-9


def test_sets_come_in_the_order_of_the_items_not_of_their_ranks() -> None:
    counts = np.array([10, 1000, 0, 5000, 200, 0])
    assert Canonical(5.0)(counts, 4, RandomBits.keyed(b"order")).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
def test_astronomical_numbers_of_sets(noise: str) -> None:
    """ln binom(d, k) is 5,000: sums over sets, or U ** (1/m), would leave the floats' range."""
    counts = np.random.RandomState(3).permutation(10**6 // np.arange(1, 100_001))
    top = set(np.argsort(-counts, kind="stable")[:1000].tolist())
    for gamma in (0, HALF, 1):
        answer = Canonical(1.0, gamma, noise)(counts, 1000, RandomBits.keyed(b"large"))
        assert len(set(answer.tolist())) == 1000
        assert len(top & set(answer.tolist())) < 1000 or gamma == 1


def test_answers_do_not_depend_on_the_precision_decisions_start_with(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.RandomState(2).randint(0, 300, 500)
    mechanisms = [Canonical(0.3, noise=noise) for noise in LIPSCHITZ_NOISES]
    answers = [m(counts, 20, RandomBits.keyed(b"precision")).tolist() for m in mechanisms]
    for bits in (30, 250):
        monkeypatch.setattr(race, "_PRECISION", bits)
        monkeypatch.setattr(reals, "_START_PRECISION", bits)
        assert answers == [m(counts, 20, RandomBits.keyed(b"precision")).tolist() for m in mechanisms]


@pytest.mark.parametrize("counts", [np.zeros(500, int), 10**6 * np.arange(500), np.arange(500) // 3], ids=range(3))
def test_an_easy_draw_splits_as_often_as_others_half(counts: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_gamma_is_read_as_it_prints() -> None:
    assert Canonical(1.0, 0.1).gamma == Fraction(1, 10) and Canonical(1, "2/3").gamma == Fraction(2, 3)
    assert Canonical(1.0, 0.5) == Canonical(1.0) and Canonical(1.0).parameters()["gamma"] == "1/2"


@pytest.mark.parametrize("gamma", [-0.1, 1.5, float("nan"), True, "half", None])
def test_bad_gamma(gamma: object) -> None:
    with pytest.raises(ValueError, match="gamma must be a number from 0 to 1, got"):
        Canonical(1.0, gamma)


def test_bad_noise_and_neighbours() -> None:
    with pytest.raises(ValueError, match="noise must be one of gumbel, .*half-logistic, got 'gaussian'"):
        Canonical(1.0, noise="gaussian")
    with pytest.raises(ValueError, match="neighbours must be one of add-remove, swap"):
        Canonical(1.0, neighbours="both")


def test_only_gumbel_noise_has_the_exponential_mechanisms_cost() -> None:
    assert Canonical(2.0).cost(5) == Canonical(2.0, neighbours="swap").cost(5) == Cost.exponential(Fraction(2))
    assert Canonical(2.0, noise="laplace").cost(5) == Cost.pure(Fraction(2))


@pytest.mark.parametrize(
    ("data", "gamma", "errors"), [("games", 1, (4449, 44198, 213)), ("gowalla", HALF, (534, 31108, 338))]
)
def test_median_errors_known_from_other_code(data: str, gamma: Fraction, errors: tuple[int, ...]) -> None:
    path = SHARED / "data" / f"{data}.npy"
    if not path.exists():
        pytest.skip(f"the data folder is absent: {path.name} was looked for")
    counts, bits = np.load(path), RandomBits.keyed(b"errors")
    top = np.sort(counts)[: -100 - 1 : -1]
    seen = []
    for _ in range(40):
        gaps = top - np.sort(counts[Canonical(1.0, gamma)(counts, 100, bits)])[::-1]
        seen.append((gaps.max(), gaps.sum(), gaps[-1]))
    assert np.median(seen, axis=0) == pytest.approx(errors, rel=0.1)
