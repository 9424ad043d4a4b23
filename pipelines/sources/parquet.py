"""Parquet files, split by row groups."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo, is_gzip, open_content
from private_topk.pipelines.sources.columns import Columns, check_types

__all__ = ["check", "pieces", "read"]

_ROWS = 100_000


def check(file: FileInfo, columns: Columns) -> None:
    """Raise InputError unless the file is whole Parquet and has the columns, of types that can be read."""
    with open_content(file.path) as source:
        schema = _open(source, file.path).schema_arrow
    for name in columns.names():
        if schema.names.count(name) > 1:
            raise InputError(f"{file.path} has several columns {name!r}: give each a name of its own")
    check_types(file.path, dict(zip(schema.names, schema.types, strict=True)), columns)


def pieces(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of row groups of about `size` stored bytes."""
    with open_content(file.path) as source:
        metadata = _open(source, file.path).metadata
    start = stored = 0
    for group in range(metadata.num_row_groups):
        stored += metadata.row_group(group).total_byte_size
        if stored >= size:
            yield start, group + 1
            start, stored = group + 1, 0
    if start < metadata.num_row_groups:
        yield start, metadata.num_row_groups


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    """The columns of a range of row groups, about 100,000 rows at a time."""
    with open_content(path) as source:
        file = _open(source, path)
        try:
            for batch in file.iter_batches(_ROWS, row_groups=range(start, stop), columns=columns.names()):
                batch.validate(full=True)  # Arrow itself takes any bytes for text
                yield {name: batch[name] for name in columns.names()}
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is damaged: its row groups {start} to {stop} cannot be decoded "
                             f"({type(error).__name__}). Write or copy it again") from None  # fmt: skip


def _open(source: IO[bytes], path: str) -> pq.ParquetFile:
    if is_gzip(path):  # the footer comes last, and a gzip stream has no way back from there
        source = io.BytesIO(source.read())
    try:
        return pq.ParquetFile(source)
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last for a broken column name
        raise InputError(f"{path} is not a Parquet file, or it is truncated: write or copy it again") from None
