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
    from_ipc,
    hash_labels,
    kept_pairs,
    mix,
    partition,
    sorted_pairs,
    to_ipc,
)
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.keys import ReleaseKey

__all__ = ["ITEM_SHARD_BITS", "UNKNOWN_ITEM_SHARDS", "Counter"]

ITEM_SHARD_BITS = 20
"""Public domain: an item shard is a range of 2**20 codes, 8 MiB of counts."""

UNKNOWN_ITEM_SHARDS = 16
"""Unknown domain: an item shard is a residue of the item's hash."""


class _Pairs(NamedTuple):
    """Distinct pairs (n,) of a user's word and an item's code; labels and words by code in an unknown domain."""

    users: Words
    codes: Codes
    labels: pa.Array | None = None
    words: Words | None = None


class Counter:
    """Bounds and counts the pairs of one user shard and window.

    Pairs come and go as Arrow IPC of {user: uint64, item: code or string}.

    Args:
        limit: at most so many items of every user; None for all.
    """

    def __init__(self, domain: PublicDomain | UnknownDomain, key: ReleaseKey, limit: int | None) -> None:
        self._domain, self._key, self._limit = domain, key, limit

    def distinct(self, streams: Iterable[bytes]) -> tuple[bytes, int]:
        """The bounded distinct pairs as one stream, and how many they are. Done early or late, often or once, it makes
        no difference to `counts`.
        """
        users, codes, labels, _ = self._bound(streams)
        if labels is None:
            return to_ipc(user=users, item=codes.astype(np.min_scalar_type(self._domain.size - 1))), len(users)
        return to_ipc(user=users, item=labels.take(pa.array(codes))), len(users)

    def counts(self, streams: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """(item shard, IPC of {item: code or string, count: int64}), the item's users of this shard."""
        _, codes, labels, words = self._bound(streams)
        if labels is None:
            yield from _by_range(*count_pairs(codes, self._domain.size))
        else:
            present, counts = count_pairs(codes, len(labels))
            yield from _by_hash(labels.take(pa.array(present)), words[present], counts)

    def _bound(self, streams: Iterable[bytes]) -> _Pairs:
        table = from_ipc(streams)
        users = table["user"].to_numpy()
        if isinstance(self._domain, PublicDomain):
            return self._distinct(_Pairs(users, table["item"].to_numpy().astype(np.int64)))
        dictionary = table["item"].combine_chunks().dictionary_encode()
        words = hash_labels(dictionary.dictionary, int.from_bytes(self._key.derive("item hash")[:8], "big"))
        codes = dictionary.indices.to_numpy().astype(np.int64)
        return self._distinct(_Pairs(users, codes, dictionary.dictionary, words))

    def _distinct(self, pairs: _Pairs) -> _Pairs:
        ranks, codes, by_rank = sorted_pairs(pairs.users, pairs.codes)
        if self._limit is not None:
            words = mix(np.arange(self._domain.size, dtype=np.uint64)) if pairs.words is None else pairs.words
            kept = kept_pairs(ranks, codes, by_rank, words, self._limit)
            ranks, codes = ranks[kept], codes[kept]
        return pairs._replace(users=by_rank[ranks], codes=codes)


def _by_range(codes: Codes, counts: Codes) -> Iterator[tuple[int, bytes]]:
    if len(codes) == 0:
        return
    for item_shard, rows in partition(codes >> ITEM_SHARD_BITS, (int(codes[-1]) >> ITEM_SHARD_BITS) + 1):
        yield item_shard, to_ipc(item=codes[rows].astype(np.uint32), count=counts[rows])


def _by_hash(labels: pa.Array, words: Words, counts: Codes) -> Iterator[tuple[int, bytes]]:
    shards = (words % np.uint64(UNKNOWN_ITEM_SHARDS)).astype(np.int64)
    for item_shard, rows in partition(shards, UNKNOWN_ITEM_SHARDS):
        yield item_shard, to_ipc(item=labels.take(pa.array(rows)), count=counts[rows])
