"""Avro object container files. One large file is split at its sync markers and read by several workers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import fastavro
import polars as pl
import pyarrow as pa

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo, open_file
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
_FAST_CODECS = {"null", "deflate", "snappy"}
_FAST_TYPES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"}
_ROWS = 100_000
_BYTES = 2 << 20
_MOST_HEADER = 16 << 20


class _Header(NamedTuple):
    schema: dict[str, Any]
    codec: str
    sync: bytes
    raw: bytes


def check(file: FileInfo, columns: Columns) -> None:
    """Raise InputError unless the file is whole Avro and has the columns, of types that can be read."""
    with open_file(file.path) as source:
        header = _header(source, file.path)
        source.seek(max(file.size - 16, 0))
        if source.read(16) != header.sync:
            raise InputError(f"{file.path} is truncated: its last block is not complete. Write or copy it again")
    fields = {field["name"]: field["type"] for field in header.schema.get("fields", [])}
    for name in columns.names():
        if name not in fields:
            raise InputError(f"{file.path} has no column {name!r}: its columns are {', '.join(sorted(fields))}")
        allowed = _TIME_TYPES if name == columns.time else _LABEL_TYPES
        found = _branches(fields[name])
        if not found <= allowed | {"null"}:
            raise InputError(f"{file.path}: column {name!r} must be one of {', '.join(sorted(allowed))}, "
                             f"got {', '.join(sorted(found - allowed))}")  # fmt: skip


def pieces(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """Byte ranges of about `size`; a block belongs to the range in which the sync marker before it starts."""
    for start in range(0, max(file.size, 1), size):
        yield start, min(start + size, file.size)


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    """The columns of the blocks of one byte range, about 100,000 rows at a time."""
    with open_file(path) as source:
        header = _header(source, path)
        decode = _decode_fast if _is_fast(header) else _decode_any
        for blocks in _groups(source, header, path, start, stop):
            try:
                yield from decode(header.raw + blocks, columns)
            except (pl.exceptions.PolarsError, ValueError, EOFError, IndexError) as error:
                raise InputError(f"{path} is damaged: a block between bytes {start} and {stop} cannot be decoded "
                                 f"({type(error).__name__}). Write or copy it again") from None  # fmt: skip


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
        schema = json.loads(fields["meta"]["avro.schema"])
    except (KeyError, ValueError):
        raise InputError(f"{path} is not an Avro file that can be read: its schema is missing or broken") from None
    codec = fields["meta"].get("avro.codec", b"null").decode()
    return _Header(schema, codec, fields["sync"], start[: stream.tell()])


def _groups(source: IO[bytes], header: _Header, path: str, start: int, stop: int) -> Iterator[bytes]:
    """Runs of whole blocks as they are stored, by row count and size, found without decoding them."""
    end = len(header.raw)
    position = end if start < end else _after_sync(source, header.sync, start, stop)
    if position is None:
        return
    source.seek(position)
    window = source.read(max(stop - position, 0) + _BYTES)
    at = first = rows = 0
    while position + at - 16 < stop:
        while (frame := _frame(window, at, header.sync)) is None:
            more = source.read(_BYTES)
            if not more:
                if at == len(window):
                    break
                raise InputError(f"{path} is truncated or damaged after byte {position + at}: write or copy it again")
            window += more
        if frame is None:
            break
        count, at = frame
        rows += count
        if rows >= _ROWS or at - first >= _BYTES:
            yield window[first:at]
            first, rows = at, 0
    if first < at:
        yield window[first:at]


def _frame(window: bytes, at: int, sync: bytes) -> tuple[int, int] | None:
    """Row count and end of the block at `at`, or None while it is not wholly in the window."""
    try:
        count, at = _long(window, at)
        size, at = _long(window, at)
    except IndexError:
        return None
    end = at + size + 16
    if size < 0 or count < 0 or (end <= len(window) and window[end - 16 : end] != sync):
        raise InputError("an Avro block does not end with the file's sync marker: the file is damaged")
    return (count, end) if end <= len(window) else None


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _after_sync(source: IO[bytes], sync: bytes, start: int, stop: int) -> int | None:
    source.seek(start)
    data = source.read(stop - start + 15)  # a marker that starts in the range may end beyond it
    found = data.find(sync)
    return None if found < 0 else start + found + 16


def _decode_fast(file: bytes, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    frame = pl.read_avro(io.BytesIO(file), columns=columns.names())
    oldest = pl.CompatLevel.oldest()
    for part in frame.iter_slices(_ROWS):
        yield {name: part[name].to_arrow(compat_level=oldest) for name in columns.names()}


def _decode_any(file: bytes, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    records = iter(fastavro.reader(io.BytesIO(file)))
    while rows := [record for record, _ in zip(records, range(_ROWS), strict=False)]:
        yield {name: _array([row[name] for row in rows]) for name in columns.names()}


def _array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a union of text and numbers
        return pa.array([None if value is None else str(value) for value in values])


def _is_fast(header: _Header) -> bool:
    return header.codec in _FAST_CODECS and all(_is_plain(f["type"]) for f in header.schema.get("fields", []))


def _is_plain(kind: Any) -> bool:  # noqa: ANN401 - a parsed Avro schema
    """Whether polars decodes the type: primitives, named or not, perhaps with null."""
    if isinstance(kind, list):
        rest = [branch for branch in kind if branch != "null"]
        return len(kind) == 2 and len(rest) == 1 and _is_plain(rest[0])
    if isinstance(kind, dict):
        return kind.get("logicalType") not in ("decimal", "duration") and _is_plain(kind["type"])
    return kind in _FAST_TYPES


def _branches(kind: Any) -> set[str]:  # noqa: ANN401 - a parsed Avro schema
    if isinstance(kind, list):
        return set().union(*(_branches(branch) for branch in kind))
    return _branches(kind["type"]) if isinstance(kind, dict) else {kind}
