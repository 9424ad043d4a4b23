"""Avro object container files. One large file is split at its sync markers and read by several workers."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any
from uuid import UUID

import fastavro
import polars as pl
import pyarrow as pa

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo, is_gzip, open_content
from private_topk.pipelines.sources.avro_blocks import Header, header_of, runs_of_blocks
from private_topk.pipelines.sources.columns import SAY_WHICH, Columns

__all__ = ["check", "pieces", "read"]

Tables = list[dict[str, pa.Array]]

_LABEL_TYPES = {"string", "int", "long", "enum"}
_TIME_TYPES = {"string", "int", "long", "float", "double"}
_TIME_LOGICAL = {f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")}
_NO_LABEL = _TIME_LOGICAL | {"date", "time-millis", "time-micros", "decimal", "duration"}
_ROWS = 100_000
_DECODERS = 2
_WHOLE = 1 << 62


def check(file: FileInfo, columns: Columns) -> None:
    """Raise InputError unless the file is whole Avro and has the columns, of types that can be read."""
    with open_content(file.path) as source:
        header = header_of(source, file.path)
        if not is_gzip(file.path):
            source.seek(max(file.size - 16, 0))
            if source.read(16) != header.sync:
                raise InputError(f"{file.path} is truncated: its last block is not complete. Write or copy it again")
    fields = {field["name"]: field["type"] for field in header.fields}
    for name in columns.names():
        if name not in fields:
            raise InputError(f"{file.path} has no column {name!r}: its columns are {', '.join(sorted(fields))}; "
                             f"{SAY_WHICH}")  # fmt: skip
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
        header = header_of(source, path)
        nanos = {field["name"] for field in header.fields if any("nanos" in kind for kind in _branches(field["type"]))}
        runs = runs_of_blocks(source, header, path, start, stop)
        for tables in _in_order(runs, lambda blocks: list(_decode(header, blocks, columns, path))):
            for table in tables:
                if columns.time is not None and columns.time in nanos and pa.types.is_integer(table[columns.time].type):
                    table[columns.time] = table[columns.time].cast(pa.timestamp("ns"))
                yield table


def _in_order(runs: Iterator[bytes], decode: Callable[[bytes], Tables]) -> Iterator[Tables]:
    """Every run decoded, by threads that work side by side: decoding is the largest cost of a report."""
    with ThreadPoolExecutor(_DECODERS) as pool:
        ahead: deque[Future[Tables]] = deque()
        for blocks in runs:
            ahead.append(pool.submit(decode, blocks))
            if len(ahead) > _DECODERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _decode(header: Header, blocks: bytes, columns: Columns, path: str) -> Iterator[dict[str, pa.Array]]:
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


def _tables(frame: pl.DataFrame, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    oldest = pl.CompatLevel.oldest()
    # A run is a little over 100,000 rows: cut off, its rest would be a block of next to nothing.
    for part in frame.iter_slices(_ROWS if len(frame) > 2 * _ROWS else max(len(frame), 1)):
        yield {name: part[name].to_arrow(compat_level=oldest) for name in columns.names()}


def _decode_any(file: bytes, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    records: Iterator[Any] = iter(fastavro.reader(io.BytesIO(file)))
    while rows := list(islice(records, _ROWS)):
        yield {name: _array([row[name] for row in rows]) for name in columns.names()}


def _array(values: list[Any]) -> pa.Array:
    values = [str(value) if isinstance(value, UUID) else value for value in values]
    if len({type(value) for value in values if value is not None}) > 1:
        # Arrow would go by the first value of a union and bend the others to it.
        values = [None if value is None else str(value) for value in values]
    return pa.array(values)


def _branches(kind: Any) -> set[str]:  # noqa: ANN401 - an Avro schema
    """The types of a union, each by its logical name where that changes what the values are."""
    if isinstance(kind, list):
        return set().union(*(_branches(branch) for branch in kind))
    if not isinstance(kind, dict):
        return {kind}
    logical = kind.get("logicalType")
    return {logical} if logical in _NO_LABEL else _branches(kind["type"])
