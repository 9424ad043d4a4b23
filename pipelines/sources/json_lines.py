"""JSON lines, plain or gzip: one object a line. A line that cannot be read is left out by itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.files import FileInfo, open_content
from private_topk.pipelines.sources.ahead import in_order
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.pipelines.sources.json_rows import decode
from private_topk.pipelines.sources.text import Chunk, chunks, lines_of, unreadable, whole_file

__all__ = ["check", "pieces", "read"]

_ROWS = 100_000

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> None:
    """Raise Refusal unless the file can be opened and unzipped. No row refuses a file."""
    with open_content(file.path) as source:
        source.read(1)


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of the whole file, up to about 100,000 at a time."""
    with open_content(path) as source:
        for parts in in_order(chunks(source), lambda chunk: _decoded(chunk, columns)):
            yield from parts


def _decoded(chunk: Chunk, columns: Columns) -> list[Rows]:
    lines = _without_blank(lines_of(chunk.text))
    parts = [decode(lines.slice(at, _ROWS), columns) for at in range(0, len(lines), _ROWS)]
    return [unreadable(chunk.too_long, columns), *parts] if chunk.too_long else parts


def _without_blank(lines: pa.Array) -> pa.Array:
    """The lines that hold anything but the white space of JSON."""
    others = np.flatnonzero(~pc.starts_with(lines, b"{").to_numpy(zero_copy_only=False))
    blank = [place for place in others.tolist() if not lines[place].as_py().strip(b" \t\r\n")]
    if not blank:
        return lines
    kept = np.ones(len(lines), bool)
    kept[blank] = False
    return lines.filter(pa.array(kept))
