"""Which items can be ranked: public ones, or whatever the data hold. Types, not flags."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from private_topk.transforms.columnar import Codes, as_labels
from private_topk.transforms.domain_index import DomainIndex, check_items, column_of, digest_of
from private_topk.transforms.integers import as_integers
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["Domain", "PublicDomain", "RangeDomain", "UnknownDomain"]

_LARGEST_RANGE = 1 << 40


@dataclass(frozen=True)
class UnknownDomain:
    """The items are not known beforehand: only (epsilon, delta) mechanisms that hide which exist can rank them."""

    identity_tag: ClassVar[str] = "unknown-domain"

    def prepare(self) -> None:
        """Make what the first block needs, once per process."""

    def describe(self) -> dict[str, object]:
        return {"kind": "unknown"}


@dataclass(frozen=True)
class PublicDomain:
    """A list of items that is public knowledge. Items that nobody holds belong to it, with a count of zero.

    The list must not come from the data: an item that appears because somebody holds it tells that somebody does.

    Args:
        load: gives the items, (d,) strings; called on the workers, once per process. It must pickle.
        digest, size: SHA-256 of the items in their order, and how many there are.
    """

    identity_tag: ClassVar[str] = "public-domain"

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
                    raise Refusal("domain", "changed since the launch: keep the file unchanged until the job has ended")
        return index

    def prepare(self) -> None:
        """Make what the first block needs, once per process."""
        self.index()

    def encode(self, items: pa.Array, groups: Codes | None = None) -> Codes:
        """The code of every item, -1 for those outside the domain; of its group's list, where there are such."""
        return self.index().encode(items)

    def listed(self, group: int) -> range | Codes:
        """The codes of all items of a group of users' rows, in their order."""
        return range(self.size)

    def labels(self, codes: Codes) -> pa.Array:
        """The items of codes."""
        return self.index().labels.take(pa.array(codes))

    def describe(self) -> dict[str, object]:
        return {"kind": "public", "size": self.size, "sha256": self.digest}


@dataclass(frozen=True)
class RangeDomain:
    """The consecutive integers start, ..., stop - 1, which are public knowledge: ids, postal codes, IPv4 addresses.

    No worker holds a list of them, so it may be large. An item belongs to it if it is written as Python writes an
    integer: 5, but neither 05 nor +5.

    Raises:
        Refusal: start and stop are no integers of at most 18 digits, or hold no item or more than 2**40.
    """

    identity_tag: ClassVar[str] = "range-domain"

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

    def prepare(self) -> None:
        """Make what the first block needs, once per process."""

    def encode(self, items: pa.Array, groups: Codes | None = None) -> Codes:
        """The code of every item, -1 for those outside the domain, which is the same for all groups."""
        values, integer = as_integers(items)
        return np.where(integer & (values >= self.start) & (values < self.stop), values - self.start, -1)

    def listed(self, group: int) -> range | Codes:
        """The codes of all items, which are those of every group."""
        return range(self.size)

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


_LOCK = threading.Lock()
_INDEXES: dict[str, DomainIndex] = {}
