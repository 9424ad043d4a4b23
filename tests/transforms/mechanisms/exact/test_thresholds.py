from __future__ import annotations

import bisect
import tracemalloc
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.reals import Magnitudes
from private_topk.transforms.mechanisms.exact.thresholds import AnswersByLoss, Envelope, Sequences, draw_threshold
from private_topk.transforms.testing import SMALL_COUNTS, assert_follows, draws_to_see
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.exact.test_reals import exact as exact_values


def halved(counts: tuple[int, ...], k: int, rate: Fraction = Fraction(1)) -> Sequences:
    return Sequences(Histogram.of(np.array(counts)), k, Fraction(1, 2), rate)


class Jump(AnswersByLoss):
    """N jumps from 1 to 30 somewhere, under the coarsest of envelopes."""

    first, most = -5, 30

    def __init__(self, rate: Fraction, jump: int, settled: int | None) -> None:
        self.rate, self.jump, self.settled = rate, jump, settled

    def upper(self, thresholds: np.ndarray) -> Magnitudes:
        return Magnitudes.of(np.array([30.0 if threshold >= self.jump else 1.0 for threshold in thresholds]))

    def exact(self, threshold: int) -> arb:
        return arb(30 if threshold >= self.jump else 1)


@pytest.mark.parametrize(
    ("answers", "edges"),
    [
        (Jump(Fraction(1, 50), 70, 100), [-5, 20, 50, 65, 70, 75, 100, 140, 200]),  # half of it in the tail
        (Jump(Fraction(1, 2), 4, None), list(range(-5, 12))),  # blocks of two thresholds
    ],
)
def test_thresholds_follow_their_law(answers: Jump, edges: list[int]) -> None:
    draw = RandomBits.keyed(b"thresholds").draw
    beyond = [(-arb(answers.rate.numerator) / answers.rate.denominator * edge).exp() for edge in edges]
    cells = zip(edges, beyond, [*beyond[1:], arb(0)], strict=True)
    masses = [(a - b) * (30 if edge >= answers.jump else 1) for edge, a, b in cells]
    law = {(cell,): mass / sum(masses, arb(0)) for cell, mass in enumerate(masses)}
    draws = range(draws_to_see(law, 0.07))
    seen = Counter((bisect.bisect(edges, draw_threshold(Envelope(answers), draw())) - 1,) for _ in draws)
    assert_follows(seen, law, smallest_error=0.07)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("shape", ["equal", "zipf", "gapped"])
def test_few_values_of_n_are_looked_at_whatever_the_counts(shape: str, epsilon: float) -> None:
    ranks = np.arange(1, 20_001)
    counts = {"equal": 0 * ranks + 3, "zipf": 10**6 // ranks, "gapped": ranks * 10**9}[shape]
    looked = []

    class Counting(Sequences):
        def upper(self, thresholds: np.ndarray) -> Magnitudes:
            looked.extend(thresholds)
            return super().upper(thresholds)

    envelope = Envelope(Counting(Histogram.of(counts), 200, Fraction(1, 2), Fraction(epsilon) / 2))
    assert 15 <= len(looked) <= 500
    draw = RandomBits.keyed(b"proposals").draw()
    accepted = [envelope.propose(draw, number) is not None for number in range(100)]
    assert sum(accepted) >= 25


@pytest.mark.parametrize("rate", [Fraction(1, 10**300), Fraction(1, 10**9), Fraction(10**9), Fraction(10**300)])
def test_absurd_rates_take_no_absurd_time(rate: Fraction) -> None:
    sequences = halved((2**62, 2**62 - 9, 5, 0), 2, rate=rate)
    threshold = draw_threshold(Envelope(sequences), RandomBits.keyed(b"absurd").draw())
    assert threshold == 0 if rate > 1 else threshold >= 0


SKEWS = [Fraction(1, 2), Fraction(5, 9), Fraction(1)]


def sequences_of(
    counts: tuple[int, ...], k: int, skew: Fraction = SKEWS[0], rate: Fraction = Fraction(1), settled: int | None = None
) -> Sequences:
    return Sequences(Histogram.of(np.array(counts)), k, skew, rate, settled)


def whole(thresholds: list[int]) -> np.ndarray:
    return np.array(thresholds, np.int64 if max(thresholds) < 2**62 else object)


def exact(sequences: Sequences, threshold: int) -> int:
    return int(sequences.exact(threshold).unique_fmpz())


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("counts", SMALL_COUNTS)
def test_the_mixture_over_thresholds_is_the_exponential_mechanism(counts: tuple[int, ...], skew: Fraction) -> None:
    """In rationals: with q = 1/3, sum over R >= loss(S) of q**R N(R) * 1/N(R) is q**loss(S) / (1 - q), for all S."""
    q = Fraction(1, 3)
    for k in range(1, min(3, len(counts)) + 1):
        sequences = sequences_of(counts, k, skew)
        losses = {s: x * skew.denominator for s, x in laws.sequence_losses(counts, k, skew).items()}
        assert sequences.first == min(losses.values())
        last = int(max(losses.values()))
        number = {r: exact(sequences, r) for r in range(sequences.first, last + 3)}
        assert number == {r: sum(loss <= r for loss in losses.values()) for r in number}
        assert number[last] == number[last + 2] == sequences.most == len(losses)
        whole = sum(q**r * n for r, n in number.items()) + q ** (last + 3) / (1 - q) * sequences.most
        for loss in losses.values():
            mixture = sum(q**r * n / whole / n for r, n in number.items() if r >= loss)
            mixture += q ** (last + 3) / (1 - q) * sequences.most / whole / sequences.most
            assert mixture == q**loss / sum(q**x for x in losses.values())


@pytest.mark.parametrize("skew", SKEWS)
def test_the_members_of_a_threshold_are_drawn_uniformly(skew: Fraction) -> None:
    counts = (5, 3, 3, 0)
    losses = laws.sequence_losses(counts, 3, skew)
    sequences = sequences_of(counts, 3, skew)
    for threshold in (sequences.first, sequences.first + 3 * skew.denominator // 2):
        members = [s for s, x in losses.items() if x * skew.denominator <= threshold]
        draw, law = RandomBits.keyed(b"members").draw(), {s: Fraction(1, len(members)) for s in members}
        seen = Counter(tuple(sequences.sample(threshold, draw).tolist()) for _ in range(draws_to_see(law, 0.1)))
        assert_follows(seen, law, smallest_error=0.1)
        assert all(sequences.loss(np.array(s)) == losses[s] * skew.denominator for s in losses)


def test_a_truncated_loss_settles() -> None:
    sequences = sequences_of((9, 5, 0), 2, settled=3)
    assert [exact(sequences, r) for r in range(5)] == [1, 1, 1, 6, 6]


@pytest.mark.parametrize("top", [10**5, 2**62])
@pytest.mark.parametrize("skew", SKEWS)
def test_upper_bounds_are_bounds_close_and_rising(top: int, skew: Fraction) -> None:
    counts = np.sort(np.arange(1, 3001) * 7919 % 3001 * (top // 3001) // 7)
    histogram = Histogram.of(counts)
    for k in (1, 7, 100, 1001, 3000):
        sequences = Sequences(histogram, k, skew, Fraction(1))
        thresholds = [sequences.first + x for x in (0, 1, 17, top // 100, top // 10, top, 3 * top)]
        bounds = exact_values(sequences.upper(whole(thresholds)))
        before, ctx.prec = ctx.prec, 50_000
        values = [exact(sequences, threshold) for threshold in thresholds]
        ctx.prec = before
        assert all(n <= bound <= n * (1 + Fraction(1, 2**38)) for n, bound in zip(values, bounds, strict=True))
        assert values == sorted(values) and bounds == sorted(bounds)


def test_memory_does_not_grow_with_places_times_thresholds() -> None:
    sequences = sequences_of(range(0, 200_000, 10), 20_000)
    tracemalloc.start()
    together = sequences.upper(np.arange(0, 2000, 10))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80 << 20, "200 thresholds of 20,000 places are 32 MB an array"
    alone = [exact_values(sequences.upper(np.array([threshold])))[0] for threshold in range(0, 2000, 500)]
    assert exact_values(together)[::50] == alone


def test_wide_integers_and_python_integers_agree() -> None:
    """Beyond 64 bits the look-ups go through Python's integers: scale by one more bit, get the same staircase."""
    counts = (2**60, 2**60 - 8, 2**59, 4, 0)
    double = tuple(2 * c for c in counts)
    small, large = (sequences_of(c, 3, Fraction(4, 5)) for c in (counts, double))
    for x in (0, 5, 24, 2**59, 2**60, 2**64):
        assert exact(small, small.first + x) == exact(large, large.first + 2 * x)
    last_first = np.array([4, 1, 0])
    assert 2 * small.loss(last_first) == large.loss(last_first) == 2**61
