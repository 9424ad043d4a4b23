"""Text files, plain or gzip: the common parts of CSV and JSON lines. A row is a line, and ends at a line feed."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa

from private_topk.pipelines.files import FileInfo
from private_topk.pipelines.sources.columns import Columns, Rows

__all__ = ["LONGEST", "Chunk", "chunks", "lines_of", "unreadable", "whole_file"]

LONGEST = 16 << 20
"""The longest line that is read, in bytes with its line end; longer ones are left out, each by itself."""

_BYTES = 4 << 20


class Chunk(NamedTuple):
    """Whole lines of a file, and how many overlong ones before them were skipped."""

    text: bytes
    too_long: int


def whole_file(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """One piece a file: a gzip stream cannot be entered in the middle."""
    yield 0, file.size


def chunks(source: IO[bytes]) -> Iterator[Chunk]:
    """The text in chunks of a few MiB that end where a line ends. Memory: one chunk and one line, whatever the file.

    A byte order mark is removed at the start of the file; anywhere else it is a character of a value.
    """
    at_start = True
    for text, too_long in _whole_lines(source):
        yield Chunk(text.removeprefix(codecs.BOM_UTF8) if at_start and not too_long else text, too_long)
        at_start = False


def _whole_lines(source: IO[bytes]) -> Iterator[Chunk]:
    rest, too_long, skipping = b"", 0, False
    while more := source.read(_BYTES):
        if skipping:
            start = more.find(b"\n") + 1
            skipping, more = not start, more[start:] if start else b""
        first = more.find(b"\n") + 1
        if len(rest) + (first or len(more)) > LONGEST:
            too_long, rest, skipping, more = too_long + 1, b"", not first, more[first:] if first else b""
        cut = more.rfind(b"\n") + 1
        if cut:
            yield Chunk(b"".join((rest, memoryview(more)[:cut])), too_long)
            rest, too_long = more[cut:], 0
        else:
            rest += more
    if rest or too_long:
        yield Chunk(rest, too_long)


def lines_of(text: bytes) -> pa.Array:
    """The lines as bytes, each with its line end."""
    starts = _starts_of(text)
    offsets = pa.py_buffer(np.append(starts, len(text)))
    return pa.Array.from_buffers(pa.large_binary(), len(starts), [None, offsets, pa.py_buffer(text)])


def unreadable(count: int, columns: Columns) -> Rows:
    """Rows that are all unreadable."""
    return Rows(dict.fromkeys(columns.names(), pa.nulls(count, pa.large_string())), pa.array(np.ones(count, bool)))


def _starts_of(text: bytes) -> np.ndarray:
    """The positions at which the lines of a text begin."""
    behind = np.flatnonzero(np.frombuffer(text, np.uint8) == 10) + 1
    starts = np.append(0, behind) if text else behind
    return starts[:-1] if len(starts) and starts[-1] == len(text) else starts
