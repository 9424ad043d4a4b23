"""What one user contributes: each item once, and at most so many items. The privacy proof starts here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa

from private_topk.transforms.blocks import left_out
from private_topk.transforms.columnar import (
    Codes,
    Words,
    count_pairs,
    from_ipc,
    hash_labels,
    keep_at_most,
    mix,
    partition,
    sorted_pairs,
    to_ipc,
)
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.keys import ReleaseKey

__all__ = ["ITEM_SHARD_BITS", "UNKNOWN_ITEM_SHARDS", "CountContributions", "ShardByUser"]

ITEM_SHARD_BITS = 20
"""Public domain: an item shard is a range of 2**20 codes, 8 MiB of counts."""

UNKNOWN_ITEM_SHARDS = 16
"""Unknown domain: an item shard is a residue of the item's hash."""


class ShardByUser(beam.PTransform):
    """Blocks to (user shard, pairs): all rows of one user meet in one shard.

    Users travel as keyed 64-bit hashes. If two users share one (probability below n**2 / 2**65) they count as one.
    Rows of items outside a public domain drop out here.

    Args:
        shards: how many user shards, a power of two up to 65,536. Any number gives the same counts.
    """

    def __init__(self, domain: PublicDomain | UnknownDomain, key: ReleaseKey, shards: int) -> None:
        super().__init__()
        self._fn = _ShardDoFn(domain, key, shards)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        # block  ->  (user shard, IPC of {user: uint64, item: code or string})
        return blocks | "Encode and split by user" >> beam.ParDo(self._fn).with_output_types(tuple[int, bytes])


class _ShardDoFn(beam.DoFn):
    def __init__(self, domain: PublicDomain | UnknownDomain, key: ReleaseKey, shards: int) -> None:
        self._domain, self._key, self._shards = domain, key, shards
        self._left_out = left_out("not_in_domain")

    def setup(self) -> None:
        self._seed = int.from_bytes(self._key.derive("user hash")[:8], "big")
        self._index = None
        if isinstance(self._domain, PublicDomain):
            self._index = self._domain.index()
            self._code_type = np.min_scalar_type(self._domain.size - 1)  # what is shuffled should be narrow

    def process(self, block: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        users, items = block["user"], block["item"]
        if self._index is not None:
            codes = self._index.encode(items)
            known = codes >= 0
            if not known.all():
                self._left_out.inc(int(len(known) - known.sum()))
                users, codes = users.filter(pa.array(known)), codes[known]
            values: np.ndarray | pa.Array = codes.astype(self._code_type)
        else:
            values = items.cast(pa.string())
        words = hash_labels(users, self._seed)
        shards = (words >> np.uint64(48)).astype(np.int64) & (self._shards - 1)
        for shard, rows in partition(shards, self._shards):
            yield shard, to_ipc(user=words[rows], item=values.take(rows) if self._index is None else values[rows])


class CountContributions(beam.PTransform):
    """(user shard, pairs) to partial counts by item shard, each user bounded to distinct items and at most `limit`.

    One user changes every count by at most 1, all in one direction, and at most `limit` counts where one is set.
    """

    def __init__(self, domain: PublicDomain | UnknownDomain, key: ReleaseKey, limit: int | None) -> None:
        super().__init__()
        self._fn = _CountDoFn(domain, key, limit)

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        return (
            pairs
            | "Gather each user's pairs" >> beam.GroupByKey()
            # (user shard, [pairs])  ->  (item shard, IPC of {item: code or string, count: int64})
            | "Bound and count" >> beam.ParDo(self._fn).with_output_types(tuple[int, bytes])
        )


class _CountDoFn(beam.DoFn):
    def __init__(self, domain: PublicDomain | UnknownDomain, key: ReleaseKey, limit: int | None) -> None:
        self._domain, self._key, self._limit = domain, key, limit

    def setup(self) -> None:
        self._seed = int.from_bytes(self._key.derive("item hash")[:8], "big")

    def process(self, shard: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        table = from_ipc(shard[1])
        users = table["user"].to_numpy()
        if isinstance(self._domain, PublicDomain):
            codes = table["item"].to_numpy().astype(np.int64)
            yield from self._by_range(*self._count(users, codes, None, self._domain.size))
        else:
            dictionary = table["item"].combine_chunks().dictionary_encode()
            labels = dictionary.dictionary
            words = hash_labels(labels, self._seed)
            codes = dictionary.indices.to_numpy().astype(np.int64)
            present, counts = self._count(users, codes, words, len(labels))
            yield from self._by_hash(labels.take(pa.array(present)), words[present], counts)

    def _count(self, users: Words, codes: Codes, words: Words | None, size: int) -> tuple[Codes, Codes]:
        ranks, codes, by_rank = sorted_pairs(users, codes)
        if self._limit is not None:
            if words is None:
                words = mix(np.arange(size, dtype=np.uint64))
            codes = keep_at_most(ranks, codes, by_rank, words, self._limit)
        return count_pairs(codes, size)

    @staticmethod
    def _by_range(codes: Codes, counts: Codes) -> Iterator[tuple[int, bytes]]:
        if len(codes) == 0:
            return
        for item_shard, rows in partition(codes >> ITEM_SHARD_BITS, (int(codes[-1]) >> ITEM_SHARD_BITS) + 1):
            yield item_shard, to_ipc(item=codes[rows].astype(np.uint32), count=counts[rows])

    @staticmethod
    def _by_hash(labels: pa.Array, words: Words, counts: Codes) -> Iterator[tuple[int, bytes]]:
        for item_shard, rows in partition(
            (words % np.uint64(UNKNOWN_ITEM_SHARDS)).astype(np.int64), UNKNOWN_ITEM_SHARDS
        ):
            yield item_shard, to_ipc(item=labels.take(pa.array(rows)), count=counts[rows])
