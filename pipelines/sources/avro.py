"""Avro object container files, split between blocks: decoded by polars where it knows the types, else by fastavro.

Blocks are located one after the other from the file's start, each by the head of the one before it. The file is never
searched for its sync marker: values of users may contain it, with a forged block behind it.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from types import ModuleType
from typing import IO, Any, NamedTuple, cast

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa

from private_topk.pipelines.files import FileInfo, is_local, open_content, packing_of
from private_topk.pipelines.sources.avro_schema import (
    Branch,
    Unreadable,
    bare,
    branches_of,
    check_columns,
    meant,
    only,
    plain_types,
    rows_of,
    types_of,
)
from private_topk.pipelines.sources.columns import Columns, Rows, Types
from private_topk.transforms.errors import InvalidArgument, refused, verbatim

inflate: ModuleType = zlib
with suppress(ImportError):  # there is no wheel of it for every kind of machine
    from isal import isal_zlib

    inflate = isal_zlib  # more than twice as fast, to the same bytes


_ROWS = 100_000
_BYTES = 16 << 20
_LARGEST, _TIMES = 256 << 20, 50
"""The most bytes that a block may take unpacked, unless its file, or fifty times what is stored of it, takes more: most
writers make blocks of a few megabytes, polars makes one of a whole frame, and rows are seldom packed to a tenth.
"""
_END = 1 << 62
"""The end of a zipped file, which is not known beforehand."""

_SYNC = {"type": "fixed", "name": "sync", "size": 16}
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": _SYNC},
        ],
    }
)
_HEAD = fastavro.parse_schema(
    {
        "type": "record",
        "name": "head",
        "fields": [
            {"name": "rows", "type": "long"},
            {"name": "size", "type": "long"},
        ],
    }
)
_MAGIC = b"Obj\x01"
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class Header(NamedTuple):
    """The head of a file.

    Args:
        schema: of the rows, without logical types.
        fields: the types of every field, in order.
        end: where it ends and the first block begins.
    """

    schema: dict[str, Any]
    fields: dict[str, list[Branch]]
    codec: str
    sync: bytes
    end: int


class Block(NamedTuple):
    """A block: how many rows it has, and their bytes, uncompressed."""

    rows: int
    content: bytes


def check(file: FileInfo, columns: Columns) -> Types:
    """The types of the columns. Raises InvalidArgument unless the file is complete Avro and has them, of types that can
    be read.
    """
    with open_content(file.path) as source:
        header = _header(source, file.path)
        if not packing_of(file.path):
            source.seek(max(file.size - 16, 0))
            if source.read(16) != header.sync:
                raise refused(f"{file.path} is truncated: its last block is not complete. Write or copy it again")
    check_columns(file.path, header.fields, columns)
    return types_of({name: header.fields[name] for name in columns.names()})


def pieces(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """Byte ranges of whole blocks, each of `size` bytes and at most a block more.

    A file of a store is read whole, since a seek may be a request there, and so is a zipped one. Raises InvalidArgument
    unless the blocks of a larger file of this machine lead to its end.
    """
    if packing_of(file.path):
        yield 0, _END
        return
    start = 0
    if is_local(file.path) and file.size > size:
        with open_content(file.path) as source:
            for end in _ends(source, _header(source, file.path), file):
                if end - start >= size:
                    yield start, end
                    start = end
    if start < file.size or not start:
        yield start, file.size


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of one of the `pieces`, about 100,000 or 16 MiB at a time.

    Raises InvalidArgument where no block begins or ends there any more.
    """
    with open_content(path) as source:
        header = _header(source, path)
        if start:
            source.seek(start - 16)
            if source.read(16) != header.sync:
                raise _damaged(path)
        decoder = _Decoder(header, columns, path)
        some: list[Block] = []
        rows = size = 0
        for block in _blocks(source, header, path, stop):
            some.append(block)
            rows, size = rows + block.rows, size + len(block.content)
            if rows >= _ROWS or size >= _BYTES:
                yield from decoder.rows(some)
                some, rows, size = [], 0, 0
        if some:
            yield from decoder.rows(some)


def _header(source: IO[bytes], path: str) -> Header:
    try:
        record = _record(source, _HEADER)
    except Exception:  # a decoder may raise anything for bytes that are not Avro
        source.read(1)  # which raises, if it is the zipped stream that is broken
        raise refused(f"{path} is not an Avro file, or its header is truncated") from None
    if record["magic"] != _MAGIC:
        raise refused(f"{path} is not an Avro file: it does not start with the Avro magic bytes")
    try:
        schema = json.loads(record["meta"]["avro.schema"])
        fields = branches_of(schema)
    except Unreadable as error:
        raise refused(f"{path} has {error}: write the rows without") from None
    except Exception:  # an invalid schema may raise anything
        raise refused(f"{path} is not an Avro file of records: its schema is missing or broken") from None
    codec = record["meta"].get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _CODECS:
        raise refused(f"{path} is compressed with {codec!r}, which cannot be read here: write it with deflate")
    return Header(bare(schema), fields, codec, record["sync"], source.tell())


def _ends(source: IO[bytes], header: Header, file: FileInfo) -> Iterator[int]:
    """The end of each block of a file: one seek and one short read a block, without decoding."""
    while source.tell() < file.size:
        _, size = _head(source, file.path, file.size)
        source.seek(size, os.SEEK_CUR)
        if source.read(16) != header.sync:
            raise _damaged(file.path)
        yield source.tell()


def _blocks(source: IO[bytes], header: Header, path: str, stop: int) -> Iterator[Block]:
    """The blocks from here to `stop`, unpacked."""
    most = _LARGEST if stop == _END else max(_LARGEST, stop)
    while cast(io.BufferedReader, source).peek(1) if stop == _END else source.tell() < stop:
        rows, size = _head(source, path, stop)
        packed = source.read(min(size, most + 1))
        allowed = max(most, _TIMES * len(packed) * (header.codec != "null"))
        try:
            content = _CODECS[header.codec](packed, allowed) if len(packed) == size else packed
        except OverflowError:
            raise _oversized(path) from None
        except Exception:  # a decompressor may raise anything for broken bytes
            raise _undecodable(path) from None
        if len(content) > (allowed if len(packed) == size else most):
            raise _oversized(path)
        if len(packed) < size or source.read(16) != header.sync:
            raise _damaged(path)
        if rows or content:
            yield Block(rows, content)


def _head(source: IO[bytes], path: str, stop: int) -> tuple[int, int]:
    """How many rows a block has, and in how many bytes. Raises InvalidArgument unless it ends by `stop`."""
    try:
        head = _record(source, _HEAD)
    except (EOFError, IndexError, ValueError, MemoryError, OverflowError):
        source.read(1)  # as above
        raise _damaged(path) from None
    if head["rows"] < 0 or not 0 <= head["size"] <= stop - source.tell() - 16:
        raise _damaged(path)
    return head["rows"], head["size"]


def _record(source: IO[bytes], schema: Any) -> Any:  # noqa: ANN401 - a parsed schema
    return fastavro.schemaless_reader(source, schema, None)


def _damaged(path: str) -> InvalidArgument:
    return refused(
        f"{path} is truncated or damaged: a block does not end with the file's sync marker. Write or copy it again"
    )


def _undecodable(path: str) -> InvalidArgument:
    return refused(f"{path} is damaged: a block cannot be decoded. Write or copy it again")


def _oversized(path: str) -> InvalidArgument:
    rule = f"{path} has a block that unpacks to more than {_LARGEST >> 20} MiB, and to {_TIMES} times what is stored"
    return InvalidArgument("", verbatim(rule), "write it in smaller blocks, in several files, or as Parquet")


def _by(make: Callable[[], Any]) -> Callable[[bytes, int], bytes]:
    """By a decompressor of Python's, which knows no limit but what it is asked for."""

    def unpack(packed: bytes, most: int) -> bytes:
        unpacker = make()
        content: bytes = unpacker.decompress(packed, most + 1)
        if not unpacker.eof and len(content) <= most:
            raise EOFError
        return content

    return unpack


def _zstandard(packed: bytes, most: int) -> bytes:
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        return stream.read(most + 1)


def _snappy(packed: bytes, most: int) -> bytes:
    # The length comes first, seven bits to a byte.
    width = next(n for n, byte in enumerate(packed, 1) if byte < 0x80)
    size = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(packed[:width]))
    content = _of_size(packed[:-4], size, most, "snappy")
    if zlib.crc32(content).to_bytes(4, "big") != packed[-4:]:
        raise ValueError("the checksum is another")
    return content


def _lz4(packed: bytes, most: int) -> bytes:
    return _of_size(packed[4:], int.from_bytes(packed[:4], "little"), most, "lz4_raw")


def _of_size(packed: bytes, size: int, most: int, codec: str) -> bytes:
    if size > most:
        raise OverflowError
    return pa.decompress(packed, decompressed_size=size, codec=codec, asbytes=True)


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": lambda packed, most: packed,
    "deflate": _by(lambda: inflate.decompressobj(-15)),
    "bzip2": _by(bz2.BZ2Decompressor),
    "xz": _by(lzma.LZMADecompressor),
    "zstandard": _zstandard,
    "snappy": _snappy,
    "lz4": _lz4,
}
"""Decompressors by the codec's name in a file. They stop, or raise OverflowError, above so many bytes. What else they
raise for broken bytes depends on the library.
"""


class _Decoder:
    """Decodes blocks of one file. The rows of a block must take all of its bytes."""

    def __init__(self, header: Header, columns: Columns, path: str) -> None:
        self._header, self._path = header, path
        self._fields = {name: header.fields[name] for name in columns.names()}
        self._names = {name: f"c{index}" for index, name in enumerate(header.fields)}
        self._plain = plain_types(header.schema, header.fields)

    def rows(self, blocks: Sequence[Block]) -> Iterator[Rows]:
        batches = self._by_polars(blocks)
        if batches is not None:
            yield from batches
            return
        try:  # fastavro decides where polars does not
            records = self._records(blocks)
            while (some := self._values(records))[0]:
                yield rows_of(dict(zip(self._fields, some, strict=True)), self._fields)
        except Exception:  # a decoder may raise anything for broken bytes
            raise _undecodable(self._path) from None

    def _by_polars(self, blocks: Sequence[Block]) -> list[Rows] | None:
        """The rows as polars decodes them; None where it does not know the types, or reads the blocks otherwise."""
        # A row takes at least one byte. Polars would allocate memory for any number of rows that a block claims.
        if self._plain is None or any(block.rows > len(block.content) for block in blocks):
            return None
        try:
            frame = pl.read_avro(self._file(self._plain, blocks))
            # Polars reads no further than a block's end, but may stop before it. All of it was read if the rows take as
            # many bytes as the blocks have.
            rows, size = sum(block.rows for block in blocks), sum(len(block.content) for block in blocks)
            if len(frame) != rows or _stored_bytes(frame, self._plain) != size:
                return None
            # Usually there are slightly more than _ROWS: slices of twice that leave no tiny last block.
            return [self._rows_of(part) for part in frame.iter_slices(2 * _ROWS)]
        except (Exception, pl.exceptions.PanicException):
            return None

    def _rows_of(self, part: pl.DataFrame) -> Rows:
        oldest = pl.CompatLevel.oldest()
        arrays = {name: part[self._names[name]].to_arrow(compat_level=oldest) for name in self._fields}
        return Rows({name: meant(array, only(self._fields[name])) for name, array in arrays.items()})

    def _records(self, blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
        file = self._file(self._header.schema, blocks)
        for block in cast(Iterable[Any], fastavro.block_reader(file, handle_unicode_errors="surrogateescape")):
            yield from block
            if block.bytes_.read(1):
                raise ValueError("there are bytes behind the rows of a block")

    def _values(self, records: Iterator[dict[str, Any]]) -> list[list[Any]]:
        """The next 100,000 values of each column that is read. No record is kept: Python's garbage collection would
        look at every one again and again, which takes as long as to decode them.
        """
        values: list[list[Any]] = [[] for _ in self._fields]
        adding = [(each.append, name) for each, name in zip(values, self._fields, strict=True)]
        for record in islice(records, _ROWS):
            for add, name in adding:
                add(record[name])
        return values

    def _file(self, schema: dict[str, Any], blocks: Sequence[Block]) -> io.BytesIO:
        """A file of uncompressed blocks: the same bytes under another schema."""
        file, sync = io.BytesIO(), self._header.sync
        meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
        fastavro.schemaless_writer(file, _HEADER, {"magic": _MAGIC, "meta": meta, "sync": sync})
        for block in blocks:
            fastavro.schemaless_writer(file, _HEAD, {"rows": block.rows, "size": len(block.content)})
            file.write(block.content)
            file.write(sync)
        file.seek(0)
        return file


def _stored_bytes(frame: pl.DataFrame, schema: dict[str, Any]) -> int:
    """How many bytes the rows of a frame take in Avro, by a schema of `plain_types`."""
    size = 0
    for field in schema["fields"]:
        column, kinds = frame[field["name"]], field["type"]
        if isinstance(kinds, list):  # the number of the branch comes first
            size += len(column)
            column, kinds = column.drop_nulls(), next(kind for kind in kinds if kind != "null")
        if kinds in _WIDTHS:
            size += _WIDTHS[kinds] * len(column)
        elif kinds == "bytes":
            lengths = column.bin.size().to_numpy().astype(np.int64)
            size += int(lengths.sum()) + _stored_longs(lengths)
        else:
            size += _stored_longs(column.to_numpy().astype(np.int64))
    return size


def _stored_longs(values: np.ndarray) -> int:
    """How many bytes integers take in Avro, at seven bits a byte."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    longest = int(zigzag.max(initial=0)).bit_length()
    return len(zigzag) + sum(int(np.count_nonzero(zigzag >> np.uint64(bits))) for bits in range(7, longest, 7))
