"""JSON lines, plain or gzip: one object a line. A line that cannot be read is left out by itself."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.files import FileInfo, open_content
from private_topk.pipelines.sources.ahead import in_order
from private_topk.pipelines.sources.columns import SAY_WHICH, Columns, Rows
from private_topk.pipelines.sources.json_rows import decode, row_of
from private_topk.pipelines.sources.text import Chunk, chunks, lines_of, unreadable, whole_file
from private_topk.transforms.refusal import refused

__all__ = ["check", "check_rows", "pieces", "read"]

_ROWS = 100_000
_LOOKED_AT = 1000

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> None:
    """Raise Refusal unless the file can be opened and unzipped. No row refuses a file."""
    with open_content(file.path) as source:
        source.read(1)


def check_rows(files: Sequence[FileInfo], columns: Columns) -> None:
    """Raise Refusal if the files have rows, and no first line of any of them is one that can be read.

    For the launch: a wrong column name is then said. Not for files that arrive, where one user's row must stop nothing.
    """
    looked_at = None
    for file in files:
        lines = list(islice(_first_lines(file.path), _LOOKED_AT))
        rows = [row for row in (row_of(line, columns) for line in lines) if row is not None]
        if any(None not in row for row in rows):
            return
        looked_at = looked_at or (file.path, rows) if lines else looked_at
    if looked_at is None:
        return
    path, rows = looked_at
    for place, name in enumerate(columns.names()):
        if rows and all(row[place] is None for row in rows):  # the keys it has may be data, so they are not shown
            raise refused(f"{path}: none of the first lines has {name!r}: {SAY_WHICH}")
    raise refused(f"{path} is not a JSON lines file that can be read: every line must be one JSON object, with "
                     "strings or integers for users and items")  # fmt: skip


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of the whole file, up to about 100,000 at a time."""
    with open_content(path) as source:
        for parts in in_order(_without_mark(chunks(source)), lambda chunk: _decoded(chunk, columns)):
            yield from parts


def _decoded(chunk: Chunk, columns: Columns) -> list[Rows]:
    lines = _without_blank(lines_of(chunk.text))
    parts = [decode(lines.slice(at, _ROWS), columns) for at in range(0, len(lines), _ROWS)]
    return [unreadable(chunk.too_long, columns), *parts] if chunk.too_long else parts


def _without_mark(parts: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks without the byte order mark at the start of the file."""
    for number, (text, too_long) in enumerate(parts):
        yield Chunk(text if number or too_long else text.removeprefix(codecs.BOM_UTF8), too_long)


def _first_lines(path: str) -> Iterator[bytes]:
    with open_content(path) as source:
        for text, _ in _without_mark(chunks(source)):
            yield from _without_blank(lines_of(text).slice(0, _LOOKED_AT)).to_pylist()


def _without_blank(lines: pa.Array) -> pa.Array:
    """The lines that hold anything but the white space of JSON."""
    others = np.flatnonzero(~pc.starts_with(lines, b"{").to_numpy(zero_copy_only=False))
    blank = [place for place in others.tolist() if not lines[place].as_py().strip(b" \t\r\n")]
    if not blank:
        return lines
    kept = np.ones(len(lines), bool)
    kept[blank] = False
    return lines.filter(pa.array(kept))
