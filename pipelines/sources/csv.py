"""CSV files with a header line, plain or gzip. Every value is read as text; an empty one is missing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, cast

import pyarrow as pa
import pyarrow.csv as pa_csv

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo, open_content
from private_topk.pipelines.sources.columns import SAY_WHICH, Columns
from private_topk.pipelines.sources.text import whole_file

__all__ = ["check", "pieces", "read"]

_BYTES = 4 << 20

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> None:
    """Raise InputError unless the header line names the columns."""
    with open_content(file.path) as source:
        found = _open(source, file.path, None).schema.names
    for name in columns.names():
        if found.count(name) != 1:  # what stands in the first line may be data, so it is not shown
            raise InputError(f"{file.path}: the first line must name one column {name!r}, got {found.count(name)} of "
                             f"{len(found)}: name the columns there, or {SAY_WHICH}")  # fmt: skip


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    """The columns of the whole file, a few MiB of text at a time."""
    with open_content(path) as source:
        try:
            for batch in _open(source, path, columns):
                yield {name: batch[name] for name in columns.names()}
        except pa.ArrowException as error:
            raise InputError(f"{path} is not a CSV file that can be read ({type(error).__name__}): check that every "
                             "line has the columns of the header, in UTF-8, with closed quotes") from None  # fmt: skip


def _open(source: IO[bytes], path: str, columns: Columns | None) -> pa_csv.CSVStreamingReader:
    names = columns.names() if columns else []
    convert = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=names or None,
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        null_values=[""],
    )
    try:
        return pa_csv.open_csv(
            cast(IO[bytes], _WithoutNul(_with_a_line(source), path)),
            pa_csv.ReadOptions(block_size=_BYTES),
            pa_csv.ParseOptions(newlines_in_values=True),
            convert,
        )
    except pa.ArrowException:
        raise InputError(f"{path} is not a CSV file that can be read: it must start with a line of column names, and "
                         "have as many values in every line, in UTF-8") from None  # fmt: skip


class _WithoutNul(io.RawIOBase):
    """The file, refused at its first NUL byte: behind one, Arrow overlooks up to 15 bytes' commas and line ends.

    So one user's label would swallow the row of another.
    """

    def __init__(self, source: IO[bytes], path: str) -> None:
        self._source, self._path = source, path

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        text = self._source.read(size)
        if b"\0" in text:
            raise InputError(f"{self._path} holds NUL bytes, which CSV cannot carry: write it in UTF-8, and labels "
                             "with NUL bytes as JSON lines, Parquet or Avro")  # fmt: skip
        return text


def _with_a_line(source: IO[bytes]) -> IO[bytes]:
    """The file, with a line end behind a header that stands alone: without one, Arrow takes it for an empty file."""
    start = source.read(_BYTES)
    if len(start) < _BYTES and start.strip() and b"\n" not in start:
        return io.BytesIO(start + b"\n")
    source.seek(0)
    return source
