"""CSV files with a header line, plain or gzip. Every value is read as text; an empty one is missing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, cast

import pyarrow as pa
import pyarrow.csv as pa_csv

from private_topk.pipelines.files import FileInfo, open_content
from private_topk.pipelines.sources.ahead import in_order
from private_topk.pipelines.sources.columns import SAY_WHICH, Columns, Rows
from private_topk.pipelines.sources.csv_lines import Header, header_of, null_if_empty, rows_of
from private_topk.pipelines.sources.text import Chunk, chunks, unreadable, whole_file
from private_topk.transforms.errors import refused

__all__ = ["check", "pieces", "read"]

_BYTES = 4 << 20
_OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""What other programs write between values, as European spreadsheets do."""

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> None:
    """Raise Refusal unless the header line names the columns. No row refuses a file, and neither does an empty one:
    some writers begin a file of no rows without a header.
    """
    with open_content(file.path) as source:
        next(_texts(source, file.path, columns), None)


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of the whole file, a few MiB of text at a time."""
    with open_content(path) as source:
        if columns.quoted_line_ends:
            yield from _across_lines(source, path, columns)
            return
        for parts in in_order(_texts(source, path, columns), lambda text: _decoded(*text, columns)):
            yield from parts


def _decoded(chunk: Chunk, header: Header, columns: Columns) -> list[Rows]:
    parts = [rows_of(chunk.text, header)] if chunk.text else []
    return [unreadable(chunk.too_long, columns), *parts] if chunk.too_long else parts


def _texts(source: IO[bytes], path: str, columns: Columns) -> Iterator[tuple[Chunk, Header]]:
    """What stands behind the header, whole lines at a time. Raises Refusal if the first line is no header."""
    header = None
    for text, too_long in chunks(source):
        if header is None:
            text = text.lstrip(b"\r\n")
            if not text and not too_long:
                continue
            end = text.find(b"\n") + 1 or len(text)
            header = _checked(header_of(text[:end], columns) if not too_long else None, path, columns)
            text = text[end:]
        yield Chunk(text, too_long), header
    if header is None and columns.quoted_line_ends:  # whose decoder needs a header
        _checked(None, path, columns)


def _checked(found: tuple[list[str], Header] | None, path: str, columns: Columns) -> Header:
    if found is None:
        raise refused(f"{path} is not a CSV file that can be read: it must start with a line of column names, in "
                         "UTF-8, that ends with a line feed")  # fmt: skip
    names, header = found
    for name in columns.names():
        if names.count(name) != 1:  # what stands in the first line may be data, so it is not shown
            other = next((by for sign, by in _OTHERS.items() if len(names) == 1 and sign in names[0]), None)
            remedy = f"name the columns there, or {SAY_WHICH}" if other is None else f"write commas in place of {other}"
            raise refused(f"{path}: the first line must name one column {name!r}, got {names.count(name)} of "
                             f"{len(names)}: {remedy}")  # fmt: skip
    return header


def _across_lines(source: IO[bytes], path: str, columns: Columns) -> Iterator[Rows]:
    """Rows whose quoted values may hold line ends: where a row ends then depends on every quote before it.

    A row that cannot be read refuses the file: nobody can say where the next one begins.
    """
    try:
        for batch in _open(source, path, columns):
            yield Rows({name: null_if_empty(batch[name]) for name in columns.names()})
    except pa.ArrowException as error:
        raise refused(f"{path} is not a CSV file that can be read ({type(error).__name__}): check that every "
                         "line has the columns of the header, with closed quotes") from None  # fmt: skip


def _open(source: IO[bytes], path: str, columns: Columns) -> pa_csv.CSVStreamingReader:
    names = columns.names()
    try:
        return pa_csv.open_csv(
            cast(IO[bytes], _WithoutNul(source, path)),
            pa_csv.ReadOptions(block_size=_BYTES),
            pa_csv.ParseOptions(newlines_in_values=True),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.large_binary()), include_columns=names),
        )
    except pa.ArrowException:
        raise refused(f"{path} is not a CSV file that can be read: it must start with a line of column "
                         "names") from None  # fmt: skip


class _WithoutNul(io.RawIOBase):
    """The file, refused at its first NUL byte: behind one, Arrow overlooks up to 15 bytes' commas and line ends.

    So one user's label would swallow the row of another. A line end at the end, which Arrow needs behind a header that
    stands alone, harms no other file.
    """

    def __init__(self, source: IO[bytes], path: str) -> None:
        self._source, self._path, self._ended = source, path, False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        text = self._source.read(size)
        if b"\0" in text:
            raise refused(f"{self._path} holds NUL bytes, which CSV cannot carry: write it in UTF-8, and labels "
                             "with NUL bytes as JSON lines, Parquet or Avro")  # fmt: skip
        if not text and not self._ended:
            self._ended = True
            return b"\n"
        return text
