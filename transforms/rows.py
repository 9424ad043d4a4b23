"""Rows to blocks: the only place where single Python objects are handled, for pipelines of (user, item) pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from operator import sub
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders import registry
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.columnar import Codes, are_pairs, joined, make_block, make_table, parted
from private_topk.transforms.completeness import checksum_in, noted, receipt_in, shares, with_receipt_of
from private_topk.transforms.counters import BundleStart, DroppedRows, RoundedRows
from private_topk.transforms.elements import ElementSchema
from private_topk.transforms.errors import crosses
from private_topk.transforms.groups import Groups
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.plan import ExecutionPlan, Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.shuffle import ThreadPoolDoFn
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import UserShard

_ROWS = 50_000
_LETTERS = 16 << 20
"""Characters held over all windows, after which blocks are made however few rows they have."""


class BlockCoder(beam.coders.Coder):
    """Blocks between workers: Arrow IPC, no pickle."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        return sink.getvalue().to_pybytes()

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        return pa.ipc.open_stream(encoded).read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """The size in bytes, for Beam's metrics: by default Beam would encode every block once more for it."""
        return value.nbytes

    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> type[pa.RecordBatch]:
        """The type of its values, for runners that read a pipeline back, as those of notebooks do."""
        return pa.RecordBatch


registry.register_coder(pa.RecordBatch, BlockCoder)


@beam.typehints.with_output_types(pa.RecordBatch)
class MakeBlocks(beam.PTransform):
    """Elements that hold a user and an item to blocks, a window at a time. Users and items are texts, whole
    numbers or UUIDs.

    Elements with a None, an empty text or no number are dropped and counted, and so is what is of another shape, and
    texts that are no labels (`labels.py`). A type that Beam knows, and of which no element is of this shape, raises
    here.

    Args:
        with_times: also a column of the elements' event times.
        schema: where the user and the item are, and what else there is.
    """

    def __init__(self, with_times: bool = False, schema: ElementSchema | None = None) -> None:
        super().__init__()
        self._with_times, self._schema = with_times, schema or ElementSchema()

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        # pairs: (user, item)  ->  block of up to 50,000 rows, of one window
        self._schema.check(pairs.element_type)
        return pairs | "Gather pairs into blocks" >> beam.ParDo(self.gathering())

    def gathering(self) -> _GatherDoFn:
        """The DoFn that runs on the workers."""
        return _GatherDoFn(self._with_times, self._schema)


@crosses
class _GatherDoFn(beam.DoFn):
    def __init__(self, with_times: bool, schema: ElementSchema) -> None:
        self._dropped = {reason: DroppedRows(reason) for reason in ("null", "unreadable")}
        self._with_times, self._schema = with_times, schema
        self._start = BundleStart()

    def start_bundle(self) -> None:
        self._start.begin()
        self._rows: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
        self._letters = 0

    def process(
        self,
        element: Any,  # noqa: ANN401
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention
        time: Any = beam.DoFn.TimestampParam,  # noqa: ANN401, B008
    ) -> Iterator[pa.RecordBatch | WindowedValue]:
        row = self._schema.values(element)
        if isinstance(row, str):
            self._dropped[row].inc()
            if self._start.watched:
                self._start.note(0, {self._schema.fault(element): 1})
            return
        self._start.watched = False
        self._letters += sum(len(part) for part in row if isinstance(part, str))
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
            readable = [row for row in rows if all(_is_unicode(part) for part in row if isinstance(part, str))]
            self._dropped["unreadable"].inc(len(rows) - len(readable))
            return self._columns(readable)

    def _columns(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        kinds = {"user": pa.string(), "item": pa.string()}
        kinds |= {"group": pa.string()} if self._schema.groups else {}
        kinds |= dict.fromkeys(self._schema.score.columns, pa.float64())
        kinds |= {"time": pa.int64()} if self._with_times else {}
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


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


UserRows = tuple[int, pa.RecordBatch]
"""A user shard, and some of its rows: {user: uint64, item: code or string, columns of the score, in units, and of
windows}."""

_BYTES_TOGETHER = 1 << 25
_LONGEST = 100_000
"""The most rows of a piece, since all rows of blocks that are split together may be one user's."""


class ShardByUser(beam.PTransform):
    """Blocks to (user shard, rows): all rows of one user meet in one shard. What readers have sent goes the same way.

    Users travel as keyed 64-bit hashes. Two users who share one, with probability 2**-64 whoever they are, count as
    one: docs/privacy.md says what that means for the guarantee. Rows of items outside a public domain drop out here,
    rows of groups outside the list, and those that add nothing.
    """

    def __init__(self, spec: TopK, key: ReleaseKey, plan: ExecutionPlan) -> None:
        super().__init__()
        self._fn = _ShardDoFn(spec, key, plan.user_shards, plan.partitioning, plan.cores, plan.rows_together)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        # block  ->  (user shard, rows)
        return blocks | "Encode and split" >> beam.ParDo(self._fn).with_output_types(UserRows)


REASONS = ("amount_rounds_to_0_or_less", "not_in_groups", "not_in_domain")


class Rankable(NamedTuple):
    """The rows of a block that can be ranked, with numbers of groups and what they add in units.

    Args:
        items: theirs, as they are counted: codes, or labels.
        unknown: the items of the rows that are outside the domain.
        dropped: how many rows dropped out, by reason: each for the first of `REASONS` that applies.
        rounded: how many rows of the block lose the decimals of their amounts, unasked.
    """

    rows: pa.RecordBatch
    items: Codes | pa.Array
    unknown: pa.Array
    dropped: Counter[str]
    rounded: int


def rankable(block: pa.RecordBatch, spec: TopK) -> Rankable:
    """The rows of a block, all of them in the period, that can be ranked."""
    sizes, groups, rounded = [len(block)], spec.groups, spec.score.rounded(block)
    block = spec.score.in_units(block)
    sizes.append(len(block))
    if groups is not None:
        block = _of_groups(block, groups)
    sizes.append(len(block))
    known, items = spec.domain.known(block["item"], None if groups is None else block["group"].to_numpy())
    if groups is not None and groups.overall and not known.all():  # what is not on the list of its group is on another
        block = _with_group(block, np.where(known, block["group"].to_numpy(), groups.labels.size))
        known, items = spec.domain.known(block["item"], block["group"].to_numpy())
    unknown = block["item"].slice(0, 0)
    if not known.all():
        unknown = block["item"].filter(pa.array(~known))
        block = block.filter(pa.array(known))
    sizes.append(len(block))
    dropped = Counter(dict(zip(REASONS, map(sub, sizes, sizes[1:]), strict=True)))
    return Rankable(block, items, unknown, dropped, rounded)


class _Split(NamedTuple):
    """Rows by user shard, how many dropped out, by reason, and how many are rounded unasked."""

    dropped: Counter[str]
    rows: list[UserRows]
    rounded: int = 0


class _Encoded(NamedTuple):
    """The rows of a block, how many dropped out, by reason, and how many are rounded unasked."""

    dropped: Counter[str]
    rows: pa.RecordBatch
    rounded: int = 0


@crosses
class _ShardDoFn(ThreadPoolDoFn):
    def __init__(
        self, spec: TopK, key: ReleaseKey, shards: int, partitioning: Partitioning, cores: int = 1, together: int = 0
    ) -> None:
        super().__init__(cores)
        self._spec, self._key, self._shards, self._partitioning = spec, key, shards, partitioning
        self._together = together
        self._empty = UserShard.of(spec, partitioning, key).no_rows()
        self._dropped, self._start = {reason: DroppedRows(reason) for reason in REASONS}, BundleStart()
        self._rounded = RoundedRows()
        self._hash_key: bytes | None = None

    def setup(self) -> None:
        super().setup()
        self._spec.domain.prepare()
        if self._spec.groups is not None:
            self._spec.groups.labels.index()

    def start_bundle(self) -> None:
        super().start_bundle()
        self._start.begin()
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def process(self, block: pa.RecordBatch) -> Iterator[UserRows]:
        if not self._together or receipt_in(block) is not None:
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
        sent = receipt_in(blocks[0])
        if sent is not None:
            return _Split(Counter(), [(sent.reader % self._shards, with_receipt_of(self._empty, sent))])
        checksum = sum(checksum_in(block) or 0 for block in blocks)
        split = self._split([self._encoded(block) for block in blocks])
        return split._replace(rows=self._shared(split.rows, checksum))

    def _shared(self, rows: list[UserRows], checksum: int) -> list[UserRows]:
        """The pieces of blocks with their shares of the blocks' checksum. An empty piece is added where there is none,
        and beside a single piece whose share would be 0, so that its loss would not show.
        """
        if not rows and not checksum:
            return []
        pieces = rows or [(0, self._empty)]
        if len(pieces) == 1 and not checksum:
            pieces = [*pieces, ((pieces[0][0] + 1) % self._shards, self._empty)]
        seed = int(sum(piece["user"].to_numpy().sum(dtype=np.uint64).item() for _, piece in pieces))
        parts = shares(checksum, len(pieces), seed)
        return [(shard, noted(piece, share=share)) for (shard, piece), share in zip(pieces, parts, strict=True)]

    def _encoded(self, block: pa.RecordBatch) -> _Encoded:
        if are_pairs(block):
            columns = {name: block[name] for name in block.schema.names}
            columns |= {"rows": pa.array(np.zeros(len(block), np.uint32))}
            narrow = {each.name: columns[each.name].cast(each.type) for each in self._empty.schema}
            return _Encoded(Counter(), make_table(**narrow))
        block, items, _, dropped, rounded = rankable(block, self._spec)
        if self._hash_key is None:
            # Not in setup: a worker connects to its runner after that, so Flink would wait three minutes for a
            # connection after each restart, and never tell that a key was refused.
            self._hash_key = self._key.derive("user hash")
        words = hash_labels(block["user"], self._hash_key)
        others = {name: block[name].to_numpy().astype(kind) for name, kind in self._partitioning.window_columns.items()}
        names = [*["group", "rows"] * (self._spec.groups is not None), *self._spec.score.columns]
        others |= {name: block[name].to_numpy() for name in names}
        return _Encoded(dropped, make_table(user=words, item=items, **others), rounded)

    def _split(self, encoded: list[_Encoded]) -> _Split:
        table = encoded[0].rows if len(encoded) == 1 else joined(each.rows for each in encoded)
        columns = {name: _as_numpy(table[name]) for name in table.schema.names}
        shards = (columns["user"] >> np.uint64(48)).astype(np.int64) & (self._shards - 1)

        def table_of(rows: Codes) -> pa.RecordBatch:
            return make_table(
                **{
                    name: column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))
                    for name, column in columns.items()
                }
            )

        pieces = [
            (shard, piece.slice(start, _LONGEST))
            for shard, piece in parted(shards, self._shards, table_of)
            for start in range(0, len(piece), _LONGEST)
        ]
        dropped, rounded = (each.dropped for each in encoded), sum(each.rounded for each in encoded)
        return _Split(sum(dropped, Counter()), pieces, rounded)

    def emit(self, result: _Split) -> list[UserRows]:
        for reason, rows in result.dropped.items():
            self._dropped[reason].inc(rows)
        self._rounded.inc(result.rounded)
        self._start.note(sum(len(piece) for _, piece in result.rows), result.dropped)
        return result.rows


def _as_numpy(values: pa.Array) -> np.ndarray | pa.Array:
    """Numbers as numpy has them, which is quicker to take from; texts as they are."""
    return values if pa.types.is_large_string(values.type) else values.to_numpy()


def _of_groups(block: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
    """The rows of a declared group, with its number; each stands for one row."""
    codes = groups.encode(block["group"])
    table = _with_group(block, codes, rows=np.ones(len(codes), np.uint32))
    known = codes >= 0
    return table if known.all() else table.filter(pa.array(known))


def _with_group(block: pa.RecordBatch, codes: Codes, **more: np.ndarray) -> pa.RecordBatch:
    columns = {name: block[name] for name in block.schema.names if name != "group"}
    return make_table(**columns, group=codes, **more)
