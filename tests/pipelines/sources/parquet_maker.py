"""Parquet files made page by page, so that a test can have them lie: sizes, counts and encodings are what it says."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

PLAIN, RLE, DELTA_LENGTHS, DELTA_TEXTS, RLE_DICTIONARY = 0, 3, 6, 7, 8
CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4_raw": 7}


class I32(int):
    kind = 5


class I64(int):
    kind = 6


def number(value: int) -> bytes:
    """A varint."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def zigzag(value: int) -> bytes:
    return number(value * 2 if value >= 0 else -value * 2 - 1)


def struct(fields: dict[int, Any]) -> bytes:
    """A struct of Thrift's compact protocol: numbers, texts, lists of one kind, structs as dicts."""
    found, last = b"", 0
    for place, value in fields.items():
        kind, content = _value(value)
        found += bytes([(place - last) << 4 | kind]) if place - last < 16 else bytes([kind]) + zigzag(place)
        found, last = found + content, place
    return found + b"\0"


def _value(value: Any) -> tuple[int, bytes]:  # noqa: ANN401
    if isinstance(value, I32 | I64):
        return value.kind, zigzag(value)
    if isinstance(value, bytes):
        return 8, number(len(value)) + value
    if isinstance(value, dict):
        return 12, struct(value)
    if isinstance(value, Raw):
        return value.kind, value.content
    kinds = [_value(one) for one in value]
    kind = kinds[0][0] if kinds else 5
    head = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind]) + number(len(value))
    return 9, head + b"".join(content for _, content in kinds)


class Raw(NamedTuple):
    kind: int
    content: bytes


@dataclass
class Page:
    """A page as stored: `content` is packed already; sizes and counts are claims."""

    content: bytes
    unpacked: int
    values: int
    encoding: int = PLAIN
    dictionary: bool = False

    def bytes(self) -> bytes:
        facts = {1: I32(2 if self.dictionary else 0), 2: I32(self.unpacked), 3: I32(len(self.content))}
        inner = {1: I32(self.values), 2: I32(self.encoding)}
        facts |= {7: inner} if self.dictionary else {5: inner | {3: I32(RLE), 4: I32(RLE)}}
        return struct(facts) + self.content


@dataclass
class Chunk:
    """A column of a row group. `change` replaces fields of its metadata by their numbers."""

    pages: Sequence[Page]
    codec: str = "none"
    values: int | None = None
    kind: int = 6  # byte array
    change: dict[int, Any] = field(default_factory=dict)


def packed(content: bytes, codec: str) -> bytes:
    if codec == "none":
        return content
    if codec == "gzip":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        return packer.compress(content) + packer.flush()
    return pa.compress(content, codec, asbytes=True)


def plain(values: Sequence[bytes], codec: str = "none") -> Page:
    """A page of texts of an optional column, all there."""
    content = levels(len(values)) + b"".join(len(value).to_bytes(4, "little") + value for value in values)
    return Page(packed(content, codec), len(content), len(values))


def levels(count: int, value: int = 1) -> bytes:
    """Definition levels, one run: 1 for a value that is there."""
    run = number(count << 1) + bytes([value])
    return len(run).to_bytes(4, "little") + run


def nulls(count: int) -> Page:
    return Page(levels(count, 0), len(levels(count, 0)), count)


def file_of(
    groups: Sequence[dict[str, Chunk]],
    rows: Sequence[int],
    *,
    schema: Sequence[dict[int, Any]] | None = None,
    total: int | None = None,
    change: dict[int, Any] | None = None,
) -> bytes:
    """A file of row groups; `rows` is what each says it has, `total` what the file says."""
    content, metadata = b"PAR1", []
    for group, count in zip(groups, rows, strict=True):
        columns = []
        for name, chunk in group.items():
            start = len(content)
            offsets = {}
            for page in chunk.pages:
                offsets.setdefault(11 if page.dictionary else 9, len(content))
                content += page.bytes()
            size = len(content) - start
            values = sum(page.values for page in chunk.pages if not page.dictionary)
            facts = {1: I32(chunk.kind), 2: [I32(PLAIN), I32(RLE)], 3: [name.encode()], 4: I32(CODECS[chunk.codec]),
                     5: I64(values if chunk.values is None else chunk.values), 6: I64(size), 7: I64(size),
                     9: I64(offsets.get(9, start))} | ({11: I64(offsets[11])} if 11 in offsets else {})  # fmt: skip
            columns.append({2: I64(start), 3: dict(sorted((facts | chunk.change).items()))})
        metadata.append({1: columns, 2: I64(max(len(content), 1)), 3: I64(count)})
    names = list(groups[0]) if groups else ["user", "item"]
    schema = schema or [{4: b"schema", 5: I32(len(names))}] + [
        {1: I32(groups[0][name].kind if groups else 6), 3: I32(1), 4: name.encode(), 6: I32(0)} for name in names
    ]
    facts = {1: I32(2), 2: schema, 3: I64(sum(rows) if total is None else total), 4: metadata, 6: b"tests"}
    footer = struct(dict(sorted((facts | (change or {})).items())))
    return content + footer + len(footer).to_bytes(4, "little") + b"PAR1"
