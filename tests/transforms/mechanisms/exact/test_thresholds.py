from __future__ import annotations

import bisect
import itertools
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from private_topk.testing import SMALL_COUNTS, assert_follows
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.ranking import rank
from private_topk.transforms.mechanisms.exact.scaled import Scaled, rounded_up, whole_numbers
from private_topk.transforms.mechanisms.exact.sequences import Sequences
from private_topk.transforms.mechanisms.exact.thresholds import Envelope, Staircase, draw_threshold
from tests.transforms.mechanisms import sequence_laws

SKEWS = [Fraction(1, 2), Fraction(5, 9), Fraction(1)]


def stairs(
    counts: tuple[int, ...], k: int, skew: Fraction = SKEWS[0], rate: Fraction = Fraction(1), settled: int | None = None
) -> Sequences:
    return Sequences(rank(np.array(counts)), k, skew, rate, settled)


def exact(sequences: Sequences, threshold: int) -> int:
    return int(sequences.exact(threshold).unique_fmpz())


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("counts", SMALL_COUNTS)
def test_the_mixture_over_thresholds_is_the_exponential_mechanism(counts: tuple[int, ...], skew: Fraction) -> None:
    """In rationals: with q = 1/3, sum over R >= loss(S) of q**R N(R) * 1/N(R) is q**loss(S) / (1 - q), for all S."""
    q = Fraction(1, 3)
    for k in range(1, min(3, len(counts)) + 1):
        sequences = stairs(counts, k, skew)
        losses = {s: x * skew.denominator for s, x in sequence_laws.joint_losses(counts, k, skew).items()}
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
    losses = sequence_laws.joint_losses(counts, 3, skew)
    sequences = stairs(counts, 3, skew)
    for threshold in (sequences.first, sequences.first + 3 * skew.denominator // 2):
        members = [s for s, x in losses.items() if x * skew.denominator <= threshold]
        draw = RandomBits.keyed(b"members").draw()
        seen = Counter(tuple(sequences.sample(threshold, draw).tolist()) for _ in range(4000))
        assert_follows(seen, {s: Fraction(1, len(members)) for s in members}, smallest_error=0.1)
        assert all(sequences.loss(np.array(s)) == losses[s] * skew.denominator for s in losses)


def test_a_truncated_loss_settles() -> None:
    sequences = stairs((9, 5, 0), 2, settled=3)
    assert [exact(sequences, r) for r in range(5)] == [1, 1, 1, 6, 6]


@pytest.mark.parametrize("top", [10**5, 2**62])
@pytest.mark.parametrize("skew", SKEWS)
def test_upper_bounds_are_bounds_close_and_rising(top: int, skew: Fraction) -> None:
    counts = np.sort(np.arange(1, 3001) * 7919 % 3001 * (top // 3001) // 7)
    ranking = rank(counts)
    for k in (1, 7, 100, 1001, 3000):
        sequences = Sequences(ranking, k, skew, Fraction(1))
        thresholds = [sequences.first + x for x in (0, 1, 17, top // 100, top // 10, top, 3 * top)]
        bounds = [s.mantissa * Fraction(2) ** s.exponent for s in sequences.upper(thresholds)]
        before, ctx.prec = ctx.prec, 50_000
        values = [exact(sequences, threshold) for threshold in thresholds]
        ctx.prec = before
        assert all(n <= bound <= n * (1 + Fraction(1, 2**38)) for n, bound in zip(values, bounds, strict=True))
        assert values == sorted(values) and bounds == sorted(bounds)


def test_memory_does_not_grow_with_places_times_thresholds() -> None:
    sequences = stairs(range(0, 200_000, 10), 20_000)
    tracemalloc.start()
    together = sequences.upper(range(0, 2000, 10))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80 << 20, "200 thresholds of 20,000 places are 32 MB an array"
    assert together[::50] == [sequences.upper([threshold])[0] for threshold in range(0, 2000, 500)]


def test_wide_integers_and_python_integers_agree() -> None:
    """Beyond 64 bits the look-ups go through Python's integers: scale by one more bit, get the same staircase."""
    counts = (2**60, 2**60 - 8, 2**59, 4, 0)
    double = tuple(2 * c for c in counts)
    small, large = (stairs(c, 3, Fraction(4, 5)) for c in (counts, double))
    for x in (0, 5, 24, 2**59, 2**60, 2**64):
        assert exact(small, small.first + x) == exact(large, large.first + 2 * x)
    last_first = np.array([4, 1, 0])
    assert 2 * small.loss(last_first) == large.loss(last_first) == 2**61


class Jump(Staircase):
    """N jumps from 1 to 30 somewhere, under the coarsest of envelopes."""

    first, most, fineness, pieces = -5, 30, 1, 2

    def __init__(self, rate: Fraction, jump: int, settled: int | None) -> None:
        self.rate, self.jump, self.settled = rate, jump, settled

    def upper(self, thresholds: Sequence[int]) -> list[Scaled]:
        return [Scaled(30 if threshold >= self.jump else 1, 0) for threshold in thresholds]

    def exact(self, threshold: int) -> arb:
        return arb(30 if threshold >= self.jump else 1)


@pytest.mark.parametrize(
    ("stairs", "edges"),
    [
        (Jump(Fraction(1, 50), 70, None), [-5, 20, 50, 65, 70, 75, 95, 140, 200]),  # in the midst of a block
        (Jump(Fraction(1, 50), 70, 70), [-5, 20, 50, 65, 70, 75, 95, 140, 200]),  # a heavy tail
        (Jump(Fraction(1, 2), 4, None), list(range(-5, 12))),  # blocks of two thresholds
    ],
)
def test_thresholds_follow_their_law(stairs: Jump, edges: list[int]) -> None:
    draw = RandomBits.keyed(b"thresholds").draw
    seen = Counter((bisect.bisect(edges, draw_threshold(stairs, draw())) - 1,) for _ in range(6000))
    beyond = [(-arb(stairs.rate.numerator) / stairs.rate.denominator * edge).exp() for edge in edges]
    cells = zip(edges, beyond, [*beyond[1:], arb(0)], strict=True)
    masses = [(a - b) * (30 if edge >= stairs.jump else 1) for edge, a, b in cells]
    law = {(cell,): mass / sum(masses, arb(0)) for cell, mass in enumerate(masses)}
    assert_follows(seen, law, smallest_error=0.07)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("shape", ["equal", "zipf", "gapped"])
def test_few_values_of_n_are_looked_at_whatever_the_counts(shape: str, epsilon: float) -> None:
    ranks = np.arange(1, 20_001)
    counts = {"equal": 0 * ranks + 3, "zipf": 10**6 // ranks, "gapped": ranks * 10**9}[shape]
    looked = []

    class Counting(Sequences):
        def upper(self, thresholds: list[int]) -> list[Scaled]:
            looked.extend(thresholds)
            return super().upper(thresholds)

    envelope = Envelope(Counting(rank(counts), 200, Fraction(1, 2), Fraction(epsilon) / 2))
    assert 20 <= len(looked) <= 400
    draw = RandomBits.keyed(b"proposals").draw()
    accepted = [envelope.propose(draw, number) is not None for number in range(100)]
    assert sum(accepted) >= 25


@pytest.mark.parametrize("rate", [Fraction(1, 10**300), Fraction(1, 10**9), Fraction(10**9), Fraction(10**300)])
def test_absurd_rates_take_no_absurd_time(rate: Fraction) -> None:
    sequences = stairs((2**62, 2**62 - 9, 5, 0), 2, rate=rate)
    threshold = draw_threshold(sequences, RandomBits.keyed(b"absurd").draw())
    assert threshold == 0 if rate > 1 else threshold >= 0


def test_rounded_up() -> None:
    third = rounded_up(lambda: arb(1) / 3)
    assert 0 < third.mantissa * Fraction(2) ** third.exponent - Fraction(1, 3) < Fraction(1, 2**64)
    just_below_one = rounded_up(lambda: 1 - (arb(-200)).exp())
    assert just_below_one == Scaled(2**64, -64)
    tiny = rounded_up(lambda: (arb(-(10**9))).exp())
    assert tiny.mantissa.bit_length() == 64 and -1442695105 < tiny.exponent < -1442695095


def test_whole_numbers_are_rounded_up() -> None:
    numbers = [Scaled(3, 0), Scaled(2**64 - 1, -70), Scaled(1, -(10**12))]
    wholes, exponent = whole_numbers(numbers)
    unit = Fraction(2) ** exponent
    assert all(
        w * unit >= n.mantissa * Fraction(2) ** max(n.exponent, -200) for w, n in zip(wholes, numbers, strict=True)
    )
    assert wholes[2] == 1 and wholes[0] * unit == 3
    assert Scaled(2**80 + 1, 5).shortened() == Scaled(2**63 + 1, 22)


def test_ranks_are_by_count_then_index() -> None:
    for counts in [*map(np.array, SMALL_COUNTS), np.arange(1000) * 37 % 91, np.arange(500) * 37 % 91 * 2**56]:
        order = np.lexsort((np.arange(len(counts)), -counts))
        ranking = rank(counts)
        assert ranking.items(np.arange(len(counts))).tolist() == order.tolist()
        assert ranking.ascending.tolist() == sorted(counts.tolist())
        for k in (1, len(counts)):
            assert ranking.top(k).tolist() == counts[order][:k].tolist()
    edge = np.array([2**63 - 1, 0, 2**63 - 1])
    assert rank(edge).items(np.arange(3)).tolist() == [0, 2, 1]
    assert list(itertools.chain(rank(np.array([2**62])).items(np.array([0])))) == [0]
