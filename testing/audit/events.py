"""What is looked at in an answer, and the event in which two neighbours differ most."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from private_topk.testing.audit.bounds import Tally

__all__ = ["Answer", "Drawn", "Event", "choose_events", "features"]

_SIGMAS = 1.0
_PLACES = {"least": 0.0, "lower": 0.25, "middle": 0.5, "upper": 0.75, "largest": 1.0}
_LOOKED_AT = (0, 1)


class Answer(NamedTuple):
    """One release: the items by their number, in the order they were published in, and their noisy counts."""

    items: tuple[int, ...]
    noisy: tuple[int, ...] | None


Drawn = Sequence[tuple[Answer, ...]]
"""What a world has published, once for every draw: a release or two."""


class Event(NamedTuple):
    """That a feature of what was published has one of these values.

    Args:
        reverse: it comes more often in the world `here` than in `there`.
        score: how much it was worth on the draws it was chosen on.
    """

    feature: str
    values: frozenset[Hashable]
    reverse: bool
    score: float

    def tally(self, drawn: Drawn) -> Tally:
        """How often it came."""
        return Tally(sum(features(answers).get(self.feature) in self.values for answers in drawn), len(drawn))


def features(answers: tuple[Answer, ...]) -> dict[str, Hashable]:
    """Every feature of what one world has published, by name."""
    found: dict[str, Hashable] = dict(_of_one(answers[-1]))
    if len(answers) == 2:
        first, second = answers
        found["both answers"] = first.items, second.items
        found["the same answer twice"] = first.items == second.items
        if first.noisy is not None and second.noisy is not None:
            before = dict(zip(first.items, first.noisy, strict=True))
            both = zip(second.items, second.noisy, strict=True)
            found["by how much noisy counts differ"] = tuple(sorted(
                (item, noisy - before[item]) for item, noisy in both if item in before))  # fmt: skip
    return found


def _of_one(answer: Answer) -> Iterator[tuple[str, Hashable]]:
    yield "the answer", answer.items
    yield "how many items", len(answer.items)
    for place, item in enumerate(answer.items):
        yield f"the place of item {item}", place
    for item in set(range(8)) - set(answer.items):
        yield f"the place of item {item}", -1
    noisy = answer.noisy
    if noisy:
        yield "the sum of noisy counts", sum(noisy)
        ordered = sorted(noisy)
        for name, share in _PLACES.items():
            yield f"the {name} noisy count", ordered[round(share * (len(ordered) - 1))]
        yield "the first noisy count", noisy[0]
        of_items = dict(zip(answer.items, noisy, strict=True))
        one, other = (of_items.get(item) for item in _LOOKED_AT)
        yield from ((f"the noisy count of item {item}", of_items.get(item)) for item in _LOOKED_AT)
        if one is not None and other is not None:
            yield "the difference of two noisy counts", other - one
        yield "answer and first noisy count", (answer.items, noisy[0])
        yield "answer and parities", (answer.items, tuple(count % 4 for count in noisy))
        yield "everything", (answer.items, noisy)


def choose_events(here: Drawn, there: Drawn, delta: float) -> tuple[Event, ...]:
    """The event that tells most for a large epsilon on these draws, one for each direction.

    Every feature's values are put in order of likelihood, and cut, on the first half of the draws; the second half says
    which feature is worth most. Otherwise those with many values would win by their luck.
    """
    parts = [(_count(drawn[::2]), _count(drawn[1::2])) for drawn in (here, there)]
    names = sorted({name for pair in parts for counted in pair for name in counted})
    best = []
    for reverse in (False, True):
        seldom, often = parts[::-1] if reverse else parts
        draws = len(here[::2]), len(here[1::2])
        found = [
            _scored(name, _best_values(often[0][name], seldom[0][name], draws[0], delta), often[1], seldom[1], draws[1],
                    delta, reverse)
            for name in names
        ]  # fmt: skip
        best.append(max(found, key=lambda event: event.score))
    return tuple(best)


def _count(drawn: Drawn) -> dict[str, Counter]:
    found: dict[str, Counter] = defaultdict(Counter)
    for answers in drawn:
        for name, value in features(answers).items():
            found[name][value] += 1
    return found


def _scored(
    name: str,
    values: frozenset[Hashable],
    often: dict[str, Counter],
    seldom: dict[str, Counter],
    draws: int,
    delta: float,
    reverse: bool,
) -> Event:
    ups, downs = (np.array([sum(counted[name][value] for value in values)]) for counted in (often, seldom))
    return Event(name, values, reverse, float(_scores(ups, downs, draws, delta)[0]))


def _best_values(often: Counter, seldom: Counter, draws: int, delta: float) -> frozenset[Hashable]:
    """Values in the order of their estimated likelihood ratio, and numbers also in their own: by Neyman and Pearson no
    event beats all of the former, but for what the estimates miss.
    """
    values = list(often.keys() | seldom.keys())
    values.sort(key=lambda value: (-(often[value] + 0.5) / (seldom[value] + 0.5), repr(value)))
    orders = [values]
    if all(isinstance(value, int) for value in values):
        orders += [sorted(values), sorted(values, reverse=True)]
    best, chosen = -math.inf, frozenset[Hashable]()
    for order in filter(None, orders):
        ups, downs = (np.cumsum([counted[value] for value in order]) for counted in (often, seldom))
        scores = _scores(ups, downs, draws, delta)
        place = int(np.argmax(scores))
        if scores[place] > best:
            best, chosen = scores[place], frozenset(order[: place + 1])
    return chosen


def _scores(ups: np.ndarray, downs: np.ndarray, draws: int, delta: float) -> np.ndarray:
    return np.log(np.maximum(_about(ups, draws, -_SIGMAS) - delta, 1e-9) / _about(downs, draws, _SIGMAS))


def _about(hits: np.ndarray, draws: int, sigmas: float) -> np.ndarray:
    """Wilson's bound: near enough to choose by, and cheap."""
    share, square = hits / draws, sigmas**2 / draws
    root = np.sqrt(share * (1 - share) / draws + square / (4 * draws))
    return (share + square / 2 + sigmas * root) / (1 + square)
