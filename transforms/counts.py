"""Partial counts to totals, an item shard at a time. Integers only: any order of adding gives the same sums."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.columnar import from_ipc, to_ipc
from private_topk.transforms.counter import ITEM_SHARD_BITS
from private_topk.transforms.domain import PublicDomain, UnknownDomain

__all__ = ["AddUp", "add_up_labels", "add_up_range", "largest"]


class AddUp(beam.PTransform):
    """(item shard, partial counts) to (item shard, totals).

    Args:
        keep: unknown domain: how many of the largest totals an item shard hands on; None keeps all (public domain).
    """

    def __init__(self, domain: PublicDomain | UnknownDomain, keep: int | None) -> None:
        super().__init__()
        self._domain, self._keep = domain, keep

    def expand(self, partial: beam.PCollection) -> beam.PCollection:
        totals = add_up_range if isinstance(self._domain, PublicDomain) else add_up_labels
        return (
            partial
            | "Gather each item's counts" >> beam.GroupByKey()
            # (item shard, [IPC of partial counts])  ->  (item shard, IPC of totals)
            | "Add up" >> beam.MapTuple(totals, keep=self._keep).with_output_types(tuple[int, bytes])
        )


def add_up_range(item_shard: int, streams: Iterable[bytes], keep: int | None = None) -> tuple[int, bytes]:
    """Totals of one range of codes. Every stream holds a code at most once. Cost: O(rows + codes in the range)."""
    first = item_shard << ITEM_SHARD_BITS
    totals = np.zeros(1 << ITEM_SHARD_BITS, np.int64)
    for stream in streams:
        part = from_ipc([stream])
        totals[part["item"].to_numpy().astype(np.int64) - first] += part["count"].to_numpy()
    present = np.flatnonzero(totals)
    return item_shard, to_ipc(item=(present + first).astype(np.uint32), count=totals[present])


def add_up_labels(item_shard: int, streams: Iterable[bytes], keep: int | None = None) -> tuple[int, bytes]:
    """Totals of the items of one hash residue: the `keep` largest, ties by label."""
    sums = from_ipc(streams).group_by("item").aggregate([("count", "sum")])
    table = largest(pa.table({"item": sums["item"], "count": sums["count_sum"]}), keep)
    return item_shard, to_ipc(item=table["item"].combine_chunks(), count=table["count"].combine_chunks())


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
