"""What one user contributes: each item once, and at most so many items. The privacy proof starts here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from private_topk.transforms.amounts import Amounts
from private_topk.transforms.columnar import Codes, make_table, parted
from private_topk.transforms.counters import LeftOutRows
from private_topk.transforms.domain import Domain, SplitDomain, UnknownDomain
from private_topk.transforms.groups import Groups
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms.weighting import Weighting
from private_topk.transforms.on_the_fly import CountOnTheFlyDoFn
from private_topk.transforms.parts import PlacedPart, with_manifest
from private_topk.transforms.risers import Risers
from private_topk.transforms.sent import add_shares, mark_in, share_in, shares, statement_in, statements, with_share
from private_topk.transforms.shelf import PutAside, Shelf, taken
from private_topk.transforms.side_by_side import SideBySideDoFn
from private_topk.transforms.user_shard import UserShard

__all__ = ["CountContributions", "ShardByUser", "ShardedPairs"]

ShardedPairs = tuple[int, pa.RecordBatch]

_STATEMENTS = -1
"""In the place of a user shard: where what readers state goes, on the way that the rows go."""


class ShardByUser(beam.PTransform):
    """Blocks to (user shard, pairs): all rows of one user meet in one shard.

    Users travel as keyed 64-bit hashes. Two users who share one, with probability 2**-64 whoever they are, count as
    one: docs/privacy.md says what that means for the guarantee. Rows of items outside a public domain drop out here; of
    a list that is split over the workers, where counts meet it.

    Args:
        shards: how many user shards, a power of two up to 65,536. Any number gives the same counts.
        cores: how many blocks are split at a time. More than one: of blocks in the global window.
        amounts: what the column `amount` means, where there is one. Rows of amount 0 or less drop out as well.
        groups: those of the column `group`, where there is one. Rows of any other drop out as well.
        waking: of a bounded input, the reader whose statement wakes every user shard with an empty piece; what readers
            state is then among the pairs. A second look at rows or pairs, for statements or for shards that have none,
            would have Flink write and read all of them twice or three times.
    """

    def __init__(
        self,
        domain: Domain,
        key: ReleaseKey,
        shards: int,
        layout: Layout | None = None,
        cores: int = 1,
        amounts: Amounts | None = None,
        groups: Groups | None = None,
        waking: int | None = None,
    ) -> None:
        super().__init__()
        self._fn = _ShardDoFn(domain, key, shards, layout or Layout.of(domain), cores, amounts, groups, waking)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        # block  ->  (user shard, {user: uint64, item: code or string, amount in units, and the columns of windows})
        return blocks | "Encode and split by user" >> beam.ParDo(self._fn).with_output_types(ShardedPairs)


class _Split(NamedTuple):
    """How many rows drop out, as of no item or of no group, and the others by user shard."""

    unknown: int
    elsewhere: int
    pairs: list[ShardedPairs]


class _ShardDoFn(SideBySideDoFn):
    def __init__(
        self,
        domain: Domain,
        key: ReleaseKey,
        shards: int,
        layout: Layout,
        cores: int = 1,
        amounts: Amounts | None = None,
        groups: Groups | None = None,
        waking: int | None = None,
    ) -> None:
        super().__init__(cores)
        self._domain, self._key, self._shards, self._layout = domain, key, shards, layout
        self._amounts, self._groups, self._waking = amounts, groups, waking
        self._empty = UserShard(layout, key, None, None if amounts is None else amounts.cap).no_pairs()
        self._left_out, self._in_no_group = LeftOutRows("not_in_domain"), LeftOutRows("not_in_groups")

    def setup(self) -> None:
        super().setup()
        self._hash_key = self._key.derive("user hash")
        self._domain.prepare()
        if self._groups is not None:
            self._groups.labels.index()

    def work(self, block: pa.RecordBatch) -> _Split:
        said = statement_in(block)
        if said is not None:
            woken = range(self._shards) if said.reader == self._waking else ()
            kept = [] if self._waking is None else [(_STATEMENTS, block)]
            return _Split(0, 0, [*kept, *((shard, self._empty) for shard in woken)])
        mark = mark_in(block)
        found = self._split(block)
        return found if mark is None else found._replace(pairs=self._shared(found.pairs, mark))

    def _shared(self, pairs: list[ShardedPairs], mark: int) -> list[ShardedPairs]:
        """The pieces of a block with their shares of its mark; an empty piece where there is no other."""
        whole = pairs or [(0, self._empty)]
        own = shares(mark, [shard for shard, _ in whole])
        return [(shard, with_share(piece, share)) for (shard, piece), share in zip(whole, own, strict=True)]

    def _split(self, block: pa.RecordBatch) -> _Split:
        if self._amounts is not None:
            block = _above_zero(block, self._amounts)
        before = len(block)
        if self._groups is not None:
            block = _of_groups(block, self._groups)
        elsewhere = before - len(block)
        values: np.ndarray | pa.Array
        unknown = 0
        if not isinstance(self._domain, SplitDomain | UnknownDomain):
            codes = self._domain.encode(block["item"], None if self._groups is None else block["group"].to_numpy())
            known = codes >= 0
            if not known.all():
                unknown = int(len(known) - known.sum())
                block, codes = block.filter(pa.array(known)), codes[known]
            values = codes.astype(self._layout.code_type)
        else:
            values = block["item"].cast(pa.string())
        words = hash_labels(block["user"], self._hash_key)
        others = {name: block[name].to_numpy().astype(kind) for name, kind in self._layout.window_columns.items()}
        names = [*["group", "rows"] * (self._groups is not None), *["amount"] * (self._amounts is not None)]
        others |= {name: block[name].to_numpy() for name in names}
        shards = (words >> np.uint64(48)).astype(np.int64) & (self._shards - 1)

        def table_of(rows: Codes) -> pa.RecordBatch:
            items = values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))
            columns = {name: column[rows] for name, column in others.items()}
            return make_table(user=words[rows], item=items, **columns)

        found = list(parted(shards, self._shards, table_of))
        return _Split(unknown, elsewhere, found)

    def hand_on(self, result: _Split) -> list[ShardedPairs]:
        for counter, rows in ((self._left_out, result.unknown), (self._in_no_group, result.elsewhere)):
            if rows:
                counter.inc(rows)
        return result.pairs


def _of_groups(block: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
    """The rows of a declared group, with its number; each stands for one row."""
    codes = groups.encode(block["group"])
    columns = {name: block[name] for name in block.schema.names if name != "group"}
    whole = make_table(**columns, group=codes, rows=np.ones(len(codes), np.uint32))
    known = codes >= 0
    return whole if known.all() else whole.filter(pa.array(known))


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
        if shard[0] == _STATEMENTS:
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
