"""Drawing answers without Beam: as many as an audit wants, each a release of its own."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from private_topk.testing.audit.cases import Case
from private_topk.testing.audit.events import Answer
from private_topk.testing.audit.scenes import GROUPS, RESOLUTION, Sheet
from private_topk.testing.audit.ways import WAYS, Counting, Totals, Way, totals_of
from private_topk.transforms.headings import Heading
from private_topk.transforms.keys import Release, ReleaseKey
from private_topk.transforms.select import WindowCounts, rank
from private_topk.transforms.selection import Selection
from private_topk.transforms.windows import WindowBounds

__all__ = ["Sampler", "answer_of"]

Place = tuple[Counting, Sheet, Way]


@dataclass
class Sampler:
    """Answers through the plain functions. Counts are made once for a way and a key; every draw has a release id of its
    own, which no other draw of the audit has.

    Args:
        seed: of all keys and ids, so that an audit can be repeated; a fresh one tests what nobody has tested before.
    """

    seed: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        self._counted: dict[Place, Totals] = {}
        self._drawn_from: dict[tuple[Selection, Place], list[WindowCounts]] = {}

    def key(self, number: int) -> ReleaseKey:
        """One of the release keys of this audit."""
        return ReleaseKey.held(hashlib.sha256(self.seed + b"key %d" % number).digest())

    def coins(self, draws: int, name: str) -> tuple[list[int], list[int]]:
        """The numbers of so many draws, each on one side or the other by a fair coin."""
        bits = hashlib.shake_256(self.seed + b"coins " + name.encode()).digest(draws)
        sides: tuple[list[int], list[int]] = ([], [])
        for number, byte in enumerate(bits):
            sides[byte & 1].append(number)
        return sides

    def draw(
        self, case: Case, world: tuple[Sheet, ...], numbers: Sequence[int], name: str, one_way: bool = False
    ) -> list[tuple[Answer, ...]]:
        """What releases of a world publish.

        Args:
            numbers: of these draws, which the way of their rows, their key and their window hang on.
            name: no two calls may have the same.
            one_way: rows come along on one way only, where what is drawn serves to choose and proves nothing.
        """
        # Where windows are told apart, there must be some.
        ways = [way for way in WAYS if way.period is not None or not any(sheet.window for sheet in world)]
        ways = ways[:1] if one_way else ways
        return [
            tuple(
                answer
                for sheet in world
                for answer in self._answers(case, sheet, ways[n % len(ways)], n // len(ways), f"{name} {n}")
            )
            for n in numbers
        ]

    def _answers(self, case: Case, sheet: Sheet, way: Way, number: int, name: str) -> list[Answer]:
        """What is published of one window: an answer, or one for every group."""
        selection = case.selection
        # What is kept of a user hangs on the key, so there are two of them.
        key = self.key(sheet.key + 2 * (number % 2 if selection.max_items_per_user else 0))
        counting = Counting.of(selection, key)
        counted, parts = self._counts(selection, counting, sheet, way), counting.parts
        window = (number // 2 + sheet.window) % (len(counted) // parts)
        bounds = WindowBounds() if way.period is None else way.period.window(window)
        release = Release(key, name + sheet.name)
        names = [None] if selection.groups is None else GROUPS
        return [
            _drawn(selection, release, Heading(bounds, group), its, sheet)
            for group, its in zip(names, counted[window * parts : (window + 1) * parts], strict=True)
        ]

    def _counts(self, selection: Selection, counting: Counting, sheet: Sheet, way: Way) -> list[WindowCounts]:
        place = counting, sheet, way
        if place not in self._counted:
            self._counted[place] = totals_of(*place)
        if (selection, place) not in self._drawn_from:
            self._drawn_from[selection, place] = [WindowCounts.of(selection, tables) for tables in self._counted[place]]
        return self._drawn_from[selection, place]


def _drawn(selection: Selection, release: Release, of: Heading, counted: WindowCounts, sheet: Sheet) -> Answer:
    ranking = rank(selection, release, of, counted)
    weights = ranking.noisy_weights
    noisy = ranking.noisy_counts if weights is None else [round(100 * weight) for weight in weights]
    return answer_of(ranking.items, noisy, selection, sheet)


def answer_of(items: Sequence[str], noisy: Sequence[Any] | None, selection: Selection, sheet: Sheet) -> Answer:
    """What was published, by the numbers of a sheet; amounts in units."""
    unit, labels = 1 if selection.amounts is None else RESOLUTION, sheet.labels()
    numbers = tuple(labels.index(item) for item in items)
    return Answer(numbers, None if noisy is None else tuple(int(count) // unit for count in noisy))
