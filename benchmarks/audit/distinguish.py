"""Distinguishing two neighbours by their answers: features, the best guess from them, and the bound of epsilon.

The bound is exact: from right and wrong guesses, or from the frequency of an event, to the least epsilon.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import arb

_SIGMAS = 1.5
"""A bound of some 4.6 standard deviations on the draws that test a guess is about this many on those that choose it."""
_PLACES = {"least": 0.0, "lower": 0.25, "middle": 0.5, "upper": 0.75, "largest": 1.0}
_ITEMS, _BINS, _STEPS = 8, 32, 40


class Answer(NamedTuple):
    """The answer of one release: the items by their numbers, in the published order, and their noisy counts."""

    items: tuple[int, ...]
    noisy: tuple[int, ...] | None


Drawn = Sequence[tuple[Answer, ...]]
"""The answers of every draw: of one release, or two."""


def features(answers: tuple[Answer, ...]) -> dict[str, Hashable]:
    """All features of an answer, or of two, by name."""
    *before, (items, noisy) = answers
    values: dict[str, Hashable] = {"the answer": items, "how many items": len(items)}
    values |= {f"the place of item {item}": items.index(item) if item in items else -1 for item in range(_ITEMS)}
    if noisy:
        ordered, counts = sorted(noisy), dict(zip(items, noisy, strict=True))
        values |= {"the sum of noisy counts": sum(noisy), "the first noisy count": noisy[0]}
        values |= {
            f"the {name} noisy count": ordered[round(share * (len(ordered) - 1))] for name, share in _PLACES.items()
        }
        values |= {f"the noisy count of item {item}": counts[item] for item in (0, 1) if item in counts}
        if 0 in counts and 1 in counts:
            values["the difference of two noisy counts"] = counts[1] - counts[0]
        values["answer and last digits"] = items, tuple(count % 4 for count in noisy)
    for earlier in before:
        values |= {"both answers": (earlier.items, items), "the same answer twice": earlier.items == items}
        if noisy is not None and earlier.noisy is not None:
            first = dict(zip(earlier.items, earlier.noisy, strict=True))
            both = sorted(
                (item, count - first[item]) for item, count in zip(items, noisy, strict=True) if item in first
            )
            values["by how much noisy counts differ"] = tuple(both)
    return values


class Guess(NamedTuple):
    """A guess at which of two neighbours published, by the value of a feature; no guess if that is in neither set.

    Args:
        cuts: if any, a number is replaced by that of the bin it is in: bins lie between two cuts, or beyond all.
        one, other: the values that speak for each; disjoint.
        score: the bound that it showed on the draws it was chosen on.
    """

    feature: str
    cuts: tuple[int, ...]
    one: frozenset
    other: frozenset
    score: float = 0.0

    def made(self, drawn: Drawn) -> tuple[int, int]:
        """The numbers of these draws that are guessed to be of the one neighbour, and of the other."""
        return self._said(_counted(map(features, drawn), self.feature, self.cuts))

    def _said(self, seen: Counter) -> tuple[int, int]:
        return sum(seen[value] for value in self.one), sum(seen[value] for value in self.other)


def choose_guess(one: Drawn, other: Drawn, delta: float) -> Guess:
    """The guess that shows the largest epsilon on these draws, as many of either neighbour.

    Every feature's values are ordered and cut on the first half of the draws; the second half decides which feature and
    cut are best. Otherwise features with many values would win by luck.
    """
    first, second = ([list(map(features, some[half::2])) for some in (one, other)] for half in (0, 1))
    everything = [*first[0], *first[1]]
    draws = len(everything)
    best = Guess("", (), frozenset(), frozenset(), -math.inf)
    for name in sorted({name for seen in everything for name in seen}):
        for cuts in _cuts([seen[name] for seen in everything if name in seen]):
            (ones, others), tried = ([_counted(some, name, cuts) for some in half] for half in (first, second))
            guess = Guess(name, cuts, *_best_values(ones, others, draws, delta))
            right, wrong = np.add(guess._said(tried[0]), guess._said(tried[1])[::-1])
            guess = guess._replace(score=float(_scores(right, wrong, draws, delta)))
            best = max(best, guess, key=lambda some: some.score)
    return best


def _cuts(values: list[Any]) -> Iterator[tuple[int, ...]]:
    """Ways to bin the values: as they are; and many different numbers also in bins of about equally many draws."""
    yield ()
    if len(set(values)) > _BINS and all(type(value) is int for value in values):
        ordered = sorted(values)
        yield tuple(sorted({ordered[len(ordered) * n // _BINS] for n in range(1, _BINS)}))


def _counted(seen: Any, name: str, cuts: tuple[int, ...]) -> Counter:  # noqa: ANN401
    """How often each value of a feature came."""
    values = (some[name] for some in seen if name in some)
    return Counter(bisect.bisect_right(cuts, value) for value in values) if cuts else Counter(values)


def _best_values(one: Counter, other: Counter, draws: int, delta: float) -> tuple[frozenset, frozenset]:
    """The values to guess by: those at either end, or both, of the order by estimated likelihood ratio. By Neyman and
    Pearson no guess is better, except for errors of the estimates.
    """
    order = sorted(one | other, key=lambda value: (-(one[value] + 0.5) / (other[value] + 0.5), repr(value)))
    ups, downs = (np.append(0, np.cumsum([hits[value] for value in order], dtype=int)) for hits in (one, other))
    places, end = np.arange(len(ups)), np.full(len(ups), len(order))

    def best(firsts: np.ndarray, lasts: np.ndarray) -> tuple[float, int, int]:
        """The score of guessing one before the first place, and the other from the last place on."""
        right, wrong = ups[firsts] + downs[-1] - downs[lasts], downs[firsts] + ups[-1] - ups[lasts]
        scores = _scores(right, wrong, draws, delta)
        place = int(np.argmax(scores))
        return float(scores[place]), int(firsts[place]), int(lasts[place])

    first, last, all_values = best(places, end), best(end - end, places), best(places, places)
    both = [best(np.array([first[1]]), np.array([last[2]]))] if first[1] <= last[2] else []
    _, low, high = max([first, last, all_values, *both])
    return frozenset(order[:low]), frozenset(order[high:])


def _scores(right: np.ndarray, wrong: np.ndarray, draws: int, delta: float) -> np.ndarray:
    """Approximately the bound that `epsilon_of` gives for these guesses."""
    if delta:
        low = _about(right / draws, draws, -_SIGMAS) - delta
        return np.log(np.maximum(low, 1e-9) / _about(wrong / draws, draws, _SIGMAS))
    made = np.maximum(right + wrong, 1)
    share = np.clip(_about(right / made, made, -_SIGMAS), 1e-9, 1 - 1e-9)
    return np.where(right + wrong > 0, np.log(share / (1 - share)), -math.inf)


def _about(share: np.ndarray, draws: Any, sigmas: float) -> np.ndarray:  # noqa: ANN401
    """Wilson's bound: cheap, and close enough for choosing."""
    square = sigmas**2 / draws
    root = np.sqrt(share * (1 - share) / draws + square / (4 * draws))
    return (share + square / 2 + sigmas * root) / (1 + square)


class Tally(NamedTuple):
    """The frequency of an event in independent draws."""

    hits: int
    draws: int


def epsilon_of(right: int, wrong: int, draws: int, delta: float, risk: float) -> float:
    """The least epsilon, at least 0, that goes with so many right and wrong guesses at which of two neighbours
    published, in so many independent draws of one that a fair coin chose; in the rest there was no guess.

    Let A and B be the answers on which one and the other neighbour is guessed. As each has probability 1/2,
    P(right) = (P(A) + P'(B)) / 2 and P(wrong) = (P'(A) + P(B)) / 2, so that P(right) <= exp(epsilon) P(wrong) + delta.
    For a delta of 0, each guess that is made is right with probability at most exp(epsilon) / (1 + exp(epsilon)),
    whatever the others are: one Clopper-Pearson bound instead of two, and both directions at once (Steinke, Nasr,
    Jagielski: Privacy Auditing with One Training Run, 2023; here draws are independent, which is the simple case).

    Args:
        risk: how likely the bound may be above the true one.
    """
    if delta:
        return epsilon_at_least(Tally(right, draws), Tally(wrong, draws), delta, risk)
    low = probability_at_least(Tally(right, right + wrong), risk)
    return max(math.log(low / (1 - low)), 0.0) if low > 0 else 0.0


def epsilon_at_least(often: Tally, seldom: Tally, delta: float, risk: float) -> float:
    """The least epsilon that goes with P(event) <= exp(epsilon) P'(event) + delta, at least 0.

    Args:
        often, seldom: the event on the one input and on its neighbour.
        risk: how likely the bound may be above the true one: half of it for each of the two Clopper-Pearson bounds.
    """
    low = probability_at_least(often, risk / 2) - delta
    return max(math.log(low / probability_at_most(seldom, risk / 2)), 0.0) if low > 0 else 0.0


def probability_at_most(seen: Tally, risk: float) -> float:
    """The upper Clopper-Pearson bound: below the true probability with probability at most `risk`."""
    return 1 - probability_at_least(Tally(seen.draws - seen.hits, seen.draws), risk)


def probability_at_least(seen: Tally, risk: float) -> float:
    """The lower Clopper-Pearson bound: above the true probability with probability at most `risk`."""
    hits, draws = seen
    low, high = 0.0, 1.0
    # P(Binomial(draws, p) >= hits) is the regularised incomplete beta function of p, which rises. Where interval
    # arithmetic cannot decide, it is taken to be above `risk`, so that `low` stays below the root.
    for _ in range(_STEPS if hits else 0):
        middle = (low + high) / 2
        below = arb(middle).beta_lower(arb(hits), arb(draws - hits + 1), regularized=True) < risk
        low, high = (middle, high) if below else (low, middle)
    return low
