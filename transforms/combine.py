"""Partial counts to totals, a place at a time. Integers only: any order of adding gives the same sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.columnar import Codes, add_amounts, joined, make_table
from private_topk.transforms.parts import MANIFEST, SENT, Part, PlacedPart, in_pieces
from private_topk.transforms.plan import Layout
from private_topk.transforms.shuffle import PutAside, Shelf, taken

__all__ = ["AddUp", "add_up", "add_up_codes", "add_up_labels", "largest", "sums_by_cell"]

_MOST_CELLS = 1 << 20
_ROWS_AT_HAND = 1 << 21
_BITS_AT_HAND = 17
_MANY = 1 << 12  # rows of a window from which on a look at it alone takes less than sorting them


class AddUp(beam.PTransform):
    """(place, partial counts) to (place, totals), in pieces, all manifests to one, and all statements.

    Args:
        keep: unknown domain: how many of the largest totals a place hands on of every window; None keeps all (public
            domain).
        least: unknown domain: totals below this are not handed on.
        ahead: add up what a worker has at hand of a bounded input before it is grouped. Not for an unknown domain, of
            which labels seldom meet, nor for more than 2**17 items a place: so many counts are megabytes in an element.
        by_reference: as for `CountContributions`: counts of a bounded input stay where they are.
    """

    def __init__(
        self, layout: Layout, keep: int | None, least: int = 0, ahead: bool = False, by_reference: bool = False
    ) -> None:
        super().__init__()
        self._layout, self._keep, self._least = layout, keep, least
        self._ahead = ahead and 0 < layout.size and layout.item_bits <= _BITS_AT_HAND
        self._shelf = Shelf() if by_reference else None

    def expand(self, partial: beam.PCollection) -> beam.PCollection:
        if self._ahead and partial.is_bounded and isinstance(partial.windowing.windowfn, GlobalWindows):
            ahead = beam.ParDo(_AddAheadDoFn(self._layout)).with_output_types(PlacedPart)
            partial = partial | "Add up what is at hand" >> ahead
        shelf = None
        if self._shelf is not None and partial.is_bounded:
            partial, shelf = partial | "Put counts aside" >> PutAside(self._shelf), self._shelf.name
        add = _AddUpDoFn(self._layout, self._keep, self._least, shelf)
        return (
            partial
            | "Gather each item's counts" >> beam.GroupByKey()
            # (place, [Part])  ->  (place, Part)
            | "Add up" >> beam.ParDo(add).with_output_types(PlacedPart)
        )


class _AddAheadDoFn(beam.DoFn):
    """The parts of a bundle, added up by place: one for all its user shards, or a few; as they came where their sum is
    more than 2**17 counts. Memory: two million counts.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def start_bundle(self) -> None:
        self._held: defaultdict[int, list[Part]] = defaultdict(list)
        self._rows = 0

    def process(self, placed: PlacedPart) -> Iterator[PlacedPart]:
        place, part = placed
        self._held[place].append(part)
        self._rows += len(part.table)
        if self._rows >= _ROWS_AT_HAND:
            yield from self._sums()
            self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from map(GlobalWindows.windowed_value, self._sums())

    def _sums(self) -> Iterator[PlacedPart]:
        for place, parts in self._held.items():
            place, total = add_up(place, parts, self._layout)
            if len(total.table) <= 1 << _BITS_AT_HAND:
                yield place, total
            else:  # of many windows it may be more than a runner groups at a time: as small as they came
                yield from ((place, part) for part in parts)


class _AddUpDoFn(beam.DoFn):
    def __init__(self, layout: Layout, keep: int | None, least: int, shelf: str | None = None) -> None:
        self._layout, self._keep, self._least, self._shelf = layout, keep, least, shelf

    def process(self, gathered: tuple[int, Iterable[Any]]) -> Iterator[PlacedPart]:
        place, parts = gathered
        parts = parts if self._shelf is None else taken(self._shelf, parts)
        yield from in_pieces(add_up(place, parts, self._layout, self._keep, self._least))


def add_up(place: int, parts: Iterable[Part], layout: Layout, keep: int | None = None, least: int = 0) -> PlacedPart:
    """The sum of the parts, which names the user shards of all of them; manifests are put together, and statements."""
    sources: list[Codes] = []
    tables = _noting(parts, sources)  # one at a time: together they may be large
    if place in (MANIFEST, SENT):
        total = joined(tables)
    elif layout.size:
        total = add_up_codes(place, tables, layout)
    else:
        total = add_up_labels(tables, keep, least)
    return place, Part(np.concatenate(sources), total)


def _noting(parts: Iterable[Part], sources: list[Codes]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        sources.append(part.sources)
        yield part.table


def add_up_codes(place: int, tables: Iterable[pa.RecordBatch], layout: Layout) -> pa.RecordBatch:
    """Totals of one range of codes in a group of windows, by window and code. No table holds a cell of these twice.

    Cost: O(rows + cells) for up to 2**20 cells, above that a sort of the rows.
    """
    windows = layout.group(layout.group_of(place))
    codes = layout.codes(place % layout.item_shards)
    first, width = codes.start, len(codes)
    cells = ((_cells(part, windows.start, first, width), _numbers(part)) for part in tables)
    size = len(windows) * width
    cell, totals = _in_cells(cells, size) if size <= _MOST_CELLS else sums_by_cell(cells)
    column = {"window": (cell // width + windows.start).astype(np.uint32)} if layout.windows > 1 else {}
    return make_table(**column, item=(cell % width + first).astype(layout.item_type), **totals)


_Numbers = dict[str, Codes]
"""Columns that are added up: counts, and users beside them where these are weights."""


def _in_cells(parts: Iterable[tuple[Codes, _Numbers]], size: int) -> tuple[Codes, _Numbers]:
    totals = {"count": np.zeros(size, np.int64)}
    for cell, numbers in parts:
        for name, its in numbers.items():
            if name not in totals:
                totals[name] = np.zeros(size, np.int64)
            totals[name][cell] += its
    present = np.flatnonzero(totals["count"])
    return present, {name: its[present] for name, its in totals.items()}


def sums_by_cell(parts: Iterable[tuple[Codes, _Numbers]]) -> tuple[Codes, _Numbers]:
    """The cells of which the counts are not 0 in sum, increasing, and the sums of all columns. Cost: a sort."""
    cells, numbers = zip(*parts, strict=True)
    cell, totals = np.concatenate(cells), {}
    for name in numbers[0]:
        found, totals[name] = add_amounts(cell, np.concatenate([its[name] for its in numbers]))
    some = totals["count"] != 0  # a rise may be none: as if nobody held the item
    return found[some], {name: its[some] for name, its in totals.items()}


def _cells(part: pa.RecordBatch, window: int, first: int, width: int) -> Codes:
    codes = part["item"].to_numpy().astype(np.int64) - first
    if "window" in part.schema.names:
        codes += (part["window"].to_numpy().astype(np.int64) - window) * width
    return codes


def _numbers(part: pa.RecordBatch) -> _Numbers:
    return {name: part[name].to_numpy() for name in part.schema.names if name not in ("window", "item")}


def add_up_labels(tables: Iterable[pa.RecordBatch], keep: int | None = None, least: int = 0) -> pa.RecordBatch:
    """Totals of the items of one hash residue, by window: the `keep` largest of those of `least` or more, ties by
    label.
    """
    table = pa.Table.from_batches(tables)
    keys = table.schema.names[:-1]
    sums = table.group_by(keys).aggregate([("count", "sum")]).rename_columns([*keys, "count"])
    if least:
        sums = sums.filter(pc.greater_equal(sums["count"], pa.scalar(least)))
    sums = sums.select([*keys, "count"])
    return joined(largest(sums, keep).to_batches() or [pa.RecordBatch.from_pylist([], sums.schema)])


def largest(table: pa.Table, keep: int | None) -> pa.Table:
    """The `keep` rows of the largest counts of every window, in decreasing order; equal counts by the bytes of the
    label.

    The order of the labels is public and fixed, so which of two equal items is kept tells nothing of who came first.
    """
    if "window" in table.schema.names:
        return _largest_by_window(table, keep)
    if keep is not None and len(table) > keep:
        table = _head(table, keep)
    return table.sort_by([("count", "descending"), ("item", "ascending")])


def _head(table: pa.Table, keep: int) -> pa.Table:
    """The rows of the largest counts, in no order. Cost: O(n log keep), however many are equal."""
    counts = table["count"].to_numpy()
    cut = np.partition(counts, len(counts) - keep)[len(counts) - keep]
    above, equal = table.filter(pa.array(counts > cut)), table.filter(pa.array(counts == cut))
    first = pc.select_k_unstable(equal["item"], keep - len(above), [("item", "ascending")])
    return pa.concat_tables([above, equal.take(first)])


def _largest_by_window(table: pa.Table, keep: int | None) -> pa.Table:
    if keep is not None:
        table = _heads(table, keep)
    table = table.sort_by([("window", "ascending"), ("count", "descending"), ("item", "ascending")])
    if keep is None:
        return table
    windows = table["window"].to_numpy()
    place = np.arange(len(windows)) - np.searchsorted(windows, windows)
    return table.filter(pa.array(place < keep))


def _heads(table: pa.Table, keep: int) -> pa.Table:
    """The same rows, but of windows with many only those of the largest counts: to sort labels takes long."""
    windows = table["window"].to_numpy()
    if len(windows) <= max(keep, _MANY):
        return table
    order = np.argsort(windows, kind="stable")
    numbers, starts, sizes = np.unique(windows[order], return_index=True, return_counts=True)
    many = sizes > max(keep, _MANY)
    if not many.any():
        return table
    found = [table.filter(pa.array(~np.isin(windows, numbers[many])))]
    for start, size in zip(starts[many].tolist(), sizes[many].tolist(), strict=True):
        found.append(_head(table.take(pa.array(order[start : start + size])), keep))
    return pa.concat_tables(found)
