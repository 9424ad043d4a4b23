"""Parquet files, split by row groups."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from private_topk.pipelines.files import FileInfo, open_content, packing_of
from private_topk.pipelines.sources.columns import Columns, Rows, as_bytes, check_types, is_int64
from private_topk.pipelines.sources.names import check_names
from private_topk.transforms.errors import refused
from private_topk.transforms.types import is_text, type_name

_ROWS = 100_000
_BYTES = 64 << 20
_ROWS_OF_DELTAS = 256
"""Rows that are decoded at once where a text is stored as what it adds to the one before: a few bytes may stand for a
megabyte there, in every row. Cost: a tenth of a microsecond a row.
"""
_UNZIPPED = threading.Lock()
"""Held while a zipped file is in memory: one at a time, though many files are checked in many threads."""


def check(file: FileInfo, columns: Columns) -> bool:
    """Raise InvalidArgument unless the file is whole Parquet and has the columns, of types that can be read. Returns
    whether its items are integers.
    """
    with _content(file.path) as source:
        opened = _opened(source, file.path)
        schema = opened.schema_arrow
        for name in columns.names():
            if schema.names.count(name) > 1:
                raise refused(f"{file.path} has several columns {name!r}: give each a name of its own")
        called = {name: _called(opened, name) for name in columns.names() if name in schema.names}
    check_names(file.path, columns, schema.names)
    check_types(file.path, dict(zip(schema.names, schema.types, strict=True)), columns, called)
    return columns.integers(lambda name: is_int64(schema.field(name).type))


def _called(file: pq.ParquetFile, name: str) -> str:
    """The type of a column in Parquet's own words, such as DECIMAL(10, 2)."""
    kind = file.schema_arrow.field(name).type
    leaves = [file.schema.column(place) for place in range(len(file.schema))]
    leaf = next((leaf for leaf in leaves if leaf.path == name), None)
    if leaf is None or pa.types.is_nested(kind) or pa.types.is_duration(kind):  # the last is known to Arrow alone
        return type_name(kind).upper()
    if leaf.logical_type.type == "NONE":
        return leaf.physical_type + (f"({leaf.length})" if leaf.length > 0 else "")
    return leaf.logical_type.type + (f"({leaf.precision}, {leaf.scale})" if pa.types.is_decimal(kind) else "")


def pieces(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of row groups of about `size` stored bytes; a zipped file is one, since each would unzip all of it."""
    with _content(file.path) as source:
        metadata = _opened(source, file.path).metadata
    start = stored = 0
    for group in range(metadata.num_row_groups):
        stored += metadata.row_group(group).total_byte_size
        if stored >= size and not packing_of(file.path):
            yield start, group + 1
            start, stored = group + 1, 0
    if start < metadata.num_row_groups:
        yield start, metadata.num_row_groups


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of a range of row groups, about 100,000 at a time; fewer where labels are long."""
    names, groups = columns.names(), range(start, stop)
    with _content(path) as source:
        file = _opened(source, path)
        try:
            encodings = _encodings(file.metadata, groups, names)
            in_deltas = any(each & _DELTAS for each in encodings.values())
            dictionaries = [name for name, each in encodings.items() if each & _DICTIONARIES and not each & _DELTAS]
            if dictionaries:
                in_dictionaries = _opened(source, path, dictionaries)
                file = in_dictionaries if _has_long_texts(in_dictionaries, groups, dictionaries) else file
            batches = file.iter_batches(_ROWS_OF_DELTAS if in_deltas else _ROWS, row_groups=groups, columns=names)
            for batch in _gathered(batches) if in_deltas else batches:
                for part in _parts(batch):
                    yield Rows({name: as_bytes(part[name]) for name in names})
        except (pa.ArrowException, OSError, ValueError) as error:
            raise refused(
                f"{path} is damaged: its row groups {start} to {stop} cannot be decoded "
                f"({type(error).__name__}). Write or copy it again"
            ) from None


_DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
_DELTAS = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
"""Encodings of texts that Arrow does not read into dictionaries. A writer may turn to one within a column."""


def _encodings(metadata: pq.FileMetaData, groups: range, names: list[str]) -> dict[str, set[str]]:
    """How each column is stored in some row groups."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for group in map(metadata.row_group, groups):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema in found:
                found[column.path_in_schema].update(column.encodings)
    return found


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches together, up to about 100,000 rows or 64 MiB."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _has_long_texts(file: pq.ParquetFile, groups: range, names: list[str]) -> bool:
    """Whether a dictionary holds a text that would take too much memory if it were in every row.

    A dictionary holds a text once, however many rows have it: one user's label of a megabyte in 100,000 rows takes a
    megabyte there, and 100 GB written out. Texts stay in dictionaries then, which is slower where the file has none.
    Cost: every dictionary is decoded twice, some milliseconds a row group.
    """
    for group in groups:
        for name in names:
            first = next(file.iter_batches(1, row_groups=[group], columns=[name]), None)
            if first is not None and _is_dictionary(first[name]):
                longest = pc.max(pc.binary_length(first[name].dictionary)).as_py()
                if (longest or 0) > _BYTES // _ROWS:
                    return True
    return False


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch, cut so that the texts of its dictionaries, written out for every row, take about 64 MiB in each part."""
    sizes = np.zeros(len(batch), np.int64)
    for column in filter(_is_dictionary, batch.columns):
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        sizes += lengths.fill_null(0).to_numpy(zero_copy_only=False)
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _BYTES)) + 1
    for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(batch)], strict=True):
        yield batch.slice(start, stop - start)


def _is_dictionary(column: pa.Array) -> bool:
    return pa.types.is_dictionary(column.type) and is_text(column.type.value_type)


@contextmanager
def _content(path: str) -> Iterator[IO[bytes]]:
    """The file; unzipped in memory, since its footer comes last and a zipped stream has no way back from there."""
    with _UNZIPPED if packing_of(path) else nullcontext(), open_content(path) as content:
        yield io.BytesIO(content.read()) if packing_of(path) else content


def _opened(source: IO[bytes], path: str, dictionaries: list[str] | None = None) -> pq.ParquetFile:
    try:
        # Old timestamps of 96 bits would wrap around in the year 2262 if they were read in nanoseconds, and in the year
        # 294247 in microseconds. Windows begin and end with a whole millisecond.
        return pq.ParquetFile(source, read_dictionary=dictionaries, coerce_int96_timestamp_unit="ms")
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last for a broken column name
        raise refused(f"{path} is not a Parquet file, or it is truncated: write or copy it again") from None
