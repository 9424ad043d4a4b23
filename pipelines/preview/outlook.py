"""The outlook of one mechanism: what it is expected to publish of given counts, by seeded draws."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from private_topk.pipelines.preview.expected import Expected, bent, check_score, counts_of, weight_of
from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.registry import name_of
from private_topk.transforms.spec import TopK

DRAWS = 400
"""So many draws estimate a probability within 0.05, and the mean of ten of them within 0.02."""

ASIDE = 20
"""So many on each of the other counts that are as likely tell a range."""

NOISE = 0.5
"""A ranking that finds less than this part of the top k, or a place that holds one of them less often, is noise."""

_NUMBERS = ("recall", "order", "l_inf", "l_1", "ratio", "returned")
_SECONDS = 3.0
_MIN_DRAWS = 20
_Z = 1.959963984540054  # the normal quantile of 0.975


@dataclass(frozen=True)
class Estimate:
    """An estimate of an expected number, with an interval that contains it in 95 of 100 previews."""

    value: float
    low: float
    high: float

    @classmethod
    def known(cls, value: float) -> Estimate:
        """The estimate of a number that does not depend on draws."""
        return cls(float(value), float(value), float(value))

    def plain(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


def share(hits: float, draws: float) -> Estimate:
    """The estimate of a probability from a frequency: Wilson's interval, which is also sound near 0 and 1."""
    p, z = hits / draws, _Z**2 / draws
    middle = (p + z / 2) / (1 + z)
    reach = math.sqrt(z * p * (1 - p) + z * z / 4) / (1 + z)
    return Estimate(p, min(max(middle - reach, 0.0), p), max(min(middle + reach, 1.0), p))


def mean(values: ArrayLike, most: float) -> Estimate:
    """The estimate of a mean of draws from 0 to a bound: Wilson's interval for as many binary draws of this variance.

    Far from the ends that is the interval of the normal law; near them it stays inside and is wider. If all draws are
    equal it is as wide as three further draws could make it (the rule of three).
    """
    array = np.asarray(values, np.float64)
    value, spread, n = float(array.mean()), float(array.var(ddof=1)) if len(array) > 1 else 0.0, len(array)
    if not spread:
        reach = min(3 / n, 1.0)
        return Estimate(value, value - reach * value, value + reach * (most - value))
    p = value / most
    chance = share(p * (alike := n * p * (1 - p) * most**2 / spread), alike)
    return Estimate(value, most * chance.low, most * chance.high)


@dataclass(frozen=True)
class Outlook:
    """The outlook of a mechanism: what is expected of one draw. Items of equal counts are equally right.

    Args:
        name: that of the mechanism, by which a run finds it.
        mechanism: with the budget of one window.
        draws: how many were made.
        pure: whether the run as a whole would be pure.
        right: for each place of a sequence, the chance that an item of the right count stands there; none for a set.
            An item that nobody has is right nowhere.
        belongs: for each place of a sequence, the chance that its item is one of the top k, and somebody has it; none
            for a set.
        found: for each of the true ranks, the chance that its item is among those returned; of items with equal counts,
            how many of those that the top k has room for.
        so_far: for each place of a sequence, the chance that it and all before it are right.
        recall: how much of the top k is returned; of fewer items, where fewer are held and the domain is unknown. An
            item that nobody has counts as missed.
        recall_range: the least and the most that one ranking finds nine times of ten, whichever of the counts that are
            looked at are the right ones.
        order: how many of the places are right, as a part of k; 0 for a set.
        l_inf, l_1: the largest and the sum of the differences between the counts of the top k and of what is returned,
            rank by rank; a place that stays empty counts as 0, and a set is put in order first.
        ratio: the sum of the counts returned by that of the top k; 1 where that is 0.
        returned: how many items.
        others: on the other counts that are as likely (`bent`); all else but the range is of the expected ones.
    """

    name: str
    mechanism: Mechanism
    k: int
    draws: int
    pure: bool
    right: tuple[Estimate, ...] = field(repr=False)
    belongs: tuple[Estimate, ...] = field(repr=False)
    found: tuple[Estimate, ...] = field(repr=False)
    so_far: tuple[Estimate, ...] = field(repr=False)
    recall: Estimate
    recall_range: tuple[float, float]
    order: Estimate
    l_inf: Estimate
    l_1: Estimate
    ratio: Estimate
    returned: Estimate
    others: tuple[Outlook, ...] = field(default=(), repr=False)

    @property
    def ordered(self) -> bool:
        """Whether a sequence is published, and not a set."""
        return self.mechanism.guarantee.answer == "sequence"

    def over(self, others: Iterable[Outlook]) -> Outlook:
        """The same beside that on other counts, with a range that holds for them too."""
        others = tuple(others)
        low, high = zip(self.recall_range, *(other.recall_range for other in others), strict=True)
        return replace(self, recall_range=(min(low), max(high)), others=others)

    def over_curves(self, name: str) -> float:
        """A number, such as recall, in the mean of all counts that are looked at."""
        every = (self, *self.others)
        return sum(getattr(one, name).value for one in every) / len(every)

    def plain(self) -> dict[str, Any]:
        many = {name: [one.plain() for one in getattr(self, name)] for name in ("right", "belongs", "found", "so_far")}
        single = {name: getattr(self, name).plain() for name in _NUMBERS}
        return {
            "mechanism": self.name,
            "parameters": self.mechanism.parameters(),
            "answer": self.mechanism.guarantee.answer,
            "draws": self.draws,
            "pure": self.pure,
            **single,
            "recall_range": list(self.recall_range),
            "recall_of_curves": self.over_curves("recall"),
            **many,
        }


class Draws:
    """The draws of what a window is drawn with on the counts that are expected: as many as are asked for, then more.

    They use a fixed key, so that the same setting has the same preview. A run draws with its own key.

    Args:
        times: how many such windows are merged: counts are so many times as large.

    Raises:
        InvalidArgument: the mechanism does not take this k, or not these counts.
    """

    def __init__(self, top_k: TopK, expected: Expected, times: int = 1) -> None:
        mechanism, k = top_k.mechanism, top_k.max_items
        weight = weight_of(mechanism, expected)
        counts = counts_of(top_k, expected)
        histogram = Histogram(counts.values * times, counts.sizes)
        self.mechanism, self.k, self._histogram = mechanism, k, histogram
        self._unit = float(top_k.score.unit)
        weighed = histogram if weight == 1 else Histogram(histogram.values * weight, histogram.sizes)
        self._prepared = mechanism.prepare(weighed)
        self._bits, self._top, self._seconds = RandomBits.keyed(_key(mechanism, k)), _Top(histogram, k), 0.0
        self._seen: list[_Seen] = []

    def upto(self, number: int, limited: bool = True) -> Draws:
        """Itself, with so many draws in all; fewer if `limited` and they take more than 3 s of CPU, but at least 20."""
        ordered = self.mechanism.guarantee.answer == "sequence"
        start = time.process_time() - self._seconds
        while len(self._seen) < number:
            values = self._histogram.counts_at(self._prepared.ranks(self.k, self._bits))
            self._seen.append(self._top.seen(values if ordered else np.sort(values)[::-1]))
            self._seconds = time.process_time() - start
            if limited and len(self._seen) >= _MIN_DRAWS and self._seconds > _SECONDS:
                break
        return self

    def reach(self, recall: float, most: int | None = None) -> bool:
        """Whether so much is found in the mean: by as many draws as it takes to tell, at most those of `look`."""
        number, most = _MIN_DRAWS, most or DRAWS
        while True:
            found = self.upto(min(number, most)).recall
            if number >= most or not found.low < recall < found.high:
                return found.value >= recall
            number *= 2

    @property
    def recall(self) -> Estimate:
        return mean([one.recall for one in self._seen], 1.0)

    @property
    def recall_range(self) -> tuple[float, float]:
        """What leaves out at most a twentieth of the draws so far on either side."""
        recalls = [one.recall for one in self._seen]
        low, high = np.quantile(recalls, 0.05, method="lower"), np.quantile(recalls, 0.95, method="higher")
        return float(low), float(high)

    def outlook(self) -> Outlook:
        """What the draws so far tell; of one window, which is pure if the mechanism is."""
        mechanism, k, rows = self.mechanism, self.k, self._seen
        ordered, largest = mechanism.guarantee.answer == "sequence", float(self._top.counts[0])
        right, belongs, found = (
            np.array([getattr(row, name) for row in rows]) for name in ("right", "belongs", "found")
        )

        def number(name: str, most: float, worth: float = 1.0) -> Estimate:
            return mean([getattr(row, name) * worth for row in rows], most * worth)

        return Outlook(
            name=name_of(type(mechanism)),
            mechanism=mechanism,
            k=k,
            draws=len(rows),
            pure=mechanism.guarantee.privacy == "pure",
            right=_chances(right) if ordered else (),
            belongs=_chances(belongs) if ordered else (),
            found=_chances(found),
            so_far=_chances(np.logical_and.accumulate(right, axis=1)) if ordered else (),
            recall=self.recall,
            recall_range=self.recall_range,
            order=mean(right.mean(axis=1), 1.0) if ordered else Estimate.known(0.0),
            l_inf=number("l_inf", largest, self._unit),
            l_1=number("l_1", largest * k, self._unit),
            ratio=number("ratio", 1.0),
            returned=Estimate.known(k) if mechanism.guarantee.domain == "public" else number("returned", k),
        )


def look(top_k: TopK, expected: Expected, draws: int | None = None) -> Outlook:
    """The outlook of what a window is drawn with: by default of 400 draws, if time allows. Raises InvalidArgument."""
    check_score(expected, top_k.score)
    return Draws(top_k, expected).upto(draws or DRAWS, draws is None).outlook()


def forecast(top_k: TopK, expected: Expected, draws: int) -> Outlook:
    """The same, of so many draws, with a range over all that is as likely (`bent`). Raises InvalidArgument."""
    others = [Draws(top_k, one).upto(min(draws, ASIDE), limited=False).outlook() for one in bent(expected)]
    return Draws(top_k, expected).upto(draws, limited=False).outlook().over(others)


def _chances(hits: NDArray[Any]) -> tuple[Estimate, ...]:
    """The probability of a hit at each place or rank, from one row of hits for each draw."""
    return tuple(share(float(number), len(hits)) for number in hits.sum(axis=0))


@dataclass(frozen=True)
class _Seen:
    right: NDArray[np.bool_]
    belongs: NDArray[np.bool_]
    found: NDArray[np.float64]
    recall: float
    l_inf: float
    l_1: float
    ratio: float
    returned: int


class _Top:
    """The true top k, to compare drawn counts with."""

    def __init__(self, histogram: Histogram, k: int) -> None:
        counts = histogram.top(min(k, histogram.items))
        self.counts = np.concatenate((counts, np.zeros(k - len(counts), np.int64)))
        # In an unknown domain there may be fewer than k items to find.
        self.wanted = k if histogram.items >= k else histogram.items
        self._spots = self._alike(self.counts[: self.wanted])

    def seen(self, values: NDArray[np.int64]) -> _Seen:
        """The comparison of drawn counts, in the order of the draw, with the true ones."""
        k, n = len(self.counts), len(values)
        places = np.concatenate((values, np.full(k - n, -1)))
        ordered = np.sort(values)[::-1]
        off = np.abs(self.counts - np.maximum(places, 0))
        found = np.zeros(k)
        found[: self.wanted] = np.minimum(self._alike(ordered), self._spots) / self._spots
        # An item that nobody has is no find and stands nowhere right: where all others tie, any order would be right.
        found[self.counts == 0] = 0
        total = int(self.counts.sum())
        return _Seen(
            right=(places == self.counts) & (self.counts > 0),
            belongs=places >= max(self.counts[self.wanted - 1], 1),
            found=found,
            recall=float(found.sum()) / self.wanted,
            l_inf=float(off.max()),
            l_1=float(off.sum()),
            ratio=float(values.sum()) / total if total else 1.0,
            returned=n,
        )

    def _alike(self, falling: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of some decreasing counts are equal to each of the wanted top counts."""
        top = -self.counts[: self.wanted]
        return np.searchsorted(-falling, top, "right") - np.searchsorted(-falling, top)


def _key(mechanism: Mechanism, k: int) -> bytes:
    """The key of the draws of a preview. It is public: these draws are never published as private."""
    shape = {"mechanism": mechanism.about.name, "answer": mechanism.guarantee.answer, "k": k}
    return b"private-topk preview" + hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).digest()
