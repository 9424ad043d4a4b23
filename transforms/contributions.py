"""What one user contributes: each item once, and at most so many items. The privacy proof starts here."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import numpy as np
import pyarrow as pa

from private_topk.transforms.amounts import Amounts
from private_topk.transforms.columnar import make_table, partition
from private_topk.transforms.counters import LeftOutRows
from private_topk.transforms.domain import Domain, PublicDomain, UnknownDomain
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms.weighting import Weighting
from private_topk.transforms.on_the_fly import CountOnTheFlyDoFn
from private_topk.transforms.parts import PlacedPart, with_manifest
from private_topk.transforms.side_by_side import SideBySideDoFn
from private_topk.transforms.user_shard import UserShard

__all__ = ["CountContributions", "ShardByUser", "ShardedPairs"]

ShardedPairs = tuple[int, pa.RecordBatch]


class ShardByUser(beam.PTransform):
    """Blocks to (user shard, pairs): all rows of one user meet in one shard.

    Users travel as keyed 64-bit hashes. Two users who share one, with probability 2**-64 whoever they are, count as
    one: docs/privacy.md says what that means for the guarantee. Rows of items outside a public domain drop out here.

    Args:
        shards: how many user shards, a power of two up to 65,536. Any number gives the same counts.
        cores: how many blocks are split at a time. More than one: of blocks in the global window.
        amounts: what the column `amount` means, where there is one. Rows of amount 0 or less drop out as well.
    """

    def __init__(
        self,
        domain: Domain,
        key: ReleaseKey,
        shards: int,
        layout: Layout | None = None,
        cores: int = 1,
        amounts: Amounts | None = None,
    ) -> None:
        super().__init__()
        self._fn = _ShardDoFn(domain, key, shards, layout or Layout.of(domain), cores, amounts)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        # block  ->  (user shard, {user: uint64, item: code or string, amount in units, and the columns of windows})
        return blocks | "Encode and split by user" >> beam.ParDo(self._fn).with_output_types(ShardedPairs)


class _ShardDoFn(SideBySideDoFn):
    def __init__(
        self,
        domain: Domain,
        key: ReleaseKey,
        shards: int,
        layout: Layout,
        cores: int = 1,
        amounts: Amounts | None = None,
    ) -> None:
        super().__init__(cores)
        self._domain, self._key, self._shards, self._layout = domain, key, shards, layout
        self._amounts = amounts
        self._left_out = LeftOutRows("not_in_domain")

    def setup(self) -> None:
        super().setup()
        self._hash_key = self._key.derive("user hash")
        if isinstance(self._domain, PublicDomain):
            self._domain.index()  # made before the first block comes

    def work(self, block: pa.RecordBatch) -> tuple[int, list[ShardedPairs]]:
        """How many rows drop out, and the others by user shard."""
        if self._amounts is not None:
            block = _above_zero(block, self._amounts)
        values: np.ndarray | pa.Array
        unknown = 0
        if not isinstance(self._domain, UnknownDomain):
            codes = self._domain.encode(block["item"])
            known = codes >= 0
            if not known.all():
                unknown = int(len(known) - known.sum())
                block, codes = block.filter(pa.array(known)), codes[known]
            values = codes.astype(self._layout.code_type)
        else:
            values = block["item"].cast(pa.string())
        words = hash_labels(block["user"], self._hash_key)
        others = {name: block[name].to_numpy().astype(kind) for name, kind in self._layout.window_columns.items()}
        if self._amounts is not None:
            others["amount"] = block["amount"].to_numpy()
        shards = (words >> np.uint64(48)).astype(np.int64) & (self._shards - 1)
        found = []
        for shard, rows in partition(shards, self._shards):
            items = values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))
            columns = {name: column[rows] for name, column in others.items()}
            found.append((shard, make_table(user=words[rows], item=items, **columns)))
        return unknown, found

    def hand_on(self, result: tuple[int, list[ShardedPairs]]) -> list[ShardedPairs]:
        if result[0]:
            self._left_out.inc(result[0])
        return result[1]


def _above_zero(block: pa.RecordBatch, amounts: Amounts) -> pa.RecordBatch:
    """The rows that add something, with their amounts in units."""
    units = amounts.units(block["amount"])
    columns = {name: block[name] for name in block.schema.names if name != "amount"}
    whole = make_table(**columns, amount=units.astype(np.uint32))
    return whole.filter(pa.array(units > 0)) if len(units) and units.min() == 0 else whole


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
        weighting: what a user adds to a count, where that is not 1.
    """

    def __init__(
        self,
        layout: Layout,
        key: ReleaseKey,
        limit: int | None,
        waits_for_timers: bool = False,
        cores: int = 1,
        cap: int | None = None,
        weighting: Weighting | None = None,
    ) -> None:
        super().__init__()
        self._counter, self._waits_for_timers = UserShard(layout, key, limit, cap, weighting), waits_for_timers
        self._cores = cores

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        # (user shard, pairs)  ->  (place, Part), and one manifest for every user shard and Beam window
        if pairs.is_bounded or not self._waits_for_timers:
            shards = pairs | "Gather each user's pairs" >> beam.GroupByKey()
            count = beam.ParDo(_CountDoFn(self._counter, self._cores))
        else:
            shards, count = pairs, beam.ParDo(CountOnTheFlyDoFn(self._counter))
        return shards | "Bound and count" >> count.with_output_types(PlacedPart)


class _CountDoFn(SideBySideDoFn):
    def __init__(self, counter: UserShard, cores: int = 1) -> None:
        super().__init__(cores)
        self._counter = counter

    def work(self, shard: tuple[int, Iterable[pa.RecordBatch]]) -> Iterable[PlacedPart]:
        counted = with_manifest(shard[0], self._counter.counts(shard[1]))
        return counted if self._cores == 1 else list(counted)

    def hand_on(self, result: Iterable[PlacedPart]) -> Iterable[PlacedPart]:
        return result
