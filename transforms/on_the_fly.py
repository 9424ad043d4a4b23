"""Counting an unbounded input: pairs are deduplicated as they arrive, and a window's state ends with the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer

from private_topk.transforms.blocks import BlockCoder
from private_topk.transforms.counters import LeftOutRows
from private_topk.transforms.parts import PlacedPart, with_manifest
from private_topk.transforms.sent import add_shares, share_in
from private_topk.transforms.user_shard import UserShard

__all__ = ["CountOnTheFlyDoFn"]

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
