"""From the blocks of an Avro file to rows: by polars where it knows the types, otherwise by fastavro, to the same."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.read import LOGICAL_READERS

from private_topk.pipelines.sources.avro_blocks import Block, Header, long_of
from private_topk.pipelines.sources.avro_codecs import CODECS, LARGEST, TooLarge
from private_topk.pipelines.sources.avro_schema import TAG, Branch, of_any_type, of_plain_types
from private_topk.pipelines.sources.columns import SAY_WHICH, Columns, Rows, texts_of, to_microseconds
from private_topk.transforms.errors import Refusal, refused

if TYPE_CHECKING:
    import polars as pl

__all__ = ["BlockDecoder", "check_columns", "rows_of", "schema_for"]

_ROWS = 100_000
_BYTES = 16 << 20
_MOST_ROWS = 1 << 24
_LABELS = {"string", "int", "long", "enum"}
_TIMES = {"string", "int", "long", "float", "double", "date"} | {
    f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")
}
_NUMBERS = {"string", "int", "long", "float", "double"}
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}

_ALONE = threading.Lock()
"""Large blocks are decoded one at a time: decoding takes several times the memory of a block."""

LOGICAL_READERS[f"int-{TAG}"] = lambda value, *_: (value,)


class BlockDecoder:
    """Decodes blocks of one file. A block is refused if it decodes to more than 256 MiB or 16 million rows."""

    def __init__(self, header: Header, columns: Columns, path: str) -> None:
        self._header, self._columns, self._path = header, columns, path
        self._branches = {name: header.fields[name] for name in columns.names()}
        places = {name: f"c{place}" for place, name in enumerate(header.fields)}
        self._places = {name: places[name] for name in columns.names()}
        self._plain = of_plain_types(header.schema, header.fields)
        self._plain_start = b"" if self._plain is None else _file_start(self._plain, header.sync)
        self._any = _file_start(schema_for(header.schema, header.fields, columns), header.sync)

    def rows(self, run: Sequence[Block]) -> Iterator[Rows]:
        """The rows of blocks, about 100,000 or 16 MiB at a time."""
        some: list[Block] = []
        rows = size = 0
        for count, packed in run:
            content = self._unpack(packed)
            if count > min(len(content) + _ROWS, _MOST_ROWS):  # a row of no bytes could stand for any number
                raise refused(f"{self._path} has a block that claims more rows than it has bytes, or more than "
                                 f"{_MOST_ROWS:,}: write smaller blocks, or copy it again")  # fmt: skip
            if count or content:
                some.append(Block(count, content))
            rows, size = rows + count, size + len(content)
            if rows >= _ROWS or size >= _BYTES:
                yield from self._decoded(some)
                some, rows, size = [], 0, 0
        if some:
            yield from self._decoded(some)

    def _unpack(self, packed: bytes) -> bytes:
        try:
            return CODECS[self._header.codec](packed)
        except TooLarge:
            raise refused(f"{self._path} has a block that decodes to more than {LARGEST >> 20} MiB: write smaller "
                             "blocks") from None  # fmt: skip
        except MemoryError:
            raise
        except Exception:  # whatever a decoder makes of broken bytes
            raise self._damaged() from None

    def _decoded(self, blocks: Sequence[Block]) -> Iterator[Rows]:
        """The rows of unpacked blocks, each of which must be used up by its rows, to its last byte."""
        try:
            found = self._at_once(blocks) if self._plain is not None else None
            if found is None:  # of other types, or given up: fastavro has the last word
                yield from self._from_records(_file(self._any, blocks, self._header.sync))
            else:
                yield from found
        except MemoryError:
            raise refused(f"{self._path} has a block that needs more memory than there is: write smaller "
                             "blocks") from None  # fmt: skip
        except Exception:  # whatever a decoder makes of broken bytes
            raise self._damaged() from None

    def _at_once(self, blocks: Sequence[Block]) -> list[Rows] | None:
        rows, size = (sum(each) for each in zip(*((block.rows, len(block.packed)) for block in blocks), strict=True))
        import polars as pl

        assert self._plain is not None
        try:
            with _ALONE if size > 2 * _BYTES else nullcontext():
                frame = pl.read_avro(io.BytesIO(_file(self._plain_start, blocks, self._header.sync)))
            # Polars takes no more than a block has, but may leave some of it. All of it is used up where the rows take
            # as many bytes as the blocks have.
            is_whole = len(frame) == rows and _stored_bytes(frame, self._plain) == size
            return list(self._from_frame(frame)) if is_whole else None
        except MemoryError:
            raise
        except (Exception, pl.exceptions.PanicException):
            return None

    def _from_frame(self, frame: pl.DataFrame) -> Iterator[Rows]:
        import polars as pl

        oldest = pl.CompatLevel.oldest()
        # A run is a little over 100,000 rows: cut off, its rest would be a block of next to nothing.
        for part in frame.iter_slices(_ROWS if len(frame) > 2 * _ROWS else max(len(frame), 1)):
            arrays = {name: part[place].to_arrow(compat_level=oldest) for name, place in self._places.items()}
            yield Rows({name: _meant(array, _only(self._branches[name])) for name, array in arrays.items()})

    def _from_records(self, file: bytes) -> Iterator[Rows]:
        records = _records(file)
        while rows := list(islice(records, _ROWS)):
            yield rows_of(rows, self._branches, self._columns)

    def _damaged(self) -> Refusal:
        return refused(f"{self._path} is damaged: a block cannot be decoded. Write or copy it again")


def check_columns(where: str, fields: dict[str, list[Branch]], columns: Columns) -> None:
    """Raise Refusal, naming where they are, unless the fields have the columns, of types that can be read."""
    for name in columns.names():
        if name not in fields:
            raise refused(f"{where} has no column {name!r}: its columns are {', '.join(sorted(fields))}; {SAY_WHICH}")
        allowed = {columns.time: _TIMES, columns.value: _NUMBERS}.get(name, _LABELS)
        found = {branch.meaning for branch in fields[name]}
        if not found <= allowed | {"null"}:
            raise refused(f"{where}: column {name!r} must be one of {', '.join(sorted(allowed))}, "
                             f"got {', '.join(sorted(found - allowed))}")  # fmt: skip


def schema_for(schema: dict[str, Any], fields: dict[str, list[Branch]], columns: Columns) -> dict[str, Any]:
    """The schema by which fastavro makes the records for `rows_of`."""
    time = columns.time
    return of_any_type(schema, time if time is not None and _needs_tag(fields[time]) else None)


def rows_of(records: list[dict[str, Any]], fields: dict[str, list[Branch]], columns: Columns) -> Rows:
    """The rows of records that fastavro has read by `schema_for`, with errors of UTF-8 as surrogates."""
    arrays, unreadable = {}, None
    for name in columns.names():
        values = [record[name] for record in records]
        if name == columns.time:
            arrays[name], unreadable = _times(values, fields[name], columns.time_unit)
        elif name == columns.value:
            arrays[name] = _amounts(values)
        else:
            arrays[name] = _labels(values)
    return Rows(arrays, unreadable)


def _file_start(schema: dict[str, Any], sync: bytes) -> bytes:
    entries = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": b"null"}
    packed = b"".join(long_of(len(text)) + text for pair in entries.items() for text in pair)
    return b"Obj\x01" + long_of(len(entries)) + packed + b"\0" + sync


def _file(start: bytes, blocks: Iterable[Block], sync: bytes) -> bytes:
    """A file of unpacked blocks, in one piece of memory."""
    parts = ((long_of(block.rows), long_of(len(block.packed)), block.packed, sync) for block in blocks)
    return b"".join([start, *chain.from_iterable(parts)])


def _records(file: bytes) -> Iterator[Any]:
    blocks: Iterator[Any] = fastavro.block_reader(io.BytesIO(file), handle_unicode_errors="surrogateescape")
    for block in blocks:
        yield from block
        if block.bytes_.read(1):
            raise ValueError("there are bytes behind the rows of a block")


def _stored_bytes(frame: pl.DataFrame, schema: dict[str, Any]) -> int:
    """How many bytes Avro stores the rows of a frame in, by a schema of `of_plain_types`."""
    found = 0
    for field in schema["fields"]:
        column, kinds = frame[field["name"]], field["type"]
        if isinstance(kinds, list):  # the number of the branch comes first
            found += len(column)
            column, kinds = column.drop_nulls(), next(kind for kind in kinds if kind != "null")
        if kinds in _WIDTHS:
            found += _WIDTHS[kinds] * len(column)
        elif kinds == "bytes":
            lengths = column.bin.size().to_numpy().astype(np.int64)
            found += int(lengths.sum()) + _stored_longs(lengths)
        else:
            found += _stored_longs(column.to_numpy().astype(np.int64))
    return found


def _stored_longs(values: np.ndarray) -> int:
    """How many bytes Avro stores integers in: seven bits in each."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    found = more = len(zigzag)
    for shift in range(7, 64, 7):
        if not more:
            break
        more = int(np.count_nonzero(zigzag >= np.uint64(1 << shift)))
        found += more
    return found


def _needs_tag(branches: list[Branch]) -> bool:
    """Whether an int and a long stand side by side that do not mean the same."""
    meanings = {branch.base: branch.meaning for branch in branches if branch.base in ("int", "long")}
    return len(meanings) == 2 and meanings != {"int": "int", "long": "long"}


def _only(branches: list[Branch]) -> Branch:
    return next((branch for branch in branches if branch.base != "null"), branches[0])


def _meant(values: pa.Array, branch: Branch) -> pa.Array:
    """Stored values as what their type means. Raises where an enum has no such symbol."""
    if branch.base == "enum" and not pa.types.is_large_string(values.type):
        return pa.array(branch.symbols, pa.large_string()).take(values)
    if branch.meaning == "date":
        days = np.clip(values.fill_null(0).to_numpy(zero_copy_only=False), -(2**31), 2**31 - 1)  # as far as dates go
        return pa.array(days.astype(np.int32), pa.int32(), mask=np.asarray(values.is_null())).cast(pa.date32())
    if "timestamp" in branch.meaning:
        return values.cast(pa.int64()).cast(pa.timestamp(_UNITS[branch.meaning.rpartition("-")[2]]))
    return values


def _labels(values: list[Any]) -> pa.Array:
    """Texts and integers as text; as bytes where some are no UTF-8, which fastavro hands on in surrogates."""
    texts = [value if value is None or isinstance(value, str) else str(value) for value in values]
    try:
        return pa.array(texts, pa.large_string())
    except (UnicodeEncodeError, pa.ArrowInvalid):
        return pa.array([text and text.encode("utf-8", "surrogateescape") for text in texts], pa.large_binary())


def _amounts(values: list[Any]) -> pa.Array:
    """Numbers as texts that mean them, since texts may stand among them."""
    texts = [repr(float(v)).replace("inf", "1e999") if isinstance(v, int | float) else v for v in values]
    return _labels(texts)


def _times(values: list[Any], branches: list[Branch], unit: str) -> tuple[pa.Array, pa.Array | None]:
    """The times of a column, and which are unreadable where several types may meet: each value goes by its own."""
    by_type: dict[type, Branch] = {
        _python_type(branch, branches): branch for branch in branches if branch.base != "null"
    }
    if len(by_type) < 2:
        return _of_one_type(values, _only(branches)), None
    micros = pa.nulls(len(values), pa.int64())
    for kind, branch in by_type.items():
        mask = pa.array([type(value) is kind for value in values], pa.bool_())
        some: list[Any] = [value for value in values if type(value) is kind]
        some = [value for (value,) in some] if kind is tuple else some
        times, _ = texts_of(_of_one_type(some, branch))
        micros = pc.replace_with_mask(micros, mask, to_microseconds(times, unit))
    valid = pa.array([value is not None for value in values], pa.bool_())
    return micros.cast(pa.timestamp("us")), pc.and_(valid, micros.is_null())


def _python_type(branch: Branch, branches: list[Branch]) -> type:
    if branch.base == "int" and _needs_tag(branches):
        return tuple
    return {"string": str, "float": float, "double": float}.get(branch.base, int)


def _of_one_type(values: list[Any], branch: Branch) -> pa.Array:
    kinds = {"int": pa.int64(), "long": pa.int64(), "float": pa.float64(), "double": pa.float64(), "null": pa.null()}
    return _labels(values) if branch.base == "string" else _meant(pa.array(values, kinds[branch.base]), branch)
