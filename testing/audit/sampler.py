"""Drawing answers without Beam: as many as an audit wants, each a release of its own."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from private_topk.testing.audit.cases import Case
from private_topk.testing.audit.events import Answer
from private_topk.testing.audit.scenes import Sheet
from private_topk.testing.audit.ways import WAYS, Counting, Totals, Way, totals_of
from private_topk.transforms import draw
from private_topk.transforms.keys import Release, ReleaseKey
from private_topk.transforms.windows import WindowBounds

__all__ = ["Sampler", "number_items"]


@dataclass
class Sampler:
    """Answers through the plain functions. Counts are made once for a way and a key; every draw has a release id of its
    own, which no other draw of the audit has.

    Args:
        seed: of all keys and ids, so that an audit can be repeated; a fresh one tests what nobody has tested before.
    """

    seed: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        self._counted: dict[tuple[Counting, Sheet, Way], Totals] = {}

    def key(self, number: int) -> ReleaseKey:
        """One of the release keys of this audit."""
        return ReleaseKey("fresh", hashlib.sha256(self.seed + b"key %d" % number).digest())

    def draw(self, case: Case, world: tuple[Sheet, ...], draws: int, name: str) -> list[tuple[Answer, ...]]:
        """What so many releases of a world publish.

        Args:
            name: no two calls may have the same.
        """
        # Where windows are told apart, there must be some.
        ways = [way for way in WAYS if way.period is not None or not any(sheet.window for sheet in world)]
        return [
            tuple(self._answer(case, sheet, ways[n % len(ways)], n // len(ways), f"{name} {n}") for sheet in world)
            for n in range(draws)
        ]

    def _answer(self, case: Case, sheet: Sheet, way: Way, number: int, name: str) -> Answer:
        selection = case.selection
        # What is kept of a user hangs on the key, so there are two of them.
        key = self.key(sheet.key + 2 * (number % 2 if selection.max_items_per_user else 0))
        counting = Counting(selection.domain, selection.max_items_per_user, key, selection.head(), selection.least(),
                            selection.mechanism.weighting)  # fmt: skip
        totals = self._totals(counting, sheet, way)
        window = (number // 2 + sheet.window) % len(totals)
        bounds = WindowBounds() if way.period is None else way.period.window(window)
        ranking = draw.rank(selection, Release(key, name + sheet.name), bounds, totals[window])
        counts = ranking.noisy_counts
        return Answer(
            number_items(ranking.items, sheet), None if counts is None else tuple(int(count) for count in counts)
        )

    def _totals(self, counting: Counting, sheet: Sheet, way: Way) -> Totals:
        place = counting, sheet, way
        if place not in self._counted:
            self._counted[place] = totals_of(*place)
        return self._counted[place]


def number_items(items: Sequence[str], sheet: Sheet) -> tuple[int, ...]:
    """Published items by their numbers on a sheet."""
    labels = sheet.labels()
    return tuple(labels.index(item) for item in items)
