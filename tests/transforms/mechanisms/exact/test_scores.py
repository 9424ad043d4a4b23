from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import arb

from private_topk.transforms.mechanisms.exact.reals import ball
from private_topk.transforms.mechanisms.exact.scores import Levels, Met, Scores

RATE = Fraction(1, 7)
LEVELS = Levels(
    rate=float(RATE),
    rate_error=0.0,
    level=lambda count: lambda: ball(count * RATE),
    noise=lambda a: -np.log(a),
    noise_error=lambda a: np.full_like(a, 1e-9),
    quantile=lambda a: -a.log(),
)
LARGE = 2**60


def met(leasts: list[int], counts: list[int]) -> Met:
    n, some = len(counts), np.zeros(len(counts), np.int64)
    return Met(some, some, np.arange(n), np.array(leasts), np.array(counts), np.full(n, 0.5), np.full(n, 1e-9))


def test_a_score_lies_within_its_errors_whichever_of_the_counts_it_is() -> None:
    leasts, counts = [LARGE, LARGE - 12, 3, 0], [LARGE, LARGE - 5, 3, 10**9]
    found = Scores.of(met(leasts, counts), LEVELS, LARGE - 20)
    for i, (least, count) in enumerate(zip(leasts, counts, strict=True)):
        low, high = ((x - LARGE + 20) * RATE + Fraction(1, 2) for x in (least, count))
        assert found.low[i] <= low and abs(Fraction(found.scores[i]) - high) <= Fraction(found.errors[i])
        # Where the count is known nothing is lost.
        assert least < count or Fraction(found.low[i]) >= low - 2 * Fraction(found.errors[i])


def test_what_is_open_is_counted_once_and_then_known() -> None:
    whole = Met.joined([met([1, 2], [1, 9]), met([5], [8])])
    assert whole.open.tolist() == [1, 2]
    known = whole.counted(whole.open, np.array([4, 6]))
    assert known.open.tolist() == [] and known.counts.tolist() == known.leasts.tolist() == [1, 4, 6]
    assert whole.counts.tolist() == [1, 9, 8], "what was met is not changed"
    assert known.at(np.array([2, 0])).counts.tolist() == [6, 1]


def test_the_second_largest_that_is_certain() -> None:
    """The example of the module: without noise, of 9, 7, something up to 5 and something up to 8."""
    silent = Met.joined([met([9, 7, 3, 6], [9, 7, 5, 8])])
    found = Scores.of(silent, LEVELS, 0)
    cut = np.sort(found.low)[-2]
    assert (found.scores + found.errors >= cut).tolist() == [True, True, False, True]
    assert float(LEVELS.quantile(arb(1)).mid()) == 0.0
