"""The blocks of an Avro file, found one behind the other from its start, each by the head of the one before it.

Nothing ever looks for the file's sync marker: what users write may hold it, and a whole block of their own behind it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import fastavro

from private_topk.pipelines.sources.avro_codecs import CODECS, LARGEST
from private_topk.pipelines.sources.avro_schema import Branch, Recursive, Weightless, branches_of
from private_topk.transforms.errors import Refusal, refused

__all__ = ["END", "Block", "Header", "ends_of_blocks", "header_of", "long_of", "runs_of_blocks"]

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
_MOST_HEADER = 16 << 20
_MARKER = 16

END = 1 << 62
"""Where a zipped file ends, which nobody knows before."""


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


class Block(NamedTuple):
    """A block as it is stored."""

    rows: int
    packed: bytes


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


def ends_of_blocks(source: IO[bytes], header: Header, path: str, size: int) -> Iterator[int]:
    """Where each block of a file of `size` bytes ends: a seek and a short read a block, and nothing is decoded."""
    source.seek(header.end)
    while (head := _head(source, path, size)) is not None:
        _, stored = head
        source.seek(stored, os.SEEK_CUR)
        _check_marker(source, header, path)
        yield source.tell()


def runs_of_blocks(source: IO[bytes], header: Header, path: str, start: int, stop: int) -> Iterator[list[Block]]:
    """The blocks from `start` to `stop`, in runs by row count and size.

    Each is where a block ends, or 0 and the end of the file. Raises Refusal where none ends there any more.
    """
    if start:
        source.seek(start - _MARKER)
        _check_marker(source, header, path)
    else:
        source.seek(header.end)
    run: list[Block] = []
    rows = size = 0
    while (head := _head(source, path, stop)) is not None:
        count, stored = head
        run.append(Block(count, source.read(stored)))
        _check_marker(source, header, path)
        rows, size = rows + count, size + stored + _MARKER
        if rows >= _ROWS or size >= _BYTES:
            yield run
            run, rows, size = [], 0, 0
    if run:
        yield run


def _head(source: IO[bytes], path: str, stop: int) -> tuple[int, int] | None:
    """Row count and stored bytes of the block that begins here; None at the end."""
    if source.tell() == stop:
        return None
    first = source.read(1)
    if not first and stop == END:
        return None
    count = _long(source, first, path)
    size = _long(source, source.read(1), path)
    if size > LARGEST + _BYTES:
        raise refused(f"{path} has a block of more than {LARGEST >> 20} MiB, or is damaged: write smaller "
                         "blocks, or copy it again")  # fmt: skip
    if count < 0 or size < 0 or source.tell() + size + _MARKER > stop:
        raise _damaged(path)
    return count, size


def _long(source: IO[bytes], byte: bytes, path: str) -> int:
    """A number as Avro writes it, from its first byte on."""
    value = 0
    for shift in range(0, 70, 7):
        if not byte:
            break
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        byte = source.read(1)
    raise _damaged(path)


def _check_marker(source: IO[bytes], header: Header, path: str) -> None:
    if source.read(_MARKER) != header.sync:
        raise _damaged(path)


def _damaged(path: str) -> Refusal:
    return refused(f"{path} is truncated or damaged: a block does not end with the file's sync marker. Write or "
                      "copy it again")  # fmt: skip


def long_of(value: int) -> bytes:
    """A number, not negative, as Avro writes it."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
