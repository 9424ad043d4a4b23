"""Which items can be ranked: public ones, or whatever the data hold. Types, not flags."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.columnar import Codes, as_labels, sorted_words, sorting_order
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.integers import as_integers
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["Domain", "DomainIndex", "Lists", "PublicDomain", "RangeDomain", "UnknownDomain"]

_LARGEST_RANGE = 1 << 40


class Lists(Protocol):
    """Which items can be ranked where, if every group has a list of its own (`group_domain`)."""

    @property
    def least(self) -> int:
        """How many items the shortest list has."""

    def listed(self, group: int, codes: range) -> Codes:
        """The codes of a range that are on a group's list, in their order."""

    def widths(self, group: int, edges: Codes) -> Codes:
        """How many codes of a group's list are between one edge and the next."""

    def nth(self, groups: Codes, firsts: Codes, numbers: Codes) -> Codes:
        """The code of so high a number among those of each group's list from a first one on."""


class _OfAllGroups:
    """What is said of a domain that is the same for all groups, and needs no preparation."""

    @property
    def lists(self) -> Lists | None:
        """The lists of the groups, where each has its own."""
        return None

    def prepare(self) -> None:
        """Make what the first block needs, once per process."""


@dataclass(frozen=True)
class UnknownDomain(_OfAllGroups):
    """The items are not known beforehand: only (epsilon, delta) mechanisms that hide which exist can rank them."""

    def describe(self) -> dict[str, object]:
        return {"kind": "unknown"}


@dataclass(frozen=True)
class PublicDomain(_OfAllGroups):
    """A list of items that is public knowledge. Items that nobody holds belong to it, with a count of zero.

    The list must not come from the data: an item that appears because somebody holds it tells that somebody does.

    Args:
        load: gives the items, (d,) strings; called on the workers, once per process. It must pickle.
        digest, size: SHA-256 of the items in their order, and how many there are.
    """

    load: Callable[[], pa.Array] = field(repr=False, compare=False, metadata={"unasked": "the digest names the items"})
    digest: str
    size: int

    @classmethod
    def of(cls, items: Iterable[str | int] | pa.Array) -> PublicDomain:
        """The domain of a list of items, which travels inside the pipeline: up to about a million items."""
        labels = check_items(items if isinstance(items, pa.Array) else _column(items))
        return cls(_Embedded(labels), digest_of(labels), len(labels))

    def index(self) -> DomainIndex:
        """The look-up table, made once per process. Raises Refusal if the list changed since the launch."""
        with _LOCK:
            index = _INDEXES.get(self.digest)
            if index is None:
                labels = as_labels(self.load())
                if digest_of(labels) == self.digest:
                    index = _INDEXES[self.digest] = DomainIndex(labels)
                else:
                    check_items(labels)
                    raise Refusal("domain", "changed since the launch: keep the file unchanged until the job has ended")
        return index

    def prepare(self) -> None:
        """Make what the first block needs, once per process."""
        self.index()

    def encode(self, items: pa.Array, groups: Codes | None = None) -> Codes:
        """The code of every item, -1 for those outside the domain; of its group's list, where there are such."""
        return self.index().encode(items)

    def labels(self, codes: Codes) -> pa.Array:
        """The items of codes."""
        return self.index().labels.take(pa.array(codes))

    def describe(self) -> dict[str, object]:
        return {"kind": "public", "size": self.size, "sha256": self.digest}


@dataclass(frozen=True)
class RangeDomain(_OfAllGroups):
    """The consecutive integers start, ..., stop - 1, which are public knowledge: ids, postal codes, IPv4 addresses.

    No worker holds a list of them, so it may be large. An item belongs to it if it is written as Python writes an
    integer: 5, but neither 05 nor +5.

    Raises:
        Refusal: start and stop are no integers of at most 18 digits, or hold no item or more than 2**40.
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        for end in (self.start, self.stop):
            if isinstance(end, bool) or not isinstance(end, int) or abs(end) >= 10**18:
                raise Refusal("domain_range", "must be given by two integers of at most 18 digits")
        if not 0 < self.size <= _LARGEST_RANGE:
            raise Refusal("domain_range", f"must hold 1 to 2**40 items, got {self.start}:{self.stop}",
                          "give the first integer and the one after the last, such as 0:4294967296")  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> RangeDomain:
        """The range START:STOP. Raises Refusal for any other text."""
        found = isinstance(text, str) and re.fullmatch(r"\s*(-?[0-9]{1,18})\s*:\s*(-?[0-9]{1,18})\s*", text)
        if not found:
            raise Refusal("domain_range", f"must be a text START:STOP, got {verbatim(str(text))}",
                          "give the first integer and the one after the last, such as 0:4294967296")  # fmt: skip
        return cls(*map(int, found.groups()))

    @property
    def size(self) -> int:
        """How many items there are."""
        return self.stop - self.start

    def encode(self, items: pa.Array, groups: Codes | None = None) -> Codes:
        """The code of every item, -1 for those outside the domain, which is the same for all groups."""
        values, integer = as_integers(items)
        return np.where(integer & (values >= self.start) & (values < self.stop), values - self.start, -1)

    def labels(self, codes: Codes) -> pa.Array:
        """The items of codes."""
        return pa.array(codes + self.start).cast(pa.large_string())

    def describe(self) -> dict[str, object]:
        return {"kind": "range", "start": self.start, "stop": self.stop}


@dataclass(frozen=True)
class _Embedded:
    labels: pa.Array

    def __call__(self) -> pa.Array:
        return self.labels


Domain = PublicDomain | RangeDomain | UnknownDomain


class DomainIndex:
    """Items and their codes 0 .. d - 1: a sorted array of hashes, 12 bytes an item besides the labels."""

    def __init__(self, labels: pa.Array) -> None:
        self.labels = labels
        for attempt in count():  # a collision inside the domain is left by another key
            self._hash_key = _list_key(attempt)
            words = hash_labels(labels, self._hash_key)
            order = sorting_order(words)
            self._order, self._sorted = order.astype(np.min_scalar_type(len(labels))), words[order]
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
    if len(labels) == 0:
        raise Refusal("domain", "must hold at least one item, got an empty list")
    if labels.null_count:
        raise Refusal("domain", f"must not hold empty items, got {labels.null_count}: remove them")
    words = sorted_words(hash_labels(labels, _list_key(0)))  # a tenth of the time and memory of counting the labels
    if np.any(words[1:] == words[:-1]):
        tally = pc.value_counts(labels)
        repeated = tally.filter(pc.greater(tally.field("counts"), 1))
        if len(repeated):
            example = verbatim(repr(repeated[0]["values"].as_py()))
            raise Refusal("domain", f"must hold every item once, got {len(repeated)} repeated, such as {example}")
    return labels


def _list_key(attempt: int) -> bytes:
    return b"the key of a public list, %d" % attempt


def digest_of(labels: pa.Array) -> str:
    """SHA-256 over lengths and bytes of the labels in order."""
    lengths = pc.binary_length(labels).to_numpy().astype("<i8")
    _, offsets, data = labels.buffers()
    ends = np.frombuffer(offsets, np.int64)[[labels.offset, labels.offset + len(labels)]]
    content = memoryview(data or b"")[int(ends[0]) : int(ends[1])]
    digest = hashlib.sha256(lengths)
    digest.update(content)
    return digest.hexdigest()


def _column(items: Iterable[str | int]) -> pa.Array:
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


_LOCK = threading.Lock()
_INDEXES: dict[str, DomainIndex] = {}
