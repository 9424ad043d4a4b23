from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact import argmax
from private_topk.transforms.mechanisms.exact.argmax import (
    _ERROR,
    _FLOATS,
    Largest,
    Shuffles,
    _Descents,
    noisy_ranks,
    normal_quantile,
)
from private_topk.transforms.mechanisms.exact.histogram import Blocks, Histogram, even_cuts
from private_topk.transforms.mechanisms.exact.noise import NOISES, of_exponential
from private_topk.transforms.mechanisms.exact.reals import precision
from tests.laws import assert_follows, draws_to_see
from tests.nightly import nightly_but
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.given_words import GivenWords

CROWDED = Histogram(np.array([9, 5, 4, 0]), np.array([1, 4, 300, 7]))


@pytest.mark.parametrize("noise", nightly_but(NOISES, "gumbel"))
def test_draws_follow_the_law_of_noises_one_by_one(noise: str) -> None:
    """Of every mechanism that is noise on counts: others are bit-equal to these draws. Here 3, 1 and 1 are read as one
    block: by its bound, then by their own counts, of which two are equal.
    """
    counts, scale, k = (9, 4, 3, 1, 1), Fraction(8), 2
    table = Histogram.of(np.array(counts))
    assert Blocks.of(table, 2, even_cuts(scale / 2, 50, 4), rounded=True).sizes.tolist() == [1, 1, 3]
    law = laws.noisy_order(counts, k, noise, scale)
    bits, draws = RandomBits.keyed(b"one by one"), draws_to_see(law, 0.08)
    seen = Counter(tuple(noisy_ranks(table, scale, noise, k, bits.draw()).ranks.tolist()) for _ in range(draws))
    assert_follows(seen, law, 0.08)


@pytest.mark.parametrize("noise", NOISES)
def test_floats_that_leave_everything_open_change_no_answer(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats only save work: with words that count as extreme, and errors that overlap, balls give the same answers."""

    def answers() -> list[list[int]]:
        bits = RandomBits.keyed(b"open")
        return [noisy_ranks(CROWDED, Fraction(3), noise, 12, bits.draw()).ranks.tolist() for _ in range(6)]

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

    def winners(self: _Descents) -> Largest:
        found.append(self)
        return original(self)

    monkeypatch.setattr(_Descents, "winners", winners)
    ranks = noisy_ranks(table, Fraction(1), "logistic", 40, RandomBits.keyed(b"t").draw()).ranks
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


def test_the_number_of_noises_read_is_small_for_any_shape_of_counts(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_the_number_of_octaves_read_at_once_changes_no_answer(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Octave by octave, or far too many at once: few blocks, many, and one that is read to its end."""
    crowd = Histogram(np.arange(400)[::-1] * 3, np.full(400, 30))
    cases = [(CROWDED, k, Fraction(3)) for k in (1, 12, 312)] + [(crowd, k, Fraction(200)) for k in (10, 300)]

    def answers() -> list[list[int]]:
        bits = RandomBits.keyed(b"ahead")
        return [noisy_ranks(table, scale, noise, k, bits.draw()).ranks.tolist() for table, k, scale in cases]

    before = answers()
    for few in (0, 1 << 20):
        monkeypatch.setattr(argmax, "_MIN_NOISES", few)
        assert answers() == before


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
    assert sorted(ranks.ranks.tolist()) == list(range(d))
    assert d - 1 <= asked["exponentials"] <= 3 * d, asked


@pytest.mark.parametrize("noise", NOISES)
def test_floats_are_within_their_error_of_the_quantile(noise: str) -> None:
    for a in [*np.geomspace(1e-12, 250, 400).tolist(), 0.69314, 0.69315]:
        with precision(700):
            exact = [float(of_exponential(noise)(arb(a) * (1 + arb(shift) * arb(2) ** -31)).mid()) for shift in (-1, 1)]
        found = float(_FLOATS[noise](np.array([a]))[0])
        assert all(abs(found - value) <= _ERROR * (1 + a) / 2 for value in exact), a


def test_the_normal_quantile_all_along() -> None:
    tails = np.concatenate([np.linspace(np.log(2), 4, 500), np.geomspace(4, 360, 500)])
    before, ctx.prec = ctx.prec, 700
    exact = [float((arb(2).sqrt() * (2 * (-arb(tail)).exp()).erfcinv()).mid()) for tail in tails.tolist()]
    ctx.prec = before
    assert np.abs(normal_quantile(tails) - exact).max() < 2.0**-40


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("digits", ["zeros", "ones"])
@pytest.mark.parametrize("words", [1, 2, 10, 18])
def test_noises_of_the_rarest_words_are_ordered_as_real_numbers(noise: str, digits: str, words: int) -> None:
    """An item's noise begins with so many words of zeros, or of ones: the largest or smallest there are. The other
    one has a count as large as that noise, and noises of its own around 0: who wins hangs on these.
    """
    ones = digits == "ones"
    first = [(2**64 - 1) * ones] * words + [2**62, 0]
    for number in range(8):
        second = [2**61 * number + 2**60, 0]
        with precision(3000):
            rare, usual = (
                of_exponential(noise)(-(-arb(sum(w << 64 * (31 - n) for n, w in enumerate(its)) + 1) / 2**2048).log1p())
                for its in (first, second)
            )
            count = int(rare.floor().unique_fmpz()) or -1  # equal ones would share a block
            expected = 0 if count + usual > rare else 1
        counts = np.array([count, 0])
        low = int(counts.min())
        histogram = Histogram.of(counts - low)  # counts are not negative
        place = 0 if count >= 0 else 1
        given = {(0, place, level): word for level, word in enumerate([*second, *[0] * 60])}
        given |= {(0, 1 - place, level): word for level, word in enumerate([*first, *[0] * 60])}
        winner = noisy_ranks(histogram, Fraction(1), noise, 1, GivenWords(given)).ranks
        assert (winner[0] == place) == (expected == 0), (number, count)


def test_extreme_noise_scales_give_a_valid_answer() -> None:
    counts = np.array([2**62, 2**62 - 1, 7, 0, 0])
    for scale in (Fraction(1, 10**300), Fraction(10**300)):
        answer = noisy_ranks(Histogram.of(counts), scale, "laplace", 3, RandomBits.keyed(b"absurd").draw()).ranks
        assert len(set(answer.tolist())) == 3
        assert scale > 1 or answer[:3].tolist() == [0, 1, 2]


OCTAVES = [np.arange(1), np.arange(1, 9)]


def test_every_order_of_a_block_is_as_likely() -> None:
    """Two blocks side by side: their orders, and that they know nothing of each other."""
    bits, seen = RandomBits.keyed(b"orders"), Counter()
    for _ in range(4000):
        shuffles = Shuffles(np.array([3, 1, 2]), bits.draw())
        rows = [shuffles.numbers(np.array([0, 2]), [(octave, OCTAVES[octave])]) for octave in (0, 1)]
        whole = np.concatenate(rows, axis=1)
        seen[tuple(whole[0, :3].tolist()), tuple(whole[1, :2].tolist())] += 1
    orders = [(a, b) for a in permutations(range(3)) for b in permutations(range(2))]
    assert_follows(seen, {order: Fraction(1, 12) for order in orders}, 0.1)


def test_a_block_reads_the_same_numbers_alone_and_among_others() -> None:
    sizes = np.array([30, 8, 500])
    alone, together = (Shuffles(sizes, RandomBits.keyed(b"apart").draw()) for _ in range(2))
    for octave in range(2):
        expected = together.numbers(np.arange(3), [(octave, OCTAVES[octave])])[2]
        assert alone.numbers(np.array([2]), [(octave, OCTAVES[octave])])[0].tolist() == expected.tolist()
