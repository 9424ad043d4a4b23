"""The domain: which items can be ranked, those of a public list or any in the data.

What differs between the kinds is a method, so that no caller needs to know which kind a domain is.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, singledispatch
from numbers import Real
from typing import Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from private_topk.transforms.columnar import Codes, as_labels
from private_topk.transforms.composite import are_composite, composite_column
from private_topk.transforms.errors import InvalidArgument, by_signature, kind_shown, printable, verbatim
from private_topk.transforms.labels import (
    DomainIndex,
    are_integers,
    as_integers,
    check_items,
    collected,
    column_of,
    digest_of,
    has_digits,
)
from private_topk.transforms.types import Kind

Known = tuple[NDArray[np.bool_], "np.ndarray | pa.Array"]
"""A mask of the rows whose items can be ranked, and these items as they are counted: codes, or labels."""

Pairs = tuple[pa.Array, pa.Array]
"""(n,) groups and (n,) items: one pair for each item of a group's list."""


class _AnyDomain:
    """What domains have in common, but for those that say otherwise."""

    sparse: ClassVar[bool] = False
    """Few of the items are held, however many there are."""

    def prepare(self) -> None:
        """Make what the first block needs, once per process."""

    def holds_integers(self) -> bool:
        """Whether all items that are known are integers of 64 bits."""
        return True

    def has_digits(self) -> bool:
        """Whether an item may be a whole number, so that rows of nothing else can count."""
        return True

    def of_groups(self, groups: PublicDomain | None, k: int) -> tuple[_AnyDomain, PublicDomain | None]:
        """This domain where these groups are ranked, and which they are. Raises InvalidArgument."""
        return self, groups


@by_signature
@dataclass(frozen=True)
class UnknownDomain(_AnyDomain):
    """The items are not known beforehand: only (epsilon, delta) mechanisms that hide which exist can rank them.

    Args:
        catalogue: some of them that are public all the same, such as those of earlier rankings; what may stand for a
            public domain may stand for it. They need no threshold, whoever holds them, of mechanisms whose guarantee
            says `takes_catalogue`.
    """

    identity_tag: ClassVar[str] = "unknown-domain"
    is_public: ClassVar[Literal[False]] = False
    size: ClassVar[int] = 0

    catalogue: PublicDomain | None = field(default=None, metadata={"omit_if_default": True})

    def __post_init__(self) -> None:
        if self.catalogue is not None:
            listed = as_domain(self.catalogue)
            if not isinstance(listed, PublicDomain) or isinstance(listed, DomainByGroup):
                raise InvalidArgument(
                    "domain", "must have a list of items as its catalogue", "one for all groups, no range"
                )
            object.__setattr__(self, "catalogue", listed)

    def known(self, items: pa.Array, groups: Codes | None = None) -> Known:
        """Every item can be ranked, and is counted by its label."""
        return np.ones(len(items), bool), items

    def holds_integers(self) -> bool:
        return self.catalogue is None or self.catalogue.holds_integers()

    def describe(self) -> dict[str, object]:
        return {"kind": "unknown"} | ({} if self.catalogue is None else {"catalogue": self.catalogue.describe()})

    def summary(self) -> str:
        """The domain as people read it."""
        listed = "" if self.catalogue is None else f"{self.catalogue.summary()}; beside them "
        return f"{listed}unknown: of the items only those that enough users hold can be published"


@partial(by_signature, elsewhere={"digest": "a list of items becomes a domain by PublicDomain.of(items)"})
@dataclass(frozen=True)
class PublicDomain(_AnyDomain):
    """A list of items that is public knowledge. Items that nobody holds belong to it, with a count of zero.

    The list must not come from the data: an item that appears because somebody holds it tells that somebody does.

    Args:
        load: gives the items, (d,) strings; called on the workers, once per process. It must pickle.
        digest, size: SHA-256 of the items in their order, and how many there are.
    """

    identity_tag: ClassVar[str] = "public-domain"
    is_public: ClassVar[Literal[True]] = True

    load: Callable[[], pa.Array] = field(
        repr=False, compare=False, metadata={"not_in_fingerprint": "the digest names the items"}
    )
    digest: str
    size: int

    @classmethod
    def of(cls, items: PublicDomain | Iterable[Any] | pa.Array) -> PublicDomain:
        """The domain of a list of items, which travels inside the pipeline: up to about a million items."""
        if isinstance(items, PublicDomain):
            return items
        column, tuples = (items, False) if isinstance(items, pa.Array) else column_of(items)
        labels = check_items(column)
        return PublicDomain(_Embedded(labels, tuples), digest_of(labels), len(labels))

    def index(self) -> DomainIndex:
        """The look-up table, made once per process. Raises InvalidArgument if the list changed since the launch."""
        return _once(_INDEXES, self.digest, self._indexed)

    def _indexed(self) -> DomainIndex:
        labels = as_labels(self.load())
        if labels.null_count or digest_of(labels) != self.digest:
            check_items(labels)
            raise InvalidArgument("domain", "changed since the launch: keep the file unchanged until the job has ended")
        return DomainIndex(labels)

    def prepare(self) -> None:
        self.index()

    def encode(self, items: pa.Array, groups: Codes | None = None) -> Codes:
        """The code of every item, -1 for those outside the domain; of its group's list, where there are such."""
        return self.index().encode(items)

    def known(self, items: pa.Array, groups: Codes | None = None) -> Known:
        """Items of the domain can be ranked, and are counted by their codes."""
        return _known(self.encode(items, groups), self.size)

    def listed(self, group: int) -> range | Codes:
        """The codes of all items of a group of users' rows, in their order."""
        return range(self.size)

    def labels(self, codes: Codes) -> pa.Array:
        """The items of codes."""
        return self.index().labels.take(pa.array(codes))

    def spellings(self) -> pa.Array | None:
        """All items, whose spelling in rows may differ; None if each has only one spelling."""
        return self.index().labels

    def holds_integers(self) -> bool:
        return are_integers(self.index().labels)

    def has_digits(self) -> bool:
        return has_digits(self.index().labels)

    def describe(self) -> dict[str, object]:
        return {"kind": "public", "size": self.size, "sha256": self.digest}

    def summary(self) -> str:
        return f"{self.size:,} public items, SHA-256 {self.digest[:16]}..."


@by_signature
@dataclass(frozen=True)
class RangeDomain(_AnyDomain):
    """The consecutive integers start, ..., stop - 1, which are public knowledge: ids, postal codes, IPv4 addresses.

    No worker holds a list of them, so it may be large. An item belongs to it if it is written as Python writes an
    integer: 5, but neither 05 nor +5.

    Raises:
        InvalidArgument: start and stop are no integers of at most 18 digits, or hold no item or more than 2**40.
    """

    identity_tag: ClassVar[str] = "range-domain"
    is_public: ClassVar[Literal[True]] = True
    sparse: ClassVar[bool] = True
    LONGEST: ClassVar[int] = 1 << 40

    start: int
    stop: int

    def __post_init__(self) -> None:
        for end in (self.start, self.stop):
            if isinstance(end, bool) or not isinstance(end, int) or abs(end) >= 10**18:
                raise InvalidArgument("domain_range", "must be given by two integers of at most 18 digits")
        if not 0 < self.size <= self.LONGEST:
            raise InvalidArgument(
                "domain_range",
                f"must hold 1 to 2**40 items, got {self.start}:{self.stop}",
                "give the first integer and the one after the last, such as 0:4294967296",
            )

    @classmethod
    def parse(cls, text: str) -> RangeDomain:
        """The range START:STOP. Raises InvalidArgument for any other text."""
        match = isinstance(text, str) and re.fullmatch(r"\s*(-?[0-9]{1,999})\s*:\s*(-?[0-9]{1,999})\s*", text)
        if not match:
            raise InvalidArgument(
                "domain_range",
                f"must be a text START:STOP, got {kind_shown(text)}",
                "give the first integer and the one after the last, such as 0:4294967296",
            )
        return cls(*map(int, match.groups()))

    @property
    def size(self) -> int:
        return self.stop - self.start

    def encode(self, items: pa.Array, groups: Codes | None = None) -> Codes:
        """The code of every item, -1 for those outside the domain, which is the same for all groups."""
        values, integer = as_integers(items)
        return np.where(integer & (values >= self.start) & (values < self.stop), values - self.start, -1)

    def known(self, items: pa.Array, groups: Codes | None = None) -> Known:
        """Integers of the range can be ranked, and are counted by their codes."""
        return _known(self.encode(items, groups), self.size)

    def listed(self, group: int) -> range | Codes:
        """The codes of all items, which are those of every group."""
        return range(self.size)

    def labels(self, codes: Codes) -> pa.Array:
        return pa.array(codes + self.start).cast(pa.large_string())

    def spellings(self) -> pa.Array | None:
        """None: an integer has one spelling."""
        return None

    def describe(self) -> dict[str, object]:
        return {"kind": "range", "start": self.start, "stop": self.stop}

    def summary(self) -> str:
        return f"{self.size:,} public items"


@dataclass(frozen=True)
class DomainByGroup(PublicDomain):
    """The items of all groups, of which each group has a list of its own. All of it is public knowledge.

    A group's ranking is one of its own items: those that nobody holds belong to it with a count of zero, and rows of
    any other item drop out. Items have one code in all groups; in a group they are in the order of these. The list of
    all rows, which is that of the number after the last group, has the items of all lists.

    Args:
        groups: those that have a list, each at least one item.
        load_pairs: gives the pairs; called on the workers, once per process. It must pickle.
        pairs_digest, least: SHA-256 of the pairs, and how many items the shortest list has.
    """

    identity_tag: ClassVar[str] = "domain-by-group"

    groups: PublicDomain
    load_pairs: Callable[[], Pairs] = field(
        repr=False, compare=False, metadata={"not_in_fingerprint": "the digest names them"}
    )
    pairs_digest: str
    least: int

    @classmethod
    def by_group(cls, lists: Mapping[Any, Iterable[Any]]) -> DomainByGroup:
        """The domain of lists that travel in the pipeline, as in `{"FR": ["tea"], "DE": ["tea"]}`.

        Raises InvalidArgument.
        """
        for items in lists.values():
            if isinstance(items, Real | None):
                rule = f"that is a dict must have a list of items for every group, got {type(items).__name__}"
                raise InvalidArgument("domain", rule, "give .keys() where these are the items")
        parts = [(PublicDomain.of([group]), PublicDomain.of(items)) for group, items in lists.items()]
        if not parts:
            raise InvalidArgument("domain", "must have a list of items for every group, got none")
        groups = pa.concat_arrays([pa.concat_arrays([group.load()] * items.size) for group, items in parts])
        items = pa.concat_arrays([items.load() for _, items in parts])
        tuples = any(getattr(items.load, "tuples", False) for _, items in parts)
        return cls.of_pairs(_Embedded((groups, items), tuples), PublicDomain.of(list(lists)))

    @classmethod
    def of_pairs(cls, load: Callable[[], Pairs], groups: PublicDomain) -> DomainByGroup:
        """The domain of pairs, loaded where they are needed. Raises InvalidArgument unless every group has a list."""
        in_groups, items = (as_labels(column) for column in load())
        distinct = check_items(items.unique())
        rest = cls(_Distinct(load), digest_of(distinct), len(distinct), groups, load, "", 0)
        keys = rest._keys_of(in_groups, items)
        sizes = np.bincount(keys // rest.size, minlength=groups.size)
        if not sizes.all():
            group = verbatim(repr(groups.labels(np.flatnonzero(sizes == 0)[:1])[0].as_py()))
            raise InvalidArgument("domain", f"must have items for every group, and has none for {group}")
        digest = hashlib.sha256(f"{rest.digest} {groups.digest} ".encode() + keys.astype("<i8").tobytes()).hexdigest()
        return cls(rest.load, rest.digest, rest.size, groups, load, digest, int(sizes.min()))

    def prepare(self) -> None:
        super().prepare()
        self._keys()

    def encode(self, items: pa.Array, groups: Codes | None = None) -> Codes:
        """The code of every item, -1 for those that are not on its group's list; without groups, on none."""
        codes = super().encode(items)
        if groups is None:
            return codes
        keys = self._keys()
        wanted = groups * self.size + codes
        index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((codes >= 0) & (keys[index] == wanted), codes, -1)

    def listed(self, group: int) -> Codes:
        """The codes of a group's own items, in their order."""
        start, stop = np.searchsorted(self._keys(), [group * self.size, (group + 1) * self.size])
        return self._keys()[start:stop] - group * self.size

    def of_groups(self, groups: PublicDomain | None, k: int) -> tuple[PublicDomain, PublicDomain | None]:
        """This domain with its lists in the order of the groups; by default, of the groups that have a list."""
        same = groups is None or groups.digest == self.groups.digest
        domain = self if same else DomainByGroup.of_pairs(self.load_pairs, cast(PublicDomain, groups))
        if k > domain.least:
            raise InvalidArgument(
                "k",
                f"must be at most the number of items of every group, got k = {k} and a group of {domain.least} items",
            )
        return domain, self.groups if groups is None else groups

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "by_group": {"sha256": self.pairs_digest, "least": self.least}}

    def summary(self) -> str:
        return (
            f"{self.size:,} public items in lists of {self.least:,} or more, one for each group, SHA-256 "
            f"{self.digest[:16]}..."
        )

    def _keys(self) -> Codes:
        """Group times size plus code of every pair, sorted, made once per process. All rows are the last group."""
        return _once(_KEYS, self.pairs_digest, self._all_keys)

    def _all_keys(self) -> Codes:
        keys = self._keys_of(*map(as_labels, self.load_pairs()))
        return np.append(keys, self.groups.size * self.size + np.arange(self.size))

    def _keys_of(self, groups: pa.Array, items: pa.Array) -> Codes:
        numbers = self.groups.encode(groups)
        if len(numbers) and numbers.min() < 0:
            group = verbatim(repr(groups[int(np.argmin(numbers))].as_py()))
            raise InvalidArgument("domain", f"has items of a group that {{groups}} does not list, such as {group}")
        keys = np.sort(numbers * self.size + self.encode(items))
        if np.any(keys[1:] == keys[:-1]):
            raise InvalidArgument("domain", "must hold every item of a group once, and holds some twice")
        return keys


CodedDomain = PublicDomain | RangeDomain
"""Public, with the codes 0 to size - 1."""

Domain = CodedDomain | UnknownDomain


@singledispatch
def as_domain(given: Any, columns: tuple[str, ...] = ()) -> Domain:  # noqa: ANN401 - more than one may say
    """A domain; a list of items is a public one, and a dict of lists one by group. Raises InvalidArgument.

    Transforms read no files: paths are registered by `pipelines.sources`, which does.

    Args:
        columns: where the rows have their items, and where a file has them that has several columns; by default `item`.
            Of several columns, a list holds tuples, and a frame has these columns.
    """
    if isinstance(given, PublicDomain | RangeDomain | UnknownDomain):
        return given
    if isinstance(given, Mapping):
        return DomainByGroup.by_group(given)
    given = collected(given)
    if len(columns) > 1 and hasattr(given, "columns"):
        known = list(getattr(given, "column_names", given.columns))
        missing = [name for name in columns if name not in known]
        if missing:
            raise InvalidArgument("domain", f"must have the column {verbatim(missing[0])}, as the rows have")
        return PublicDomain.of(composite_column([column_of(given[name])[0] for name in columns]))
    return PublicDomain.of(given)


def check_columns(field: str, names: tuple[str, ...], listed: Domain) -> None:
    """Raise InvalidArgument unless a list for rows of several columns holds a value for each, and one for rows of one
    column no tuples. A list that is not known holds none.

    Cost: a look at every byte of the list, where there are several columns.
    """
    known = listed.catalogue if isinstance(listed, UnknownDomain) else listed
    if len(names) == 1:
        if isinstance(known, PublicDomain) and getattr(known.load, "tuples", False):
            role = "group" if field == "groups" else "item"
            remedy = f'give the column itself, such as frame["{role}"], or name all columns'
            raise InvalidArgument(field, f"holds tuples or lists of values, and {{{role}}} names one column", remedy)
        return
    if known is not None and (isinstance(known, RangeDomain) or not are_composite(known.index().labels, len(names))):
        field = "domain_range" if isinstance(known, RangeDomain) else field
        raise InvalidArgument(
            field,
            f"must hold a value for each of {verbatim(', '.join(names))}",
            "give a table with these columns, or in Python a list of tuples",
        )


def padded(**lists: Any) -> Iterator[str]:  # noqa: ANN401 - domains, and None where there is none
    """A sentence on each list of Python's that has items with blanks or line ends around, as rows must have them."""
    for name, listed in lists.items():
        load = getattr(listed.catalogue if isinstance(listed, UnknownDomain) else listed, "load", None)
        if isinstance(load, _Embedded):
            around = load.loaded.filter(pc.not_equal(pc.utf8_trim_whitespace(load.loaded), load.loaded))
            if len(around):
                many, such = f"{len(around):,} of {len(load.loaded):,}", printable(repr(around[0].as_py()))
                yield f"{name}: {many} have blanks or a line end around, such as {such}; only rows with these count"


def check_digits(field: str, kind: Kind | None, listed: Domain, order: str = "") -> None:
    """Raise InvalidArgument of a list without a whole number, where the type of the rows says that they have nothing
    else.

    Args:
        order: what rows hold by place, where they may be tuples.
    """
    if kind is not None and kind.digits and not listed.has_digits():
        raise InvalidArgument(
            field,
            "has no whole number, and by their type the rows have nothing else, so that none would count",
            f"give the ids in place of the names, or name another field or column{order and f'; tuples are {order}'}",
        )


def _known(codes: Codes, size: int) -> Known:
    known = codes >= 0
    return known, (codes if known.all() else codes[known]).astype(np.min_scalar_type(size - 1))


@dataclass(frozen=True)
class _Distinct:
    """The items of pairs, each once, in the order in which they come."""

    pairs: Callable[[], Pairs]

    @property
    def path(self) -> str | None:
        return getattr(self.pairs, "path", None)

    @property
    def tuples(self) -> bool:
        return getattr(self.pairs, "tuples", False)

    def __call__(self) -> pa.Array:
        return as_labels(self.pairs()[1]).unique()


@dataclass(frozen=True)
class _Embedded:
    """Labels, or pairs, that travel inside the pipeline, and whether any was given as a tuple or a list."""

    loaded: Any
    tuples: bool = False

    def __call__(self) -> Any:  # noqa: ANN401 - what `load` or `load_pairs` gives
        return self.loaded


def _once(made: dict[str, Any], digest: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - what is made
    """What is derived from a list, made once per process."""
    with _LOCK:
        if digest not in made:
            made[digest] = make()
        return made[digest]


_LOCK = threading.RLock()  # the keys of lists by group are made with the index of their items
_INDEXES: dict[str, DomainIndex] = {}
_KEYS: dict[str, Codes] = {}
