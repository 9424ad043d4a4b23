"""Rows to blocks: the only place where single Python objects are handled, for pipelines of (user, item) pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.columnar import LONGEST_LABEL, Codes, joined, make_block, make_table, parted
from private_topk.transforms.completeness import add_shares, mark_in, shares, statement_in, with_share
from private_topk.transforms.counters import LeftOutRows
from private_topk.transforms.domain import Domain
from private_topk.transforms.elements import Shape
from private_topk.transforms.groups import Groups
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.metric import Amounts
from private_topk.transforms.parts import BlockCoder
from private_topk.transforms.plan import Layout
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.shuffle import SideBySideDoFn
from private_topk.transforms.user_shards import UserShard

__all__ = ["STATEMENTS", "BlockCoder", "MakeBlocks", "ShardByUser", "ShardedPairs", "late_moment"]

_ROWS = 50_000
_LETTERS = 16 << 20
"""Of all windows together, after which blocks are made whatever their rows."""


@beam.typehints.with_output_types(pa.RecordBatch)
class MakeBlocks(beam.PTransform):
    """Elements that hold a user and an item to blocks, a window at a time. Users and items are strings or integers.

    Elements with a None, or without an amount, are left out and counted, and so is what is of another shape, and texts
    that are no Unicode or longer than 4,096 bytes of UTF-8. A type that Beam knows, and of which no element is of this
    shape, raises here.

    Args:
        with_times: also a column of the elements' event times.
        shape: where the user and the item are, and the amount where there are amounts.
    """

    def __init__(self, with_times: bool = False, shape: Shape | None = None) -> None:
        super().__init__()
        self._with_times, self._shape = with_times, shape or Shape()

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        # pairs: (user, item)  ->  block of up to 50,000 rows, of one window
        self._shape.check(pairs.element_type)
        return pairs | "Gather pairs into blocks" >> beam.ParDo(self.gathering())

    def gathering(self) -> _GatherDoFn:
        """What is done on the workers."""
        return _GatherDoFn(self._with_times, self._shape)


class _GatherDoFn(beam.DoFn):
    def __init__(self, with_times: bool, shape: Shape) -> None:
        self._left_out = {reason: LeftOutRows(reason) for reason in ("null", "unreadable")}
        self._with_times, self._shape = with_times, shape

    def start_bundle(self) -> None:
        self._rows: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
        self._letters = 0

    def process(
        self,
        element: Any,  # noqa: ANN401
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention
        time: Any = beam.DoFn.TimestampParam,  # noqa: ANN401, B008
    ) -> Iterator[pa.RecordBatch | WindowedValue]:
        row = self._shape.values(element)
        if isinstance(row, str):
            self._left_out[row].inc()
            return
        texts = [part for part in row if isinstance(part, str)]
        if any(map(_is_too_long, texts)):
            self._left_out["unreadable"].inc()
            return
        self._letters += sum(map(len, texts))
        rows = self._rows[window]
        rows.append((*row, time.micros) if self._with_times else row)
        if len(rows) >= _ROWS:
            yield self._block(self._rows.pop(window))
        if self._letters >= _LETTERS:
            yield from self.finish_bundle()

    def finish_bundle(self) -> Iterable[WindowedValue]:
        for window, rows in self._rows.items():
            yield WindowedValue(self._block(rows), late_moment(window), (window,))
        self._rows.clear()
        self._letters = 0

    def _block(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        try:
            return self._columns(rows)
        except UnicodeEncodeError:  # half of a surrogate pair: Python holds it as text, and nothing else does
            whole = [row for row in rows if all(_is_unicode(part) for part in row if isinstance(part, str))]
            self._left_out["unreadable"].inc(len(rows) - len(whole))
            return self._columns(whole)

    def _columns(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        kinds = {"users": pa.string(), "items": pa.string()}
        kinds |= {"groups": pa.string()} if self._shape.groups else {}
        kinds |= {"amounts": pa.float64()} if self._shape.amounts else {}
        kinds |= {"times": pa.int64()} if self._with_times else {}
        columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
        arrays = {name: pa.array(values, kinds[name]) for name, values in zip(kinds, columns, strict=True)}
        return make_block(**arrays)[0]


def late_moment(window: Any) -> Timestamp:  # noqa: ANN401 - a Beam window
    """A moment late in a window, but a millisecond before its last: a timer of that one may fire while elements with
    the same timestamp are still to come.
    """
    return max(
        window.max_timestamp() - Duration(micros=1000), window.start if hasattr(window, "start") else MIN_TIMESTAMP
    )


def _is_too_long(text: str) -> bool:
    return len(text) * 4 > LONGEST_LABEL and len(text.encode("utf-8", "surrogatepass")) > LONGEST_LABEL


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


ShardedPairs = tuple[int, pa.RecordBatch]

STATEMENTS = -1
"""In the place of a user shard: where what readers state goes, on the way that the rows go."""

_ROWS_OF_A_PIECE = 1 << 14
_ROWS_TOGETHER, _BYTES_TOGETHER = 1 << 20, 1 << 25
_LONGEST = 100_000
"""Rows of a piece, at most: all rows of blocks that are split together may be one user's."""


class ShardByUser(beam.PTransform):
    """Blocks to (user shard, pairs): all rows of one user meet in one shard.

    Users travel as keyed 64-bit hashes. Two users who share one, with probability 2**-64 whoever they are, count as
    one: docs/privacy.md says what that means for the guarantee. Rows of items outside a public domain drop out here.

    Args:
        shards: how many user shards, a power of two up to 65,536. Any number gives the same counts.
        cores: how many blocks are split at a time. More than one: of blocks in the global window.
        amounts: what the column `amount` means, where there is one. Rows of amount 0 or less drop out as well.
        groups: those of the column `group`, where there is one. Rows of any other drop out as well.
        together: of a bounded input in the global window, split so many blocks at once that pieces get a good size, up
            to a million rows and 32 MiB. Where a piece is encoded and grouped, it costs as much as some hundred rows.
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
        together: bool = False,
    ) -> None:
        super().__init__()
        layout = layout or Layout.of(domain)
        self._fn = _ShardDoFn(domain, key, shards, layout, cores, amounts, groups, waking, together)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        # block  ->  (user shard, {user: uint64, item: code or string, amount in units, and the columns of windows})
        return blocks | "Encode and split by user" >> beam.ParDo(self._fn).with_output_types(ShardedPairs)


class _Split(NamedTuple):
    """How many rows drop out, as of no item or of no group, and the others by user shard."""

    unknown: int
    elsewhere: int
    pairs: list[ShardedPairs]


class _Encoded(NamedTuple):
    """How many rows of a block drop out, as of no item or of no group, and the others."""

    unknown: int
    elsewhere: int
    rows: pa.RecordBatch


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
        together: bool = False,
    ) -> None:
        super().__init__(cores)
        self._together = min(shards * _ROWS_OF_A_PIECE, _ROWS_TOGETHER) if together else 0
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

    def start_bundle(self) -> None:
        super().start_bundle()
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def process(self, block: pa.RecordBatch) -> Iterator[ShardedPairs]:
        if not self._together or statement_in(block) is not None:
            yield from super().process([block])
            return
        self._held.append(block)
        self._rows += len(block)
        self._bytes += block.nbytes
        if self._rows >= self._together or self._bytes >= _BYTES_TOGETHER:
            yield from super().process(self._taken())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._held:
            yield from map(GlobalWindows.windowed_value, super().process(self._taken()))
        yield from super().finish_bundle()

    def _taken(self) -> list[pa.RecordBatch]:
        held, self._held, self._rows, self._bytes = self._held, [], 0, 0
        return held

    def work(self, blocks: list[pa.RecordBatch]) -> _Split:
        said = statement_in(blocks[0])
        if said is not None:
            woken = range(self._shards) if said.reader == self._waking else ()
            kept = [] if self._waking is None else [(STATEMENTS, blocks[0])]
            return _Split(0, 0, [*kept, *((shard, self._empty) for shard in woken)])
        marks = [mark for mark in map(mark_in, blocks) if mark is not None]
        found = self._split([self._encoded(block) for block in blocks])
        return found._replace(pairs=self._shared(found.pairs, reduce(add_shares, marks))) if marks else found

    def _shared(self, pairs: list[ShardedPairs], mark: int) -> list[ShardedPairs]:
        """The pieces of blocks with their shares of the blocks' marks; an empty piece where there is no other."""
        whole = pairs or [(0, self._empty)]
        own = shares(mark, range(len(whole)))
        return [(shard, with_share(piece, share)) for (shard, piece), share in zip(whole, own, strict=True)]

    def _encoded(self, block: pa.RecordBatch) -> _Encoded:
        if self._amounts is not None:
            block = _above_zero(block, self._amounts)
        before = len(block)
        if self._groups is not None:
            block = _of_groups(block, self._groups)
        elsewhere = before - len(block)
        known, items = self._domain.known(block["item"], None if self._groups is None else block["group"].to_numpy())
        unknown = int(len(known) - known.sum())
        if unknown:
            block = block.filter(pa.array(known))
        words = hash_labels(block["user"], self._hash_key)
        others = {name: block[name].to_numpy().astype(kind) for name, kind in self._layout.window_columns.items()}
        names = [*["group", "rows"] * (self._groups is not None), *["amount"] * (self._amounts is not None)]
        others |= {name: block[name].to_numpy() for name in names}
        return _Encoded(unknown, elsewhere, make_table(user=words, item=items, **others))

    def _split(self, encoded: list[_Encoded]) -> _Split:
        whole = encoded[0].rows if len(encoded) == 1 else joined(each.rows for each in encoded)
        columns = {name: _as_numpy(whole[name]) for name in whole.schema.names}
        shards = (columns["user"] >> np.uint64(48)).astype(np.int64) & (self._shards - 1)

        def table_of(rows: Codes) -> pa.RecordBatch:
            return make_table(**{
                name: column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))
                for name, column in columns.items()
            })  # fmt: skip

        pieces = [
            (shard, piece.slice(start, _LONGEST))
            for shard, piece in parted(shards, self._shards, table_of)
            for start in range(0, len(piece), _LONGEST)
        ]
        return _Split(sum(each.unknown for each in encoded), sum(each.elsewhere for each in encoded), pieces)

    def hand_on(self, result: _Split) -> list[ShardedPairs]:
        for counter, rows in ((self._left_out, result.unknown), (self._in_no_group, result.elsewhere)):
            if rows:
                counter.inc(rows)
        return result.pairs


def _as_numpy(values: pa.Array) -> np.ndarray | pa.Array:
    """Numbers as numpy has them, which is quicker to take from; texts as they are."""
    return values if pa.types.is_large_string(values.type) else values.to_numpy()


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
