"""From the pairs of a user shard to counts, each user bounded: plain functions, the same for files and for streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from private_topk.transforms.columnar import (
    Codes,
    Words,
    count_pairs,
    hash_labels,
    kept_pairs,
    make_table,
    mix,
    partition,
    sorted_pairs,
)
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.keys import ReleaseKey

__all__ = ["ITEM_SHARD_BITS", "UNKNOWN_ITEM_SHARDS", "Counter"]

ITEM_SHARD_BITS = 20
"""Public domain: an item shard is a range of 2**20 codes, 8 MiB of counts."""

UNKNOWN_ITEM_SHARDS = 16
"""Unknown domain: an item shard is a residue of the item's hash."""


_NO_LABELS = pa.array([], pa.string())


class _Bounded(NamedTuple):
    """What is left of a shard's pairs: (n,) ranks of users and codes of items; the user words by rank; in an unknown
    domain also the labels and their words by code.
    """

    ranks: Codes
    codes: Codes
    users: Words
    labels: pa.Array | None
    words: Words | None


class Counter:
    """Bounds and counts the pairs of one user shard and window.

    Pairs come and go as tables of {user: uint64, item: code or string}.

    Args:
        limit: at most so many items of every user; None for all.
    """

    def __init__(self, domain: PublicDomain | UnknownDomain, key: ReleaseKey, limit: int | None) -> None:
        self._size = domain.size if isinstance(domain, PublicDomain) else 0
        self._key, self._limit = key, limit

    def no_pairs(self) -> pa.RecordBatch:
        """What a user shard holds that nobody is in."""
        return make_table(user=np.empty(0, np.uint64), item=np.empty(0, self.code_type) if self._size else _NO_LABELS)

    @property
    def code_type(self) -> np.dtype:
        """Of the codes of a public domain: what is shuffled should be narrow."""
        return np.min_scalar_type(self._size - 1)

    def distinct(self, pairs: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        """The bounded distinct pairs as one table. Done early or late, often or once, it makes no difference to
        `counts`.
        """
        ranks, codes, users, labels, _ = self._bound(pairs)
        items = codes.astype(self.code_type) if labels is None else labels.take(pa.array(codes))
        return make_table(user=users[ranks], item=items)

    def counts(self, pairs: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(item shard, {item: code or string, count: int64}), the item's users of this shard."""
        _, codes, _, labels, words = self._bound(pairs)
        if labels is None or words is None:
            yield from _by_range(*count_pairs(codes, self._size))
        else:
            present, counts = count_pairs(codes, len(labels))
            yield from _by_hash(labels.take(pa.array(present)), words[present], counts)

    def _bound(self, pairs: Iterable[pa.RecordBatch]) -> _Bounded:
        table = pa.Table.from_batches([self.no_pairs(), *pairs])
        users, labels, words = table["user"].to_numpy(), None, None
        if self._size:
            codes = table["item"].to_numpy().astype(np.int64)
        else:
            dictionary = table["item"].combine_chunks().dictionary_encode()
            codes, labels = dictionary.indices.to_numpy().astype(np.int64), dictionary.dictionary
            words = hash_labels(labels, int.from_bytes(self._key.derive("item hash")[:8], "big"))
        ranks, codes, by_rank = sorted_pairs(users, codes)
        if self._limit is not None:
            items = mix(np.arange(self._size, dtype=np.uint64)) if words is None else words
            kept = kept_pairs(ranks, codes, by_rank, items, self._limit)
            ranks, codes = ranks[kept], codes[kept]
        return _Bounded(ranks, codes, by_rank, labels, words)


def _by_range(codes: Codes, counts: Codes) -> Iterator[tuple[int, pa.RecordBatch]]:
    if len(codes) == 0:
        return
    for item_shard, rows in partition(codes >> ITEM_SHARD_BITS, (int(codes[-1]) >> ITEM_SHARD_BITS) + 1):
        yield item_shard, make_table(item=codes[rows].astype(np.uint32), count=counts[rows])


def _by_hash(labels: pa.Array, words: Words, counts: Codes) -> Iterator[tuple[int, pa.RecordBatch]]:
    shards = (words % np.uint64(UNKNOWN_ITEM_SHARDS)).astype(np.int64)
    for item_shard, rows in partition(shards, UNKNOWN_ITEM_SHARDS):
        yield item_shard, make_table(item=labels.take(pa.array(rows)), count=counts[rows])
