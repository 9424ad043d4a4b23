"""Partial counts to totals, an item shard at a time. Integers only: any order of adding gives the same sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.columnar import joined, make_table
from private_topk.transforms.counter import ITEM_SHARD_BITS
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.parts import MANIFEST, Part, PlacedPart

__all__ = ["AddUp", "add_up", "add_up_labels", "add_up_range", "largest"]


class AddUp(beam.PTransform):
    """(item shard, partial counts) to (item shard, totals), and all manifests of a window to one.

    Args:
        keep: unknown domain: how many of the largest totals an item shard hands on; None keeps all (public domain).
    """

    def __init__(self, domain: PublicDomain | UnknownDomain, keep: int | None) -> None:
        super().__init__()
        self._public, self._keep = isinstance(domain, PublicDomain), keep

    def expand(self, partial: beam.PCollection) -> beam.PCollection:
        return (
            partial
            | "Gather each item's counts" >> beam.GroupByKey()
            # (item shard, [Part])  ->  (item shard, Part)
            | "Add up" >> beam.MapTuple(add_up, public=self._public, keep=self._keep).with_output_types(PlacedPart)
        )


def add_up(place: int, parts: Iterable[Part], public: bool = True, keep: int | None = None) -> PlacedPart:
    """The sum of the parts, which names the user shards of all of them; manifests are put together."""
    sources: list[np.ndarray] = []
    tables = _noting(parts, sources)  # one at a time: together they may be large
    if place == MANIFEST:
        total = joined(tables)
    else:
        total = add_up_range(place, tables) if public else add_up_labels(tables, keep)
    return place, Part(np.concatenate(sources), total)


def _noting(parts: Iterable[Part], sources: list[np.ndarray]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        sources.append(part.sources)
        yield part.table


def add_up_range(item_shard: int, tables: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Totals of one range of codes. Every table holds a code at most once. Cost: O(rows + codes in the range)."""
    first = item_shard << ITEM_SHARD_BITS
    totals = np.zeros(1 << ITEM_SHARD_BITS, np.int64)
    for part in tables:
        totals[part["item"].to_numpy().astype(np.int64) - first] += part["count"].to_numpy()
    present = np.flatnonzero(totals)
    return make_table(item=(present + first).astype(np.uint32), count=totals[present])


def add_up_labels(tables: Iterable[pa.RecordBatch], keep: int | None = None) -> pa.RecordBatch:
    """Totals of the items of one hash residue: the `keep` largest, ties by label."""
    sums = pa.Table.from_batches(tables).group_by("item").aggregate([("count", "sum")])
    table = largest(pa.table({"item": sums["item"], "count": sums["count_sum"]}), keep)
    return make_table(item=table["item"].combine_chunks(), count=table["count"].combine_chunks())


def largest(table: pa.Table, keep: int | None) -> pa.Table:
    """The `keep` rows of the largest counts, in decreasing order; equal counts by the bytes of the label.

    The order of the labels is public and fixed, so which of two equal items is kept tells nothing of who came first.
    """
    counts = table["count"].to_numpy()
    if keep is not None and len(counts) > keep:
        cut = np.partition(counts, len(counts) - keep)[len(counts) - keep]
        table = table.filter(pc.greater_equal(table["count"], pa.scalar(int(cut))))
    table = table.sort_by([("count", "descending"), ("item", "ascending")])
    return table if keep is None else table.slice(0, keep)
