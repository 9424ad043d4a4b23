"""What is looked at in an answer, and how best to guess by it which of two neighbours was there."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from private_topk.testing.audit.bounds import Guesses

__all__ = ["Answer", "Drawn", "Guess", "choose_guess", "features"]

_SIGMAS = 1.5
"""About what a bound of some 4.6 standard deviations on the draws that test a guess is on the few that choose it."""
_PLACES = {"least": 0.0, "lower": 0.25, "middle": 0.5, "upper": 0.75, "largest": 1.0}
_LOOKED_AT = (0, 1)


class Answer(NamedTuple):
    """One release: the items by their number, in the order they were published in, and their noisy counts."""

    items: tuple[int, ...]
    noisy: tuple[int, ...] | None


Drawn = Sequence[tuple[Answer, ...]]
"""What a world has published, once for every draw: a release or two."""


class Guess(NamedTuple):
    """A guess at which of two worlds published, by the value that a feature of it has; none if that is in neither set.

    Args:
        there, here: the values that speak for each world, no value for both.
        score: how much it was worth on the draws it was chosen on.
    """

    feature: str
    there: Container[Hashable]
    here: Container[Hashable]
    score: float

    def made(self, here: Drawn, there: Drawn) -> Guesses:
        """How often it was right and wrong of these draws."""
        right = wrong = 0
        for drawn, of_these, of_those in ((here, self.here, self.there), (there, self.there, self.here)):
            for answers in drawn:
                value = features(answers).get(self.feature)
                right += value in of_these
                wrong += value in of_those
        return Guesses(right, wrong, len(here) + len(there))


class Numbers(NamedTuple):
    """All whole numbers from the one to the other. A `range` would go through them all for what is no number."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.low <= value <= self.high


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


def choose_guess(here: Drawn, there: Drawn, delta: float) -> Guess:
    """The guess that tells most for a large epsilon on these draws, as many of either world.

    Every feature's values are put in order, and cut, on the first half of the draws; the second half says which feature
    and order are worth most. Otherwise those with many values would win by their luck.
    """
    (here_first, here_then), (there_first, there_then) = (
        (_count(drawn[::2]), _count(drawn[1::2])) for drawn in (here, there)
    )
    draws = len(here[::2]) + len(there[::2])
    names = sorted({name for counted in (here_first, there_first) for name in counted})
    found = [Guess(name, *values, 0.0) for name in names
             for values in _best_values(there_first[name], here_first[name], draws, delta)]  # fmt: skip
    scored = [guess._replace(score=_scored(guess, there_then, here_then, draws, delta)) for guess in found]
    return max(scored, key=lambda guess: guess.score)


def _count(drawn: Drawn) -> dict[str, Counter]:
    found: dict[str, Counter] = defaultdict(Counter)
    for answers in drawn:
        for name, value in features(answers).items():
            found[name][value] += 1
    return found


def _scored(guess: Guess, there: dict[str, Counter], here: dict[str, Counter], draws: int, delta: float) -> float:
    def hits(counted: Counter, values: Container[Hashable]) -> int:
        return sum(n for value, n in counted.items() if value in values)

    ups, downs = there[guess.feature], here[guess.feature]
    right, wrong = hits(ups, guess.there) + hits(downs, guess.here), hits(ups, guess.here) + hits(downs, guess.there)
    return float(_scores(np.array([right]), np.array([wrong]), draws, delta)[0])


def _best_values(
    there: Counter, here: Counter, draws: int, delta: float
) -> Iterator[tuple[Container[Hashable], Container[Hashable]]]:
    """What to guess by, for every order of the values: that of their estimated likelihood ratio, which by Neyman and
    Pearson no guess beats but for what the estimates miss; and of numbers their own, from either end and beyond.
    """
    values = list(there.keys() | here.keys())
    values.sort(key=lambda value: (-(there[value] + 0.5) / (here[value] + 0.5), repr(value)))
    orders: list[tuple[list[Any], Callable[[list[Any]], Container[Hashable]]]] = [(values, frozenset)]
    if all(isinstance(value, int) for value in values):
        up = sorted(values)
        orders += [(up, _between(up)), (up[::-1], _between(up))]
    for order, told in orders:
        ups, downs = (np.array([hits[value] for value in order]) for hits in (there, here))
        _, first, last = _best_cuts(ups, downs, draws, delta)
        yield told(order[:first]), told(order[last:])


def _between(all_of_them: Sequence[int]) -> Callable[[list[int]], Container[Hashable]]:
    """Numbers of one end of all that came, with those beyond it."""

    def told(some: list[int]) -> Container[Hashable]:
        if not some:
            return frozenset()
        low, high = min(some), max(some)
        return Numbers(-math.inf if low == all_of_them[0] else low, math.inf if high == all_of_them[-1] else high)

    return told


def _best_cuts(there: np.ndarray, here: np.ndarray, draws: int, delta: float) -> tuple[float, int, int]:
    """Where to cut an order of values: before the first place the guess is `there`, from the second on `here`.

    Tried are: one world alone is guessed, both with nothing between, and the best two of the former together.
    """
    ups, downs = (np.append(0, np.cumsum(counted)) for counted in (there, here))
    places, end = np.arange(len(ups)), np.full(len(ups), len(there))

    def best(firsts: np.ndarray, lasts: np.ndarray) -> tuple[float, int, int]:
        right, wrong = ups[firsts] + downs[-1] - downs[lasts], downs[firsts] + ups[-1] - ups[lasts]
        scores = _scores(right, wrong, draws, delta)
        place = int(np.argmax(scores))
        return float(scores[place]), int(firsts[place]), int(lasts[place])

    first, last, whole = best(places, end), best(end - end, places), best(places, places)
    both = [best(np.array([first[1]]), np.array([last[2]]))] if first[1] <= last[2] else []
    return max([first, last, whole, *both])


def _scores(right: np.ndarray, wrong: np.ndarray, draws: int, delta: float) -> np.ndarray:
    """About the bound that these guesses show, as `epsilon_of` has it."""
    if delta:
        low = _about(right / draws, draws, -_SIGMAS) - delta
        return np.log(np.maximum(low, 1e-9) / _about(wrong / draws, draws, _SIGMAS))
    made = np.maximum(right + wrong, 1)
    share = np.clip(_about(right / made, made, -_SIGMAS), 1e-9, 1 - 1e-9)
    return np.where(right + wrong > 0, np.log(share / (1 - share)), -math.inf)


def _about(share: np.ndarray, draws: Any, sigmas: float) -> np.ndarray:  # noqa: ANN401
    """Wilson's bound: near enough to choose by, and cheap."""
    square = sigmas**2 / draws
    root = np.sqrt(share * (1 - share) / draws + square / (4 * draws))
    return (share + square / 2 + sigmas * root) / (1 + square)
