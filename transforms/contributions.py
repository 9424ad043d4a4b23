"""What one user contributes: each item once, and at most so many items. The privacy proof starts here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer

from private_topk.transforms.completeness import add_shares, share_in, statements
from private_topk.transforms.counters import LeftOutRows
from private_topk.transforms.mechanisms.weighted import Weighting
from private_topk.transforms.metric import Risers
from private_topk.transforms.parts import PlacedPart, with_manifest
from private_topk.transforms.plan import Layout
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import STATEMENTS, BlockCoder
from private_topk.transforms.shuffle import PutAside, Shelf, SideBySideDoFn, taken
from private_topk.transforms.user_shards import UserShard

__all__ = ["CountContributions", "CountOnTheFlyDoFn"]


class CountContributions(beam.PTransform):
    """(user shard, pairs) to partial counts by place, each user bounded to distinct items and at most `limit`.

    One user changes every count by at most 1, or by `cap` units where amounts are added up; all in one direction, and
    at most `limit` counts where one is set.

    Memory: of a bounded input, all rows of a shard; of an unbounded one, about twice its distinct pairs
    where the runner's watermark waits for timers, and else all rows of a window.

    Args:
        waits_for_timers: the runner lets a window's timer hand on elements before it closes the window downstream.
        cores: how many user shards of a bounded input are counted at a time. More than one: in the global window.
        cap: where amounts are added up, the most units that one user adds to an item.
        groups_per_user: where the layout splits windows into groups, how many of them a user counts in.
        weighting: what a user adds to a count, where that is not 1.
        windows_per_user: in how many windows of a bounded input a user counts; None for all.
        risers: terms of scores in place of counts, of the windows after the layout's first.
        by_reference: all workers are threads of this process, and none repeats what it did: rows of a bounded input
            then stay where they are, and only say where.
    """

    def __init__(
        self,
        layout: Layout,
        key: ReleaseKey,
        limit: int | None,
        waits_for_timers: bool = False,
        cores: int = 1,
        cap: int | None = None,
        groups_per_user: int = 1,
        weighting: Weighting | None = None,
        windows_per_user: int | None = None,
        risers: Risers | None = None,
        by_reference: bool = False,
    ) -> None:
        super().__init__()
        self._counter = UserShard(layout, key, limit, cap, groups_per_user, weighting, windows_per_user, risers)
        self._waits_for_timers = waits_for_timers
        self._cores = cores
        self._shelf = Shelf() if by_reference else None

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        # (user shard, pairs)  ->  (place, Part), one manifest for every user shard and Beam window, and statements
        if self._shelf is not None and pairs.is_bounded:
            shards = pairs | "Put aside" >> PutAside(self._shelf) | "Gather each user's pairs" >> beam.GroupByKey()
            count = beam.ParDo(_CountDoFn(self._counter, self._cores, self._shelf.name))
        elif pairs.is_bounded or not self._waits_for_timers:
            shards = pairs | "Gather each user's pairs" >> beam.GroupByKey()
            count = beam.ParDo(_CountDoFn(self._counter, self._cores))
        else:
            shards, count = pairs, beam.ParDo(CountOnTheFlyDoFn(self._counter))
        return shards | "Bound and count" >> count.with_output_types(PlacedPart)


class _CountDoFn(SideBySideDoFn):
    def __init__(self, counter: UserShard, cores: int = 1, shelf: str | None = None) -> None:
        super().__init__(cores)
        self._counter, self._shelf = counter, shelf

    def work(self, shard: tuple[int, Iterable[Any]]) -> Iterable[PlacedPart]:
        received = 0
        pieces: Iterable[pa.RecordBatch] = shard[1] if self._shelf is None else taken(self._shelf, shard[1])
        if shard[0] == STATEMENTS:
            return [said for block in pieces for said in statements(block)]

        def noting() -> Iterator[pa.RecordBatch]:
            nonlocal received
            for piece in pieces:
                received = add_shares(received, share_in(piece))
                yield piece

        counted = with_manifest(shard[0], self._counter.counts(noting()), lambda: received)
        return counted if self._cores == 1 else list(counted)

    def hand_on(self, result: Iterable[PlacedPart]) -> Iterable[PlacedPart]:
        return result


_LEAST = 20_000
_CLOSED = (-1, 0, 0)


class CountOnTheFlyDoFn(beam.DoFn):
    """(user shard, pairs) to partial counts and their manifest, once per shard and window, when the watermark passes
    its end. An empty table of pairs is enough for that.

    State: a bag of pairs. When more rows have been added than it held distinct pairs, the bag is replaced by its
    distinct pairs, bounded per user: so it holds at most twice the distinct pairs (or 20,000 rows more), and a row is
    sorted a constant number of times on average. Beside it the sum of the shares that came. Nothing but a mark stays
    when the window has ended.

    Args:
        least: rows that are always allowed to gather before the bag is compacted.
    """

    _PAIRS = BagStateSpec("pairs", BlockCoder())
    _HELD = ReadModifyWriteStateSpec("held", TupleCoder([VarIntCoder(), VarIntCoder(), VarIntCoder()]))
    _END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, counter: UserShard, least: int = _LEAST) -> None:
        self._counter, self._least = counter, least
        self._left_out = LeftOutRows("late")

    def process(
        self,
        element: tuple[int, pa.RecordBatch],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention, as below
        pairs: Any = beam.DoFn.StateParam(_PAIRS),  # noqa: ANN401, B008
        held: Any = beam.DoFn.StateParam(_HELD),  # noqa: ANN401, B008
        end: Any = beam.DoFn.TimerParam(_END),  # noqa: ANN401, B008
    ) -> None:
        table = element[1]
        rows = len(table)
        state = held.read()
        if state == _CLOSED:  # counted once already: a second count would be a second contribution
            self._left_out.inc(rows)
            return
        if state is None:
            end.set(window.max_timestamp())
        distinct, added, received = state or (0, 0, 0)
        received = add_shares(received, share_in(table))
        if added + rows > max(distinct, self._least):
            table = self._counter.distinct([*pairs.read(), table])
            pairs.clear()
            distinct, added, rows = len(table), 0, 0
        if len(table):
            pairs.add(table)
        held.write((distinct, added + rows, received))

    @on_timer(_END)
    def count(
        self,
        shard: Any = beam.DoFn.KeyParam,  # noqa: ANN401
        pairs: Any = beam.DoFn.StateParam(_PAIRS),  # noqa: ANN401, B008
        held: Any = beam.DoFn.StateParam(_HELD),  # noqa: ANN401, B008
    ) -> Iterator[PlacedPart]:
        tables, state = list(pairs.read()), held.read()
        pairs.clear()
        held.write(_CLOSED)
        received = 0 if state is None else state[2]
        yield from with_manifest(shard, self._counter.counts(tables), lambda: received)
