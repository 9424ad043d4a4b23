"""A public list of items for every group: which of them can be ranked where."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from private_topk.transforms.columnar import Codes, as_labels
from private_topk.transforms.domain import Domain, PublicDomain
from private_topk.transforms.domain_index import check_items, digest_of
from private_topk.transforms.groups import Groups
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["DomainByGroup", "Pairs", "groups_for"]

Pairs = tuple[pa.Array, pa.Array]
"""(n,) groups and (n,) items: one pair for each item of a group's list."""


@dataclass(frozen=True)
class DomainByGroup(PublicDomain):
    """The items of all groups, of which each group has a list of its own. All of it is public knowledge.

    A group's ranking is one of its own items: those that nobody holds belong to it with a count of zero, and rows of
    any other item drop out. Items have one code in all groups; in a group they are in the order of these.

    Args:
        groups: those that have a list, each at least one item.
        load_pairs: gives the pairs; called on the workers, once per process. It must pickle.
        pairs_digest, least: SHA-256 of the pairs, and how many items the shortest list has.
    """

    identity_tag: ClassVar[str] = "domain-by-group"

    groups: PublicDomain
    load_pairs: Callable[[], Pairs] = field(repr=False, compare=False, metadata={"unasked": "the digest names them"})
    pairs_digest: str
    least: int

    @classmethod
    def by_group(cls, lists: Mapping[str | int, Iterable[str | int]]) -> DomainByGroup:
        """Of lists that travel inside the pipeline: `{"FR": ["tea", "cake"], "DE": ["tea"]}`. Raises Refusal."""
        found = [(PublicDomain.of([group]), PublicDomain.of(items)) for group, items in lists.items()]
        if not found:
            raise Refusal("domain", "must have a list of items for every group, got none")
        groups = pa.concat_arrays([pa.concat_arrays([group.load()] * items.size) for group, items in found])
        items = pa.concat_arrays([items.load() for _, items in found])
        return cls.of_pairs(_Embedded((groups, items)), PublicDomain.of(groups.unique()))

    @classmethod
    def of_pairs(cls, load: Callable[[], Pairs], groups: PublicDomain) -> DomainByGroup:
        """Of pairs that are loaded where they are needed. Raises Refusal unless every group has a list."""
        in_groups, items = (as_labels(column) for column in load())
        distinct = check_items(items.unique())
        rest = cls(_Distinct(load), digest_of(distinct), len(distinct), groups, load, "", 0)
        keys = rest._keys_of(in_groups, items)
        sizes = np.bincount(keys // rest.size, minlength=groups.size)
        if not sizes.all():
            group = verbatim(repr(groups.labels(np.flatnonzero(sizes == 0)[:1])[0].as_py()))
            raise Refusal("domain", f"must have items for every group, and has none for {group}")
        digest = hashlib.sha256(f"{rest.digest} {groups.digest} ".encode() + keys.astype("<i8").tobytes()).hexdigest()
        return cls(rest.load, rest.digest, rest.size, groups, load, digest, int(sizes.min()))

    def prepare(self) -> None:
        """Make what the first block needs, once per process."""
        super().prepare()
        self._keys()

    def encode(self, items: pa.Array, groups: Codes | None = None) -> Codes:
        """The code of every item, -1 for those that are not on its group's list; without groups, on none."""
        codes = super().encode(items)
        if groups is None:
            return codes
        keys = self._keys()
        wanted = groups * self.size + codes
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((codes >= 0) & (keys[place] == wanted), codes, -1)

    def listed(self, group: int) -> Codes:
        """The codes of a group's own items, in their order."""
        start, stop = np.searchsorted(self._keys(), [group * self.size, (group + 1) * self.size])
        return self._keys()[start:stop] - group * self.size

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "by_group": {"sha256": self.pairs_digest, "least": self.least}}

    def _keys(self) -> Codes:
        """Group times size plus code of every pair, sorted, made once per process."""
        with _LOCK:
            keys = _KEYS.get(self.pairs_digest)
            if keys is None:
                keys = _KEYS[self.pairs_digest] = self._keys_of(*(as_labels(column) for column in self.load_pairs()))
        return keys

    def _keys_of(self, groups: pa.Array, items: pa.Array) -> Codes:
        found = self.groups.encode(groups)
        if len(found) and found.min() < 0:
            group = verbatim(repr(groups[int(np.argmin(found))].as_py()))
            raise Refusal("domain", f"has items of a group that {{groups}} does not list, such as {group}")
        keys = np.sort(found * self.size + self.encode(items))
        if np.any(keys[1:] == keys[:-1]):
            raise Refusal("domain", "must hold every item of a group once, and holds some twice")
        return keys


def groups_for(domain: Domain, groups: Groups | Iterable[str | int] | None, k: int) -> tuple[Domain, Groups | None]:
    """The groups that are ranked, and the domain with its lists in their order. Raises Refusal."""
    found = groups if groups is None or isinstance(groups, Groups) else Groups.of(groups)
    if not isinstance(domain, DomainByGroup):
        return domain, found
    if found is None:
        found = Groups(domain.groups)
    elif found.labels.digest != domain.groups.digest:
        domain = DomainByGroup.of_pairs(domain.load_pairs, found.labels)
    if k > domain.least:
        raise Refusal("k", f"must be at most the number of items of every group, got k = {k} and a group of "
                      f"{domain.least} items")  # fmt: skip
    return domain, found


@dataclass(frozen=True)
class _Distinct:
    """The items of pairs, each once, in the order in which they come."""

    pairs: Callable[[], Pairs]

    @property
    def path(self) -> str | None:
        return getattr(self.pairs, "path", None)

    def __call__(self) -> pa.Array:
        return as_labels(self.pairs()[1]).unique()


@dataclass(frozen=True)
class _Embedded:
    pairs: Pairs

    def __call__(self) -> Pairs:
        return self.pairs


_LOCK = threading.Lock()
_KEYS: dict[str, Codes] = {}
