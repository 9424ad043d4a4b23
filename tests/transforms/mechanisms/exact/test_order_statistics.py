from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact import argmax
from private_topk.transforms.mechanisms.exact.argmax import _Descents, noisy_ranks
from private_topk.transforms.mechanisms.exact.histogram import Blocks, Histogram, even_cuts
from private_topk.transforms.mechanisms.exact.noise import NOISES
from private_topk.transforms.mechanisms.exact.reals import precision
from private_topk.transforms.testing import assert_follows, draws_to_see
from tests.transforms.mechanisms import laws

CROWDED = Histogram(np.array([9, 5, 4, 0]), np.array([1, 4, 300, 7]))


@pytest.mark.parametrize("noise", NOISES)
def test_draws_follow_the_law_of_noises_one_by_one(noise: str) -> None:
    """Of every mechanism that is noise on counts: others are bit-equal to these draws. Here 3, 1 and 1 are read as one
    block: by its bound, then by their own counts, of which two are equal.
    """
    counts, scale, k = (9, 4, 3, 1, 1), Fraction(8), 2
    table = Histogram.of(np.array(counts))
    assert Blocks.of(table, 2, even_cuts(scale / 2, 50, 4), rounded=True).sizes.tolist() == [1, 1, 3]
    law = laws.noisy_order(counts, k, noise, scale)
    bits, draws = RandomBits.keyed(b"one by one"), draws_to_see(law, 0.08)
    seen = Counter(tuple(noisy_ranks(table, scale, noise, k, bits.draw()).tolist()) for _ in range(draws))
    assert_follows(seen, law, 0.08)


@pytest.mark.parametrize("noise", NOISES)
def test_floats_that_leave_everything_open_change_no_answer(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats only save work: with words that count as extreme, and errors that overlap, balls give the same answers."""

    def answers() -> list[list[int]]:
        bits = RandomBits.keyed(b"open")
        return [noisy_ranks(CROWDED, Fraction(3), noise, 12, bits.draw()).tolist() for _ in range(6)]

    before = answers()
    assert all(len(set(answer)) == 12 for answer in before)
    monkeypatch.setattr(argmax, "_ERROR", 2.0**-4)
    assert answers() == before
    monkeypatch.setattr(argmax, "LEAST", 0.3)
    monkeypatch.setattr(argmax, "MOST", 0.8)
    assert answers() == before


def test_the_t_th_largest_of_many_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read to the end, the noises of a block fall, and each float lies within its error of the real number."""
    table = Histogram(np.array([4]), np.array([40]))
    found = []
    original = _Descents.winners

    def winners(self: _Descents) -> np.ndarray:
        found.append(self)
        return original(self)

    monkeypatch.setattr(_Descents, "winners", winners)
    ranks = noisy_ranks(table, Fraction(1), "logistic", 40, RandomBits.keyed(b"t").draw())
    assert sorted(ranks.tolist()) == list(range(40))
    [descents] = found
    turns, scores, errors = (
        np.concatenate([getattr(met, part) for met in descents.met]) for part in ("turns", "scores", "errors")
    )
    order = np.argsort(turns)
    assert turns[order].tolist() == list(range(40)) and (np.diff(scores[order]) < 0).all()
    for turn, score, error in zip(turns.tolist(), scores.tolist(), errors.tolist(), strict=True):
        with precision(200):
            assert abs(float(descents._score(0, turn, 4)().mid()) - 4 - score) <= error


def test_few_noises_are_read_whatever_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    original = _Descents._exponentials

    def counted(self: _Descents, words: np.ndarray, places: np.ndarray, turn: int) -> np.ndarray:
        read.append(words.size)
        return original(self, words, places, turn)

    monkeypatch.setattr(_Descents, "_exponentials", counted)
    shapes = [np.full(50_000, 7), 10**7 // np.arange(1, 50_001), np.arange(50_000), 10**9 * np.arange(50_000)]
    for counts in shapes:
        read.clear()
        noisy_ranks(Histogram.of(counts.astype(np.int64)), Fraction(50), "gumbel", 100, RandomBits.keyed(b"few").draw())
        assert sum(read) < 6000


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_how_far_is_read_at_once_changes_no_answer(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Octave by octave, or far too many at once: few blocks, many, and one that is read to its end."""
    crowd = Histogram(np.arange(400)[::-1] * 3, np.full(400, 30))
    cases = [(CROWDED, k, Fraction(3)) for k in (1, 12, 312)] + [(crowd, k, Fraction(200)) for k in (10, 300)]

    def answers() -> list[list[int]]:
        bits = RandomBits.keyed(b"ahead")
        return [noisy_ranks(table, scale, noise, k, bits.draw()).tolist() for table, k, scale in cases]

    before = answers()
    for few in (0, 1 << 20):
        monkeypatch.setattr(argmax, "_FEW", few)
        assert answers() == before


def test_lanes_are_apart() -> None:
    draw = RandomBits.keyed(b"lanes").draw()
    first, second = (noisy_ranks(CROWDED, Fraction(1000), "gumbel", 30, draw, lane).tolist() for lane in (0, 1))
    assert first != second


def test_ties_that_floats_leave_open_cost_no_more_than_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of one count and k = d, some scores of deep turns always are too close for floats. Summing each of them
    anew took time quadratic in k: 90 s at 50,000, and no end at 100,000.
    """
    d, real, asked = 600, _Descents._exponential, Counter[str]()

    def counted(self: _Descents, place: int, turn: int) -> Any:  # noqa: ANN401
        asked["exponentials"] += 1
        return real(self, place, turn)

    monkeypatch.setattr(_Descents, "_exponential", counted)
    monkeypatch.setattr(argmax, "_ERROR", 2.0**-4)  # everything is left open
    ranks = noisy_ranks(
        Histogram(np.array([5]), np.array([d])), Fraction(1), "laplace", d, RandomBits.keyed(b"t").draw()
    )
    assert sorted(ranks.tolist()) == list(range(d))
    assert d - 1 <= asked["exponentials"] <= 3 * d, asked
