"""The road of `RankBlocks` without a pipeline, for rows that are in memory: the same steps, hence the same rankings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

from private_topk.transforms.contributions import ShardByUser
from private_topk.transforms.counts import add_up
from private_topk.transforms.cut import CutIntoWindows
from private_topk.transforms.draw import ReleaseRanking
from private_topk.transforms.keys import Release
from private_topk.transforms.layout import Layout
from private_topk.transforms.parts import Part, with_manifest
from private_topk.transforms.release import Ranking
from private_topk.transforms.selection import Selection
from private_topk.transforms.user_shard import UserShard
from private_topk.transforms.windows import Period

__all__ = ["rank_blocks"]

_SHARDS = 1


def rank_blocks(
    blocks: Iterable[pa.RecordBatch], selection: Selection, release: Release, period: Period | None = None
) -> list[Ranking]:
    """Blocks of rows to the ranking of every window, in order; empty windows too.

    Guarantee: that of `RankBlocks`, whose rankings these are under the same key and id.
    Memory: about 20 bytes a row beside the blocks; the sorts take as much again.

    Args:
        blocks: columns user and item, and time where there is a period.
    """
    layout = Layout.of(selection.domain, period)
    rows = blocks if period is None else CutIntoWindows(period).numbered(blocks)
    sharded = ShardByUser(selection.domain, release.key, _SHARDS, layout).sharded(rows)
    pairs = [table for _, table in sharded]
    counted = UserShard(layout, release.key, selection.max_items_per_user).counts(pairs)
    by_place: dict[int, list[Part]] = defaultdict(list)
    for place, part in with_manifest(0, counted):
        by_place[place].append(part)
    totals = [add_up(place, parts, layout, selection.head()) for place, parts in by_place.items()]
    return list(ReleaseRanking(selection, release, _SHARDS, layout, period).drawn(totals))
