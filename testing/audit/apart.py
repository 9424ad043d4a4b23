"""Whether the noise of published counts tells of the noise of the selection: each must have bits of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

from private_topk.testing.audit.bounds import Tally, epsilon_at_least
from private_topk.testing.audit.cases import Case
from private_topk.testing.audit.events import Drawn
from private_topk.testing.audit.sampler import Sampler
from private_topk.testing.audit.scenes import LABELS, Sheet
from private_topk.transforms.count_budget import CountBudget
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.selection import Selection

__all__ = ["Dependence", "dependence"]

_STEP, _HEIGHT = 1, 400
_SIZE, _EPSILON, _COUNTS = 4, 0.5, CountBudget(0.5)
_LEAST, _RATIO = 0.1, 1.3


class Dependence(NamedTuple):
    """By how much an answer changes the odds of some values of the noise: the logarithm is at least `bound`."""

    case: Case
    bound: float

    @property
    def holds(self) -> bool:
        return self.bound == 0


def dependence(case: Case, sampler: Sampler, draws: int, risk: float) -> Dependence:
    """A lower bound of it: 0 where answer and noise are drawn apart, but for `risk`.

    Two items are asked for and the noise has a standard deviation of about 4. Which answer and which noise are looked
    at is chosen on one half of the draws, and tested on the other.
    """
    case = replace(case, selection=_small(case.selection))
    sheet = Sheet(tuple(_HEIGHT + _STEP * (_SIZE - n) for n in range(_SIZE)))
    name = f"apart {case.selection.parameters()}"
    chosen, tested = (
        _noises(sampler.draw(case, (sheet,), range(draws // 2), f"{name} {half}"), sheet) for half in range(2)
    )
    answer, noises = _choose(chosen, draws // 2)
    with_it, without = _split(tested, answer)
    ups, downs = (Tally(sum(some[noise] for noise in noises), some.total()) for some in (with_it, without))
    return Dependence(case, epsilon_at_least(ups, downs, 0, risk) if ups.draws and downs.draws else 0.0)


def _small(selection: Selection) -> Selection:
    """Few items, so that no answer is rare."""
    domain = PublicDomain.of(LABELS[:_SIZE]) if isinstance(selection.domain, PublicDomain) else selection.domain
    changes: dict[str, Any] = {"epsilon": _EPSILON}
    mechanism = replace(selection.mechanism, **changes)
    return replace(selection, k=2, domain=domain, mechanism=mechanism, publish_counts=_COUNTS)


Noises = Counter[tuple[tuple[str, Hashable], int]]
"""How often a feature of the answer came with a noise of the first item."""


def _noises(drawn: Drawn, sheet: Sheet) -> Noises:
    found: Noises = Counter()
    for (answer,) in drawn:
        if answer.items and answer.noisy:
            noise = answer.noisy[0] - sheet.heights[answer.items[0]]
            found.update([(("the answer", answer.items), noise), (("the first", answer.items[0]), noise)])
    return found


def _choose(seen: Noises, draws: int) -> tuple[tuple[str, Hashable], frozenset[int]]:
    """The answer, of those that are not rare, whose noises differ most from those of all others."""
    best = -1.0
    chosen: tuple[tuple[str, Hashable], frozenset[int]] = ("the first", 0), frozenset()
    for answer in sorted({answer for answer, _ in seen}, key=repr):
        with_it, without = _split(seen, answer)
        shares = with_it.total(), without.total()
        if min(shares) < _LEAST * draws:
            continue
        noises = frozenset(n for n in with_it if with_it[n] / shares[0] > _RATIO * without[n] / shares[1])
        often, seldom = (sum(some[n] for n in noises) for some in (with_it, without))
        share = (often + seldom) / (shares[0] + shares[1])
        spread = math.sqrt(share * (1 - share) * (1 / shares[0] + 1 / shares[1]))
        sigmas = (often / shares[0] - seldom / shares[1]) / max(spread, 1e-9)
        if sigmas > best:
            best, chosen = sigmas, (answer, noises)
    return chosen


def _split(seen: Noises, answer: tuple[str, Hashable]) -> tuple[Counter[int], Counter[int]]:
    with_it, without = Counter[int](), Counter[int]()
    for (other, noise), n in seen.items():
        if other[0] == answer[0]:
            (with_it if other == answer else without)[noise] += n
    return with_it, without
