"""Additive noise as real numbers defined by their bits, and the exact top k of noisy counts.

The noise of item i is a real number: a quantile function applied to the uniform whose binary digits are the words at
an address of the keystream. One pass in floats encloses every noisy score in an interval; where two intervals overlap,
ball arithmetic reads further digits and decides. Floats therefore only save work: the answer is a property of the real
numbers, and the running time depends on how many items there are, hardly on their counts.

All noises but the Gaussian have log(1 - F) 1-Lipschitz, which is what selection by noisy maximum needs (Shekelyan &
Loukides 2023, Theorem 4.1). Quantiles take the *upper tail* V = 1 - F(x), so the large noises that win keep their
relative precision.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cmp_to_key

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Indices
from private_topk.transforms.mechanisms.exact.reals import Real, ball, greater, precision, relative_float, uniform

Floats = NDArray[np.float64]

NOISE_ERROR = 2.0**-30
"""Bound on |float noise - real noise|. With V kept in [2**-30, 1 - 2**-20] the unread digits of a word move V by a
factor within 2**-34, a rounding moves 1 - V by one within 2**-33, and no function here magnifies either more than
twofold. What remains is for the platform's log, log1p and cos: they may be wrong by 2**-40, thousands of times what any
library in use is."""

LEAST, MOST = 2.0**-30, 1 - 2.0**-20
COUNT_ERROR = 2.0**-48
"""Relative bound for a difference of counts times a rate: three roundings of 2**-53 each happen."""

_CHUNK = 1 << 16  # items whose temporaries stay in the processor's cache
_OF_EXPONENTIAL: dict[str, Callable[[arb], arb]] = {
    "gumbel": lambda a: -a.log(),
    "gaussian": lambda a: arb(2).sqrt() * (-2 * (-a).expm1()).erfcinv(),
}
LIPSCHITZ_NOISES = ("gumbel", "exponential", "laplace", "logistic", "half-logistic")
_WORDS = 3  # for each proposal
QUERY_LANE, THRESHOLD_LANE = 2**32 - 2, 2**32 - 3
"""Lanes that no selection reaches, which counts its own from 0."""


@dataclass(frozen=True)
class Noise:
    """A standard noise: `quantile` and its float twin `approximate`, functions of `words` uniforms each."""

    quantile: Callable[..., arb]
    approximate: Callable[..., Floats]
    words: int = 1


def _laplace(v: arb) -> arb:
    # One of the two logarithms is 0; written so that a ball astride 1/2 is enclosed as well.
    half = arb(0.5)
    return (2 * (1 - v).min(half)).log() - (2 * v.min(half)).log()


NOISES: dict[str, Noise] = {
    "gumbel": Noise(lambda v: -(-(-v).log1p()).log(), lambda v: -np.log(-np.log1p(-v))),
    "exponential": Noise(lambda v: -v.log(), lambda v: -np.log(v)),
    "laplace": Noise(_laplace, lambda v: np.copysign(np.log(2 * np.minimum(v, 1 - v)), 0.5 - v)),
    "logistic": Noise(lambda v: ((1 - v) / v).log(), lambda v: np.log((1 - v) / v)),
    "half-logistic": Noise(lambda v: ((2 - v) / v).log(), lambda v: np.log((2 - v) / v)),
    "gaussian": Noise(  # Box & Muller 1958
        lambda v, angle: (-2 * v.log()).sqrt() * (2 * angle).cos_pi(),
        lambda v, angle: np.sqrt(-2 * np.log(v)) * np.cos(2 * np.pi * angle),
        words=2,
    ),
}
"""Standard noises by name: scale 1, and for the Gaussian standard deviation 1."""


def of_exponential(noise: str) -> Callable[[arb], arb]:
    """The noise whose upper tail is 1 - exp(-A), as a function of a standard exponential A; it falls.

    So the largest of m noises is that of A / m.
    """
    quantile = NOISES[noise].quantile
    return _OF_EXPONENTIAL.get(noise, lambda a: quantile(-(-a).expm1()))


def check_noise(noise: str) -> None:
    """Refuse a noise for which selection by noisy maximum is not proved."""
    if noise not in LIPSCHITZ_NOISES:
        raise InvalidArgument("noise", f"must be one of {', '.join(LIPSCHITZ_NOISES)}, got {verbatim(repr(noise))}")


def exponential_real(draw: Draw, lane: int, index: int) -> Real:
    """A standard exponential real A. exp(-A) is uniform, and exp(-A / m) is the largest of m uniforms.

    So in a group of m equal scores the largest noise is `NOISES[name].quantile(-(-A / m).expm1())`, and the next ones
    follow by adding fresh A' / (m - 1), A'' / (m - 2), ... to A / m.
    """
    v = uniform(draw, lane, index)
    return lambda: -(-v()).log1p()


def noise_real(draw: Draw, lane: int, index: int, noise: str) -> Real:
    """The standard noise at an address, as an exact real: what `noisy_top` gives item `index` in that lane."""
    kind = NOISES[noise]
    digits = [uniform(draw, lane, index * kind.words + j) for j in range(kind.words)]
    return lambda: kind.quantile(*(digit() for digit in digits))


def noisy_score(count: int, scale: Fraction, noise: Real) -> Real:
    """count / scale + noise: a noisy count in units of the noise."""
    return lambda: ball(count / scale) + noise()


def noisy_top(counts: Indices, scale: Fraction, noise: str, k: int, draw: Draw, lane: int = 0) -> Indices:
    """The k items of largest count + scale * noise, in decreasing order of that, exactly.

    Args:
        counts: shape (d,), int64.
        scale: the noise's scale in counts (for the Gaussian: its standard deviation).
        noise: a name in NOISES. Item i's noise is `noise_real(draw, lane, i, noise)`.
        k: 1 <= k <= d.
        draw, lane: where the noise comes from. Raises InvalidArgument for a lane that this draw has used before.

    Returns:
        Indices, shape (k,), int64. Cost O(d), about 25 ns an item.
    """
    if type(scale) is not Fraction:  # a rounded one is not the scale of which the guarantee is proved
        kind = type(scale).__name__
        raise InvalidArgument("scale", f"must be a Fraction, got a {kind}", "compute it from Fraction(epsilon)")
    draw.take(lane)
    # Differences from the k-th largest count are exact integers: counts near the cut keep their precision.
    reference = np.partition(counts, len(counts) - k)[len(counts) - k]
    steps = (counts - reference) * float_rate(1 / scale)
    scores, errors = standard_noise(len(counts), noise, draw, lane) + steps, np.abs(steps) * COUNT_ERROR + NOISE_ERROR

    def exact(i: int) -> Real:
        return noisy_score(int(counts[i]), scale, noise_real(draw, lane, i, noise))

    return certified_top(scores, errors, k, exact)


def float_rate(rate: Fraction) -> float:
    """The rate in floats. Capped: from 2**900 on, any difference of counts outweighs any noise all the same."""
    return float(min(rate, Fraction(2**900)))


def standard_noise(size: int, noise: str, draw: Draw, lane: int = 0) -> Floats:
    """Standard noise of items 0 .. size - 1 in floats, each within NOISE_ERROR of its `noise_real`; shape (size,)."""
    width, out = NOISES[noise].words, np.empty(size)
    for start in range(0, size, _CHUNK):
        stop = min(start + _CHUNK, size)
        words = draw.words(lane, start * width, (stop - start) * width).reshape(-1, width)
        out[start:stop] = _in_floats(words, range(start, stop), noise, draw, lane)
    return out


def noise_at(items: Indices, noise: str, draw: Draw) -> Floats:
    """Standard noise of some items, rising, as `standard_noise` has it; same shape."""
    return _in_floats(draw.grid(0, items, NOISES[noise].words), items, noise, draw, 0)


def _in_floats(words: NDArray[np.uint64], items: range | Indices, noise: str, draw: Draw, lane: int) -> Floats:
    kind = NOISES[noise]
    first, *others = (words[:, j] * 2.0**-64 for j in range(kind.words))
    out = kind.approximate(np.clip(first, LEAST, MOST), *others)
    for i in np.flatnonzero((first < LEAST) | (first > MOST)).tolist():  # about one item in a million
        out[i] = relative_float(noise_real(draw, lane, int(items[i]), noise))
    return out


def certified_top(scores: Floats, errors: Floats | float, k: int, exact: Callable[[int], Real]) -> Indices:
    """The k indices of largest real score, in decreasing order.

    Args:
        scores, errors: real score i lies within errors[i] of scores[i]; shape (d,).
        k: 1 <= k <= d.
        exact: the real score of an index, asked for only where intervals overlap.
    """
    low, high = scores - errors, scores + errors
    cut = np.partition(low, len(low) - k)[len(low) - k]
    candidates = np.flatnonzero(high >= cut)
    candidates = candidates[np.argsort(-high[candidates], kind="stable")]
    # Everything before a break lies above everything after it.
    breaks = np.minimum.accumulate(low[candidates])[:-1] > high[candidates][1:]
    if breaks[:k].all():
        return candidates[:k]
    return np.fromiter(_by_balls(candidates, 1 + np.flatnonzero(breaks), exact), np.int64)[:k]


def _by_balls(candidates: Indices, starts: Indices, exact: Callable[[int], Real]) -> Iterator[int]:
    score = cache(exact)
    order = cmp_to_key(lambda i, j: -1 if greater(score(i), score(j)) else 1)
    for run in np.split(candidates, starts):
        yield from sorted(run.tolist(), key=order) if len(run) > 1 else run


def gamma_real(shape: int, draw: Draw, lane: int) -> Real:
    """The sum of `shape` >= 1 standard exponentials, in law.

    Marsaglia & Tsang 2000: with a = shape - 1/3, c = 1 / sqrt(9 a) and x standard normal, a (1 + c x)**3 is taken with
    probability exp(x**2 / 2 + a - a v + a log v), v = (1 + c x)**3: at most 1 for every x. The number is a function
    of real numbers and the decision exact, so the law is; at least 95 of 100 proposals are taken.
    """
    a = Fraction(3 * shape - 1, 3)
    proposals = (_proposal(a, draw, lane, number) for number in itertools.count())
    return next(value for value in proposals if value is not None)


def _proposal(a: Fraction, draw: Draw, lane: int, number: int) -> Real | None:
    """Proposal `number`, or None where it is not taken."""
    first, second, chance = (uniform(draw, lane, _WORDS * number + i) for i in range(_WORDS))

    def base() -> arb:
        return 1 + NOISES["gaussian"].quantile(first(), second()) / (9 * ball(a)).sqrt()

    def exponent() -> arb:
        v = base() ** 3
        x = (base() - 1) * (9 * ball(a)).sqrt()
        return x * x / 2 + ball(a) * (1 - v + v.log())

    if not greater(base, lambda: arb(0)) or not greater(exponent, lambda: chance().log()):
        return None
    return lambda: ball(a) * base() ** 3


def log_threshold(odds: Fraction, noise: str, draw: Draw) -> Real:
    """ln(odds) + standard noise: the level to beat, in units of the noise."""
    disturbance = noise_real(draw, THRESHOLD_LANE, 0, noise)
    return lambda: ball(odds).log() + disturbance()


def first_crossing(
    gaps: Indices, scale: Fraction, threshold: Real, noise: str, draw: Draw, *, addresses: Indices, lane: int, up: bool
) -> int:
    """The first t whose level gaps[t] / scale + noise lies above the threshold (`up`) or below it (not `up`).

    Args:
        gaps: shape (n,), int64.
        scale: of the noise, in counts.
        threshold: in units of the noise.
        noise, addresses, lane: level t has the noise `noise_real(draw, lane, addresses[t], noise)`; addresses (n,).
        up: which side ends the walk.

    Returns:
        t, or n where no level crosses. Cost O(max(addresses)); ball arithmetic only where floats leave it open.
    """
    steps = gaps * float_rate(1 / scale)
    levels = steps + standard_noise(int(addresses.max(initial=0)) + 1, noise, draw, lane)[addresses]
    errors = np.abs(steps) * COUNT_ERROR + 2 * NOISE_ERROR  # the second one for the bar's own rounding
    with precision(96):
        bar = threshold()
    above, below = levels - errors > float(bar.upper()), levels + errors < float(bar.lower())
    certain, open_ones = (above, ~(above | below)) if up else (below, ~(above | below))
    for t in np.flatnonzero(certain | open_ones).tolist():
        exact = noisy_score(int(gaps[t]), scale, noise_real(draw, lane, int(addresses[t]), noise))
        if certain[t] or greater(exact, threshold) == up:
            return t
    return len(gaps)


def above_bottom(top: Indices, moves: int, scale: Fraction, noise: str, odds: Fraction, k: int, draw: Draw) -> Indices:
    """The ranks whose noisy counts are largest and above that of bottom, h_(kbar+1) + moves + scale ln(odds).

    Args:
        top: the kbar + 1 largest counts, decreasing.
        moves: how far differences of counts move between neighbours.
        scale, noise: every item and bottom get this noise, bottom from `THRESHOLD_LANE`.
        odds: how many to one bottom beats an item of count h_(kbar+1) + moves, about.
        k: at most so many ranks.

    Returns:
        Ranks in decreasing order of noisy count, shape (at most k,).
    """
    ranks = noisy_top(top[:-1], scale, noise, k, draw)
    gaps, bottom = top[ranks] - top[-1] - moves, log_threshold(odds, noise, draw)
    return ranks[: first_crossing(gaps, scale, bottom, noise, draw, addresses=ranks, lane=0, up=False)]
