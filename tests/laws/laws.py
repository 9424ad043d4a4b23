"""Laws on small domains, their neighbours, and how far two laws are apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.mechanisms import Mechanism

Law = Mapping[tuple[int, ...], "Fraction | arb | float"]
"""The probability of each answer, a tuple of indices. Computed by code that shares nothing with the sampler."""

SMALL_COUNTS = [(1,), (0, 0), (2, 1), (3, 3, 3), (5, 3, 3, 0), (4, 3, 1, 0), (6, 3, 3, 4), (2, 2, 1, 1, 0)]
"""The grid on which the privacy inequality is checked against every neighbour: ties, zeros, gaps, d = 1."""


def neighbours(counts: tuple[int, ...], relation: str = "add-remove", cap: int = 1) -> Iterator[tuple[int, ...]]:
    """Every count vector that one user's change can make of `counts`, each by at most `cap`."""
    up, down = tuple(range(cap + 1)), tuple(range(0, -cap - 1, -1))
    steps = [(*down[:0:-1], *up)] if relation == "replace-one" else [up, down]
    for moves in steps:
        for change in itertools.product(moves, repeat=len(counts)):
            moved = tuple(c + m for c, m in zip(counts, change, strict=True))
            if min(moved) >= 0 and any(change):
                yield moved


def permitted_neighbours(mechanism: Mechanism, counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Neighbours in the mechanism's own sense, with no user holding more than `max_items_per_user`."""
    most = mechanism.parameter("max_items_per_user") or len(counts)
    for moved in neighbours(counts, mechanism.parameter("neighbours", "add-remove"), mechanism.cap):
        change = np.array(moved) - counts
        if max((change > 0).sum(), (change < 0).sum()) <= most:
            yield moved


def total(law: Law) -> arb:
    """The sum of all probabilities: must enclose 1."""
    return sum((as_ball(p) for p in law.values()), arb(0))


class LogLaw:
    """A law as logarithms, which are taken once for all the laws that it is compared with."""

    def __init__(self, law: Law) -> None:
        self.law = law
        self.answers = list(law)
        self.logs = np.array([_log(as_ball(p)) for p in law.values()])

    def against(self, other: LogLaw) -> Ratios:
        """The ratios to another law, answer by answer: of all that are possible in one of the two."""
        here, there = self.logs, other.logs
        if self.answers != other.answers:
            answers = list({**self.law, **other.law})
            here, there = self._at(answers), other._at(answers)
        possible = ~(np.isneginf(here) & np.isneginf(there))
        return Ratios(here[possible], there[possible])

    def _at(self, answers: list[tuple[int, ...]]) -> NDArray[np.float64]:
        known = dict(zip(self.answers, self.logs.tolist(), strict=True))
        return np.array([known.get(answer, -math.inf) for answer in answers])


class Ratios:
    """log P and log P' of the same answers, and what is said of how far they are apart."""

    def __init__(self, here: NDArray[np.float64], there: NDArray[np.float64]) -> None:
        self._p, self._ratios = np.exp(here), here - there
        self._finite = bool(np.isfinite(self._ratios).all())

    def largest(self) -> float:
        return float(np.abs(self._ratios).max(initial=0))

    def range(self) -> float:
        return float(self._ratios.max() - self._ratios.min()) if self._finite else math.inf

    def renyi(self, order: float) -> float:
        if not self._finite:
            return math.inf
        if order == 1:
            return float(self._p @ self._ratios)
        # exp and log around the largest term: ratios can be large.
        exponents = (order - 1) * self._ratios
        top = exponents.max()
        return float((np.log(self._p @ np.exp(exponents - top)) + top) / (order - 1))


def max_log_ratio(law: Law, other: Law) -> float:
    """max over answers of |log P(answer) - log P'(answer)|; infinite where only one of them is possible."""
    return LogLaw(law).against(LogLaw(other)).largest()


def log_ratio_range(law: Law, other: Law) -> float:
    """The largest less the least of log P(answer) - log P'(answer)."""
    return LogLaw(law).against(LogLaw(other)).range()


def renyi(law: Law, other: Law, order: float) -> float:
    """The Renyi divergence of P from P' at an order above 0; at order 1 that of Kullback and Leibler."""
    return LogLaw(law).against(LogLaw(other)).renyi(order)


def hockey_stick(law: Law, other: Law, epsilon: float) -> float:
    """The divergence sum of max(P - exp(epsilon) P', 0): at most delta for an (epsilon, delta)-DP mechanism."""
    factor = arb(epsilon).exp()
    terms = (as_ball(p) - factor * as_ball(other.get(answer, 0.0)) for answer, p in law.items())
    return sum(max(float(term.mid()), 0.0) for term in terms)


def as_ball(p: Fraction | arb | float) -> arb:
    """A probability as a ball."""
    return arb(p.numerator) / p.denominator if isinstance(p, Fraction) else arb(p)


def _log(p: arb) -> float:
    return -math.inf if p == 0 else float(p.log().mid())
