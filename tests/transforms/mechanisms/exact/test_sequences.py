"""Sequences by their loss: counted, cut into intervals and drawn, against all of them, listed."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.race import LossInterval, Race
from private_topk.transforms.mechanisms.exact.reals import precision
from private_topk.transforms.mechanisms.exact.sequences import SequenceLosses
from tests.laws import SMALL_COUNTS, assert_follows, draws_to_see
from tests.transforms.mechanisms import laws

SKEWS = [Fraction(1, 2), Fraction(5, 9), Fraction(1)]
WIDE = [*SMALL_COUNTS, (9, 9, 5, 4, 4, 0), (2**62, 2**62 - 3, 2**62 - 1, 0), (2**63 - 1, 2**62, 5)]
Listed = dict[tuple[int, ...], int]


def losses_of(counts: tuple[int, ...], k: int, skew: Fraction, cut_off: int | None = None) -> SequenceLosses:
    return SequenceLosses(Histogram.of(np.array(counts)), k, skew, cut_off)


def listed(counts: tuple[int, ...], k: int, skew: Fraction, cut_off: int | None = None) -> Listed:
    """The loss of every sequence, by its definition: whole, and from 0 on."""
    found = {s: x * skew.denominator for s, x in laws.sequence_losses(counts, k, skew).items()}
    least = min(found.values())
    return {s: int(x - least if cut_off is None else min(x - least, cut_off)) for s, x in found.items()}


def cases() -> list[tuple[tuple[int, ...], int, Fraction, int | None]]:
    return [
        (counts, k, skew, cut_off)
        for counts in WIDE
        for k in range(1, min(3, len(counts)) + 1)
        for skew in SKEWS
        for cut_off in ((None, 1, 3) if skew == SKEWS[0] else (None,))
    ]


@pytest.mark.parametrize(("counts", "k", "skew", "cut_off"), cases())
def test_intervals_of_loss_are_those_of_all_sequences(
    counts: tuple[int, ...], k: int, skew: Fraction, cut_off: int | None
) -> None:
    """Cut to the end there is one for each loss, of the right size; numbers and the nearest losses are right."""
    losses, of_all = losses_of(counts, k, skew, cut_off), listed(counts, k, skew, cut_off)
    different = sorted(set(of_all.values()))
    assert losses.most == different[-1]
    for loss in {x + by for x in different for by in (-1, 0, 1) if x + by >= 0}:
        assert losses.number(loss) == sum(x <= loss for x in of_all.values())
        if loss < losses.most:
            assert losses.around(loss) == (
                max(x for x in different if x <= loss),
                min(x for x in different if x > loss),
            )
    sizes, whole = Counter[int](), [LossInterval.of_all(losses)]
    while whole:
        part = whole.pop()
        if (halves := part.split()) is None:
            sizes[part.least_loss] += int(part.size().unique_fmpz())
        else:
            whole.extend(halves)
    assert sizes == Counter(of_all.values())


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("counts", [(5, 3, 3, 0), (6, 5, 4, 4, 1)])
def test_sequences_between_two_losses_are_drawn_uniformly(counts: tuple[int, ...], skew: Fraction) -> None:
    losses, of_all = losses_of(counts, 3, skew), listed(counts, 3, skew)
    different = sorted(set(of_all.values()))
    for below, most in ((None, different[1]), (different[0], different[1]), (different[0], different[-1])):
        inside = [s for s, x in of_all.items() if x <= most and (below is None or x > below)]
        draw, law = RandomBits.keyed(b"between").draw, {s: Fraction(1, len(inside)) for s in inside}
        draws = range(draws_to_see(law, 0.12))
        seen = Counter(tuple(losses.draw_between(below, most, draw()).tolist()) for _ in draws)
        assert_follows(seen, law, smallest_error=0.12)


def test_wide_integers_and_python_integers_agree() -> None:
    """Beyond 64 bits the look-ups go through Python's integers: scale by one more bit, get the same reach."""
    counts = (2**60, 2**60 - 8, 2**59, 4, 0)
    double = tuple(2 * c for c in counts)
    small, large = (losses_of(c, 3, Fraction(4, 5)) for c in (counts, double))
    for loss in (0, 5, 24, 2**59, 2**60, 2**64):
        assert small.reach(loss).tolist() == large.reach(2 * loss).tolist()
    assert 2 * small.most == large.most


@pytest.mark.parametrize("k", [300, 1000])
def test_numbers_of_long_sequences_are_products_of_whole_numbers(k: int) -> None:
    counts = np.sort(np.arange(1, 3001) * 7919 % 3001)[::-1]
    losses = SequenceLosses(Histogram.of(counts), k, Fraction(1, 2))
    for loss in (0, 1, 17, 500, 3100):
        number = 1
        for place in range(k):
            number *= int((counts >= counts[place] - loss).sum()) - place
        with precision(96):
            assert losses.number(loss).contains(number) and losses.number(loss).rel_accuracy_bits() > 80


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("k", [10, 200])
def test_the_amount_of_work_reveals_little_about_the_counts(k: int, epsilon: float) -> None:
    """`pad` makes up for less than half of what the hardest counts take: the time would tell of the counts."""
    ranks, asked = np.arange(1, 20_001), []
    for counts in (0 * ranks + 3, 10**6 // ranks, ranks * 10**9, ranks, np.minimum(ranks, 3)):
        losses = SequenceLosses(Histogram.of(counts), k, Fraction(1, 2))
        for seed in range(5):
            losses._numbers.clear()
            Race(
                [LossInterval.of_all(losses)], Fraction(epsilon) / 2, "gumbel", RandomBits.keyed(bytes([seed])).draw()
            ).winner()
            asked.append(len(losses._numbers))
    assert max(asked) <= 2 * (16 + 2 * math.isqrt(k))


@pytest.mark.parametrize("rate", [Fraction(1, 10**300), Fraction(1, 10**9), Fraction(10**9), Fraction(10**300)])
def test_extreme_rates_take_a_bounded_number_of_splits(rate: Fraction) -> None:
    losses = losses_of((2**62, 2**62 - 9, 5, 0), 2, SKEWS[0])
    race = Race([LossInterval.of_all(losses)], rate, "gumbel", RandomBits.keyed(b"absurd").draw())
    assert race.winner().least_loss >= 0 and race.splits < 200
    assert rate < 1 or race.winner().least_loss == 0
