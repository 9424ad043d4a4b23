"""Which of two neighbours published an answer: what is looked at, how best to guess by it, and the bound that shows.

The bound is exact: from right and wrong guesses, or from how often an event came, to the least epsilon.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import arb

__all__ = [
    "Answer", "Drawn", "Guess", "Tally", "choose_guess", "epsilon_at_least", "epsilon_of", "features",
    "probability_at_least", "probability_at_most",
]  # fmt: skip

_SIGMAS = 1.5
"""About what a bound of some 4.6 standard deviations on the draws that test a guess is on the few that choose it."""
_PLACES = {"least": 0.0, "lower": 0.25, "middle": 0.5, "upper": 0.75, "largest": 1.0}
_ITEMS, _BINS, _STEPS = 8, 32, 40


class Answer(NamedTuple):
    """One release: the items by their number, in the order they were published in, and their noisy counts."""

    items: tuple[int, ...]
    noisy: tuple[int, ...] | None


Drawn = Sequence[tuple[Answer, ...]]
"""What datasets have published, once for every draw: a release or two."""


def features(answers: tuple[Answer, ...]) -> dict[str, Hashable]:
    """Every feature of what was published, by name."""
    *before, (items, noisy) = answers
    found: dict[str, Hashable] = {"the answer": items, "how many items": len(items)}
    found |= {f"the place of item {item}": items.index(item) if item in items else -1 for item in range(_ITEMS)}
    if noisy:
        ordered, counts = sorted(noisy), dict(zip(items, noisy, strict=True))
        found |= {"the sum of noisy counts": sum(noisy), "the first noisy count": noisy[0]}
        found |= {f"the {name} noisy count": ordered[round(share * (len(ordered) - 1))]
                  for name, share in _PLACES.items()}  # fmt: skip
        found |= {f"the noisy count of item {item}": counts[item] for item in (0, 1) if item in counts}
        if 0 in counts and 1 in counts:
            found["the difference of two noisy counts"] = counts[1] - counts[0]
        found["answer and last digits"] = items, tuple(count % 4 for count in noisy)
    for earlier in before:
        found |= {"both answers": (earlier.items, items), "the same answer twice": earlier.items == items}
        if noisy is not None and earlier.noisy is not None:
            first = dict(zip(earlier.items, earlier.noisy, strict=True))
            both = sorted(
                (item, count - first[item]) for item, count in zip(items, noisy, strict=True) if item in first
            )
            found["by how much noisy counts differ"] = tuple(both)
    return found


class Guess(NamedTuple):
    """A guess at which of two neighbours published, by the value that a feature has; none if that is in neither set.

    Args:
        cuts: where there are some, a number counts as that of the bin it is in: those between two cuts, or beyond all.
        one, other: the values that speak for each, no value for both.
        score: how much it was worth on the draws it was chosen on.
    """

    feature: str
    cuts: tuple[int, ...]
    one: frozenset
    other: frozenset
    score: float = 0.0

    def made(self, drawn: Drawn) -> tuple[int, int]:
        """How often it says the one and the other of these draws."""
        return self._said(_counted(map(features, drawn), self.feature, self.cuts))

    def _said(self, seen: Counter) -> tuple[int, int]:
        return sum(seen[value] for value in self.one), sum(seen[value] for value in self.other)


def choose_guess(one: Drawn, other: Drawn, delta: float) -> Guess:
    """The guess that tells most for a large epsilon on these draws, as many of either.

    Every feature's values are put in order, and cut, on the first half of the draws; the second half says which feature
    and cut are worth most. Otherwise those with many values would win by their luck.
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
    """Values as they are; and numbers of which there are many also in bins of about as many draws each."""
    yield ()
    if len(set(values)) > _BINS and all(type(value) is int for value in values):
        ordered = sorted(values)
        yield tuple(sorted({ordered[len(ordered) * n // _BINS] for n in range(1, _BINS)}))


def _counted(seen: Any, name: str, cuts: tuple[int, ...]) -> Counter:  # noqa: ANN401
    """How often every value of a feature came."""
    values = (some[name] for some in seen if name in some)
    return Counter(bisect.bisect_right(cuts, value) for value in values) if cuts else Counter(values)


def _best_values(one: Counter, other: Counter, draws: int, delta: float) -> tuple[frozenset, frozenset]:
    """What to guess by: the values at either end, or both, of the order of their estimated likelihood ratio, which by
    Neyman and Pearson no guess beats but for what the estimates miss.
    """
    order = sorted(one | other, key=lambda value: (-(one[value] + 0.5) / (other[value] + 0.5), repr(value)))
    ups, downs = (np.append(0, np.cumsum([hits[value] for value in order], dtype=int)) for hits in (one, other))
    places, end = np.arange(len(ups)), np.full(len(ups), len(order))

    def best(firsts: np.ndarray, lasts: np.ndarray) -> tuple[float, int, int]:
        """Guessed is one before the first place, the other from the last one on."""
        right, wrong = ups[firsts] + downs[-1] - downs[lasts], downs[firsts] + ups[-1] - ups[lasts]
        scores = _scores(right, wrong, draws, delta)
        place = int(np.argmax(scores))
        return float(scores[place]), int(firsts[place]), int(lasts[place])

    first, last, whole = best(places, end), best(end - end, places), best(places, places)
    both = [best(np.array([first[1]]), np.array([last[2]]))] if first[1] <= last[2] else []
    _, low, high = max([first, last, whole, *both])
    return frozenset(order[:low]), frozenset(order[high:])


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


class Tally(NamedTuple):
    """How often an event came in so many independent draws."""

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
    # P(Binomial(draws, p) >= hits) is the regularised incomplete beta function of p, which rises. What balls cannot
    # tell apart is taken to be above `risk`, so that `low` stays below the root.
    for _ in range(_STEPS if hits else 0):
        middle = (low + high) / 2
        below = arb(middle).beta_lower(arb(hits), arb(draws - hits + 1), regularized=True) < risk
        low, high = (middle, high) if below else (low, middle)
    return low
