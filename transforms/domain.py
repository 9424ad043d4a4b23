"""Which items can be ranked: public ones, or whatever the data hold. Types, not flags."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from private_topk.transforms.columnar import Codes, Words, as_labels, partition
from private_topk.transforms.domain_index import (
    DomainIndex,
    Slices,
    bytes_of,
    check_items,
    check_labels,
    check_number,
    column_of,
    digest_of,
    lengths_of,
    list_words,
    refuse_repeated,
    repeated,
)
from private_topk.transforms.integers import as_integers
from private_topk.transforms.refusal import Refusal, verbatim
from private_topk.transforms.sorting import sorted_words

__all__ = ["Domain", "Lists", "PublicDomain", "RangeDomain", "SplitDomain", "UnknownDomain"]

_LARGEST_RANGE = 1 << 40
_CHUNK = 1 << 18


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
        labels = check_items(items if isinstance(items, pa.Array) else column_of(items))
        return cls(_Embedded(labels), digest_of(labels), len(labels))

    def index(self) -> DomainIndex:
        """The look-up table, made once per process. Raises Refusal if the list changed since the launch."""
        with _LOCK:
            index = _INDEXES.get(self.digest)
            if index is None:
                labels = as_labels(self.load())
                if not labels.null_count and digest_of(labels) == self.digest:
                    index = _INDEXES[self.digest] = DomainIndex(labels)
                else:
                    check_items(labels)
                    raise changed()
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


@dataclass(frozen=True)
class SplitDomain(_OfAllGroups):
    """A public list of items of which no worker holds all: it is split over the workers, by a hash of the items.

    Codes are those of the `PublicDomain` of the same list, and so is the ranking under a release's key and id wherever
    no bound on a user's items, groups or windows takes effect, nor weights of users. Rows travel as of an unknown
    domain, and meet the list after counting. Until then items outside it use up a user's bounds as well. The bounds
    hold all the same, over all that a user holds: what is left of it is told by the public list alone. Rows must end.

    Args:
        load: gives the items of a block by its number, (n,) strings; called on the workers, for some of the blocks.
            It must pickle.
        digest, size: SHA-256 of the items in their order, and how many there are.
        edges: the code of the first item of every block, and `size`.
        digests: SHA-256 of the items of every block.

    Memory: some blocks, where the list is read; where it meets the counts, its items of one residue of the hash.
    Cost: beside the counts, the list is read and hashed once by all workers together.
    """

    load: Callable[[int], pa.Array] = field(
        repr=False, compare=False, metadata={"unasked": "the digest names the items"}
    )
    digest: str
    size: int
    edges: tuple[int, ...] = field(repr=False, compare=False, metadata={"unasked": "how the list is read"})
    digests: tuple[str, ...] = field(repr=False, compare=False, metadata={"unasked": "how the list is read"})

    @classmethod
    def of(cls, items: Iterable[str | int], block: int = 1 << 16) -> SplitDomain:
        """The domain of a list of items, which travels inside the pipeline: for tests."""
        labels = check_items(column_of(items))
        return cls.of_blocks(Slices(labels, block), -(-len(labels) // block))

    @classmethod
    def of_blocks(cls, load: Callable[[int], pa.Array], blocks: int) -> SplitDomain:
        """The domain of a list in blocks, which are read here twice, one at a time.

        Raises Refusal unless they hold an item, and none empty or twice. Memory: 8 bytes an item, and a block.
        """
        lengths, edges, digests, words, missing = hashlib.sha256(), [0], list[str](), list[Words](), 0
        for number in range(blocks):
            labels = check_labels(load(number))
            missing += labels.null_count
            labels = labels.drop_null()
            lengths.update(lengths_of(labels))
            edges.append(edges[-1] + len(labels))
            digests.append(digest_of(labels))
            words.append(sorted_words(list_words(labels)))
        check_number(edges[-1] + missing, missing)
        found = cls(load, "", edges[-1], tuple(edges), tuple(digests))
        twice, alike = repeated(words), list[pa.Array]()
        del words
        for number in range(blocks):
            labels = found.block(number)
            lengths.update(bytes_of(labels))
            if len(twice):
                alike.append(labels.filter(pa.array(np.isin(list_words(labels), twice))))
        if alike:
            refuse_repeated(pa.concat_arrays(alike))
        return replace(found, digest=lengths.hexdigest())

    @property
    def residues(self) -> int:
        """In how many parts the list meets the counts: of 2**18 items, but at least 16 and at most 1,024 parts."""
        return min(max(self.size // _CHUNK, 16), 1024)

    def block(self, number: int) -> pa.Array:
        """The items of a block. Raises Refusal if it changed since the launch."""
        labels = check_labels(self.load(number))
        if labels.null_count or digest_of(labels) != self.digests[number]:
            raise changed()
        return labels

    @property
    def chunks(self) -> list[range]:
        """The blocks that a worker reads at a time: together 2**18 items or more, but for the last."""
        starts = [0]
        for number, edge in enumerate(self.edges[1:], 1):
            if edge - self.edges[starts[-1]] >= _CHUNK or number == len(self.digests):
                starts.append(number)
        return [range(start, stop) for start, stop in pairwise(starts)]

    def labels(self, codes: Codes) -> pa.Array:
        """The items of codes. Cost: reading every block that has one of them, but for the last 64 that were read."""
        edges, found = np.array(self.edges), np.full(len(codes), None, object)
        for number, rows in partition(np.searchsorted(edges, codes, "right") - 1, len(self.digests)):
            found[rows] = (
                _read_before(self, number, self.digests[number]).take(pa.array(codes[rows] - edges[number])).to_pylist()
            )
        return pa.array(found, pa.large_string())

    def describe(self) -> dict[str, object]:
        return {"kind": "public", "size": self.size, "sha256": self.digest}


@lru_cache(64)
def _read_before(domain: SplitDomain, number: int, digest: str) -> pa.Array:
    return domain.block(number)


def changed() -> Refusal:
    return Refusal("domain", "changed since the launch: keep the file unchanged until the job has ended")


Domain = PublicDomain | RangeDomain | SplitDomain | UnknownDomain


_LOCK = threading.Lock()
_INDEXES: dict[str, DomainIndex] = {}
