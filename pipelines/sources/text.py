"""Text files, plain or zipped: the common parts of CSV and JSON lines. A row is a line, and ends at a line feed."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from private_topk.pipelines.files import FileInfo
from private_topk.pipelines.sources.columns import Columns, Rows

LONGEST = 16 << 20
"""The longest line that is read, in bytes with its line end; longer ones are dropped, each by itself."""

_BYTES = 4 << 20


class Chunk(NamedTuple):
    """Whole lines of a file, and how many overlong ones before them were skipped."""

    text: bytes
    too_long: int


def whole_file(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """One piece a file: a zipped stream cannot be entered in the middle."""
    yield 0, file.size


def chunks(source: IO[bytes], codec: str = "utf-8") -> Iterator[Chunk]:
    """The text in chunks of a few MiB that end where a line ends. Memory: one chunk and one line, whatever the file.

    Args:
        codec: the encoding, one of `texts.encoding` with a fixed order of bytes. Lines are found first, and each is
            decoded by itself: one that cannot be becomes a line that is not UTF-8.
    """
    end = "\n".encode(codec)
    for text, too_long in _whole_lines(source, end):
        yield Chunk(text if codec == "utf-8" else _in_utf8(text, codec, end), too_long)


class _InUtf8(io.RawIOBase):
    """A text in UTF-8. A line that cannot be decoded is one that is not UTF-8, too long or not."""

    def __init__(self, source: IO[bytes], codec: str) -> None:
        self._chunks, self._text = chunks(source, codec), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - anything writable
        while not self._text and (more := next(self._chunks, None)) is not None:
            self._text = memoryview(b"\xff\n" * more.too_long + more.text)
        size = min(len(buffer), len(self._text))
        buffer[:size], self._text = self._text[:size], self._text[size:]
        return size


def in_utf8(source: IO[bytes], codec: str) -> IO[bytes]:
    """A text file in another encoding as one in UTF-8, where rows are more than lines."""
    return io.BufferedReader(_InUtf8(source, codec))


_MARKS = {
    "utf-16": {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"},
}


def codec_of(source: IO[bytes], encoding: str) -> str | None:
    """The encoding with its order of bytes, which a mark at the start of the file says; None if there is no mark."""
    if encoding not in _MARKS:
        return encoding
    marks = _MARKS[encoding]
    mark = source.read(max(map(len, marks)))
    return marks.get(mark) if mark else next(iter(marks.values()))  # no bytes are no rows in any order


def _in_utf8(text: bytes, codec: str, end: bytes) -> bytes:
    """Whole lines in UTF-8. No letter holds a line end, so that all at once mean what each means by itself."""
    try:
        return text.decode(codec).encode()
    except UnicodeError:
        return b"".join(_line_in_utf8(line, codec, end) for line in _apart(text, end))


def _line_in_utf8(line: bytes, codec: str, end: bytes) -> bytes:
    try:
        return line.decode(codec).encode()
    except UnicodeError:
        return b"\xff\n" if line.endswith(end) else b"\xff"


def _apart(text: bytes, end: bytes) -> Iterator[bytes]:
    start = 0
    while stop := _behind_first(text, end, start):
        yield text[start:stop]
        start = stop
    yield text[start:]


def _behind_first(text: bytes, end: bytes, start: int = 0) -> int:
    """The position behind the first line end, which begins where a letter does; 0 if there is none."""
    at = text.find(end, start)
    while at > 0 and at % len(end):
        at = text.find(end, at + 1)
    return at + len(end) if at >= 0 else 0


def _behind_last(text: bytes, end: bytes) -> int:
    at = text.rfind(end)
    while at > 0 and at % len(end):
        at = text.rfind(end, 0, at + len(end) - 1)
    return at + len(end) if at >= 0 else 0


def _in_units(source: IO[bytes], width: int) -> Iterator[bytes]:
    """The content in parts of so many bytes, or a multiple of it; the last may have fewer."""
    rest = b""
    while more := source.read(_BYTES):
        more = rest + more
        cut = len(more) - len(more) % width
        more, rest = more[:cut], more[cut:]
        if more:
            yield more
    if rest:
        yield rest


def _whole_lines(source: IO[bytes], end: bytes) -> Iterator[Chunk]:
    rest, too_long, skipping = b"", 0, False
    for more in _in_units(source, len(end)):
        if skipping:
            start = _behind_first(more, end)
            skipping, more = not start, more[start:] if start else b""
        first = _behind_first(more, end)
        if len(rest) + (first or len(more)) > LONGEST:
            too_long, rest, skipping, more = too_long + 1, b"", not first, more[first:] if first else b""
        cut = _behind_last(more, end)
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
