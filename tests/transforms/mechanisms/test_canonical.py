from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.canonical import Canonical
from private_topk.transforms.mechanisms.exact import race
from private_topk.transforms.mechanisms.exact.classes import Classes, TopK
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.testing import Law
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.set_contract import SetContract

SHARED = Path(os.environ.get("PRIVATE_TOPK_SHARED", Path(__file__).resolve().parents[3].parent / "shared"))
HALF = Fraction(1, 2)


class TestCanonical(SetContract):
    kind = Canonical
    mechanisms: ClassVar = [
        Canonical(1.0),
        Canonical(0.5, 1, "exponential", "swap"),
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
        rate = Fraction(mechanism.epsilon) / (2 if mechanism.neighbours == "swap" else 1)
        return laws.best_set(counts, k, rate, mechanism.noise, mechanism.gamma)

    def regions(self, mechanism: Canonical, histogram: Histogram, k: int) -> tuple[Fraction, list[race.Region]]:
        """Losses are counted in units of 1 / the denominator of gamma."""
        sensitivity = 2 if mechanism.neighbours == "swap" else 1
        rate = Fraction(mechanism.epsilon) / (sensitivity * mechanism.gamma.denominator)
        return rate, [TopK(k), Classes(histogram, k, mechanism.gamma, rate).everything()]

    def test_frequencies_of_classes_on_a_larger_domain(self) -> None:
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
