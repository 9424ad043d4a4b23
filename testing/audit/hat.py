"""What answers are drawn from: the counts of one window, brought into their order once for any number of draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from private_topk.testing.audit.events import Answer
from private_topk.testing.audit.scenes import RESOLUTION, Sheet
from private_topk.transforms import draw
from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.headings import Heading
from private_topk.transforms.keys import Release
from private_topk.transforms.layout import Layout
from private_topk.transforms.selection import Selection
from private_topk.transforms.tallies import tabulate, tallies
from private_topk.transforms.windows import WindowBounds

__all__ = ["Hat", "OtherAnswer", "answer_of", "number_items"]

_WHOLE_WAY = 50


class OtherAnswer(Exception):
    """The path and its own parts do not give the same answer."""


class Hat:
    """The totals of one window. Every draw is the path's own, by `Selection.draw`; of its answers about every
    fiftieth is looked for on the whole path and must be the same there.

    Args:
        tables: as `draw.rank` takes them.
        group: that they are of, where there are groups.
    """

    def __init__(
        self, selection: Selection, sheet: Sheet, tables: list[pa.RecordBatch], group: str | None = None
    ) -> None:
        self._selection, self._sheet, self._tables, self._group = selection, sheet, tables, group
        if isinstance(selection.domain, UnknownDomain):
            self._histogram, self._digest, labels = draw.head_of(selection, tables)
            self._items = np.array(number_items(labels, sheet), np.int64)
            return
        layout = Layout.of(selection.domain)
        some = [(int(table["item"][0].as_py()) >> layout.item_bits, table) for table in tables if len(table)]
        (tally,) = tallies([(shard, tabulate(table)) for shard, table in some], layout, range(1))
        self._histogram, self._digest = tally.histogram(), tally.digest
        counts, users = np.zeros((2, layout.size), np.int64)
        for _, table in some:
            counts[table["item"].to_numpy()] = table["count"].to_numpy()
            if "users" in table.schema.names:
                users[table["item"].to_numpy()] = table["users"].to_numpy()
        self._items, self._users = np.argsort(-counts, kind="stable"), users

    def draw(self, release: Release, bounds: WindowBounds) -> Answer:
        """One answer. Raises OtherAnswer."""
        label = Heading(bounds, self._group).label()
        found = self._selection.draw(self._histogram, self._digest, label, release)
        items = self._items[found.ranks]
        if self._selection.mechanism.orders_by_users:
            items = items[self._selection.order(self._users[items], self._digest, label, release)]
        order = np.argsort(items) if self._selection.mechanism.answer == "set" else np.arange(len(items))
        noisy = None if found.noisy_counts is None else tuple(found.noisy_counts[order].tolist())
        answer = Answer(tuple(items[order].tolist()), noisy)
        if crc32(release.id.encode()) % _WHOLE_WAY == 0 and answer != self._on_the_whole_way(release, bounds):
            raise OtherAnswer(f"{self._selection.parameters()} of {self._sheet}: another answer than its draw")
        return answer

    def _on_the_whole_way(self, release: Release, bounds: WindowBounds) -> Answer:
        ranking = draw.rank(self._selection, release, bounds, self._tables, self._group)
        weights = ranking.noisy_weights
        numbers = ranking.noisy_counts if weights is None else [round(100 * weight) for weight in weights]
        return answer_of(ranking.items, numbers, self._selection, self._sheet)


def answer_of(items: Sequence[str], noisy: Sequence[Any] | None, selection: Selection, sheet: Sheet) -> Answer:
    """What was published, by the numbers of a sheet; amounts in units."""
    unit = 1 if selection.amounts is None else RESOLUTION
    return Answer(number_items(items, sheet), None if noisy is None else tuple(int(count) // unit for count in noisy))


def number_items(items: Sequence[str], sheet: Sheet) -> tuple[int, ...]:
    """Published items by their numbers on a sheet."""
    labels = sheet.labels()
    return tuple(labels.index(item) for item in items)
