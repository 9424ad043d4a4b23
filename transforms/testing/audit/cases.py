"""What is audited: a small question for every mechanism, neighbour relation, and with and without noisy counts."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.errors import Refusal
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits, mechanism_by_name, parameters_of
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.metric import Amounts
from private_topk.transforms.spec import CountBudget, TopK
from private_topk.transforms.testing.audit.datasets import (
    GROUPS,
    LABELS,
    RESOLUTION,
    Neighbours,
    public_neighbours,
    two_release_neighbours,
    unknown_neighbours,
)

__all__ = ["Case", "cases_of"]

_PUBLIC, _UNKNOWN = (4, 10), (5, len(LABELS) - 3)
"""How many items there are in a public and an unknown domain, without and with published counts."""
_DELTA = 0.01
_TRIES, _HEIGHTS = 24, 40
_AMOUNTS = Amounts.of(3 * RESOLUTION, RESOLUTION)
"""The cap of three units, of which anybody else adds one."""


@dataclass(frozen=True)
class Case:
    """One row of the audit's table.

    Args:
        releases: 1; or 2, of which a user is in the second alone, and both have one key and id or nearly so.
    """

    spec: TopK
    releases: int

    @cached_property
    def pairs(self) -> tuple[Neighbours, ...]:
        """All pairs of neighbouring inputs that are tried."""
        swap, public = self.neighbours == "swap", self.spec.domain.is_public
        size = (_PUBLIC if public else _UNKNOWN)[self.counted]
        height = 0 if public else threshold_of(self.spec)
        if self.releases == 2:
            others = (6,) * size if public else (height, height, *(0,) * (size - 2))
            return tuple(two_release_neighbours(not public, others, tuple(range(size // 2 if public else 2))))
        return tuple(public_neighbours(swap, size) if public else unknown_neighbours(swap, height, size))

    @property
    def counted(self) -> bool:
        """Whether noisy counts are published."""
        return self.spec.publish_counts is not None

    @property
    def epsilon(self) -> float:
        """That is declared for one user in one window, in all groups."""
        return self.spec.epsilon() * self.spec.rankings_of_a_user()

    @property
    def delta(self) -> float:
        return self.spec.delta() * self.spec.rankings_of_a_user()

    @property
    def of(self) -> str:
        """What is counted."""
        spec = self.spec
        return "groups" if spec.groups is not None else "amounts" if spec.amounts is not None else "users"

    @property
    def neighbours(self) -> str:
        return str(self.spec.mechanism.parameter("neighbours", "add-remove"))


def cases_of(names: Iterable[str] = ()) -> list[Case]:
    """The cases of some mechanisms, by default of all built-in ones. Raises Refusal for a name that is none."""
    return [case for name in (tuple(names) or MECHANISMS) for case in _cases(mechanism_by_name(name))]


def _cases(kind: type[Mechanism]) -> Iterator[Case]:
    for neighbours in kind.guarantee.neighbours:
        for counted in (False,) if kind.guarantee.metric == "weights" else (False, True):
            spec = _spec(kind, neighbours, counted)
            yield Case(spec, 1)
            if neighbours == "add-remove":
                yield Case(spec, 2)
    for neighbours in kind.guarantee.neighbours:
        if kind.guarantee.metric == "amounts":
            yield Case(_spec(kind, neighbours, False, amounts=_AMOUNTS), 1)
            yield Case(_spec(kind, neighbours, True, amounts=_AMOUNTS), 1)
        yield Case(_spec(kind, neighbours, False, groups=Groups.of(GROUPS)), 1)


def _spec(
    kind: type[Mechanism],
    neighbours: str,
    counted: bool,
    amounts: Amounts | None = None,
    groups: Groups | None = None,
    share: int = 1,
) -> TopK:
    """Without counts one item of a public domain is asked for at a large epsilon, since what few draws can show is then
    larger. With them it is nearly all of many, at a small epsilon: one user moves all their counts, so that noise for
    fewer shows. A bound is set where the mechanism needs one.
    """
    public = kind.guarantee.domain == "public"
    unknown_size, size = _UNKNOWN[counted], (_PUBLIC if public else _UNKNOWN)[counted]
    epsilon, delta = (0.25 if counted else 2.0) / share, _DELTA / share
    given: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "neighbours": neighbours,
        "max_items_per_user": unknown_size // 2 if counted else 1, "kbar": unknown_size - 2,
    }  # fmt: skip
    parameters = parameters_of(kind)
    missing = [name for name, its in parameters.items() if its.required and name not in given]
    if missing:
        raise Refusal("mechanism", f"{kind.about.name} cannot be audited here: it needs {missing[0]}",
                      "give that parameter a default")  # fmt: skip
    bound = parameters.get("max_items_per_user")
    if bound is None or not bound.required:
        del given["max_items_per_user"]
    mechanism = kind(**{name: value for name, value in given.items() if name in parameters})
    budget = CountBudget(1.0 / share, delta if mechanism.parameter("delta", 0) else 0.0) if counted else None
    domain = PublicDomain.of(LABELS[:size]) if public else UnknownDomain()
    k = (size - 1 if public else size - 2) if counted else 1 if public else 2
    spec = TopK(k, mechanism, domain, given.get("max_items_per_user"), budget, amounts, groups)
    rankings = spec.rankings_of_a_user()
    return spec if rankings == share else _spec(kind, neighbours, counted, amounts, groups, rankings)


def threshold_of(spec: TopK) -> int:
    """About the least count that comes out in a quarter of the draws, where two items have it and nothing else is held.

    Cost: some hundred draws.
    """
    mechanism, unit = spec.mechanism, UNIT if spec.mechanism.guarantee.metric == "weights" else 1
    bits = RandomBits.keyed(b"where the threshold is")

    def passes(height: int) -> bool:
        counts = np.array([height, height]) * unit
        return sum(len(mechanism(counts, spec.k, bits)) > 0 for _ in range(_TRIES)) * 4 >= _TRIES

    heights = [round(2 * 1.2**n) for n in range(_HEIGHTS)]
    return heights[min(bisect.bisect_left(heights, True, key=passes), _HEIGHTS - 1)]
