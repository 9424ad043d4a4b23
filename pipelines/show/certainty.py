"""How sure the order of a ranking is, by its published noisy counts: post-processing, which costs nothing.

With probability at least 95% all true counts of a window lie in intervals around their noisy counts. Where those of the
first p items lie above all others, the first p are the first p of the items shown.

The width. Laplace noise of standard deviation s is beyond w with probability exp(-sqrt(2) w / s), and the tails of the
other noises that `noise_of_counts` draws are lighter. So w = s ln(n / 0.05) / sqrt(2) is enough for n counts at once,
with 1 for whole numbers and half of what counts are rounded to. `tests/pipelines/show/test_certainty.py` compares it
with the exact widths of all of them: up to ten counts it is at most 2.2 times as wide.

Where there is hardly any noise, counts are exact: a whole number is off only where its noise, before it is rounded, is
at least 1/2, which has a probability of at most 4 s**2 (Chebyshev). At most 0.05 / n is enough for n counts at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate

_ERROR = 0.05


def half_width(stddev: float, number: int, unit: float = 1, rounded_to: float = 1) -> float:
    """How far any of so many noisy counts may be off, with a probability of at least 95% for all of them together.

    Args:
        unit: what counts are multiples of before they are rounded.
    """
    if number * (2 * stddev / unit) ** 2 <= _ERROR:
        return rounded_to / 2 if rounded_to > unit else 0
    return stddev * math.log(number / _ERROR) / math.sqrt(2) + unit + rounded_to / 2


def blocks(counts: Sequence[float], width: float) -> Iterator[tuple[int, int]]:
    """The first and last place of each run of items that may be in any order; of one item where its place is certain.

    Args:
        counts: in order of rank.
    """
    lowest = list(accumulate(counts, min))  # of the first so many
    highest = list(accumulate(reversed(counts), max))[::-1]  # of those from there on
    cuts = [place for place in range(1, len(counts)) if lowest[place - 1] - width > highest[place] + width]
    yield from zip([0, *cuts], [*cuts, len(counts)], strict=True)


def in_words(counts: Sequence[float], width: float) -> str:
    """How sure the order is, in one sentence."""
    found = [(first + 1, last) for first, last in blocks(counts, width)]
    certain = [str(first) for first, last in found if first == last]
    loose = [f"{first} to {last}" for first, last in found if first != last]
    if not certain and len(loose) == 1:
        return "The counts are too close, compared with their noise, to tell the true order of these items."
    if not loose:
        return "The order of these items is certain (95% confidence, from the noisy counts)."
    one = len(certain) == 1
    said = [f"{'rank' if one else 'ranks'} {_listed(certain)} {'is' if one else 'are'} certain"] if certain else []
    said.append(f"ranks {_listed(loose)} could {'each ' if len(loose) > 1 else ''}be in any order")
    return f"{'; '.join(said).capitalize()} (95% confidence, from the noisy counts)."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
