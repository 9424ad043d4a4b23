"""Who is in the data: neighbouring inputs made to hurt, as rows of users and items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

__all__ = ["GROUPS", "LABELS", "RESOLUTION", "USER", "Row", "Scene", "Sheet", "hidden_scenes", "open_scenes",
           "repeated_scenes", "rows_of"]  # fmt: skip

Items = tuple[int, ...]


class Row(NamedTuple):
    """What a row says. Group and amount are looked at where the question has some."""

    user: str
    item: str
    group: str
    amount: float


LABELS = ("A", "a", "a ", "a\u0301", "b", "b\u200b", "null", "ss", "\u00df", "\u00e9", "\u0438\u0306", "\u0439",
          "\u65e5", "\u65e5\u672c", "\u672c", "\uff21", "\U0001f600")  # fmt: skip
"""Items that are easily taken for each other, in the order of their bytes."""

GROUPS = ("n", "N")
RESOLUTION = 10
"""What amounts are rounded to: one row of anybody else adds one unit."""

_OFTEN, _SELDOM = 9, 6
_AMOUNTS = (12.0, -(2.0**62), 5.1, 2.0**62, -0.0, 26.0)
"""Of the one user's rows, in turn: together they are above every cap."""

USER = "u 1"
"""The one user in whom two neighbours differ; others are called u 10, u 11 and so on."""


@dataclass(frozen=True)
class Sheet:
    """The rows of one release, and what its draw hangs on besides.

    Args:
        heights: how many other users hold each of the labels, and nothing else.
        mine: the labels that the one user holds, by their number; none at all where that user is not there.
        renamed: every label is another one, in the same order.
        name: added to the release id.
        key: which of several release keys.
        window: which window the rows are said to be of.
        group: which group the one user has most rows in.
    """

    heights: tuple[int, ...]
    mine: tuple[int, ...] = ()
    renamed: bool = False
    name: str = ""
    key: int = 0
    window: int = 0
    group: int = len(GROUPS) - 1

    def labels(self) -> tuple[str, ...]:
        return tuple(f"+{label}" if self.renamed else label for label in LABELS[: len(self.heights)])


@dataclass(frozen=True)
class Scene:
    """Two neighbouring inputs of one release; or of two releases, of which only the second differs.

    Args:
        here, there: the sheets of the one world and of the other, a release each.
    """

    name: str
    here: tuple[Sheet, ...]
    there: tuple[Sheet, ...]


def rows_of(sheet: Sheet, groups: int = 1) -> tuple[list[Row], list[Row]]:
    """The rows of the others, as many in every group, and of the one user, who says everything often in all groups."""
    labels = sheet.labels()
    others = [
        Row(f"{USER}{item}{n}{group}", labels[item], GROUPS[group], RESOLUTION)
        for group in range(groups) for item, height in enumerate(sheet.heights) for n in range(height)
    ]  # fmt: skip
    often = [_OFTEN if group == min(sheet.group, groups - 1) else _SELDOM for group in range(groups)]
    mine = [
        Row(USER, labels[item], GROUPS[group], _AMOUNTS[n % len(_AMOUNTS)])
        for group in range(groups) for n in range(often[group]) for item in sheet.mine
    ]  # fmt: skip
    return others, mine


def open_scenes(swap: bool, size: int = 4) -> Iterator[Scene]:
    """For a public list of `size` items: ties, gaps, nobody else, and users who hold one item, all, or all but one."""
    tied, nobody = (6,) * size, (0,) * size
    gap, chasm = (tuple(6 + width * (n >= size // 2) for n in range(size)) for width in (2, 50))
    everything, half = tuple(range(size)), tuple(range(size // 2))
    if swap:
        rest = tuple(range(size // 2, size))
        changes = {"half for the other half": (half, rest), "one item for another": ((0,), (1,)),
                   "one item for all others": ((0,), everything[1:]), "nothing for all": ((), everything)}  # fmt: skip
        yield from _each(changes, {"ties": tied, "a gap": gap})
        yield from _each({"one item for another": ((0,), (1,))}, {"nobody else": nobody, "a chasm": chasm})
    else:
        one = {"one item": ((), (0,))}
        yield from _each({"all items": ((), everything), "all but one": ((), everything[1:]), **one}, {"ties": tied})
        yield from _each({"the lower half": ((), half), **one}, {"a gap": gap})
        yield from _each(one, {"nobody else": nobody, "a chasm": chasm})


def hidden_scenes(swap: bool, height: int, size: int = 5) -> Iterator[Scene]:
    """For a list that nobody knows: an item that only one user holds, ties where the list is cut, counts at the bar.

    Args:
        height: a count that passes the mechanism's threshold now and then.
        size: how many items there are: two more than compete.
    """
    last, zeros = size - 1, (0,) * (size - 1)
    tall = (3 * height + 5,) * size
    yield Scene("an item of one's own", *_worlds((height, *zeros), (), (last,), swap))
    yield Scene("nobody else", *_worlds((0, *zeros), (), tuple(range(size)), swap))
    yield Scene("a count at the threshold", *_worlds((height, *zeros), (1,) if swap else (), (0,), swap))
    yield Scene("two counts at the threshold", *_worlds((height, height, *zeros[1:]), (), (0, 1), swap))
    yield Scene("ties at the bar", *_worlds(tall, (0,) if swap else (), (last,), swap))
    yield Scene("ties at the bar, several moved", *_worlds(tall, (0, 1) if swap else (), (last - 1, last), swap))
    lower = tuple(level - 1 if n == last else level for n, level in enumerate(tall))
    yield Scene("from below the bar into the tie", *_worlds(lower, (0,) if swap else (), (last,), swap))
    above = (tall[0] + height, tall[0] + height, *tall[2:])
    yield Scene("the order of two that are tied", *_worlds(above, (0,) if swap else (), (1,), swap))
    far = (*tall[:-2], 0, 0)
    yield Scene("all items that come out", *_worlds(far, (), tuple(range(size - 2)), swap))


def repeated_scenes(unknown: bool, heights: tuple[int, ...], mine: tuple[int, ...]) -> Iterator[Scene]:
    """Two releases of nearly the same thing. Whoever knows the first, and that both share their noise, sees the user.

    Each pair differs in one thing that the noise hangs on, and the user joins the second release only.
    """
    first = Sheet(heights)
    others = [("one key and id, other counts", replace(first, heights=tuple(n + 1 for n in heights))),
              ("one key and id, another window", replace(first, window=1)),
              ("one key, another id", replace(first, name=" again")),
              ("one id, another key", replace(first, key=1))]  # fmt: skip
    if unknown:
        others.append(("one key and id, the same counts of other items", replace(first, renamed=True)))
    for name, second in others:
        yield Scene(name, (first, second), (first, replace(second, mine=mine)))


def _each(changes: Mapping[str, tuple[Items, Items]], heights: Mapping[str, Items]) -> Iterator[Scene]:
    for place, levels in heights.items():
        for change, (before, after) in changes.items():
            yield Scene(f"{change}, {place}", *_pair(levels, before, after))


def _worlds(
    heights: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...], swap: bool
) -> tuple[tuple[Sheet, ...], tuple[Sheet, ...]]:
    assert swap or not before
    return _pair(heights, before, after)


def _pair(heights: Items, before: Items, after: Items) -> tuple[tuple[Sheet, ...], tuple[Sheet, ...]]:
    """Whoever is replaced also goes to another group."""
    return (Sheet(heights, before, group=0),), (Sheet(heights, after),)
