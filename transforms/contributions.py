"""Contribution bounding: a user counts once for an item, and for at most so many items. Privacy proofs start here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer

from private_topk.transforms.combine import CountedCoder, KeyedCounts, NewPairs, PartialCounts
from private_topk.transforms.completeness import NOTHING, Counted, Fingerprint, Receipt
from private_topk.transforms.counters import BundleStart, DroppedRows, Mark, UsersLeft
from private_topk.transforms.errors import crosses
from private_topk.transforms.plan import ExecutionPlan, Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import BlockCoder, UserRows
from private_topk.transforms.shuffle import InProcessShuffle, ThreadPoolDoFn, put_in
from private_topk.transforms.spec import TopK
from private_topk.transforms.steps import flat_map
from private_topk.transforms.user_shards import NEW_PAIRS, UserShard, UsersSeen

_ALWAYS_HELD = 20_000


class _Held(NamedTuple):
    """The state beside the bag of pairs: how many distinct ones it holds, how many rows came since, and the receipt."""

    distinct: int
    added: int
    received: Receipt


_CLOSED = _Held(-1, 0, NOTHING)


class BoundContributions(beam.PTransform):
    """((user shard, rows), windows) to (item shard, partial counts or receipt), each user bounded.

    One user changes every count by at most the score's cap, 1 where users are counted; all in one direction, and at
    most `max_items_per_user` counts where that is set. Every user shard answers in every window, rows or no rows.

    Memory: of a bounded input, all rows of a shard; of an unbounded one, about twice its distinct pairs
    where the runner's watermark waits for timers, and else all rows of a window.
    """

    def __init__(self, spec: TopK, key: ReleaseKey, plan: ExecutionPlan) -> None:
        super().__init__()
        self._counter = ShardCounter(UserShard.of(spec, plan.partitioning, key), plan.partitioning, key)
        self._plan = plan
        self._shuffle = InProcessShuffle() if plan.gathering == "by reference" else None

    def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
        rows, windows = inputs
        none = windows | "Start every user shard" >> flat_map(
            _no_rows, self._plan.user_shards, self._counter.user_shard.no_rows()
        ).with_output_types(UserRows)
        # (user shard, rows)  ->  (item shard, partial counts or receipt)
        if self._plan.gathering == "stateful":
            count = beam.ParDo(CountOnArrivalDoFn(self._counter)).with_output_types(KeyedCounts)
            return (rows, none) | "With every user shard" >> beam.Flatten() | "Bound and count" >> count
        shuffle = None
        if self._shuffle is not None:  # the runner groups numbers only; the rows they stand for stay in this process
            rows |= "Keep rows here" >> put_in(self._shuffle)
            none |= "Keep empty user shards here" >> put_in(self._shuffle)
            shuffle = self._shuffle.name
        count = beam.ParDo(_CountDoFn(self._counter, self._plan.cores, shuffle)).with_output_types(KeyedCounts)
        grouped = (
            (rows, none) | "With every user shard" >> beam.Flatten() | "Gather each user's rows" >> beam.GroupByKey()
        )
        return grouped | "Bound and count" >> count


def _no_rows(_: int, shards: int, empty: pa.RecordBatch) -> Iterator[UserRows]:
    yield from ((shard, empty) for shard in range(shards))


class ShardCounter:
    """Counts the rows of one user shard and gives receipts for them."""

    def __init__(self, user_shard: UserShard, counts: Partitioning, key: ReleaseKey) -> None:
        self.user_shard, self._partitioning, self._fingerprint = user_shard, counts, Fingerprint(key)

    def counted(
        self,
        shard: int,
        pieces: Iterable[pa.RecordBatch],
        before: Receipt = NOTHING,
        seen: UsersSeen | None = None,
    ) -> Iterator[KeyedCounts]:
        """Partial counts by item shard, and last of all a receipt for every window group, whether it has counts or not.

        Args:
            before: of pieces that were counted before.
            seen: notes how many rows and users there were.
        """
        received, sums = [before], [0] * self._partitioning.window_groups
        for key, table in self.user_shard.counts(_noted(pieces, received), seen):
            if key == NEW_PAIRS:
                yield from ((0, piece) for piece in NewPairs.cut(table))
                continue
            sums[self._partitioning.group_of(key)] += self._fingerprint.of(table)
            yield from ((key, piece) for piece in PartialCounts.cut(table))
        total = reduce(Receipt.__add__, received)
        for group, counts in enumerate(sums):
            yield self._partitioning.first_key(group), total + Receipt.of_user_shard(shard, group, counts)


def _noted(pieces: Iterable[pa.RecordBatch], received: list[Receipt]) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        received.append(Receipt.of_piece(piece))
        yield piece


@crosses
class _CountDoFn(ThreadPoolDoFn):
    def __init__(self, counter: ShardCounter, cores: int = 1, shuffle: str | None = None) -> None:
        super().__init__(cores)
        self._counter, self._shuffle = counter, shuffle
        self._any_left, self._users_left = Mark(rows_left=True), UsersLeft()

    def work(self, gathered: tuple[int, Iterable[Any]]) -> tuple[Iterable[KeyedCounts], UsersSeen]:
        shard, pieces = gathered
        if self._shuffle is not None:
            pieces = InProcessShuffle.take(self._shuffle, pieces)
        seen = UsersSeen()
        counted = self._counter.counted(shard, pieces, seen=seen)
        return (counted if self._cores == 1 else list(counted)), seen

    def emit(self, result: tuple[Iterable[KeyedCounts], UsersSeen]) -> Iterable[KeyedCounts]:
        counted, seen = result
        yield from _marked(counted, self._any_left)
        self._users_left.inc(seen.rows, seen.at_most, seen.at_least)


def _marked(counts: Iterable[KeyedCounts], any_left: Mark) -> Iterator[KeyedCounts]:
    """Here no row drops out any more, and what windows share has not cancelled yet."""
    for key, counted in counts:
        if isinstance(counted, PartialCounts):
            any_left.set()
        yield key, counted


@crosses
class CountOnArrivalDoFn(beam.DoFn):
    """(user shard, rows) to partial counts and their receipts, once per shard and window, when the watermark passes
    its end. An empty table of rows is enough for that.

    State: a bag of pairs. When more rows have been added than it held distinct pairs, the bag is replaced by its
    distinct pairs, bounded per user: so it holds at most twice the distinct pairs (or 20,000 rows more), and a row is
    sorted a constant number of times on average. Beside it the sum of the receipts that came. Nothing but a mark stays
    when the window has ended.

    Args:
        always_held: rows that may gather before the bag is compacted.
    """

    _PAIRS = BagStateSpec("pairs", BlockCoder())
    _HELD = ReadModifyWriteStateSpec("held", TupleCoder([VarIntCoder(), VarIntCoder(), CountedCoder()]))
    _END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, counter: ShardCounter, always_held: int = _ALWAYS_HELD) -> None:
        self._counter, self._always_held = counter, always_held
        self._dropped, self._start, self._any_left = DroppedRows("late"), BundleStart(), Mark(rows_left=True)

    def start_bundle(self) -> None:
        self._start.begin()

    def process(
        self,
        element: UserRows,
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention, as below
        pairs: Any = beam.DoFn.StateParam(_PAIRS),  # noqa: ANN401, B008
        held: Any = beam.DoFn.StateParam(_HELD),  # noqa: ANN401, B008
        end: Any = beam.DoFn.TimerParam(_END),  # noqa: ANN401, B008
    ) -> None:
        receipt, table = Receipt.of_piece(element[1]), element[1].replace_schema_metadata(None)
        rows = len(table)
        state = held.read()
        if state == _CLOSED:  # counted once already: a second count would be a second contribution
            self._dropped.inc(rows)
            self._start.note(0, {"late": rows})
            return
        self._start.note(rows, {})
        if state is None:
            end.set(window.max_timestamp())
        distinct, added, received = state or _Held(0, 0, NOTHING)
        received += receipt
        if added + rows > max(distinct, self._always_held):
            table = self._counter.user_shard.distinct([*pairs.read(), table])
            pairs.clear()
            distinct, added, rows = len(table), 0, 0
        if len(table):
            pairs.add(table)
        held.write(_Held(distinct, added + rows, received))

    @on_timer(_END)
    def count(
        self,
        shard: Any = beam.DoFn.KeyParam,  # noqa: ANN401
        pairs: Any = beam.DoFn.StateParam(_PAIRS),  # noqa: ANN401, B008
        held: Any = beam.DoFn.StateParam(_HELD),  # noqa: ANN401, B008
    ) -> Iterator[tuple[int, Counted]]:
        tables, state = list(pairs.read()), held.read()
        pairs.clear()
        held.write(_CLOSED)
        counts = self._counter.counted(shard, tables, NOTHING if state is None else _Held(*state).received)
        yield from _marked(counts, self._any_left)
