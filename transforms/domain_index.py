"""The labels of a public list: which they are, checked and named, and the code of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Set
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.columnar import LONGEST_LABEL, Codes, as_labels, sorted_with_order, sorted_words
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = [
    "DomainIndex",
    "check_items",
    "column_of",
    "digest_of",
]


class DomainIndex:
    """Items and their codes 0 .. d - 1: a sorted array of hashes, 12 bytes an item besides the labels."""

    def __init__(self, labels: pa.Array) -> None:
        self.labels = labels
        for attempt in count():  # a collision inside the domain is left by another key
            self._hash_key = _list_key(attempt)
            words = hash_labels(labels, self._hash_key)
            self._sorted, order = sorted_with_order(words)
            self._order = order.astype(np.min_scalar_type(len(labels)))
            if not np.any(self._sorted[1:] == self._sorted[:-1]):
                break
            check_items(labels)  # no key would part equal ones

    def __len__(self) -> int:
        return len(self.labels)

    def encode(self, items: pa.Array) -> Codes:
        """The code of every item, -1 for those outside the domain.

        Every distinct item of the block is looked up once, by its hash and then by its full label, so that an item
        from outside can never pass as one of the domain.
        """
        dictionary = items.dictionary_encode()
        distinct = dictionary.dictionary
        words = hash_labels(distinct, self._hash_key)
        place = np.minimum(np.searchsorted(self._sorted, words), len(self._sorted) - 1)
        codes = self._order[place].astype(np.int64)
        known = pc.equal(self.labels.take(pa.array(codes)), distinct).to_numpy(zero_copy_only=False)
        return np.where(known, codes, -1)[dictionary.indices.to_numpy()]


def check_items(items: pa.Array) -> pa.Array:
    """The labels of a domain, or a clear error: at least one, no nulls, no duplicates. Items of a domain are public."""
    try:
        labels = as_labels(items)
    except TypeError as error:
        raise Refusal("domain", f"must hold strings or integers: {verbatim(error)}") from None
    if not len(labels):
        raise Refusal("domain", "must hold at least one item, got an empty list")
    longest = pc.max(pc.binary_length(labels)).as_py() or 0
    if longest > LONGEST_LABEL:
        raise Refusal("domain", f"must hold items of at most {LONGEST_LABEL:,} bytes of UTF-8, got one of {longest:,}: "
                      "no row with a longer one is counted", "leave it out")  # fmt: skip
    if labels.null_count:
        raise Refusal("domain", f"must not hold empty items, got {labels.null_count}: remove them")
    words = sorted_words(hash_labels(labels, _list_key(0)))  # a tenth of the time and memory of counting the labels
    if np.any(words[1:] == words[:-1]):
        _refuse_repeated(labels)
    return labels


def _refuse_repeated(labels: pa.Array) -> None:
    """Raise Refusal if two of the labels are equal. Cost: that of counting them."""
    tally = pc.value_counts(labels)
    repeated = tally.filter(pc.greater(tally.field("counts"), 1))
    if len(repeated):
        example = verbatim(repr(repeated[0]["values"].as_py()))
        raise Refusal("domain", f"must hold every item once, got {len(repeated)} repeated, such as {example}")


def _list_key(attempt: int) -> bytes:
    return b"the key of a public list, %d" % attempt


def digest_of(labels: pa.Array) -> str:
    """SHA-256 over lengths and bytes of the labels in order."""
    digest = hashlib.sha256(memoryview(pc.binary_length(labels).to_numpy().astype("<i8")))
    _, offsets, data = labels.buffers()
    ends = np.frombuffer(offsets, np.int64)[[labels.offset, labels.offset + len(labels)]]
    digest.update(memoryview(data or b"")[int(ends[0]) : int(ends[1])])
    return digest.hexdigest()


def column_of(items: Iterable[str | int]) -> pa.Array:
    """A collection of items as a column. Raises Refusal unless it is one of strings and integers."""
    try:
        if isinstance(items, Mapping) or isinstance(items, type):
            raise TypeError
        # Arrays and columns of tables give Python's own values so.
        listed = next((getattr(items, name) for name in ("tolist", "to_pylist") if hasattr(items, name)), None)
        values = list(items if listed is None else listed())
    except TypeError:
        got = "None" if items is None else type(items).__name__
        raise Refusal("domain", f"must be a list of items or UnknownDomain(), got {got}") from None
    if isinstance(items, Set):  # in no order of its own, and in another one in every process
        values.sort(key=str)
    kinds = {type(value) for value in values}
    if not kinds <= {str, int}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds - {str, int}))
        raise Refusal("domain", f"must hold strings or integers, got {names}")
    return pa.array([str(value) for value in values], pa.large_string())
