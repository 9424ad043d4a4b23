"""What every mechanism has to show: its law, its frequencies, and the privacy inequality itself.

A *law* maps each answer (a tuple of indices) to its probability, as a `Fraction` or a `flint.arb`, computed for a small
domain by code that shares nothing with the sampler.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np
from flint import arb
from scipy import stats

from private_topk.transforms.mechanisms import Mechanism, RandomBits

Law = Mapping[tuple[int, ...], "Fraction | arb"]

FALSE_ALARM = 1e-6
"""A frequency test of a correct sampler fails once in a million seeds; the seeds are fixed, so it never does twice."""

SMALL_COUNTS = [
    (1,), (0, 0), (2, 1), (3, 3, 3), (5, 3, 3, 0), (4, 3, 1, 0), (6, 3, 3, 4), (2, 2, 1, 1, 0),
]  # fmt: skip
"""The grid on which the privacy inequality is checked against every neighbour: ties, zeros, gaps, d = 1."""


def neighbours(counts: tuple[int, ...], relation: str = "add-remove") -> Iterator[tuple[int, ...]]:
    """Every count vector that one user's change can make of `counts`."""
    steps = {"add-remove": [(0, 1), (0, -1)], "swap": [(-1, 0, 1)]}[relation]
    for moves in steps:
        for change in itertools.product(moves, repeat=len(counts)):
            moved = tuple(c + m for c, m in zip(counts, change, strict=True))
            if min(moved) >= 0 and any(change):
                yield moved


def total(law: Law) -> arb:
    """The sum of all probabilities: must enclose 1."""
    return sum((_ball(p) for p in law.values()), arb(0))


def max_log_ratio(law: Law, other: Law) -> float:
    """max over answers of |log P(answer) - log P'(answer)|; infinite where only one of them is possible."""
    worst = 0.0
    for answer in set(law) | set(other):
        p, q = _ball(law.get(answer, Fraction(0))), _ball(other.get(answer, Fraction(0)))
        if (p == 0) != (q == 0):
            return math.inf
        if not p == 0:
            worst = max(worst, abs(float((p / q).log().mid())))
    return worst


def hockey_stick(law: Law, other: Law, epsilon: float) -> float:
    """The divergence sum of max(P - exp(epsilon) P', 0): at most delta for an (epsilon, delta)-DP mechanism."""
    factor = arb(epsilon).exp()
    zero = Fraction(0)
    terms = (_ball(p) - factor * _ball(other.get(answer, zero)) for answer, p in law.items())
    return sum(max(float(term.mid()), 0.0) for term in terms)


def frequencies(mechanism: Mechanism, counts: tuple[int, ...], k: int, draws: int, seed: bytes) -> Counter:
    """How often each answer came in `draws` seeded calls."""
    bits = RandomBits.keyed(seed)
    array = np.array(counts)
    return Counter(tuple(mechanism(array, k, bits).tolist()) for _ in range(draws))


def assert_follows(seen: Counter, law: Law, smallest_error: float) -> None:
    """Chi-square of frequencies against a law, at FALSE_ALARM.

    Asserts too that the test could have seen an error: any law at total variation distance `smallest_error` from the
    stated one would have failed it with probability at least 0.99 (noncentral chi-square approximation).
    """
    draws = sum(seen.values())
    unknown = set(seen) - set(law)
    assert not unknown, f"answers that the law gives no probability: {sorted(unknown)[:3]}"
    expected = {answer: draws * float(_ball(p).mid()) for answer, p in law.items()}
    rare = [answer for answer, e in expected.items() if e < 10]
    cells = [(seen[a], e) for a, e in expected.items() if e >= 10]
    cells.append((sum(seen[a] for a in rare), sum(expected[a] for a in rare)))
    cells = [(o, e) for o, e in cells if e > 1e-3 or o > 0]
    freedom = len(cells) - 1
    if freedom == 0:
        return
    statistic = sum((o - e) ** 2 / e for o, e in cells)
    threshold = stats.chi2.isf(FALSE_ALARM, freedom)
    power = stats.ncx2.sf(threshold, freedom, 4 * draws * smallest_error**2)
    assert power >= 0.99, f"{draws} draws cannot see an error of {smallest_error}: power {power:.3f}"
    assert statistic <= threshold, f"chi-square {statistic:.1f} over {freedom} exceeds {threshold:.1f}"


def _ball(p: Fraction | arb) -> arb:
    return p if isinstance(p, arb) else arb(p.numerator) / p.denominator
