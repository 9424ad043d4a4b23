"""Chances by the law itself, where it has a closed form: of joint and canonical draws, and in part of peeling.

Doubles are enough here: these are figures for people, and no draw is steered by them. tests/previews/test_laws.py
holds each against every answer there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.cdp_peeling import CdpPeeling
from private_topk.transforms.mechanisms.exact.histogram import Histogram

__all__ = ["law_of"]

Floats = NDArray[np.float64]
Law = dict[str, Floats]
"""Chances of each rank by their names in `Outlook`: those that are known for some first ranks, or for all."""

_NOTHING = 45.0  # e**-45 of the largest weight is none
_AT_ONCE, _MOST = 1 << 20, 1 << 25
_COARSE = 512


def law_of(mechanism: Mechanism, histogram: Histogram, k: int) -> Law:
    """What is known exactly of a draw: `right`, `belongs`, `so_far` and `found`, as far down as it is known.

    Nothing where items beyond the k-th have its count, since what is right then is no single event; nor where the sums
    are too long. Cost: up to a second.
    """
    rule = _LAWS.get(mechanism.about.name)
    noise = mechanism.parameter("noise", "gumbel")
    tied = int(histogram.at_least(histogram.top(k)[-1:])[0]) > k if k <= histogram.items else True
    return {} if rule is None or noise != "gumbel" or tied else rule(mechanism, histogram, k)


def _rate(mechanism: Mechanism) -> Fraction:
    return Fraction(mechanism.parameter("epsilon")) / mechanism.sensitivity


def _peeling(mechanism: Mechanism, histogram: Histogram, k: int) -> Law:
    """k exponential mechanisms in a row: a prefix of right places is a product of softmax shares.

    tail_i is the weight of all ranks from i on in units of that of rank i.
    """
    share = mechanism.share(k) / mechanism.parameter("epsilon") if isinstance(mechanism, CdpPeeling) else Fraction(1, k)
    rate, top = float(_rate(mechanism) * Fraction(share)), histogram.top(k)
    below = histogram.values < top[-1]
    tail = float(np.exp((histogram.values[below] - top[-1]) * rate) @ histogram.sizes[below])
    tails = np.empty(k)
    for place in range(k - 1, -1, -1):
        step = top[place + 1] - top[place] if place + 1 < k else 0
        tail = tails[place] = 1 + tail * math.exp(rate * step)
    left = np.searchsorted(-top, -top, "right") - np.arange(k)
    so_far = np.cumprod(left / tails)
    belongs = np.exp((top - top[0]) * rate).sum() / tails[0]
    return {"so_far": so_far, "right": so_far[:1], "belongs": np.array([belongs])}


def _joint(mechanism: Mechanism, histogram: Histogram, k: int) -> Law:
    """A mixture over thresholds R: uniform among the sequences whose loss is at most R.

    There place i takes one of the t_i items that R allows it, but for the i before it; the sets grow. So an item that
    is allowed from place f on is still there at place i with the product of 1 - 1 / (t_j - j) over j = f .. i - 1.
    """
    skew = Fraction(mechanism.parameter("skew"))
    a, rest = skew.numerator, skew.denominator - skew.numerator
    rate, top = float(_rate(mechanism) / skew.denominator), histogram.top(k)
    first = (rest - a) * int(top[-1])
    last = first + int((k * math.log(histogram.items) + _NOTHING) / rate) + 1
    losses = rest * top[:, None] - a * histogram.values[None, : _MOST // k]
    steps = np.unique(losses[(losses > first) & (losses <= last)])
    steps = np.concatenate(([first], steps))
    if len(steps) * k > _MOST or len(histogram.values) * k > _MOST:
        return {}

    def reach(thresholds: NDArray[np.int64]) -> NDArray[np.int64]:
        return histogram.at_least(-((thresholds[:, None] - rest * top) // a))

    def logs(thresholds: NDArray[np.int64]) -> Floats:
        return np.log(reach(thresholds) - np.arange(k)).sum(axis=1)

    steps = _worth_it(steps, logs, rate)
    weights = logs(steps) - rate * (steps - first) + np.log(-np.expm1(-rate * np.diff(steps, append=last + 1)))
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    places, found = np.unique(-top, return_index=True)[1], _Sums(k)
    rows = max(1, _AT_ONCE // (k * len(places)))
    for start in range(0, len(steps), rows):
        found.add(weights[start : start + rows], reach(steps[start : start + rows]), places)
    return found.law()


def _worth_it(steps: NDArray[np.int64], logs: Callable[[NDArray[np.int64]], Floats], rate: float) -> NDArray[np.int64]:
    """The steps whose weight may be more than nothing: up to a mark there are at most as many sequences as at it."""
    if len(steps) <= _COARSE:
        return steps
    marks = np.unique(np.linspace(0, len(steps) - 1, _COARSE).astype(np.int64))
    numbers = logs(steps[marks])
    least = (numbers - rate * steps[marks]).max() - _NOTHING - math.log(len(steps))
    kept = np.append(numbers[1:], numbers[-1]) - rate * steps[marks] > least
    return steps[np.repeat(kept, np.diff(marks, append=len(steps)))]


class _Sums:
    """Chances of a joint draw, added up over thresholds."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._of = {name: np.zeros(k) for name in ("right", "belongs", "so_far", "found")}

    def add(self, weights: Floats, reach: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
        """The chances under some thresholds, shape (n,), with the reach of each, shape (n, k).

        Args:
            starts: where runs of equal counts start among the top k.
        """
        k = self._k
        sizes = np.diff(starts, append=k)
        run = np.repeat(np.arange(len(starts)), sizes)
        free = (reach - np.arange(k)).astype(np.float64)
        with np.errstate(divide="ignore"):
            stays = np.maximum(np.log1p(-1 / free), -700.0)
        before = np.concatenate((np.zeros((len(free), 1)), np.cumsum(stays, axis=1)), axis=1)
        # The first place that may take the items of a run: they are allowed once so many ranks are.
        allowed = (reach[:, :, None] < (starts + sizes)[None, None, :]).sum(axis=1)
        still = np.exp(np.minimum(before[:, :, None] - np.take_along_axis(before, allowed, axis=1)[:, None, :], 0.0))
        taken = still[:, :k] * sizes / free[:, :, None] * (np.arange(k)[None, :, None] >= allowed[:, None, :])
        left = sizes[run] - (np.arange(k) - starts[run])
        self._of["right"] += weights @ taken[:, np.arange(k), run]
        self._of["belongs"] += weights @ taken.sum(axis=2)
        self._of["so_far"] += weights @ np.cumprod(left / free, axis=1)
        self._of["found"] += weights @ (1 - still[:, k])[:, run]

    def law(self) -> Law:
        return {name: np.clip(chances, 0.0, 1.0) for name, chances in self._of.items()}


def _canonical(mechanism: Mechanism, histogram: Histogram, k: int) -> Law:
    """The sets but for the top k by (h, t): they hold the ranks 1..h, not h + 1, and their last rank is t.

    There are C(t - h - 2, k - h - 1) of them, alike in their loss; every rank between is in one as often as another.
    """
    d = histogram.items
    gamma, rate, top = Fraction(mechanism.parameter("gamma")), float(_rate(mechanism)), histogram.top(k)
    losses = float(gamma) * (top[-1] - histogram.values) * rate
    worth = losses <= k * math.log(d) + _NOTHING
    ends = int(histogram.ends[worth][-1])
    if ends == k:
        return {"found": np.ones(k)}  # there are no other sets, or their weights are nothing
    if ends > 1 << 24 or (ends - k) * k > _MOST:
        return {}
    t = np.arange(k + 1, ends + 1)
    tail = -float(gamma) * (top[-1] - histogram.counts_at(t - 1)) * rate
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, ends + 1)))))
    heads = -float(1 - gamma) * (top - top[-1]) * rate
    weights, chances = [1.0], [np.ones(k)]
    logs = []
    for h in range(k):
        between, more = t - h - 2, k - h - 1
        logs.append(heads[h] + tail + factorials[between] - factorials[more] - factorials[between - more])
    most = max(0.0, max(float(log.max()) for log in logs))
    weights[0] = math.exp(-most)
    for h, log in enumerate(logs):
        several = np.exp(log - most)
        weights.append(float(several.sum()))
        between = np.maximum(t - h - 2, 1)
        inside = float(several @ ((k - h - 1) / between)) / (weights[-1] or 1.0)
        chances.append(np.concatenate((np.ones(h), [0.0], np.full(k - h - 1, inside))))
    return {"found": np.array(weights) @ np.array(chances) / sum(weights)}


_LAWS: Mapping[str, Callable[[Mechanism, Histogram, int], Law]] = {
    "joint": _joint,
    "canonical": _canonical,
    "peeling": _peeling,
    "cdp-peeling": _peeling,
    "oneshot": _peeling,
}
