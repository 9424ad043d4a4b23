"""What one user contributes: each item once, and at most so many items. The privacy proof starts here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa

from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms.weighting import Weighting
from private_topk.transforms.metric import Risers
from private_topk.transforms.on_the_fly import CountOnTheFlyDoFn
from private_topk.transforms.parts import PlacedPart, with_manifest
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.sent import add_shares, share_in, statements
from private_topk.transforms.sharding import STATEMENTS
from private_topk.transforms.shelf import PutAside, Shelf, taken
from private_topk.transforms.side_by_side import SideBySideDoFn
from private_topk.transforms.user_shard import UserShard

__all__ = ["CountContributions"]


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
