"""Text files, plain or zipped: the common parts of CSV and JSON lines. A row is a line, and ends at a line feed."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from private_topk.pipelines.files import PACKINGS, FileInfo, packing_of
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.transforms.errors import InvalidArgument, verbatim

LONGEST = 16 << 20
"""The longest line that is read, in bytes with its line end; longer ones are dropped, each by itself."""

_BYTES = 4 << 20


PACKED = {
    b"\x1f\x8b": (".gz", "gzip"),
    b"\x28\xb5\x2f\xfd": (".zst", "zstd"),
    b"BZh": (".bz2", "bzip2"),
    b"\xfd7zXZ": (".xz", "xz"),
    b"PK\x03\x04": (".zip", "zip, as spreadsheets also are"),
}
"""Endings and names of what is no text, by the bytes with which it begins."""


def refuse_packed(path: str, start: bytes) -> None:
    """Raise InvalidArgument if a text file begins as something packed, which its name does not say. No row does so."""
    for magic, (ending, name) in PACKED.items():
        if start.startswith(magic):
            is_read = ending in PACKINGS and not packing_of(path)
            remedy = f"name it {path}{ending}" if is_read else "unpack it first"
            raise InvalidArgument("", verbatim(f"{path} holds {name}, and is read as text"), verbatim(remedy))


def whole_file(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """One piece a file: a zipped stream cannot be entered in the middle."""
    yield 0, file.size


def chunks(source: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """The text in chunks of a few MiB that end where a line ends, each with how many overlong lines before it were
    skipped. Memory: one chunk and one line, whatever the file.
    """
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
            yield b"".join((rest, memoryview(more)[:cut])), too_long
            rest, too_long = more[cut:], 0
        else:
            rest += more
    if rest or too_long:
        yield rest, too_long


_NUL = "private-topk-nul"
codecs.register_error(_NUL, lambda error: ("\0", cast(UnicodeDecodeError, error).end))


class _InUtf8(io.RawIOBase):
    """A text in UTF-8. Where bytes cannot be decoded it has a NUL, which no row of CSV may have."""

    def __init__(self, source: IO[bytes], codec: str) -> None:
        self._source, self._decoder = source, codecs.getincrementaldecoder(codec)(_NUL)
        self._text, self._ended = memoryview(b""), False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - anything writable
        while not self._text and not self._ended:
            more = self._source.read(_BYTES)
            self._ended = not more
            self._text = memoryview(self._decoder.decode(more, self._ended).encode())
        size = min(len(buffer), len(self._text))
        buffer[:size], self._text = self._text[:size], self._text[size:]
        return size


def in_utf8(source: IO[bytes], codec: str) -> IO[bytes]:
    """A text file in another encoding, one of `texts.encoding` with a fixed order of bytes, in UTF-8."""
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


_NULS: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}
"""Which of the first four bytes of Latin letters are 0."""


def encoding_of(start: bytes) -> str | None:
    """The encoding of two or four bytes a letter in which a text begins; None if nothing shows one."""
    for name in ("utf-32", "utf-16"):  # in this order: a mark of UTF-32 begins with one of UTF-16
        if start.startswith((*_MARKS[name],)):
            return name
    return _NULS.get(tuple(not byte for byte in start[:4]))


def lines_of(text: bytes) -> pa.Array:
    """The lines as bytes, each with its line end."""
    offsets = np.append(0, np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1)
    if offsets[-1] < len(text):
        offsets = np.append(offsets, len(text))
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def unreadable(count: int, columns: Columns) -> Rows:
    return Rows(dict.fromkeys(columns.names(), pa.nulls(count, pa.large_string())), pa.array(np.ones(count, bool)))
