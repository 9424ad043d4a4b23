"""The plain way from rows to rankings: the pipeline's own functions, in its order, without Beam's runners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import pyarrow as pa

from private_topk.testing.audit.scenes import GROUPS, USER, Row, Sheet, rows_of
from private_topk.transforms import counts, cut, sharding
from private_topk.transforms.amounts import Amounts
from private_topk.transforms.columnar import make_block
from private_topk.transforms.domain import Domain, PublicDomain
from private_topk.transforms.groups import Groups
from private_topk.transforms.guard import check_whole
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms.weighting import Weighting
from private_topk.transforms.parts import MANIFEST, Part, PlacedPart, with_manifest
from private_topk.transforms.select import by_window
from private_topk.transforms.selection import Selection
from private_topk.transforms.user_shard import UserShard
from private_topk.transforms.windows import Period, SlidingWindows

__all__ = ["WAYS", "Counting", "Totals", "Way", "count_blocks", "totals_of"]

_DAY, _MINUTE = timedelta(days=1), 60_000_000
_START = datetime(2026, 1, 5, tzinfo=timezone.utc)
_DAYS = 3
_CENTURY = 100 * 365 * 24 * 60 * _MINUTE


class Counting(NamedTuple):
    """What counts hang on besides the rows.

    Args:
        limit: `max_items_per_user`.
        keep, least: as for `AddUp`.
        weighting: of the mechanism.
        groups: of the labels `GROUPS`.
    """

    domain: Domain
    limit: int | None
    key: ReleaseKey
    keep: int | None
    least: int = 0
    weighting: Weighting | None = None
    amounts: Amounts | None = None
    groups: Groups | None = None

    @classmethod
    def of(cls, selection: Selection, key: ReleaseKey) -> Counting:
        return cls(selection.domain, selection.max_items_per_user, key, selection.head(), selection.least(),
                   selection.mechanism.weighting, selection.amounts, selection.groups)  # fmt: skip

    @property
    def parts(self) -> int:
        """How many rankings a window has."""
        return 1 if self.groups is None else self.groups.size

    def layout(self, period: Period | None = None) -> Layout:
        return Layout.of(self.domain, period, 0 if self.groups is None else self.groups.size)

    def user_shard(self, layout: Layout) -> UserShard:
        cap = None if self.amounts is None else self.amounts.cap
        per_user = 1 if self.groups is None else self.groups.per_user
        return UserShard(layout, self.key, self.limit, cap, per_user, self.weighting)


Totals = list[list[pa.RecordBatch]]
"""For every window, and every group of it, the tables that its ranking is drawn from."""


@dataclass(frozen=True)
class Way:
    """How the same rows come along.

    Args:
        kind: all rows together, one window a day, windows of two days that overlap; or a stream of days.
        order: where the one user's rows stand in every block.
        blocks: how many files or bundles the rows are in; the one user is in all of them.
        shards: how many user shards.
    """

    kind: Literal["whole", "days", "sliding", "stream"]
    order: Literal["first", "last", "between"]
    blocks: int
    shards: int

    @cached_property
    def period(self) -> Period | None:
        if self.kind == "whole":
            return None
        return Period(_START, _START + _DAYS * _DAY, SlidingWindows(2 * _DAY, _DAY) if self.kind == "sliding" else _DAY)


WAYS = (
    Way("whole", "first", 1, 1),
    Way("days", "between", 3, 4),
    Way("sliding", "last", 2, 2),
    Way("stream", "first", 2, 4),
    Way("stream", "last", 1, 1),
    Way("whole", "between", 5, 8),
)


def totals_of(counting: Counting, sheet: Sheet, way: Way) -> Totals:
    """The totals of every window; each window holds all of the sheet's rows.

    Where rows have times the one user also sends some that must count nowhere and move nobody: before the period, after
    it, out of a public domain, and arrived when all windows had closed.
    """
    return count_blocks(counting, _blocks(counting, sheet, way), way)


def count_blocks(counting: Counting, blocks: Sequence[pa.RecordBatch], way: Way) -> Totals:
    """The totals of any blocks, on a way: the pipeline's own functions in its order."""
    period = way.period
    if period is None:
        return _totals(counting, blocks, counting.layout(), way)
    if way.kind != "stream":
        numbered = [part for block in blocks for part in _run(cut._NumberDoFn(period), block)]
        return _totals(counting, numbered, counting.layout(period), way)
    cells: dict[Any, list[pa.RecordBatch]] = defaultdict(list)
    for block in blocks:
        for piece in _run(cut._SplitDoFn(period), block):
            for cell in piece.windows:
                cells[cell].append(piece.value)
    layout = counting.layout()
    return [tables for cell in cut.cells(period) for tables in _totals(counting, cells[cell], layout, way)]


def _totals(counting: Counting, blocks: Iterable[pa.RecordBatch], layout: Layout, way: Way) -> Totals:
    domain, counter = counting.domain, counting.user_shard(layout)
    shard_fn = sharding._ShardDoFn(
        domain, counting.key, way.shards, layout, amounts=counting.amounts, groups=counting.groups
    )
    pairs: dict[int, list[pa.RecordBatch]] = {shard: [counter.no_pairs()] for shard in range(way.shards)}
    for block in blocks:
        for shard, table in _run(shard_fn, block):
            pairs[shard].append(table)
            if way.kind == "stream":  # as `CountOnTheFlyDoFn` does now and then
                pairs[shard] = [counter.distinct(pairs[shard])]
    places: dict[int, list[Part]] = defaultdict(list)
    for shard, tables in pairs.items():
        for place, part in with_manifest(shard, counter.counts(tables)):
            places[place].append(part)
    placed: list[PlacedPart] = [
        counts.add_up(place, parts, layout, counting.keep, counting.least) for place, parts in places.items()
    ]
    check_whole(placed, way.shards)
    tables = [part.table for place, part in placed if place != MANIFEST]
    if layout.windows == 1:
        return [tables]
    return [some for _, some in by_window(tables, range(layout.windows))]


def _run(fn: beam.DoFn, block: pa.RecordBatch) -> Iterator[Any]:
    fn.setup()
    yield from fn.process(block)


def _blocks(counting: Counting, sheet: Sheet, way: Way) -> list[pa.RecordBatch]:
    others, mine = rows_of(sheet, counting.parts)
    if mine and isinstance(counting.domain, PublicDomain):
        mine += [row._replace(item="of no domain") for row in mine[:1] * len(mine)]
    if mine and counting.groups is not None:
        mine += [row._replace(group="of no group") for row in mine[:1] * len(mine)]
    return [_block(counting, others[number :: way.blocks], mine, sheet, way) for number in range(way.blocks)]


def _block(counting: Counting, others: Sequence[Row], mine: Sequence[Row], sheet: Sheet, way: Way) -> pa.RecordBatch:
    period = way.period
    if period is None:
        return _made(counting, _in_order([*map(tuple, others)], [*map(tuple, mine)], way.order), False)
    first, last = int(period.starts[0]), int(period.closing[-1])
    days = [first + (day * 24 + 1) * 60 * _MINUTE for day in range(_DAYS)]
    # Amounts add up, so those of the others stand once in every window: in the day that both of two that overlap have.
    once = counting.amounts is not None and way.kind == "sliding"
    dated = [[(*row, day, day + _MINUTE) for day in some for row in rows]
             for some, rows in ((days[1:2] if once else days, others), (days, mine))]  # fmt: skip
    strays = [(first - 1, first), (first + _CENTURY, first)]
    if way.kind != "sliding":
        strays += [(days[0], last + _MINUTE), (days[-1], last + _CENTURY)]
    dated[1] += [(*row, *moments) for moments in strays for row in _strays(sheet) if mine]
    block = _made(counting, _in_order(dated[0], dated[1], way.order), True)
    return block.drop_columns("arrived") if way.kind == "sliding" else block


def _strays(sheet: Sheet) -> list[Row]:
    """What the one user says of every item where it must not count."""
    return [Row(USER, label, GROUPS[0], 2.0**62) for label in sheet.labels()]


def _made(counting: Counting, rows: Sequence[tuple], timed: bool) -> pa.RecordBatch:
    columns = _columns(rows, len(Row._fields) + 2 * timed)
    users, items, groups = (pa.array(column, pa.string()) for column in columns[:3])
    amounts = None if counting.amounts is None else pa.array(columns[3], pa.float64())
    times = pa.array(columns[4], pa.int64()) if timed else None
    block, _ = make_block(users, items, times, amounts, None if counting.groups is None else groups)
    return block.append_column("arrived", pa.array(columns[5], pa.int64())) if timed else block


def _columns(rows: Sequence[tuple], width: int) -> list[tuple]:
    return list(zip(*rows, strict=True)) or [()] * width


def _in_order(others: Sequence[tuple], mine: Sequence[tuple], order: str) -> list[tuple]:
    if order == "between":
        step = max(len(others) // (len(mine) + 1), 1)
        places = sorted([(step * n, 1, row) for n, row in enumerate(mine)] + [(n, 0, r) for n, r in enumerate(others)])
        return [row for *_, row in places]
    return [*mine, *others] if order == "first" else [*others, *mine]
