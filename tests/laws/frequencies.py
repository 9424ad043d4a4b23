"""Frequencies of answers against a law: a test with a stated false-alarm rate and power."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
from flint import arb

from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from tests.laws.laws import Law, as_ball

FALSE_ALARM = 1e-6
"""A frequency test of a correct sampler fails once in a million seeds; the seeds are fixed, so it never does twice."""
POWER = 0.99
"""The probability of detecting a law as far from the stated one as a test says."""
_ANEW = 100  # calls that are compared with prepared draws
_STEP = 50


def frequencies(
    mechanism: Mechanism, counts: tuple[int, ...], k: int, draws: int, seed: bytes
) -> Counter[tuple[int, ...]]:
    """How often each answer came in `draws` seeded calls.

    Drawn from a mechanism that is prepared once, as in previews and audits; the first draws are compared with calls.

    Raises:
        AssertionError: a prepared mechanism answers otherwise than a call with the same bits.
    """
    array, bits, anew = np.array(counts), RandomBits.keyed(seed), RandomBits.keyed(seed)
    named = IndexedCounts.of(array if len(array) else np.zeros(1, np.int64))
    prepared, seen = mechanism.prepare(named.histogram), Counter[tuple[int, ...]]()
    for number in range(draws):
        answer = named.items(prepared.ranks(k, bits)).tolist()
        answer = sorted(answer) if mechanism.guarantee.answer == "set" else answer
        seen[tuple(answer)] += 1
        if number < _ANEW:
            called = mechanism(array, k, anew).tolist()
            assert called == answer, f"draw {number} of a prepared mechanism is {answer}, and that of a call {called}"
    return seen


def assert_follows(seen: Counter, law: Law, smallest_error: float) -> None:
    """Chi-square of frequencies against a law, at FALSE_ALARM.

    Asserts too that the test could have seen an error: any law at total variation distance `smallest_error` from the
    stated one would have failed it with probability at least POWER (noncentral chi-square approximation).
    """
    draws = sum(seen.values())
    unknown = set(seen) - set(law)
    assert not unknown, f"answers that the law gives no probability: {sorted(unknown)[:3]}"
    cells = _cells(seen, law, draws)
    freedom = len(cells) - 1
    if freedom == 0:
        return
    statistic, threshold = sum((o - e) ** 2 / e for o, e in cells), _threshold(freedom)
    power = noncentral_tail(threshold, freedom, _shift(draws, smallest_error))
    assert power >= POWER, f"{draws} draws cannot see an error of {smallest_error}: power {power:.3f}"
    assert statistic <= threshold, f"chi-square {statistic:.1f} over {freedom} exceeds {threshold:.1f}"


def draws_to_see(law: Law, smallest_error: float) -> int:
    """The draws that `assert_follows` needs for a law, to see an error with POWER; hardly more than needed."""
    draws = 0
    for _ in range(3):  # more draws leave fewer answers too rare for a cell of their own
        freedom = len(_cells(Counter(), law, draws) if draws else law) - 1
        if freedom < 1:
            return 1
        draws = _STEP * -int(-_least_shift(freedom) / (4 * smallest_error**2) // _STEP)
    return draws


def _cells(seen: Counter, law: Law, draws: int) -> list[tuple[float, float]]:
    """The observed and expected frequency of each answer; rare answers are pooled."""
    expected = {answer: draws * float(as_ball(p).mid()) for answer, p in law.items()}
    rare = [answer for answer, e in expected.items() if e < 10]
    cells = [(float(seen[a]), e) for a, e in expected.items() if e >= 10]
    cells.append((float(sum(seen[a] for a in rare)), sum(expected[a] for a in rare)))
    return [(o, e) for o, e in cells if e > 1e-3 or o > 0]


def _shift(draws: int, error: float) -> float:
    """The noncentrality of a law at a total variation distance: at least so much, by Cauchy and Schwarz."""
    return 4 * draws * error**2


@cache
def _threshold(freedom: int) -> float:
    return _solve(lambda x: chi_square_tail(x, freedom) - FALSE_ALARM, 0, 100 + 10 * freedom)


@cache
def _least_shift(freedom: int) -> float:
    low, high = 1.0, 100.0 + 10 * freedom
    while high - low > 0.1:
        middle = (low + high) / 2
        low, high = (low, middle) if noncentral_tail(_threshold(freedom), freedom, middle) >= POWER else (middle, high)
    return high


def chi_square_tail(x: float, freedom: float) -> float:
    """P(chi-square > x): the regularised upper incomplete gamma function."""
    return float((arb(x) / 2).gamma_upper(arb(freedom) / 2, regularized=1).mid())


def noncentral_tail(x: float, freedom: int, shift: float) -> float:
    """P(noncentral chi-square > x): a Poisson mixture, of mean shift / 2, of central ones with 2 more each."""
    mean = arb(shift) / 2
    last = int(shift / 2 + 12 * (shift / 2) ** 0.5 + 30)
    weights = np.exp([float((mean.log() * j - mean - (arb(j) + 1).lgamma()).mid()) for j in range(last)])
    return float(sum(w * chi_square_tail(x, freedom + 2 * j) for j, w in enumerate(weights) if w > 1e-12))


def _solve(falling: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high
