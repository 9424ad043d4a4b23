"""Parquet files, split by row groups."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from private_topk.pipelines.files import FileInfo, open_content, packing_of
from private_topk.pipelines.sources.columns import Columns, Rows, Types, as_bytes
from private_topk.pipelines.sources.names import check_names
from private_topk.transforms.errors import InvalidArgument, refused, verbatim
from private_topk.transforms.labels import LONGEST_LABEL
from private_topk.transforms.types import is_text

_ROWS = 100_000
_BYTES = 64 << 20
_CODED, _WORDS = 4, 2 << 20
"""Bytes that the number of a word in a dictionary takes at most, and those of the dictionaries that writers make."""

_FEW = 256
"""Rows that are decoded at once where a few stored bytes may stand for a megabyte in every row: texts stored as what
they add to the one before, and columns that unpack to much. Cost: a tenth of a microsecond a row.
"""
_LARGEST, _TIMES = 256 << 20, 1000
"""A column of a row group may unpack to more bytes than that only if it is stored in more than a thousandth of them."""

_UNZIPPED = threading.Lock()
"""Held while a zipped file is in memory: one at a time, though many files are checked in many threads."""


def check(file: FileInfo, columns: Columns) -> Types:
    """The types of the columns. Raises InvalidArgument unless the file is whole Parquet and has them, of types that can
    be read.
    """
    with _content(file.path) as source:
        opened = _opened(source, file.path)
        schema = opened.schema_arrow
    check_names(file.path, columns, schema.names)
    for chunk in _chunks(opened, range(opened.num_row_groups), columns.names()):
        if chunk.total_uncompressed_size > max(_LARGEST, _TIMES * chunk.total_compressed_size):
            size = f"{chunk.total_uncompressed_size >> 20:,} MiB in one row group"
            rule = (
                f"{file.path}: column {chunk.path_in_schema!r} unpacks to {size}, above {_TIMES:,} times what is stored"
            )
            raise InvalidArgument("", verbatim(rule), "write it in smaller row groups")
    for role, name in columns.each():
        kind = schema.field(name).type
        called = str(kind).partition("<")[0].upper()
        columns.check(role, name, kind, file.path, called)
    return {name: schema.field(name).type for name in columns.names()}


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
    names = columns.names()
    with _content(path) as source:
        try:
            for batch in _batches(source, path, range(start, stop), columns):
                labels = columns.labels()
                yield Rows({n: _without_long(as_bytes(batch[n])) if n in labels else as_bytes(batch[n]) for n in names})
        except (pa.ArrowException, OSError, ValueError):
            which = f"one of its row groups {start} to {stop - 1}" if stop - start > 1 else f"its row group {start}"
            rule = f"{path} is damaged: {which}, counted from 0, cannot be decoded"
            raise refused(f"{rule}. Write or copy it again") from None


_DELTAS = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
"""Encodings of texts that Arrow does not read into dictionaries. A writer may turn to one within a column."""


_NO_LABEL = pa.scalar(b"\0", pa.large_binary())


def _without_long(labels: pa.Array) -> pa.Array:
    """Labels with a short one that breaks the rule of labels in place of each word of a dictionary that is too long.

    One user's word of a megabyte in 100,000 rows takes a megabyte in a dictionary, and 100 GB written out.
    """
    if not pa.types.is_dictionary(labels.type) or not pa.types.is_large_binary(labels.type.value_type):
        return labels
    too_long = pc.greater(pc.binary_length(labels.dictionary), LONGEST_LABEL)
    if not pc.any(too_long).as_py():
        return labels
    return pa.DictionaryArray.from_arrays(labels.indices, pc.if_else(too_long, _NO_LABEL, labels.dictionary))


def _batches(source: IO[bytes], path: str, groups: range, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Batches of rows whose texts take about 64 MiB at most, once labels are `_without_long` words.

    A file holds a text once, however many rows have it. So a dictionary's longest text decides how many rows are
    decoded at once.
    """
    names, labels = columns.names(), columns.labels()
    plain, coded = _opened(source, path), _opened(source, path, names)
    chunks = _chunks(plain, groups, names)
    if any({*chunk.encodings} & _DELTAS or chunk.total_uncompressed_size > _LARGEST for chunk in chunks):
        yield from _gathered(plain.iter_batches(_FEW, row_groups=groups, columns=names))
        return
    firsts = [next(coded.iter_batches(1, row_groups=[group], columns=names), None) for group in groups]
    words = [
        (name, array.dictionary)
        for first in firsts
        if first
        for name, array in zip(first.schema.names, first.columns, strict=True)
        if pa.types.is_dictionary(array.type) and is_text(array.type.value_type)
    ]
    # A column whose values are mostly written out takes more bytes: each would be looked up in vain.
    coded_bytes = [
        chunk.total_uncompressed_size - _CODED * chunk.num_values
        for chunk in chunks
        if chunk.physical_type == "BYTE_ARRAY"
    ]
    file = coded if max(coded_bytes, default=0) < _WORDS else plain
    longest = [
        min(size, LONGEST_LABEL) if name in labels and file is coded else size
        for name, each in words
        if (size := pc.max(pc.binary_length(each)).as_py())
    ]
    rows = min(_ROWS, _BYTES // max(longest, default=1)) or 1
    yield from file.iter_batches(rows, row_groups=groups, columns=names)


def _chunks(file: pq.ParquetFile, groups: range, names: list[str]) -> list[pq.ColumnChunkMetaData]:
    """The columns of these names, as each row group has them."""
    places = [place for place in range(len(file.schema)) if file.schema.column(place).path in names]
    return [file.metadata.row_group(group).column(place) for group in groups for place in places]


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
