"""Where counts meet. In a bounded input a window is a number, like an item is: one column more in every table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from private_topk.transforms.columnar import Codes
from private_topk.transforms.domain import Domain
from private_topk.transforms.windows import Period

__all__ = ["ITEM_SHARD_BITS", "UNKNOWN_ITEM_SHARDS", "Layout"]

ITEM_SHARD_BITS = 16
"""Public domain: an item shard is a range of 2**16 codes, 512 KiB of counts, so that what is added up of one item shard
stays small beside what a runner sorts in memory. Of more codes, up to 2**20, where there would be over 64 places, and
of still more where there would be over 64 item shards."""

_MOST_BITS = 20
_PLACES = 64

UNKNOWN_ITEM_SHARDS = 16
"""Unknown domain: an item shard is a residue of the item's hash. So many of them at least."""

_MOST_RESIDUES_ALIKE, _USER_SHARDS_OF_A_RESIDUE = 256, 4
"""As many labels as a user shard holds meet in a residue, since a runner may hand all of them over as one element; of
more than 256 user shards as many as four hold, so that what each sends to each does not get too small."""

_GROUPS = 64
_MOST_TOGETHER, _MOST_CELLS, _HELD_OF_A_RANGE = 1024, 1 << 24, 1 << 18
"""One worker draws from so many windows at once at most, which takes it seconds, and so many counts, unless a window
has more. Of a range so many items are taken to be held in a window.
"""


@dataclass(frozen=True)
class Layout:
    """Which counts are added up and drawn from together.

    Windows that follow each other form up to 64 groups, or more where these would be of over 1,024 windows, or over
    2**24 counts; a place, where counts are added up, is one item shard of one group. So there are few elements for each
    window, as many workers as groups can draw, and each holds a group's counts at a time.

    Args:
        size: how many items the public domain has; 0 for an unknown one.
        windows: how many windows the tables hold. With 1 they have no column for them: the window is Beam's own.
            A ranking per group makes each of them as many as there are groups: window * parts + group.
        overlap: a row may belong to several windows that follow each other.
        split: how many parts every window is split into, one for each group of users' rows; 0 without such.
        sparse: few of the items are held, however many there are, as of a range.
        residues: how many item shards there are of labels, which have no codes, in an unknown domain.
    """

    size: int
    windows: int = 1
    overlap: bool = False
    split: int = 0
    sparse: bool = False
    residues: int = UNKNOWN_ITEM_SHARDS

    @classmethod
    def of(cls, domain: Domain, period: Period | None = None, split: int = 0, shards: int = 0) -> Layout:
        """The layout of a bounded input with a declared period; without one, that of a single window.

        Args:
            shards: how many user shards there are, which tells how much input.
        """
        parts, overlap = max(split, 1), period is not None and period.overlaps
        windows = (1 if period is None else len(period)) * parts
        found = cls(domain.size, windows, overlap, split, domain.sparse)
        many = max(min(shards, _MOST_RESIDUES_ALIKE), shards // _USER_SHARDS_OF_A_RESIDUE)
        return replace(found, residues=max(UNKNOWN_ITEM_SHARDS, many // found.groups))

    def after_the_first(self) -> Layout:
        """That of the windows after the first one of time."""
        return replace(self, windows=self.windows - self.parts)

    @property
    def parts(self) -> int:
        """How many windows of the tables one of time stands for."""
        return max(self.split, 1)

    @property
    def dates(self) -> int:
        """How many windows of time the tables hold."""
        return self.windows // self.parts

    @property
    def item_shards(self) -> int:
        return -(-self.size >> self.item_bits) if self.size else self.residues

    @property
    def item_bits(self) -> int:
        """Public domain: an item shard is a range of 2**item_bits codes."""
        few = (-(-self.size // max(_PLACES // self.groups, 1)) - 1).bit_length()
        return max(ITEM_SHARD_BITS, min(_MOST_BITS, few), (-(-self.size // _PLACES) - 1).bit_length())

    def codes(self, item_shard: int) -> range:
        """All codes of an item shard."""
        return range(item_shard << self.item_bits, min(item_shard + 1 << self.item_bits, self.size))

    @property
    def together(self) -> int:
        """How many windows a group has; the last may have fewer."""
        held = max(min(self.size, _HELD_OF_A_RANGE) if self.sparse else self.size, 1)
        return min(-(-self.windows // _GROUPS), max(min(_MOST_CELLS // held, _MOST_TOGETHER), 1))

    @property
    def groups(self) -> int:
        return -(-self.windows // self.together)

    def group(self, number: int) -> range:
        """The windows of a group."""
        return range(number * self.together, min((number + 1) * self.together, self.windows))

    def places(self, windows: Codes, item_shards: Codes) -> Codes:
        return windows // self.together * self.item_shards + item_shards

    def group_of(self, place: int) -> int:
        return place // self.item_shards

    @property
    def item_type(self) -> np.dtype:
        """Of the codes that are counted: always the same for a domain, and as wide as any window's are."""
        return np.dtype(np.uint32 if self.size <= 1 << 32 else np.uint64)

    @property
    def code_type(self) -> np.dtype:
        """Of the codes of a public domain: what is shuffled should be narrow."""
        return np.min_scalar_type(self.size - 1)

    @property
    def window_columns(self) -> dict[str, np.dtype]:
        """Which columns say in which windows of time a row is, and their types."""
        names = ["first", "after"][: 0 if self.dates == 1 else 1 + self.overlap]
        return {name: np.min_scalar_type(self.dates) for name in names}
