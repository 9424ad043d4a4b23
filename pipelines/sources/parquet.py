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

from private_topk.pipelines.files import FileInfo, is_gzip, open_content
from private_topk.pipelines.sources.columns import Columns, Rows, as_bytes, check_types, is_text
from private_topk.pipelines.sources.parquet_facts import Group, Lengths, check_pages, check_rows, groups_of, not_parquet
from private_topk.transforms.refusal import refused

__all__ = ["check", "pieces", "read"]

_ROWS = 100_000
_BYTES = 64 << 20
_LARGEST_ZIPPED = 1 << 30
_UNZIPPED = threading.Lock()
"""Whoever has a zipped file in memory; a look at many files has many threads."""


def check(file: FileInfo, columns: Columns) -> None:
    """Raise Refusal unless the file is whole Parquet and has the columns, of types that can be read."""
    with _content(file.path) as source:
        groups, found = _open(source, file.path)
        schema = found.schema_arrow
    check_rows(groups, file.size, file.path)
    for name in columns.names():
        if schema.names.count(name) > 1:
            raise refused(f"{file.path} has several columns {name!r}: give each a name of its own")
    check_types(file.path, dict(zip(schema.names, schema.types, strict=True)), columns)


def pieces(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of row groups of about `size` stored bytes; a zipped file is one, since each would unzip all of it."""
    with _content(file.path) as source:
        metadata = _open(source, file.path)[1].metadata
    start = stored = 0
    for group in range(metadata.num_row_groups):
        stored += metadata.row_group(group).total_byte_size
        if stored >= size and not is_gzip(file.path):
            yield start, group + 1
            start, stored = group + 1, 0
    if start < metadata.num_row_groups:
        yield start, metadata.num_row_groups


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of a range of row groups, about 100,000 at a time; fewer where labels are long."""
    names = columns.names()
    with _content(path) as source:
        groups, file = _open(source, path)
        lengths = check_pages(source, path, groups[start:stop], names)
        try:
            size = _batch_size(file, source, start, lengths)
            batches = file.iter_batches(size, row_groups=range(start, stop), columns=names)
            for batch in _gathered(batches) if size < _ROWS else batches:
                yield Rows({name: _checked(batch[name]) for name in names})
        except (pa.ArrowException, OSError, ValueError) as error:
            raise refused(f"{path} is damaged: its row groups {start} to {stop} cannot be decoded "
                             f"({type(error).__name__}). Write or copy it again") from None  # fmt: skip


def _checked(values: pa.Array) -> pa.Array:
    """Texts as bytes, and of others that they are what they claim to be."""
    found = as_bytes(values)
    if found is values:
        values.validate(full=True)
    return found


def _holds_text(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _batch_size(file: pq.ParquetFile, source: IO[bytes], start: int, lengths: Lengths) -> int:
    """How many rows to decode at a time, so that even the longest label in every row of them is no burden.

    A dictionary holds a label once, however many rows have it: a user with a label of a megabyte in 100,000 rows would
    otherwise take 100 GB. Cost: every dictionary is decoded twice, a few milliseconds a row group.
    """
    found = [(group, name) for group, name in lengths.dictionaries if _holds_text(file.schema_arrow.field(name).type)]
    texts = sorted({name for _, name in found})
    with_dictionaries = pq.ParquetFile(source, metadata=file.metadata, read_dictionary=texts)
    longest = lengths.longest
    for group, name in found:
        for first in with_dictionaries.iter_batches(1, row_groups=[start + group], columns=[name]):
            words = first[name].dictionary if pa.types.is_dictionary(first[name].type) else None
            longest = max(longest, 0 if words is None else pc.max(pc.binary_length(words)).as_py() or 0)
            break
    return max(1, min(_ROWS, _BYTES // longest))


@contextmanager
def _content(path: str) -> Iterator[IO[bytes]]:
    """The file; unzipped in memory, since its footer comes last and a gzip stream has no way back from there."""
    with _UNZIPPED if is_gzip(path) else nullcontext(), open_content(path) as content:
        if not is_gzip(path):
            yield content
            return
        unzipped = content.read(_LARGEST_ZIPPED + 1)
        if len(unzipped) > _LARGEST_ZIPPED:
            raise refused(f"{path} unzips to more than {_LARGEST_ZIPPED >> 20} MiB: unzip it, Parquet compresses "
                             "its own pages")  # fmt: skip
        yield io.BytesIO(unzipped)


def _open(source: IO[bytes], path: str) -> tuple[tuple[Group, ...], pq.ParquetFile]:
    groups = groups_of(source, path)
    try:
        # Old timestamps of 96 bits count nanoseconds, and would wrap around in the year 2262.
        return groups, pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last for a broken column name
        raise not_parquet(path) from None


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches that had to be small, joined to the usual size, as far as their labels are as short as usual."""
    some: list[pa.RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(map(len, some)) >= _ROWS or sum(map(_spelt_out, some)) >= _BYTES:
            yield pa.concat_batches(some)
            some = []
    if some:
        yield pa.concat_batches(some)


def _spelt_out(batch: pa.RecordBatch) -> int:
    """Bytes of a batch with every label written where it stands: a dictionary counts as often as rows refer to it."""
    size = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
            size += pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
        else:
            size += column.nbytes
    return size
