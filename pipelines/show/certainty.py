"""How sure the order of a ranking is, by its published noisy counts: post-processing, which costs nothing.

Where each of the first p counts is more than a gap above all others, the first p are the first p of the items shown.
With a probability of at least 95% all that is said of one ranking is right; equal counts are in order either way. To
be wrong of two items, their noises must differ by more than the gap, in one direction.

The gap. Independent Laplace noises of standard deviation s differ by more than t, in one direction, with probability
(2 + x) exp(-x) / 4, x = sqrt(2) t / s. Over all pairs of n counts that is to add up to 5%. Of the other noises that
counts have (`exact/count_noise.py`), some with a part or a radius in common, it is less at this t, but for two to four
counts, where it is up to a tenth more. So n**2 / 2 pairs are allowed for, and not n (n - 1) / 2, which makes up for it.
Two Gaussian noises that are known to be so differ by a normal number, whatever part they have in common: its quantile
is up to a third less. `tests/pipelines/show/test_certainty.py` compares the gap with the law of a pair of each noise.

Whole numbers. To round two noises, and two counts to multiples, moves their difference by at most what counts are
rounded to. The variance of noise is at most 1/12 above that of the same noise rounded, if its density falls to both
sides, and that of Laplace noise 1/6 above that of discrete noise of its scale. So s**2 + 1/6 stands for s**2.

Counts that come with the draw: the noise that has chosen the n items is that of their counts, and the gap is the same.
Let t be the (n - 1)-th largest noisy count of all items but two; these are both shown if both of theirs are above it.
Given that, a wrong order is likeliest if their true counts are equal, as the larger one's noisy count grows with it
(monotone likelihood ratio: the densities are log-concave). If they are equal, the lesser noisy count of two is the
smaller the further they differ (log-concave again), so that being above t makes no difference likelier to be large. So
a pair that is shown is no likelier to be wrong than one that was not chosen by noise, and n (n - 1) / 2 pairs are
shown. Noises with a radius in common are such noises given the radius.

Where there is hardly any noise, counts are exact, and rounding turns no order: a whole noise is not 0 with probability
at most s**2 (Markov). Of counts that come with the draw no noise of any item may be above 0: `noise_95` tells that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from statistics import NormalDist

_ERROR = 0.05


def least_gap(
    stddev: float,
    number: int,
    unit: float = 1,
    rounded_to: float = 1,
    of_all: float | None = None,
    gaussian: float | None = None,
) -> float:
    """How far one of so many noisy counts must be above another to be the larger one: all of them, with 95%.

    Args:
        unit: what counts are multiples of before they are rounded.
        of_all: how far any count may be off, shown or not, of counts that come with the draw.
        gaussian: the standard deviation of what each noise has of its own before it is rounded, if that is Gaussian.
    """
    if stddev * math.sqrt(number / _ERROR) <= unit if of_all is None else 2 * of_all <= rounded_to:
        return 0
    if gaussian is not None:
        return -NormalDist(0, math.sqrt(2) * gaussian).inv_cdf(_ERROR / math.comb(number, 2)) + rounded_to
    x = 0.0
    for _ in range(50):  # a contraction: (2 + x) exp(-x) / 4 times the pairs is the error
        x = math.log((2 + x) * number**2 / 2 / (4 * _ERROR))
    return math.hypot(stddev, unit / math.sqrt(6)) * x / math.sqrt(2) + rounded_to


def blocks(counts: Sequence[float], gap: float) -> Iterator[tuple[int, int]]:
    """The first and last place of each run of items that no place parts for certain into those above and those below;
    of one item where its place is certain.

    Args:
        counts: in order of rank.
        gap: `least_gap`.
    """
    lowest = list(accumulate(counts, min))  # of the first so many
    highest = list(accumulate(reversed(counts), max))[::-1]  # of those from there on
    cuts = [place for place in range(1, len(counts)) if lowest[place - 1] - highest[place] > gap]
    yield from zip([0, *cuts], [*cuts, len(counts)], strict=True)


def below_a_later(counts: Sequence[float], gap: float) -> list[bool]:
    """Of each item, in order of rank, whether one that follows has the larger count: of all of them, with 95%.

    Of counts that come with the draw none does, as these are in order.
    """
    highest = accumulate(reversed(counts), max)  # of those from there on, itself too
    return [best - count > gap for best, count in zip(highest, reversed(counts), strict=True)][::-1]


def in_words(counts: Sequence[float], gap: float, called: str = "count") -> str:
    """How sure the order is, in one sentence."""
    found = [(first + 1, last) for first, last in blocks(counts, gap)]
    runs = [list(run) for alone, run in groupby(found, lambda block: block[0] == block[1]) if alone]
    certain = [str(run[0][0]) if len(run) == 1 else f"{run[0][0]} to {run[-1][0]}" for run in runs]
    loose = [f"{first} to {last}" for first, last in found if first != last]
    if not loose:
        return f"The order of these items is certain (95% confidence, from the noisy {called}s)."
    one = sum(map(len, runs)) == 1
    said = [f"{'rank' if one else 'ranks'} {_listed(certain)} {'is' if one else 'are'} certain"] if certain else []
    said.append(f"within ranks {_listed(loose)} some may be in another order")
    return f"Among these items, {'; '.join(said)} (95% confidence, from the noisy {called}s)."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
