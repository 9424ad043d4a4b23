"""From rows to the counts that the mechanism draws from: the pipeline's functions in its order, without a runner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import pyarrow as pa

from benchmarks.audit.datasets import GROUPS, TARGET, Dataset, Row, rows_of
from private_topk.transforms import assign_windows
from private_topk.transforms.columnar import make_block
from private_topk.transforms.combine import Combiner, PartialCounts
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import _ShardDoFn
from private_topk.transforms.select import WindowCounts, by_window
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import UserShard
from private_topk.transforms.windows import Period, SlidingWindows

_DAY, _MINUTE = timedelta(days=1), 60_000_000
_START = datetime(2026, 1, 5, tzinfo=UTC)
_DAYS = 3
_CENTURY = 100 * 365 * 24 * 60 * _MINUTE
_PERIODS = {
    "whole": None,
    "days": Period(_START, _START + _DAYS * _DAY, _DAY),
    "sliding": Period(_START, _START + _DAYS * _DAY, SlidingWindows(2 * _DAY, _DAY)),
}


class Path(NamedTuple):
    """A way for the same rows to go through the pipeline.

    Args:
        kind: all rows together, one window a day, windows of two days that overlap; or a stream of days.
        blocks: how many files or bundles the rows are in; the target is in all of them.
        shards: how many user shards.
    """

    kind: Literal["whole", "days", "sliding", "stream"]
    blocks: int
    shards: int

    @property
    def period(self) -> Period | None:
        return _PERIODS["days" if self.kind == "stream" else self.kind]


PATHS = (Path("whole", 1, 1), Path("days", 3, 4), Path("sliding", 2, 2), Path("stream", 2, 4), Path("stream", 1, 1))


def rankings_of(spec: TopK) -> int:
    """How many rankings a window has."""
    return 1 if spec.groups is None else spec.groups.size


def prepared_counts(spec: TopK, key: ReleaseKey, dataset: Dataset, path: Path) -> list[WindowCounts]:
    """The counts of every window, and of every group in it; each window holds all rows of the dataset.

    The target also sends rows that must not count or displace others: outside the domain and the groups; and, if rows
    have times, before the period, after it, and arrived when all windows had closed.
    """
    return count_blocks(spec, key, _blocks(spec, dataset, path), path)


def count_blocks(spec: TopK, key: ReleaseKey, blocks: Sequence[pa.RecordBatch], path: Path) -> list[WindowCounts]:
    """The counts of any blocks."""
    period, parts = path.period, 0 if spec.groups is None else spec.groups.size
    if path.kind == "stream" and period is not None:
        cells: dict[Any, list[pa.RecordBatch]] = defaultdict(list)
        for block in blocks:
            for piece in _run(assign_windows.SplitDoFn(period), block):
                for cell in piece.windows:
                    cells[cell].append(piece.value)
        partitioning = Partitioning.of(spec.domain, None, parts)
        return [
            counts
            for cell in assign_windows.beam_windows(period)
            for counts in _counts(spec, key, cells[cell], partitioning, path)
        ]
    if period is not None:
        blocks = [numbered for block in blocks for numbered in _run(assign_windows._NumberDoFn(period), block)]
    return _counts(spec, key, blocks, Partitioning.of(spec.domain, period, parts), path)


def _counts(
    spec: TopK, key: ReleaseKey, blocks: Iterable[pa.RecordBatch], partitioning: Partitioning, path: Path
) -> list[WindowCounts]:
    sharder = _ShardDoFn(spec, key, path.shards, partitioning)
    counter = UserShard.of(spec, partitioning, key)
    shards: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for block in blocks:
        for shard, rows in _run(sharder, block):
            shards[shard].append(rows)
            if path.kind == "stream":  # as the state of a stream is compacted now and then
                shards[shard] = [counter.distinct(shards[shard])]
    counted: dict[int, list[PartialCounts]] = defaultdict(list)
    for tables in shards.values():
        for item_shard, table in counter.counts(tables):
            counted[item_shard].append(PartialCounts(table))
    combiner = Combiner(partitioning, spec.head(), spec.added_up.least, catalogue=spec.catalogue)
    totals = [combiner.totals(item_shard, some)[0] for item_shard, some in counted.items()]
    windows = by_window(totals, range(partitioning.windows)) if partitioning.windows > 1 else [(0, totals)]
    return [WindowCounts.of(spec, some, number % partitioning.rankings) for number, some in windows]


def _run(fn: beam.DoFn, block: pa.RecordBatch) -> Iterator[Any]:
    fn.setup()
    yield from fn.process(block)


def _blocks(spec: TopK, dataset: Dataset, path: Path) -> list[pa.RecordBatch]:
    """Blocks whose rows are shuffled, the same way every time."""
    others, target = rows_of(dataset, rankings_of(spec))
    strays: list[Row] = []
    if target:
        if spec.domain.is_public:
            target += [row._replace(item="of no domain") for row in target[:1] * len(target)]
        if spec.groups is not None:
            target += [row._replace(group="of no group") for row in target[:1] * len(target)]
        strays = [Row(TARGET, label, GROUPS[0], 2.0**62) for label in dataset.labels()]
    return [_block(spec, others[n :: path.blocks], target, strays, path) for n in range(path.blocks)]


def _block(spec: TopK, others: list[Row], target: list[Row], strays: list[Row], path: Path) -> pa.RecordBatch:
    period, arrives = path.period, path.kind in ("days", "stream")
    rows: list[tuple] = [(*row, 0, 0) for row in others + target]
    if period is not None:
        first, last = int(period.starts[0]), int(period.closing[-1])
        days = [first + (day * 24 + 1) * 60 * _MINUTE for day in range(_DAYS)]
        # All overlapping windows contain the middle day, so each has the rows of the others once.
        rows = [(*row, day, day + _MINUTE) for day in (days if arrives else days[1:2]) for row in others]
        rows += [(*row, day, day + _MINUTE) for day in days for row in target]
        outside = [(first - 1, first), (first + _CENTURY, first)]
        late = [(days[0], last + _MINUTE), (days[-1], last + _CENTURY)] if arrives else []
        rows += [(*row, *moments) for moments in outside + late for row in strays]
    rows = [row for _, row in sorted(enumerate(rows), key=lambda one: sha256(repr(one).encode()).digest())]
    users, items, groups, amounts, times, arrived = zip(*rows, strict=True) if rows else [()] * 6
    block, _ = make_block(
        pa.array(users, pa.string()),
        pa.array(items, pa.string()),
        None if period is None else pa.array(times, pa.int64()),
        None if spec.groups is None else pa.array(groups, pa.string()),
        **dict.fromkeys(spec.score.columns, pa.array(amounts, pa.float64())),
    )
    return block.append_column("arrived", pa.array(arrived, pa.int64())) if arrives else block
