"""The blocks of an Avro file: its header, and where the blocks of a byte range are, without decoding them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import fastavro

from private_topk.pipelines.sources.avro_codecs import CODECS, LARGEST
from private_topk.pipelines.sources.avro_schema import Branch, Recursive, Weightless, branches_of
from private_topk.transforms.refusal import Refusal, refused

__all__ = ["Header", "blocks_of", "header_of", "long_of", "runs_of_blocks"]

_HEADER = fastavro.parse_schema({
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
})  # fmt: skip
_ROWS = 100_000
_BYTES = 2 << 20
_READ_AT_ONCE = 16 << 20
_MOST_HEADER = 16 << 20


class Header(NamedTuple):
    """The head of a file.

    Args:
        fields: the types of every field, in order.
        end: where it ends and the first block begins.
    """

    schema: dict[str, Any]
    fields: dict[str, list[Branch]]
    codec: str
    sync: bytes
    end: int


def header_of(source: IO[bytes], path: str) -> Header:
    source.seek(0)
    start = source.read(1 << 16)
    while True:
        stream = io.BytesIO(start)
        try:
            fields: Any = fastavro.schemaless_reader(stream, _HEADER, None)
            break
        except (EOFError, IndexError, ValueError, TypeError, UnicodeDecodeError, MemoryError, OverflowError):
            more = source.read(len(start)) if start[:4] == b"Obj\x01" and len(start) < _MOST_HEADER else b""
            if not more:
                raise refused(f"{path} is not an Avro file, or its header is truncated") from None
            start += more
    if fields["magic"] != b"Obj\x01":
        raise refused(f"{path} is not an Avro file: it does not start with the Avro magic bytes")
    try:
        schema: Any = json.loads(fields["meta"]["avro.schema"])
        codec = fields["meta"].get("avro.codec", b"null").decode()
        branches = branches_of(schema)
    except Recursive:
        raise refused(f"{path} has records that may hold themselves, which is not safe to read: write the rows "
                         "without them") from None  # fmt: skip
    except Weightless:
        raise refused(f"{path} has an array of items that take no bytes, of which one row could hold a billion: write "
                         "the rows without it") from None  # fmt: skip
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        raise refused(f"{path} is not an Avro file of records: its schema is missing or broken") from None
    if codec not in CODECS:
        raise refused(f"{path} is compressed with {codec!r}, which cannot be read here: write it with deflate")
    return Header(schema, branches, codec, fields["sync"], stream.tell())


def runs_of_blocks(source: IO[bytes], header: Header, path: str, start: int, stop: int) -> Iterator[bytes]:
    """Runs of whole blocks as they are stored, by row count and size, found without decoding them."""
    position = _first_block(source, header, path, start, stop)
    if position is None:
        return
    source.seek(position)
    window = source.read(min(max(stop - position, 0) + _BYTES, _READ_AT_ONCE))
    begin = at = rows = 0  # of the run, and of the next block, in the window
    while position + at - 16 < stop:
        frame = _frame(window, at)
        while frame is None or frame[1] > len(window):
            if frame and frame[1] - at > LARGEST + _BYTES:
                raise refused(f"{path} has a block of more than {LARGEST >> 20} MiB, or is damaged: write smaller "
                                 "blocks, or copy it again")  # fmt: skip
            more = _read(source, max(frame[1] - len(window) if frame else 0, _BYTES))
            if not more:
                break
            window, position = window[begin:] + more, position + begin
            begin, at = 0, at - begin
            frame = _frame(window, at)
        if frame is None and at == len(window):
            break
        if frame is None or frame[0] < 0 or window[frame[1] - 16 : frame[1]] != header.sync:
            raise _damaged(path)
        rows += frame[0]
        at = frame[1]
        if rows >= _ROWS or at - begin >= _BYTES:
            yield window[begin:at]
            begin, rows = at, 0
    if at > begin:
        yield window[begin:at]


def blocks_of(run: bytes) -> Iterator[tuple[int, bytes]]:
    """The row count and the packed rows of every block of a run."""
    at = 0
    while at < len(run):
        count, at = _long(run, at)
        size, at = _long(run, at)
        yield count, run[at : at + size]
        at += size + 16


def _first_block(source: IO[bytes], header: Header, path: str, start: int, stop: int) -> int | None:
    """Where the first block begins whose sync marker starts in [start, stop); None if there is none.

    Data may hold the bytes of the marker by chance, so what follows one must be a whole block; if it is not, the
    blocks are walked through from the start of the file, which also finds true damage.
    """
    position = header.end
    if start <= position - 16:
        return position
    source.seek(start)
    found = source.read(stop - start + 15).find(header.sync)  # a marker that starts in the range may end beyond it
    if found < 0:
        return None
    candidate = start + found + 16
    if _next_block(source, header, candidate) is not None:
        return candidate
    while position - 16 < start:
        following = _next_block(source, header, position)
        if following is None:
            raise _damaged(path)
        if following == position:
            return None
        position = following
    return position if position - 16 < stop else None


def _next_block(source: IO[bytes], header: Header, position: int) -> int | None:
    """Where the block at `position` ends, `position` itself at the end of the file, None if it is no whole block."""
    source.seek(position)
    start = source.read(20)
    if not start:
        return position
    frame = _frame(start, 0)
    if frame is None or frame[0] < 0:
        return None
    source.seek(position + frame[1] - 16)
    return position + frame[1] if source.read(16) == header.sync else None


def _damaged(path: str) -> Refusal:
    return refused(f"{path} is truncated or damaged: a block does not end with the file's sync marker. Write or "
                      "copy it again")  # fmt: skip


def _frame(window: bytes, at: int) -> tuple[int, int] | None:
    """Row count and end of the block at `at` (perhaps behind the window), or None while its head is incomplete."""
    try:
        count, at = _long(window, at)
        size, at = _long(window, at)
    except IndexError:
        return None
    return (count, at + size + 16) if size >= 0 else (-1, at)


def _read(source: IO[bytes], size: int) -> bytes:
    """`size` bytes or what is left of the file: never more memory than the file has, whatever a broken size says."""
    parts = []
    while size > 0 and (part := source.read(min(size, 64 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def long_of(value: int) -> bytes:
    """A number, not negative, as Avro writes it."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
