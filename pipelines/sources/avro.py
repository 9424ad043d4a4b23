"""Avro object container files. One large file is split at its sync markers and read by several workers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any, NamedTuple
from uuid import UUID

import fastavro
import polars as pl
import pyarrow as pa
from fastavro.read import BLOCK_READERS
from fastavro.schema import SchemaParseException, UnknownType, expand_schema

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo, is_gzip, open_content
from private_topk.pipelines.sources.columns import Columns

__all__ = ["check", "pieces", "read"]

_HEADER = fastavro.parse_schema({
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
})  # fmt: skip
_LABEL_TYPES = {"string", "int", "long", "enum"}
_TIME_TYPES = {"string", "int", "long", "float", "double"}
_TIME_LOGICAL = {f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")}
_NO_LABEL = _TIME_LOGICAL | {"date", "time-millis", "time-micros", "decimal", "duration"}
_NOT_FAST = {"decimal", "duration", "timestamp-nanos", "local-timestamp-nanos"}
_FAST_CODECS = {"null", "deflate", "snappy"}
_FAST_TYPES = {"boolean", "int", "long", "float", "double", "bytes", "string"}
_ROWS = 100_000
_BYTES = 2 << 20
_READ_AT_ONCE = 16 << 20
_WHOLE = 1 << 62
_MOST_HEADER = 16 << 20


class _Header(NamedTuple):
    fields: list[dict[str, Any]]
    codec: str
    sync: bytes
    raw: bytes

    @property
    def is_fast(self) -> bool:
        return self.codec in _FAST_CODECS and all(_is_plain(field["type"]) for field in self.fields)


def check(file: FileInfo, columns: Columns) -> None:
    """Raise InputError unless the file is whole Avro and has the columns, of types that can be read."""
    with open_content(file.path) as source:
        header = _header(source, file.path)
        if not is_gzip(file.path):
            source.seek(max(file.size - 16, 0))
            if source.read(16) != header.sync:
                raise InputError(f"{file.path} is truncated: its last block is not complete. Write or copy it again")
    fields = {field["name"]: field["type"] for field in header.fields}
    for name in columns.names():
        if name not in fields:
            raise InputError(f"{file.path} has no column {name!r}: its columns are {', '.join(sorted(fields))}")
        allowed = _TIME_TYPES | _TIME_LOGICAL | {"date"} if name == columns.time else _LABEL_TYPES
        found = _branches(fields[name])
        if not found <= allowed | {"null"}:
            raise InputError(f"{file.path}: column {name!r} must be one of {', '.join(sorted(allowed))}, "
                             f"got {', '.join(sorted(found - allowed))}")  # fmt: skip


def pieces(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """Byte ranges of about `size`; a block belongs to the range in which the sync marker before it starts."""
    if is_gzip(file.path):
        yield 0, _WHOLE
        return
    for start in range(0, max(file.size, 1), size):
        yield start, min(start + size, file.size)


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    """The columns of the blocks of one byte range, about 100,000 rows at a time."""
    with open_content(path) as source:
        header = _header(source, path)
        nanos = {field["name"] for field in header.fields if any("nanos" in kind for kind in _branches(field["type"]))}
        for blocks in _groups(source, header, path, start, stop):
            for table in _decode(header, blocks, columns, path):
                if columns.time in nanos and pa.types.is_integer(table[columns.time].type):
                    table[columns.time] = table[columns.time].cast(pa.timestamp("ns"))
                yield table


def _decode(header: _Header, blocks: bytes, columns: Columns, path: str) -> Iterator[dict[str, pa.Array]]:
    """Rows of whole blocks: by polars where it knows the types, otherwise, or if it gives up, record by record."""
    if header.is_fast:
        try:
            frame = pl.read_avro(io.BytesIO(header.raw + blocks), columns=columns.names())
        except (Exception, pl.exceptions.PanicException):  # the slower decoder has the last word
            pass
        else:
            yield from _tables(frame, columns)
            return
    try:
        yield from _decode_any(header.raw + blocks, columns)
    except Exception:  # whatever a decoder makes of broken bytes
        raise InputError(f"{path} is damaged: a block cannot be decoded. Write or copy it again") from None


def _header(source: IO[bytes], path: str) -> _Header:
    source.seek(0)
    start = source.read(1 << 16)
    while True:
        stream = io.BytesIO(start)
        try:
            fields = fastavro.schemaless_reader(stream, _HEADER, None)
            break
        except (EOFError, IndexError, ValueError, TypeError, UnicodeDecodeError, MemoryError, OverflowError):
            more = source.read(len(start)) if start[:4] == b"Obj\x01" and len(start) < _MOST_HEADER else b""
            if not more:
                raise InputError(f"{path} is not an Avro file, or its header is truncated") from None
            start += more
    if fields["magic"] != b"Obj\x01":
        raise InputError(f"{path} is not an Avro file: it does not start with the Avro magic bytes")
    try:
        schema = expand_schema(json.loads(fields["meta"]["avro.schema"]))
        codec = fields["meta"].get("avro.codec", b"null").decode()
        columns = schema["fields"]
    except (KeyError, ValueError, TypeError, SchemaParseException, UnknownType):
        raise InputError(f"{path} is not an Avro file of records: its schema is missing or broken") from None
    header = _Header(columns, codec, fields["sync"], start[: stream.tell()])
    if not header.is_fast and not _can_unpack(codec):
        raise InputError(f"{path} is compressed with {codec!r}, which cannot be read here: write it with deflate")
    return header


def _can_unpack(codec: str) -> bool:
    """Whether fastavro has the codec: for one whose library is missing it has a function that raises ValueError."""
    try:
        BLOCK_READERS[codec](io.BytesIO(b""))
    except (KeyError, ValueError):
        return False
    except Exception:  # there is nothing to unpack
        return True
    return True


def _groups(source: IO[bytes], header: _Header, path: str, start: int, stop: int) -> Iterator[bytes]:
    """Runs of whole blocks as they are stored, by row count and size, found without decoding them."""
    position = _first_block(source, header, path, start, stop)
    if position is None:
        return
    source.seek(position)
    window = source.read(min(max(stop - position, 0) + _BYTES, _READ_AT_ONCE))
    at = rows = 0
    while position + at - 16 < stop:
        frame = _frame(window, at)
        while frame is None or frame[1] > len(window):
            more = _read(source, frame[1] - len(window) if frame else _BYTES)
            if not more:
                break
            window += more
            frame = _frame(window, at)
        if frame is None and at == len(window):
            break
        if frame is None or frame[0] < 0 or window[frame[1] - 16 : frame[1]] != header.sync:
            raise _damaged(path)
        rows += frame[0]
        at = frame[1]
        if rows >= _ROWS or at >= _BYTES:
            yield window[:at]
            position, window = position + at, window[at:]
            at = rows = 0
    if at:
        yield window[:at]


def _first_block(source: IO[bytes], header: _Header, path: str, start: int, stop: int) -> int | None:
    """Where the first block begins whose sync marker starts in [start, stop); None if there is none.

    Data may hold the bytes of the marker by chance, so what follows one must be a whole block; if it is not, the
    blocks are walked through from the start of the file, which also finds true damage.
    """
    position = len(header.raw)
    if start <= position - 16:
        return position
    source.seek(start)
    found = source.read(stop - start + 15).find(header.sync)  # a marker that starts in the range may end beyond it
    if found < 0:
        return None
    candidate = start + found + 16
    if _next_block(source, header, candidate) is not None:
        return candidate
    while position - 16 < start:
        following = _next_block(source, header, position)
        if following is None:
            raise _damaged(path)
        if following == position:
            return None
        position = following
    return position if position - 16 < stop else None


def _next_block(source: IO[bytes], header: _Header, position: int) -> int | None:
    """Where the block at `position` ends, `position` itself at the end of the file, None if it is no whole block."""
    source.seek(position)
    start = source.read(20)
    if not start:
        return position
    frame = _frame(start, 0)
    if frame is None or frame[0] < 0:
        return None
    source.seek(position + frame[1] - 16)
    return position + frame[1] if source.read(16) == header.sync else None


def _damaged(path: str) -> InputError:
    return InputError(f"{path} is truncated or damaged: a block does not end with the file's sync marker. Write or "
                      "copy it again")  # fmt: skip


def _frame(window: bytes, at: int) -> tuple[int, int] | None:
    """Row count and end of the block at `at` (perhaps behind the window), or None while its head is incomplete."""
    try:
        count, at = _long(window, at)
        size, at = _long(window, at)
    except IndexError:
        return None
    return (count, at + size + 16) if size >= 0 else (-1, at)


def _read(source: IO[bytes], size: int) -> bytes:
    """`size` bytes or what is left of the file: never more memory than the file has, whatever a broken size says."""
    parts = []
    while size > 0 and (part := source.read(min(size, 64 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _tables(frame: pl.DataFrame, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    oldest = pl.CompatLevel.oldest()
    for part in frame.iter_slices(_ROWS):
        yield {name: part[name].to_arrow(compat_level=oldest) for name in columns.names()}


def _decode_any(file: bytes, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    records = iter(fastavro.reader(io.BytesIO(file)))
    while rows := list(islice(records, _ROWS)):
        yield {name: _array([row[name] for row in rows]) for name in columns.names()}


def _array(values: list[Any]) -> pa.Array:
    values = [str(value) if isinstance(value, UUID) else value for value in values]
    if len({type(value) for value in values if value is not None}) > 1:
        # Arrow would go by the first value of a union and bend the others to it.
        values = [None if value is None else str(value) for value in values]
    return pa.array(values)


def _is_plain(kind: Any) -> bool:  # noqa: ANN401 - an Avro schema
    """Whether polars decodes the type: primitives, enums, and primitives with null."""
    if isinstance(kind, list):
        rest = [branch for branch in kind if branch != "null"]
        return len(kind) == 2 and len(rest) == 1 and _is_plain(rest[0]) and "enum" not in _branches(kind)
    if isinstance(kind, dict):
        return kind["type"] == "enum" or (kind.get("logicalType") not in _NOT_FAST and _is_plain(kind["type"]))
    return kind in _FAST_TYPES


def _branches(kind: Any) -> set[str]:  # noqa: ANN401 - an Avro schema
    """The types of a union, each by its logical name where that changes what the values are."""
    if isinstance(kind, list):
        return set().union(*(_branches(branch) for branch in kind))
    if not isinstance(kind, dict):
        return {kind}
    logical = kind.get("logicalType")
    return {logical} if logical in _NO_LABEL else _branches(kind["type"])
