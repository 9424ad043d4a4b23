"""The inputs of the audit: neighbouring datasets of the worst kinds, and a small specification for every mechanism."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits, mechanism_by_name, parameters_of
from private_topk.transforms.mechanisms.noisy_counts import CountBudget, DrawnCounts
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.metric import USERS, Amounts, Score
from private_topk.transforms.spec import TopK

Items = tuple[int, ...]

LABELS = (
    "A",
    "a",
    "a ",
    "a\u0301",
    "b",
    "b\u200b",
    "null",
    "ss",
    "\u00df",
    "\u00e9",
    "\u0438\u0306",
    "\u0439",
    "\u65e5",
    "\u65e5\u672c",
    "\u672c",
    "\uff21",
    "\U0001f600",
)
"""Items that are easily taken for each other, in the order of their bytes."""

GROUPS = ("n", "N")
RESOLUTION = 10
"""The resolution of amounts: one row of any other user adds one unit."""

TARGET = "u 1"
"""The one user in whom two neighbours differ; others are called u 10, u 11 and so on."""

_OFTEN, _SELDOM = 9, 6
_ADDED = (12.0, -(2.0**62), 5.1, 2.0**62, -0.0, 26.0)
"""The amounts of the target's rows, in turn: together they are above every cap."""

_PUBLIC, _UNKNOWN = (4, 10), (5, len(LABELS) - 3)
"""The number of items in a public and an unknown domain, without and with published counts."""
_DELTA = 0.01
_TRIES, _HEIGHTS = 24, 40
_AMOUNTS = Amounts(3 * RESOLUTION, RESOLUTION)
"""The cap of three units, of which anybody else adds one."""


class Row(NamedTuple):
    """One row. Group and amount are used only where the specification has groups and amounts."""

    user: str
    item: str
    group: str
    amount: float


@dataclass(frozen=True)
class Dataset:
    """The rows of one release, and what else its draw depends on.

    Args:
        others: how many other users hold each of the labels, and nothing else.
        target: the labels that the target holds, by their numbers; none if that user is absent.
        renamed: every label is another one, in the same order.
        id: added to the release id.
        key: which of several release keys.
        window: the number of the window that the rows are in.
        group: which group the target has most rows in.
    """

    others: Items
    target: Items = ()
    renamed: bool = False
    id: str = ""
    key: int = 0
    window: int = 0
    group: int = len(GROUPS) - 1

    def labels(self) -> tuple[str, ...]:
        return tuple(f"+{label}" if self.renamed else label for label in LABELS[: len(self.others)])


class Neighbours(NamedTuple):
    """Two neighbouring inputs of one release; or of two releases, of which only the second differs.

    Args:
        one, other: the datasets of each, one for every release.
    """

    name: str
    one: tuple[Dataset, ...]
    other: tuple[Dataset, ...]


def rows_of(dataset: Dataset, groups: int = 1) -> tuple[list[Row], list[Row]]:
    """The rows of the others, equally many in every group, and of the target, who has many of each in all groups."""
    labels = dataset.labels()
    others = [
        Row(f"{TARGET}{item}{n}{group}", labels[item], GROUPS[group], RESOLUTION)
        for group in range(groups)
        for item, users in enumerate(dataset.others)
        for n in range(users)
    ]
    often = [_OFTEN if group == min(dataset.group, groups - 1) else _SELDOM for group in range(groups)]
    target = [
        Row(TARGET, labels[item], GROUPS[group], _ADDED[n % len(_ADDED)])
        for group in range(groups)
        for n in range(often[group])
        for item in dataset.target
    ]
    return others, target


def public_neighbours(swap: bool, size: int) -> Iterator[Neighbours]:
    """Pairs for a public list of `size` items: ties, gaps, no other users; users of one item, all, or all but one."""
    everything, half, rest = tuple(range(size)), tuple(range(size // 2)), tuple(range(size // 2, size))
    tied, nobody = (6,) * size, (0,) * size
    gap, chasm = (tuple(6 + width * (n >= size // 2) for n in range(size)) for width in (2, 50))
    one = ("one item for another", (0,), (1,)) if swap else ("one item", (), (0,))
    if swap:
        changes = [
            one,
            ("half for the other half", half, rest),
            ("one item for all others", (0,), everything[1:]),
            ("nothing for all", (), everything),
        ]
        tried: dict[str, list[tuple[str, Items, Items]]] = {
            "ties": changes,
            "a gap": changes,
            "nobody else": [one],
            "a chasm": [one],
        }
    else:
        tried = {
            "ties": [("all items", (), everything), ("all but one", (), everything[1:]), one],
            "a gap": [("the lower half", (), half), one],
            "nobody else": [one],
            "a chasm": [one],
        }
    counts = {"ties": tied, "a gap": gap, "nobody else": nobody, "a chasm": chasm}
    for place, changes in tried.items():
        yield from (_pair(f"{name}, {place}", counts[place], before, after) for name, before, after in changes)


def unknown_neighbours(swap: bool, height: int, size: int) -> Iterator[Neighbours]:
    """Pairs for an unknown domain: an item of only one user, ties where the list is cut, counts at the threshold.

    Args:
        height: a count that passes the mechanism's threshold in some draws.
        size: how many items there are: two more than the mechanism looks at.
    """
    last, zeros, tall = size - 1, (0,) * (size - 1), (3 * height + 5,) * size
    above = (tall[0] + height, tall[0] + height, *tall[2:])

    def gone(*items: int) -> Items:
        """The items that the target held before, where users are swapped."""
        return items if swap else ()

    yield _pair("an item of one's own", (height, *zeros), (), (last,))
    yield _pair("nobody else", (0, *zeros), (), tuple(range(size)))
    yield _pair("a count at the threshold", (height, *zeros), gone(1), (0,))
    yield _pair("two counts at the threshold", (height, height, *zeros[1:]), (), (0, 1))
    yield _pair("ties at the bar", tall, gone(0), (last,))
    yield _pair("ties at the bar, several moved", tall, gone(0, 1), (last - 1, last))
    yield _pair("from below the bar into the tie", (*tall[:-1], tall[0] - 1), gone(0), (last,))
    yield _pair("the order of two that are tied", above, gone(0), (1,))
    yield _pair("all items that come out", (*tall[:-2], 0, 0), (), tuple(range(size - 2)))


def two_release_neighbours(unknown: bool, others: Items, target: Items) -> Iterator[Neighbours]:
    """Two releases of nearly the same data. If both shared their noise, their difference would show the user.

    The releases of each pair differ in one thing that the noise depends on, and the target joins the second only.
    """
    first = Dataset(others)
    seconds = {
        "one key and id, other counts": replace(first, others=tuple(n + 1 for n in others)),
        "one key and id, another window": replace(first, window=1),
        "one key, another id": replace(first, id=" again"),
        "one id, another key": replace(first, key=1),
    }
    if unknown:
        seconds["one key and id, the same counts of other items"] = replace(first, renamed=True)
    for name, second in seconds.items():
        yield Neighbours(name, (first, second), (first, replace(second, target=target)))


def _pair(name: str, others: Items, before: Items, after: Items) -> Neighbours:
    """A pair of one release. A user who is replaced also moves to another group."""
    return Neighbours(name, (Dataset(others, before, group=0),), (Dataset(others, after),))


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
        """The pairs of neighbouring inputs that are tried."""
        swap, public = self.neighbours == "replace-one", self.spec.domain.is_public
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
    def counts(self) -> str:
        """no; yes, with a budget of their own; or drawn with the items."""
        return "drawn" if self.spec.draws_counts else "yes" if self.counted else "no"

    @property
    def epsilon(self) -> float:
        """The declared epsilon for one user in one window, over all groups."""
        return self.spec.epsilon() * self.spec.rankings_of_a_user()

    @property
    def delta(self) -> float:
        return self.spec.delta() * self.spec.rankings_of_a_user()

    @property
    def of(self) -> str:
        """What is counted: users, amounts, or users by group."""
        spec = self.spec
        return "groups" if spec.groups is not None else "users" if spec.score == USERS else "amounts"

    @property
    def neighbours(self) -> str:
        return str(self.spec.mechanism.parameter("neighbours", "add-remove"))


def cases_of(names: Iterable[str] = ()) -> list[Case]:
    """The cases of some mechanisms, by default of all built-in ones. Raises InvalidArgument for a name that is none."""
    return [case for name in (tuple(names) or MECHANISMS) for case in _cases(mechanism_by_name(name), None)]


def cases_for(asked: TopK) -> list[Case]:
    """The cases that attack what one question depends on, at its own epsilon and delta, with its own parameters."""
    whole = Case(asked, 1)
    return [
        case
        for case in _cases(type(asked.mechanism), asked)
        if case.neighbours == whole.neighbours
        and case.of in ("users", whole.of)
        and case.counts in ("no", whole.counts)
    ]


def _cases(kind: type[Mechanism], asked: TopK | None) -> Iterator[Case]:
    for neighbours in kind.guarantee.neighbours:
        for counts in ("no",) if kind.guarantee.metric == "weights" else ("no", "yes"):
            spec = _spec(kind, neighbours, counts, asked)
            yield Case(spec, 1)
            if neighbours == "add-remove":
                yield Case(spec, 2)
        if kind.guarantee.publishes_counts:
            yield Case(_spec(kind, neighbours, "drawn", asked), 1)
    for neighbours in kind.guarantee.neighbours:
        if kind.guarantee.metric == "amounts":
            yield Case(_spec(kind, neighbours, "no", asked, score=_AMOUNTS), 1)
            yield Case(_spec(kind, neighbours, "yes", asked, score=_AMOUNTS), 1)
        yield Case(_spec(kind, neighbours, "no", asked, groups=Groups.of(GROUPS)), 1)


def _spec(
    kind: type[Mechanism],
    neighbours: str,
    counts: str,
    asked: TopK | None,
    score: Score = USERS,
    groups: Groups | None = None,
    share: int = 1,
) -> TopK:
    """The specification that is audited. Without counts: one item of a public domain, at a large epsilon, since few
    draws then show a larger bound. With counts: nearly all of many items, at a small epsilon. One user then moves all
    their counts, so noise made for fewer would show. A bound on items is set only where the mechanism needs one, or
    the question that is asked has one; that question's budget, k and parameters stand in place of these.
    """
    public, counted = kind.guarantee.domain == "public", counts != "no"
    unknown_size, size = _UNKNOWN[counted], (_PUBLIC if public else _UNKNOWN)[counted]
    epsilon: Any = Fraction("0.25") if counted else Fraction(2)
    delta: Any = Fraction(_DELTA)
    most, k = unknown_size // 2 if counted else 1, (size - 1 if public else size - 2) if counted else 1 if public else 2
    own: dict[str, Any] = {}
    budget, bounded = CountBudget(1.0 / share, float(delta / share)), False
    if asked is not None:
        mechanism = asked.mechanism
        own = {name: getattr(mechanism, name) for name in mechanism.parameters()}
        epsilon, delta = mechanism.parameter("epsilon"), mechanism.parameter("delta", 0)
        if isinstance(asked.publish_counts, CountBudget):
            budget = asked.publish_counts
        k = min(asked.max_items, size - 1 if public else size - 2)
        if asked.max_items_per_user is not None:
            bounded, most = True, min(asked.max_items_per_user, unknown_size // 2)
    arguments: dict[str, Any] = {
        **own,
        "epsilon": epsilon / share,
        "delta": delta / share,
        "neighbours": neighbours,
        "max_items_per_user": most,
        "kbar": unknown_size - 2,
    }
    parameters = parameters_of(kind)
    missing = [name for name, parameter in parameters.items() if parameter.required and name not in arguments]
    if missing:
        raise InvalidArgument(
            "mechanism",
            f"{kind.about.name} cannot be audited here: it needs {missing[0]}",
            "give that parameter a default",
        )
    bound = parameters.get("max_items_per_user")
    if not bounded and (bound is None or not bound.required):
        del arguments["max_items_per_user"]
    mechanism = kind(**{name: value for name, value in arguments.items() if name in parameters})
    if not mechanism.parameter("delta", 0):
        budget = replace(budget, delta=0.0)
    published = {"no": None, "yes": budget, "drawn": DrawnCounts()}[counts]
    domain = PublicDomain.of(LABELS[:size]) if public else UnknownDomain()
    spec = TopK(k, mechanism, domain, arguments.get("max_items_per_user"), published, score, groups)
    rankings = spec.rankings_of_a_user()
    return spec if rankings == share else _spec(kind, neighbours, counts, asked, score, groups, rankings)


def threshold_of(spec: TopK) -> int:
    """About the least count that passes the threshold in a quarter of draws, where two items have it and no other any.

    Cost: some hundred draws.
    """
    mechanism, unit = spec.mechanism, UNIT if spec.mechanism.guarantee.metric == "weights" else 1
    bits = RandomBits.keyed(b"where the threshold is")

    def passes(height: int) -> bool:
        counts = np.array([height, height]) * unit
        return sum(len(mechanism(counts, spec.max_items, bits)) > 0 for _ in range(_TRIES)) * 4 >= _TRIES

    heights = [round(2 * 1.2**n) for n in range(_HEIGHTS)]
    return heights[min(bisect.bisect_left(heights, True, key=passes), _HEIGHTS - 1)]
