from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.stats import gamma, kstest

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact import noise
from private_topk.transforms.mechanisms.exact.noise import (
    LEAST,
    MOST,
    NOISE_ERROR,
    NOISES,
    QUERY_LANE,
    above_bottom,
    certified_top,
    first_crossing,
    gamma_real,
    log_threshold,
    noise_real,
    noisy_top,
    standard_noise,
)
from private_topk.transforms.mechanisms.exact.reals import precision, relative_float
from tests.laws import assert_follows, draws_to_see
from tests.transforms.mechanisms.laws import NOISE_LAWS
from tests.transforms.mechanisms.unknown_laws import above_bottom as law_above_bottom
from tests.transforms.mechanisms.unknown_laws import passes

COUNTS = np.random.default_rng(5).integers(0, 60, 500)


@pytest.mark.parametrize("name", NOISES)
def test_follows_the_textbook_distribution(name: str) -> None:
    sample = standard_noise(40_000, name, RandomBits.keyed(b"distribution").draw())
    # False alarm 1e-6; a Kolmogorov distance of 0.02 would be seen with probability above 0.99.
    assert kstest(sample, NOISE_LAWS[name].cdf).pvalue > 1e-6


@pytest.mark.parametrize("name", NOISES)
def test_floats_lie_within_their_bound_of_the_reals(name: str) -> None:
    draw = RandomBits.keyed(b"bound").draw()
    floats = standard_noise(500, name, draw)
    with precision(192):
        worst = max(abs(float(noise_real(draw, 0, i, name)() - float(x))) for i, x in enumerate(floats))
    assert worst < NOISE_ERROR / 2**8


@pytest.mark.parametrize("name", NOISES)
def test_the_bound_holds_at_the_ends_and_for_all_unread_digits(name: str) -> None:
    """The real uniform is anywhere in [w, w + 1) / 2**64: both ends stay within the bound of the float."""
    kind, ends = NOISES[name], [int(LEAST * 2**64), int(MOST * 2**64) - 2**11]
    for word in [*ends, 2**63 - 1, 2**63, 2**40, 2**64 - 2**45, 12345678901234567890]:
        others = [0.25] * (kind.words - 1)
        approximate = kind.approximate(np.array([word * 2.0**-64]), *map(np.array, others))
        for w in (word, word + 1):
            with precision(192):
                exact = kind.quantile(arb((w, -64)), *map(arb, others))
                assert abs(exact - float(approximate[0])) < NOISE_ERROR / 2


@pytest.mark.parametrize("name", NOISES)
def test_extreme_words_are_left_to_ball_arithmetic(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a threshold that makes a third of all words extreme, the answers stay the same."""
    before = noisy_top(COUNTS, Fraction(7), name, 50, RandomBits.keyed(b"extreme").draw())
    monkeypatch.setattr(noise, "LEAST", 0.2)
    monkeypatch.setattr(noise, "MOST", 0.9)
    draw = RandomBits.keyed(b"extreme").draw()
    assert noisy_top(COUNTS, Fraction(7), name, 50, draw).tolist() == before.tolist()


@pytest.mark.parametrize("name", NOISES)
def test_another_platforms_logarithm_changes_no_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats off by as much as 2**-32, in the last digits or far above: the reals decide."""
    before = noisy_top(COUNTS, Fraction(7), name, 500, RandomBits.keyed(b"platform").draw())
    kind, wobble = NOISES[name], np.random.default_rng(1).choice([-1, 1], 500) * 2.0**-32
    other = replace(kind, approximate=lambda *v: kind.approximate(*v) + wobble)
    monkeypatch.setitem(NOISES, name, other)
    draw = RandomBits.keyed(b"platform").draw()
    assert noisy_top(COUNTS, Fraction(7), name, 500, draw).tolist() == before.tolist()


@pytest.mark.parametrize("k", [1, 7, 60])
def test_overlapping_intervals_are_decided_by_the_reals(k: int) -> None:
    """Floats so poor that nothing can be told from them: every comparison goes to the reals, with the same answer."""
    draw = RandomBits.keyed(b"overlap").draw()
    floats = standard_noise(60, "laplace", draw)
    expected = np.argsort(-floats)[:k]
    poor = floats + np.random.default_rng(2).uniform(-1.5, 1.5, 60)
    reals = lambda i: noise_real(draw, 0, i, "laplace")  # noqa: E731 - one line says it
    assert certified_top(poor, np.full(60, 1.5), k, reals).tolist() == expected.tolist()
    mixed = np.where(np.arange(60) % 3 == 0, 1.5, 1e-9)
    assert certified_top(np.where(mixed > 1, poor, floats), mixed, k, reals).tolist() == expected.tolist()


def test_large_counts_lose_no_digit() -> None:
    """At 2**62 a float cannot tell neighbouring counts apart: the noise of scale 1/1000 must not decide for it."""
    counts = 2**62 - np.array([3, 0, 2, 1, 2**61])
    for seed in range(20):
        draw = RandomBits.keyed(bytes([seed])).draw()
        assert noisy_top(counts, Fraction(1, 1000), "laplace", 5, draw).tolist() == [1, 3, 2, 0, 4]


@pytest.mark.parametrize("shape", [1, 2, 7, 1000, 10**8])
def test_the_law_is_gamma_s(shape: int) -> None:
    """Kolmogorov and Smirnov's test of 1,500 draws: false alarm 1e-6 a seed; it sees a shift by a fifth of the spread
    with power above 0.99."""
    bits = RandomBits.keyed(b"gamma")
    seen = [relative_float(gamma_real(shape, bits.draw(), 0)) for _ in range(1500)]
    assert kstest(seen, gamma(shape).cdf).pvalue > 1e-6
    shifted = np.array(seen) + 0.2 * shape**0.5
    assert kstest(shifted, gamma(shape).cdf).pvalue < 1e-6


def test_the_number_is_one_at_every_precision() -> None:
    value = gamma_real(50, RandomBits.keyed(b"one").draw(), 3)
    with precision(100):
        coarse = value()
    with precision(900):
        fine = value()
    assert coarse.contains(fine) or coarse.overlaps(fine)
    assert fine.rad() < coarse.rad() and relative_float(value) == pytest.approx(float(fine.mid()), rel=1e-14)


@pytest.mark.parametrize("up", [True, False])
def test_the_first_crossing_follows_its_law(up: bool) -> None:
    gaps, scale, odds = np.array([3, -2, 4, 1, 0]), Fraction(3, 2), Fraction(5)
    law = {(t,): p for t, p in enumerate(passes(tuple(g / scale for g in gaps.tolist()), odds, until=up))}
    bits, seen = RandomBits.keyed(b"crossing"), Counter()
    for _ in range(draws_to_see(law, 0.08)):
        draw = bits.draw()
        threshold = log_threshold(odds, "laplace", draw)
        where = {"addresses": np.arange(5), "lane": QUERY_LANE}
        seen[(first_crossing(gaps, scale, threshold, "laplace", draw, up=up, **where),)] += 1
    assert_follows(seen, law, 0.08)


def test_above_bottom_follows_its_law() -> None:
    top, scale, odds = np.array([6, 4, 4, 1]), Fraction(2), Fraction(3)
    law = law_above_bottom([(c - 1 - 1) / scale for c in top[:-1].tolist()], odds, 2, "laplace")
    bits = RandomBits.keyed(b"bottom")
    seen = Counter(
        tuple(above_bottom(top, 1, scale, "laplace", odds, 2, bits.draw()).tolist())
        for _ in range(draws_to_see(law, 0.08))
    )
    assert_follows(seen, law, 0.08)


def test_floats_that_leave_it_open_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = np.random.default_rng(1).integers(-3, 9, 30)

    def answers() -> list[int]:
        bits, found = RandomBits.keyed(b"open"), []
        for up in (True, False):
            for _ in range(40):
                draw = bits.draw()
                threshold = log_threshold(Fraction(100), "gumbel", draw)
                where = {"addresses": np.arange(30), "lane": QUERY_LANE}
                found.append(first_crossing(gaps, Fraction(2), threshold, "gumbel", draw, up=up, **where))
        return found

    before = answers()
    monkeypatch.setattr(noise, "NOISE_ERROR", 0.5)
    assert answers() == before


@pytest.mark.parametrize("scale", [0.1, 7, np.float64(0.1)])
def test_a_rounded_scale_is_refused(scale: object) -> None:
    with pytest.raises(InvalidArgument, match=r"scale must be a Fraction, got a \w+: compute it from Fraction"):
        noisy_top(COUNTS, scale, "gumbel", 2, RandomBits.keyed(b"rounded").draw())


def test_one_lane_does_not_serve_twice() -> None:
    draw = RandomBits.keyed(b"lanes").draw()
    for lane in (0, 1):
        noisy_top(COUNTS, Fraction(7), "gumbel", 2, draw, lane)
    with pytest.raises(InvalidArgument, match="lane must be another for every noise of one draw, got 1 twice"):
        noisy_top(COUNTS, Fraction(7), "gumbel", 2, draw, 1)
