from __future__ import annotations

import bisect
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.reals import Magnitudes
from private_topk.transforms.mechanisms.exact.thresholds import AnswersByLoss, Envelope, Sequences, draw_threshold
from private_topk.transforms.testing import assert_follows, draws_to_see


def answers(counts: tuple[int, ...], k: int, rate: Fraction = Fraction(1)) -> Sequences:
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
    sequences = answers((2**62, 2**62 - 9, 5, 0), 2, rate=rate)
    threshold = draw_threshold(Envelope(sequences), RandomBits.keyed(b"absurd").draw())
    assert threshold == 0 if rate > 1 else threshold >= 0
