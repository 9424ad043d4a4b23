"""Partial counts to totals, one item shard at a time. Integers only, so any order of addition gives the same sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Any, Self

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import TupleCoder, VarIntCoder, registry
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.columnar import Codes, add_up, joined, make_table
from private_topk.transforms.completeness import NOTHING, Counted, Fingerprint, Receipt
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import crosses
from private_topk.transforms.plan import ExecutionPlan, Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import BlockCoder
from private_topk.transforms.shuffle import InProcessShuffle, put_in
from private_topk.transforms.spec import TopK
from private_topk.transforms.steps import flat_map

MAX_ROWS = 1 << 16
"""The most rows of a table that is handed on."""

_MAX_CELLS = 1 << 20
_ROWS_AT_HAND = 1 << 21
_BITS_AT_HAND = 17


@dataclass(frozen=True)
class _Table(Counted):
    table: pa.RecordBatch

    @classmethod
    def cut(cls, table: pa.RecordBatch) -> Iterator[Self]:
        """A large table in pieces, since what groups elements may not take any size of them (Flink: what it can sort in
        memory).
        """
        yield from (cls(table.slice(start, MAX_ROWS)) for start in range(0, len(table), MAX_ROWS))


@dataclass(frozen=True)
class PartialCounts(_Table):
    """Counts of items: {item: code or string, count: int64}, with `window` where there are several."""


@dataclass(frozen=True)
class NewPairs(_Table):
    """What users newly count for at the step that is published: {user: uint64, item: code}, perhaps group and value.

    It is kept, and no count is made from it.
    """


KeyedCounts = tuple[int, Counted]
"""A key, of an item shard or a window group, with partial counts or a receipt."""


class CountedCoder(beam.coders.Coder):
    """Partial counts and receipts between workers: Arrow IPC and numbers, no pickle."""

    _NUMBERS, _TABLES = TupleCoder([VarIntCoder()] * 5), BlockCoder()

    def encode(self, value: Counted) -> bytes:
        if isinstance(value, Receipt):
            return b"r" + self._NUMBERS.encode(astuple(value))
        assert isinstance(value, _Table)
        return (b"c" if isinstance(value, PartialCounts) else b"n") + self._TABLES.encode(value.table)

    def decode(self, encoded: bytes) -> Counted:
        if encoded[:1] == b"r":
            return Receipt(*self._NUMBERS.decode(encoded[1:]))
        return (PartialCounts if encoded[:1] == b"c" else NewPairs)(self._TABLES.decode(encoded[1:]))

    def estimate_size(self, value: Counted) -> int:
        """The size in bytes, for Beam's metrics."""
        return value.table.nbytes if isinstance(value, _Table) else 40

    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> object:
        """The type of its values, as that of blocks."""
        return Counted


registry.register_coder(Counted, CountedCoder)


class CombineCounts(beam.PTransform):
    """(item shard, partial counts or receipt) to (window group, totals or receipt), in tables of at most 2**16 rows.
    New pairs, of the one window group of a series, pass by.
    """

    def __init__(self, spec: TopK, key: ReleaseKey, plan: ExecutionPlan) -> None:
        super().__init__()
        self._combiner = Combiner(plan.partitioning, spec.head(), spec.added_up.least, Fingerprint(key), spec.catalogue)
        self._pre_combine, self._keeps_pairs = plan.pre_combine, plan.partitioning.step is not None
        self._shuffle = InProcessShuffle() if plan.gathering == "by reference" else None

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        shuffle, pairs = None, counts
        if self._keeps_pairs:
            pairs = counts | "New pairs" >> flat_map(_pairs_or_counts, True).with_output_types(KeyedCounts)
            counts |= "Counts" >> flat_map(_pairs_or_counts, False).with_output_types(KeyedCounts)
        if self._pre_combine:
            counts |= "Pre-combine" >> beam.ParDo(_PreCombineDoFn(self._combiner)).with_output_types(KeyedCounts)
        if self._shuffle is not None:
            counts, shuffle = counts | "Keep counts here" >> put_in(self._shuffle), self._shuffle.name
        combine = beam.ParDo(_CombineDoFn(self._combiner, shuffle)).with_output_types(KeyedCounts)
        totals = counts | "Gather each item's counts" >> beam.GroupByKey() | "Combine" >> combine
        return (totals, pairs) | "With new pairs" >> beam.Flatten() if self._keeps_pairs else totals


def _pairs_or_counts(element: KeyedCounts, pairs: bool) -> Iterator[KeyedCounts]:
    if isinstance(element[1], NewPairs) is pairs:
        yield element


class Combiner:
    """Adds up the counts and receipts of one item shard.

    Args:
        keep: unknown domain: how many of the largest totals of every window go on; None keeps all (public domain).
        least: unknown domain: totals below this are dropped, but for items of the catalogue.
    """

    def __init__(
        self,
        partitioning: Partitioning,
        keep: int | None,
        least: int = 0,
        fingerprint: Fingerprint | None = None,
        catalogue: PublicDomain | None = None,
    ) -> None:
        self.partitioning, self._keep, self._least, self._fingerprint = partitioning, keep, least, fingerprint
        self._catalogue = catalogue

    def sums(self, key: int, elements: Iterable[Counted]) -> tuple[pa.RecordBatch, Receipt]:
        """All counts in one table, and the sum of the receipts."""
        receipts = [NOTHING]
        tables = _tables(elements, receipts)  # one at a time: together they may be large
        table = add_up_codes(key, tables, self.partitioning) if self.partitioning.size else add_up_labels(tables)
        return table, sum(receipts, NOTHING)

    def totals(self, key: int, elements: Iterable[Counted]) -> tuple[pa.RecordBatch, Receipt]:
        """The totals that the draw needs, and the receipt, whose fingerprint leaves out totals that are dropped."""
        table, receipt = self.sums(key, elements)
        if self.partitioning.size:
            return table, receipt
        some = table.filter(self._looked_at(table)) if self._least else table
        head = largest(pa.Table.from_batches([some]), self._keep)
        if self._fingerprint is not None and len(head) < len(table):
            receipt += Receipt(counts=self._fingerprint.of(head) - self._fingerprint.of(table))
        return head, receipt

    def _looked_at(self, table: pa.RecordBatch) -> pa.Array:
        enough = pc.greater_equal(table["count"], pa.scalar(self._least))
        if self._catalogue is None:
            return enough
        return pc.or_(enough, pa.array(self._catalogue.encode(table["item"]) >= 0))


def _tables(elements: Iterable[Counted], receipts: list[Receipt]) -> Iterator[pa.RecordBatch]:
    for element in elements:
        if isinstance(element, PartialCounts):
            yield element.table
        else:
            assert isinstance(element, Receipt)
            receipts.append(element)


@crosses
class _PreCombineDoFn(beam.DoFn):
    """Adds up a bundle's counts of each item shard, over all user shards, into one table or a few. Where the sum has
    over 2**17 counts, tables go on as they came. Memory: two million counts.
    """

    def __init__(self, combiner: Combiner) -> None:
        self._combiner = combiner

    def start_bundle(self) -> None:
        self._held: defaultdict[int, list[Counted]] = defaultdict(list)
        self._rows = 0

    def process(self, element: KeyedCounts) -> Iterator[KeyedCounts]:
        key, counted = element
        self._held[key].append(counted)
        self._rows += len(counted.table) if isinstance(counted, PartialCounts) else 0
        if self._rows >= _ROWS_AT_HAND:
            yield from self._sums()
            self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from map(GlobalWindows.windowed_value, self._sums())

    def _sums(self) -> Iterator[KeyedCounts]:
        for key, elements in self._held.items():
            table, receipt = self._combiner.sums(key, elements)
            if receipt != NOTHING:
                yield key, receipt
            if len(table) <= 1 << _BITS_AT_HAND:
                yield key, PartialCounts(table)
            else:  # with many windows the sum may be more than a runner groups at a time: tables stay as they came
                yield from ((key, counted) for counted in elements if isinstance(counted, PartialCounts))


@crosses
class _CombineDoFn(beam.DoFn):
    def __init__(self, combiner: Combiner, shuffle: str | None = None) -> None:
        self._combiner, self._shuffle = combiner, shuffle

    def process(self, gathered: tuple[int, Iterable[Any]]) -> Iterator[KeyedCounts]:
        key, elements = gathered
        if self._shuffle is not None:
            elements = InProcessShuffle.take(self._shuffle, elements)
        table, receipt = self._combiner.totals(key, elements)
        group = self._combiner.partitioning.group_of(key)
        yield from ((group, piece) for piece in PartialCounts.cut(table))
        if receipt != NOTHING:
            yield group, receipt


def add_up_codes(key: int, tables: Iterable[pa.RecordBatch], partitioning: Partitioning) -> pa.RecordBatch:
    """Totals of one item shard, by window and code. No table holds a cell of these twice.

    Cost: O(rows + cells) for up to 2**20 cells, above that a sort of the rows.
    """
    windows = partitioning.group(partitioning.group_of(key))
    codes = partitioning.codes(key)
    first, width = codes.start, len(codes)
    cells = ((_cells(part, windows.start, first, width), part["count"].to_numpy()) for part in tables)
    size = len(windows) * width
    cell, totals = _in_cells(cells, size) if size <= _MAX_CELLS else sums_by_cell(cells)
    column = {"window": (cell // width + windows.start).astype(np.uint32)} if partitioning.windows > 1 else {}
    return make_table(**column, item=(cell % width + first).astype(partitioning.item_type), count=totals)


def _in_cells(parts: Iterable[tuple[Codes, Codes]], size: int) -> tuple[Codes, Codes]:
    totals = np.zeros(size, np.int64)
    for cell, counts in parts:
        totals[cell] += counts
    present = np.flatnonzero(totals)
    return present, totals[present]


def sums_by_cell(parts: Iterable[tuple[Codes, Codes]]) -> tuple[Codes, Codes]:
    """The distinct cells, increasing, and the sums of their counts. Cost: a sort."""
    nothing = np.empty(0, np.int64)
    cells, counts = zip((nothing, nothing), *parts, strict=True)
    return add_up(np.concatenate(cells), np.concatenate(counts))


def _cells(part: pa.RecordBatch, window: int, first: int, width: int) -> Codes:
    codes = part["item"].to_numpy().astype(np.int64) - first
    if "window" in part.schema.names:
        codes += (part["window"].to_numpy().astype(np.int64) - window) * width
    return codes


def add_up_labels(tables: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Totals of labels, by window, in no order."""
    nothing = make_table(item=pa.array([], pa.large_string()), count=np.empty(0, np.int64))
    rows = pl.DataFrame(pa.Table.from_batches(list(tables) or [nothing]))
    added = rows.lazy().group_by(rows.columns[:-1]).agg(pl.col("count").sum()).collect()
    totals = added.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    return joined(totals.to_batches() or [pa.RecordBatch.from_pylist([], totals.schema)])


def largest(table: pa.Table, keep: int | None) -> pa.RecordBatch:
    """The `keep` largest counts of every window in decreasing order; ties by the label's bytes.

    The order of labels is public and fixed, so which of two tied items is kept does not tell whose rows came first.
    """
    order = [("count", "descending"), ("item", "ascending")]
    if "window" in table.schema.names:
        rows = _largest_by_window(table, keep, order)
    elif keep is not None and len(table) > keep:
        rows = table.take(pc.select_k_unstable(table, keep, order))
    else:
        rows = table.sort_by(order)
    return joined(rows.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)])


def _largest_by_window(table: pa.Table, keep: int | None, order: list[tuple[str, str]]) -> pa.Table:
    if keep is not None:  # sorting labels is slow: those of counts that are too small drop out before
        near = pl.col("count") >= pl.col("count").top_k(keep).min().over("window")
        table = table.filter(pl.DataFrame(table.drop_columns("item")).select(near).to_series().to_arrow())
    table = table.sort_by([("window", "ascending"), *order])
    windows = table["window"].to_numpy()
    place = np.arange(len(windows)) - np.searchsorted(windows, windows)
    return table if keep is None else table.filter(pa.array(place < keep))
