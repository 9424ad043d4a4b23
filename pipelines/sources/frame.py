"""A table in the memory of this process: a source for runs that stay in it."""

from __future__ import annotations

import hashlib
import io
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.identity import identity_of, named, unasked
from private_topk.pipelines.sources.columns import Columns, Rows, as_bytes, block_of, is_text
from private_topk.pipelines.sources.left_out import LeftOut
from private_topk.pipelines.sources.source import BlockReader
from private_topk.runners import Launch
from private_topk.transforms.completeness import stated
from private_topk.transforms.errors import Refusal
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["Frame"]

_ROWS = 1 << 17
_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_TABLES: weakref.WeakValueDictionary[str, pa.Table] = weakref.WeakValueDictionary()
"""By their digests. A job does not carry its rows: the runner's threads find them here."""


@dataclass(frozen=True)
class Frame:
    """The rows of a table. Its name in a ledger comes from what it holds.

    Args:
        table: of the columns that are read, and no others.
    """

    table: pa.Table = field(repr=False, compare=False, metadata=unasked("its digest names the rows"))
    columns: Columns = Columns()
    digest: str = ""
    size: int = field(default=0, repr=False, compare=False, metadata=unasked("of the rows, which the digest names"))

    place, bounded, live = "a table in memory", True, False

    def __post_init__(self) -> None:
        digest, size = _digest(self.table)
        object.__setattr__(self, "digest", digest)
        object.__setattr__(self, "size", size)
        # One table for all frames that hold the same: it is there as long as any of them is.
        object.__setattr__(self, "table", _TABLES.setdefault(self.digest, self.table))

    def check(self, period: Period | None) -> None:
        """Whoever made the table has looked at its columns."""

    def check_runner(self, launch: Launch) -> None:
        if launch.remote or launch.name != "direct":
            raise Refusal("runner", f"{launch.name} cannot see a table in the memory of this process", "use direct")

    def read(self, period: Period | None) -> BlockReader:
        return _ReadTable(self.digest, self._columns(period))

    def rows(self, period: Period | None) -> Iterator[Rows]:
        return _parts(self.table, self._columns(period))

    def stored_bytes(self) -> int:
        return self.size

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        return named({"kind": "frame", "digest": self.digest, "columns": identity_of(self._columns(period))}, key)

    def local_places(self) -> tuple[str, ...]:
        return ()

    def _columns(self, period: Period | None) -> Columns:
        return self.columns if period is not None else replace(self.columns, time=None)


def _parts(table: pa.Table, columns: Columns) -> Iterator[Rows]:
    for start in range(0, max(len(table), 1), _ROWS):
        part = table.slice(start, _ROWS)
        yield Rows({name: _in_one(part[name]) for name in columns.names()})


def _in_one(column: pa.ChunkedArray) -> pa.Array:
    """A column as bytes where it holds texts: before it is put together, since bytes have offsets for any length."""
    if is_text(column.type):
        column = column.cast(pa.large_binary())
    return as_bytes(column.combine_chunks())


def _digest(table: pa.Table) -> tuple[str, int]:
    """Of the values, and their bytes, however they lie in memory: views and dictionaries lie as they came about."""
    hashing = _Hashing()
    with pa.PythonFile(hashing, "w") as sink:
        for column in table.schema:
            schema = pa.schema([(column.name, _plain(column.type))])
            with pa.ipc.new_stream(sink, schema) as writer:
                for start in range(0, len(table), _ROWS):
                    part = table[column.name].slice(start, _ROWS).cast(schema.types[0])
                    hashing.content.update(part.is_valid().to_numpy())
                    writer.write_batch(pa.record_batch([_packed(part)], schema))
    return hashing.content.hexdigest(), hashing.tell()


def _packed(part: pa.ChunkedArray) -> pa.Array:
    """What is not null, without gaps: arrays lie so that were put together, be it one with nothing."""
    nothing = pa.array([], part.type)
    return pa.concat_arrays([*part.drop_null().chunks, nothing, nothing])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return _PLAIN.get(kind, kind)


class _Hashing(io.RawIOBase):
    """What is written is hashed, and not kept."""

    def __init__(self) -> None:
        self.content, self._written = hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: ReadableBuffer) -> int:
        self.content.update(content)
        size = memoryview(content).nbytes
        self._written += size
        return size


@beam.typehints.with_output_types(pa.RecordBatch)
class _ReadTable(BlockReader):
    readers = (0,)

    def __init__(self, digest: str, columns: Columns) -> None:
        super().__init__()
        self._fn = _ReadDoFn(digest, columns)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        # block of up to 131,072 rows
        return pipeline | beam.Impulse() | "Read the table" >> beam.ParDo(self._fn)


class _ReadDoFn(beam.DoFn):
    def __init__(self, digest: str, columns: Columns) -> None:
        self._digest, self._columns = digest, columns
        self._left_out = LeftOut()

    def process(self, _: bytes) -> Iterator[pa.RecordBatch]:
        yield from stated(self._blocks(), 0)

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        for rows in _parts(_TABLES[self._digest], self._columns):
            block, missing = block_of(rows, self._columns)
            self._left_out.add(missing)
            yield block
