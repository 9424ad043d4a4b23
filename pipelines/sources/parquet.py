"""Parquet files, split by row groups."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo, is_gzip, open_content
from private_topk.pipelines.sources.columns import Columns, Rows, check_types

__all__ = ["check", "pieces", "read"]

_ROWS = 100_000
_BYTES = 64 << 20
_LARGEST_ZIPPED = 1 << 30


def check(file: FileInfo, columns: Columns) -> None:
    """Raise InputError unless the file is whole Parquet and has the columns, of types that can be read."""
    with open_content(file.path) as source:
        schema = _open(_seekable(source, file.path), file.path).schema_arrow
    for name in columns.names():
        if schema.names.count(name) > 1:
            raise InputError(f"{file.path} has several columns {name!r}: give each a name of its own")
    check_types(file.path, dict(zip(schema.names, schema.types, strict=True)), columns)


def pieces(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of row groups of about `size` stored bytes; a zipped file is one, since each would unzip all of it."""
    with open_content(file.path) as source:
        metadata = _open(_seekable(source, file.path), file.path).metadata
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
    with open_content(path) as content:
        source = _seekable(content, path)
        file = _open(source, path)
        try:
            size = _batch_size(file, source, range(start, stop), columns)
            for batch in file.iter_batches(size, row_groups=range(start, stop), columns=columns.names()):
                yield Rows({name: _without_promise(batch[name]) for name in columns.names()})
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path} is damaged: its row groups {start} to {stop} cannot be decoded "
                             f"({type(error).__name__}). Write or copy it again") from None  # fmt: skip


def _without_promise(values: pa.Array) -> pa.Array:
    """Texts as bytes: Arrow takes any bytes for text, and what is no UTF-8 is one row's matter, not the file's."""
    kind = values.type
    if pa.types.is_dictionary(kind) and _holds_text(kind):
        words = values.dictionary.cast(pa.large_binary())
        return pa.DictionaryArray.from_arrays(values.indices, words)
    if _is_text(kind):
        return values.cast(pa.large_binary())
    values.validate(full=True)
    return values


def _holds_text(kind: pa.DataType) -> bool:
    return _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _batch_size(file: pq.ParquetFile, source: IO[bytes], groups: range, columns: Columns) -> int:
    """How many rows to decode at a time, so that even the longest label in every row of them is no burden.

    A dictionary holds a label once, however many rows have it: a user with a label of a megabyte in 100,000 rows would
    otherwise take 100 GB. Cost: every dictionary is decoded twice, a few milliseconds a row group.
    """
    texts = [name for name in columns.names() if _holds_text(file.schema_arrow.field(name).type)]
    with_dictionaries = pq.ParquetFile(source, metadata=file.metadata, read_dictionary=texts)
    longest = 1
    for group in groups:
        facts = file.metadata.row_group(group)  # not its columns: broken facts about those end the process
        longest = max(longest, facts.total_byte_size // max(facts.num_rows, 1))
        for name in texts if facts.num_rows else []:
            for first in with_dictionaries.iter_batches(1, row_groups=[group], columns=[name]):
                words = first[name].dictionary if pa.types.is_dictionary(first[name].type) else None
                longest = max(longest, 0 if words is None else pc.max(pc.binary_length(words)).as_py() or 0)
                break
    return max(1, min(_ROWS, _BYTES // longest))


def _seekable(content: IO[bytes], path: str) -> IO[bytes]:
    """The file; unzipped in memory, since its footer comes last and a gzip stream has no way back from there."""
    if not is_gzip(path):
        return content
    unzipped = content.read(_LARGEST_ZIPPED + 1)
    if len(unzipped) > _LARGEST_ZIPPED:
        raise InputError(f"{path} unzips to more than {_LARGEST_ZIPPED >> 20} MiB: unzip it, Parquet compresses its "
                         "own pages")  # fmt: skip
    return io.BytesIO(unzipped)


def _open(source: IO[bytes], path: str) -> pq.ParquetFile:
    try:
        # Old timestamps of 96 bits count nanoseconds, and would wrap around in the year 2262.
        return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last for a broken column name
        raise InputError(f"{path} is not a Parquet file, or it is truncated: write or copy it again") from None
