from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.argmax import _ERROR, _FLOATS, noisy_ranks, normal_quantile
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import NOISES, of_exponential
from private_topk.transforms.mechanisms.exact.reals import precision
from tests.transforms.mechanisms.given_words import GivenWords


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
        winner = noisy_ranks(histogram, Fraction(1), noise, 1, GivenWords(given))
        assert (winner[0] == place) == (expected == 0), (number, count)


def test_absurd_scales() -> None:
    counts = np.array([2**62, 2**62 - 1, 7, 0, 0])
    for scale in (Fraction(1, 10**300), Fraction(10**300)):
        answer = noisy_ranks(Histogram.of(counts), scale, "laplace", 3, RandomBits.keyed(b"absurd").draw())
        assert len(set(answer.tolist())) == 3
        assert scale > 1 or answer[:3].tolist() == [0, 1, 2]
