"""The compressions of Avro blocks, each unpacked to no more memory than a block may take."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa

_INFLATE: Any = zlib
"""What unpacks deflate: isal, which is faster, or zlib, to the same bytes."""

with suppress(ImportError):  # there are not wheels for every kind of machine
    from isal import isal_zlib

    _INFLATE = isal_zlib

__all__ = ["CODECS", "LARGEST", "TooLarge"]

LARGEST = 256 << 20
"""Bytes that a block may decode to."""

_MOST_OF_A_BYTE = 1032
"""No byte of deflate stands for more bytes."""

_GUESSED = 4
"""So many times its size a block is taken to decode to."""


class TooLarge(Exception):
    """A block decodes to more than a block may."""


def _null(packed: bytes) -> bytes:
    return packed


def _deflate(packed: bytes) -> bytes:
    if len(packed) > LARGEST // _MOST_OF_A_BYTE:
        return _whole(_INFLATE.decompressobj(-15), packed)
    # Into one piece of memory: for every further one Python's lock is waited for, and somebody may be loading Beam.
    return _INFLATE.decompress(packed, -15, max(_GUESSED * len(packed), 1 << 16))


def _bzip2(packed: bytes) -> bytes:
    return _whole(bz2.BZ2Decompressor(), packed)


def _xz(packed: bytes) -> bytes:
    return _whole(lzma.LZMADecompressor(memlimit=LARGEST), packed)


def _zstandard(packed: bytes) -> bytes:
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        parts, size = [], 0
        while part := stream.read(1 << 20):
            size += len(part)
            if size > LARGEST:
                raise TooLarge
            parts.append(part)
    return b"".join(parts)


def _snappy(packed: bytes) -> bytes:
    size = shift = 0
    for byte in packed[:5]:  # the length comes first, seven bits at a time
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    content = _of_size("snappy", packed[:-4], size)
    if zlib.crc32(content).to_bytes(4, "big") != packed[-4:]:
        raise ValueError("the checksum is another")
    return content


def _lz4(packed: bytes) -> bytes:
    return _of_size("lz4_raw", packed[4:], int.from_bytes(packed[:4], "little"))


def _of_size(codec: str, packed: bytes, size: int) -> bytes:
    if size > LARGEST:
        raise TooLarge
    return pa.decompress(packed, decompressed_size=size, codec=codec, asbytes=True)


def _whole(unpacker: zlib._Decompress | bz2.BZ2Decompressor | lzma.LZMADecompressor, packed: bytes) -> bytes:
    content = unpacker.decompress(packed, LARGEST)
    if unpacker.eof:
        return content
    if len(content) == LARGEST:
        raise TooLarge
    raise EOFError("the block ends too early")


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": _null,
    "deflate": _deflate,
    "bzip2": _bzip2,
    "xz": _xz,
    "zstandard": _zstandard,
    "snappy": _snappy,
    "lz4": _lz4,
}
"""By the name that a file gives. Each raises TooLarge, or whatever its library makes of broken bytes."""
