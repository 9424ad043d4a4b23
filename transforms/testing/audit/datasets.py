"""Who is in the data: neighbouring inputs made to hurt, as rows of users and items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

__all__ = [
    "GROUPS", "LABELS", "RESOLUTION", "TARGET", "Dataset", "Neighbours", "Row",
    "public_neighbours", "rows_of", "two_release_neighbours", "unknown_neighbours",
]  # fmt: skip

Items = tuple[int, ...]

LABELS = ("A", "a", "a ", "a\u0301", "b", "b\u200b", "null", "ss", "\u00df", "\u00e9", "\u0438\u0306", "\u0439",
          "\u65e5", "\u65e5\u672c", "\u672c", "\uff21", "\U0001f600")  # fmt: skip
"""Items that are easily taken for each other, in the order of their bytes."""

GROUPS = ("n", "N")
RESOLUTION = 10
"""What amounts are rounded to: one row of anybody else adds one unit."""

TARGET = "u 1"
"""The one user in whom two neighbours differ; others are called u 10, u 11 and so on."""

_OFTEN, _SELDOM = 9, 6
_AMOUNTS = (12.0, -(2.0**62), 5.1, 2.0**62, -0.0, 26.0)
"""Of the target's rows, in turn: together they are above every cap."""


class Row(NamedTuple):
    """What a row says. Group and amount are looked at where the question has some."""

    user: str
    item: str
    group: str
    amount: float


@dataclass(frozen=True)
class Dataset:
    """The rows of one release, and what its draw hangs on besides.

    Args:
        others: how many other users hold each of the labels, and nothing else.
        target: the labels that the target holds, by their number; none at all where that user is not there.
        renamed: every label is another one, in the same order.
        id: added to the release id.
        key: which of several release keys.
        window: which window the rows are said to be of.
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
    """The rows of the others, as many in every group, and of the target, who says everything often in all groups."""
    labels = dataset.labels()
    others = [
        Row(f"{TARGET}{item}{n}{group}", labels[item], GROUPS[group], RESOLUTION)
        for group in range(groups) for item, users in enumerate(dataset.others) for n in range(users)
    ]  # fmt: skip
    often = [_OFTEN if group == min(dataset.group, groups - 1) else _SELDOM for group in range(groups)]
    target = [
        Row(TARGET, labels[item], GROUPS[group], _AMOUNTS[n % len(_AMOUNTS)])
        for group in range(groups) for n in range(often[group]) for item in dataset.target
    ]  # fmt: skip
    return others, target


def public_neighbours(swap: bool, size: int) -> Iterator[Neighbours]:
    """For a public list of `size` items: ties, gaps, nobody else, and users who hold one item, all, or all but one."""
    everything, half, rest = tuple(range(size)), tuple(range(size // 2)), tuple(range(size // 2, size))
    tied, nobody = (6,) * size, (0,) * size
    gap, chasm = (tuple(6 + width * (n >= size // 2) for n in range(size)) for width in (2, 50))
    one = ("one item for another", (0,), (1,)) if swap else ("one item", (), (0,))
    if swap:
        changes = [one, ("half for the other half", half, rest), ("one item for all others", (0,), everything[1:]),
                   ("nothing for all", (), everything)]  # fmt: skip
        tried: dict[str, list[tuple[str, Items, Items]]] = {
            "ties": changes,
            "a gap": changes,
            "nobody else": [one],
            "a chasm": [one],
        }
    else:
        tried = {"ties": [("all items", (), everything), ("all but one", (), everything[1:]), one],
                 "a gap": [("the lower half", (), half), one], "nobody else": [one], "a chasm": [one]}  # fmt: skip
    counts = {"ties": tied, "a gap": gap, "nobody else": nobody, "a chasm": chasm}
    for place, changes in tried.items():
        yield from (_pair(f"{name}, {place}", counts[place], before, after) for name, before, after in changes)


def unknown_neighbours(swap: bool, height: int, size: int) -> Iterator[Neighbours]:
    """For a list that nobody knows: an item that only one user holds, ties where the list is cut, counts at the bar.

    Args:
        height: a count that passes the mechanism's threshold now and then.
        size: how many items there are: two more than compete.
    """
    last, zeros, tall = size - 1, (0,) * (size - 1), (3 * height + 5,) * size
    above = (tall[0] + height, tall[0] + height, *tall[2:])

    def gone(*items: int) -> Items:
        """What the target held before, where users are swapped."""
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
    """Two releases of nearly the same thing. Whoever knows the first, and that both share their noise, sees the user.

    Each pair differs in one thing that the noise hangs on, and the target joins the second release only.
    """
    first = Dataset(others)
    seconds = {"one key and id, other counts": replace(first, others=tuple(n + 1 for n in others)),
               "one key and id, another window": replace(first, window=1),
               "one key, another id": replace(first, id=" again"),
               "one id, another key": replace(first, key=1)}  # fmt: skip
    if unknown:
        seconds["one key and id, the same counts of other items"] = replace(first, renamed=True)
    for name, second in seconds.items():
        yield Neighbours(name, (first, second), (first, replace(second, target=target)))


def _pair(name: str, others: Items, before: Items, after: Items) -> Neighbours:
    """Whoever is replaced also goes to another group."""
    return Neighbours(name, (Dataset(others, before, group=0),), (Dataset(others, after),))
