"""The execution plan of a ranking: every choice of how it is computed, made before anything is built. No Beam."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from private_topk.transforms.columnar import Codes
from private_topk.transforms.domain import Domain
from private_topk.transforms.errors import InvalidArgument, kind_shown
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period

ITEM_SHARD_BITS = 16
"""Public domain: an item shard is a range of 2**16 codes, 512 KiB of counts, so that the counts of one item shard stay
small beside what a runner sorts in memory. It has more codes, up to 2**20, if there would be over 64 keys, and still
more if there would be over 64 item shards."""

_MAX_BITS = 20
_KEYS = 64

UNKNOWN_ITEM_SHARDS = 16
"""Unknown domain: the least number of item shards, which are residues of the item's hash."""

_MAX_RESIDUES_ALIKE, _USER_SHARDS_OF_A_RESIDUE = 256, 4
"""A residue gets about as many labels as one user shard holds, since a runner may pass all of them as one element; with
more than 256 user shards as many as four hold, so that the pieces that user shards send do not get too small."""

_WINDOW_GROUPS = 64
_MAX_TOGETHER, _MAX_CELLS = 1024, 1 << 24
"""The most windows of a window group, from which one worker draws, which takes it seconds; and the most counts, unless
a single window has more.
"""

_HELD_OF_A_RANGE, _ROWS_OF_A_USER_SHARD = 1 << 18, 1 << 20
"""Of a range, so many items are assumed to be held in a window; or as many as it has rows on average, where there are
more: a user shard has up to about a million. Only the size of elements and of memory depends on that: from a group that
holds more than it should, a few windows are drawn at a time (`SelectTopK`).
"""

_ROWS_OF_A_PIECE, _MAX_ROWS_TOGETHER = 1 << 14, 1 << 20
_MAX_PRE_COMBINED_BITS = 17


@dataclass(frozen=True)
class Execution:
    """The resources and properties of a launch. No choice here changes a ranking.

    Args:
        user_shards: how many, a power of two up to 65,536.
        readers: the numbers of those that state what they have sent: nothing is drawn unless exactly that was counted.
        waits_for_timers: the runner lets a window's timer emit before it closes the window downstream.
        by_reference: all workers are threads of this process, and none repeats what it did.
        cores: how many blocks, and user shards of a bounded input, each worker handles at a time.
    """

    user_shards: int = 64
    readers: tuple[int, ...] = ()
    waits_for_timers: bool = False
    by_reference: bool = False
    cores: int = 1

    def __post_init__(self) -> None:
        if type(self.user_shards) is not int or self.user_shards not in {1 << n for n in range(17)}:
            rule = f"must be a power of two from 1 to 65536, got {kind_shown(self.user_shards)}"
            raise InvalidArgument("shards", rule)


@dataclass(frozen=True)
class Partitioning:
    """A partitioning: which counts are added up together, and which are drawn from together.

    In a bounded input a window is a number, as an item is: one column more in every table. Windows that follow each
    other form up to 64 *window groups*, or more where these would be of over 1,024 windows, or over 2**24 counts; an
    *item shard*, the key where counts are added up, is a part of the items of one group. So there are few elements for
    each window, as many workers as window groups can draw, and each holds a group's counts at a time.

    Args:
        size: how many items the public domain has; 0 for an unknown one.
        windows: how many windows the tables hold. With 1 they have no column for them: the window is Beam's own.
            A ranking per group of rows makes each of them as many as there are groups: window * rankings + group.
        overlap: a row may belong to several windows that follow each other.
        groups: how many groups of rows have a ranking each in every window; 0 without such.
        sparse: few of the items are held, however many there are, as of a range.
        held: how many of a sparse domain are assumed to be held in a window.
        residues: how many item shards there are of labels, which have no codes, in an unknown domain.
        series: the windows are to date: a row has the number of its first one alone, and all are drawn from together.
        step: of a series, the number of the window that is published alone, and of which new pairs are kept.
    """

    size: int
    windows: int = 1
    overlap: bool = False
    groups: int = 0
    sparse: bool = False
    held: int = _HELD_OF_A_RANGE
    residues: int = UNKNOWN_ITEM_SHARDS
    series: bool = False
    step: int | None = None

    @classmethod
    def of(
        cls,
        domain: Domain,
        period: Period | None = None,
        groups: int = 0,
        user_shards: int = 0,
        step: int | None = None,
    ) -> Partitioning:
        """The partitioning of a bounded input with a declared period; without one, that of a single window.

        Args:
            user_shards: how many there are of a bounded input, which tells how much of it; 0 where nobody knows.
            step: the number of the window to date that is published alone.
        """
        overlap, series = period is not None and period.repeats, period is not None and period.to_date
        windows = (1 if period is None else len(period)) * max(groups, 1)
        rows = user_shards * _ROWS_OF_A_USER_SHARD * (period.overlap if period is not None and overlap else 1)
        held = max(_HELD_OF_A_RANGE, rows // windows)
        partitioning = cls(domain.size, windows, overlap, groups, domain.sparse, held, series=series, step=step)
        many = max(min(user_shards, _MAX_RESIDUES_ALIKE), user_shards // _USER_SHARDS_OF_A_RESIDUE)
        return replace(partitioning, residues=max(UNKNOWN_ITEM_SHARDS, many // partitioning.window_groups))

    @property
    def rankings(self) -> int:
        """How many rankings a window of time has."""
        return max(self.groups, 1)

    @property
    def time_windows(self) -> int:
        """How many windows of time the tables hold."""
        return self.windows // self.rankings

    @property
    def item_shards(self) -> int:
        """How many item shards a window group has."""
        return -(-self.size >> self.item_bits) if self.size else self.residues

    @property
    def item_bits(self) -> int:
        """Public domain: an item shard is a range of 2**item_bits codes."""
        few = (-(-self.size // max(_KEYS // self.window_groups, 1)) - 1).bit_length()
        return max(ITEM_SHARD_BITS, min(_MAX_BITS, few), (-(-self.size // _KEYS) - 1).bit_length())

    def codes(self, key: int) -> range:
        number = key % self.item_shards
        return range(number << self.item_bits, min(number + 1 << self.item_bits, self.size))

    @property
    def windows_per_group(self) -> int:
        """How many windows a group has; the last may have fewer."""
        if self.series:
            return self.windows
        held = max(min(self.size, self.held) if self.sparse else self.size, 1)
        return min(-(-self.windows // _WINDOW_GROUPS), max(min(_MAX_CELLS // held, _MAX_TOGETHER), 1))

    @property
    def window_groups(self) -> int:
        return -(-self.windows // self.windows_per_group)

    def group(self, number: int) -> range:
        return range(number * self.windows_per_group, min((number + 1) * self.windows_per_group, self.windows))

    def keys(self, windows: Codes, item_shards: Codes) -> Codes:
        """The keys of counts of some windows in some item shards."""
        return windows // self.windows_per_group * self.item_shards + item_shards

    def first_key(self, group: int) -> int:
        """The key of a window group's first item shard, which takes its receipts as well."""
        return group * self.item_shards

    def group_of(self, key: int) -> int:
        return key // self.item_shards

    @property
    def item_type(self) -> np.dtype:
        """The type of codes in counts: always the same for a domain, wide enough for all of them."""
        return np.dtype(np.uint32 if self.size <= 1 << 32 else np.uint64)

    @property
    def code_type(self) -> np.dtype:
        """The narrowest type of the codes of a public domain, for what is shuffled."""
        return np.min_scalar_type(self.size - 1)

    @property
    def window_columns(self) -> dict[str, np.dtype]:
        """The columns that hold which windows of time a row is in, and their types."""
        names = ["first", "after"][: 0 if self.time_windows == 1 else 1 + self.overlap]
        return {name: np.min_scalar_type(self.time_windows) for name in names}


@dataclass(frozen=True)
class ExecutionPlan:
    """Every decision of how a ranking is computed. None of them changes it.

    Args:
        gathering: how each user's rows meet: "grouped", by the runner; "by reference", as numbers of what stays in this
            process, rows and counts alike; "stateful", deduplicated as they arrive, until a timer at the window's end.
        windows: of which windows it is known beforehand that there are any: the "one" that holds all rows, whose tables
            number those of the period; those "declared", as Beam's windows; or only the "active" ones, with rows.
        user_shards: how many.
        readers: who states what was sent.
        cores: how many elements are handled at a time.
        rows_together: blocks are split among user shards together until they hold so many rows; 0: one by one. Where a
            piece is encoded and grouped, it costs as much as some hundred rows.
        pre_combine: counts are added up on the worker that counted, before they are grouped. Not for an unknown domain,
            whose labels seldom meet, nor for more than 2**17 items a key: so many counts are megabytes in an element.
        partitioning: how rows and counts are numbered, and how counts are shared out.
    """

    gathering: Literal["grouped", "by reference", "stateful"]
    windows: Literal["one", "declared", "active"]
    user_shards: int
    readers: tuple[int, ...]
    cores: int
    rows_together: int
    pre_combine: bool
    partitioning: Partitioning


def plan(
    spec: TopK,
    execution: Execution,
    period: Period | None,
    in_global_window: bool,
    bounded: bool,
    step: int | None = None,
) -> ExecutionPlan:
    """The plan for an input: decided by the specification, the launch and the kind of input, and by no row.

    Args:
        in_global_window: the input is in Beam's global window. A bounded one with a period is: its windows are numbers.
        step: the number of the window to date that is published alone.
    """
    numbered = period if in_global_window else None
    groups = 0 if spec.groups is None else spec.groups.size
    partitioning = Partitioning.of(spec.domain, numbered, groups, execution.user_shards if bounded else 0, step)
    by_reference = execution.by_reference and bounded and in_global_window
    shuffled = bounded and in_global_window and not by_reference
    narrow = 0 < partitioning.size and partitioning.item_bits <= _MAX_PRE_COMBINED_BITS
    return ExecutionPlan(
        gathering="by reference"
        if by_reference
        else "stateful"
        if execution.waits_for_timers and not bounded
        else "grouped",
        windows="one" if in_global_window else "active" if period is None else "declared",
        user_shards=execution.user_shards,
        readers=execution.readers,
        cores=execution.cores if in_global_window else 1,
        rows_together=min(execution.user_shards * _ROWS_OF_A_PIECE, _MAX_ROWS_TOGETHER) if shuffled else 0,
        pre_combine=shuffled and narrow and spec.added_up is spec.score,
        partitioning=partitioning,
    )
