"""Avro object container files. One large file is split between its blocks and read by several workers."""

from __future__ import annotations

from collections.abc import Iterator

from private_topk.pipelines.files import FileInfo, is_gzip, is_local, open_content
from private_topk.pipelines.sources.ahead import in_order
from private_topk.pipelines.sources.avro_blocks import END, ends_of_blocks, header_of, runs_of_blocks
from private_topk.pipelines.sources.avro_rows import BlockDecoder, check_columns
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.transforms.errors import refused

__all__ = ["check", "pieces", "read"]

_AHEAD = 64 << 20


def check(file: FileInfo, columns: Columns) -> None:
    """Raise Refusal unless the file is whole Avro and has the columns, of types that can be read."""
    with open_content(file.path) as source:
        header = header_of(source, file.path)
        if not is_gzip(file.path):
            source.seek(max(file.size - 16, 0))
            if source.read(16) != header.sync:
                raise refused(f"{file.path} is truncated: its last block is not complete. Write or copy it again")
    check_columns(file.path, header.fields, columns)


def pieces(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """Byte ranges of whole blocks, each of `size` bytes and at most a block more.

    A file of a store is read whole, since a seek may be a request there, and so is a zipped one. Raises Refusal unless
    the blocks of a larger file of this machine lead to its end.
    """
    if is_gzip(file.path):
        yield 0, END
        return
    start = 0
    if is_local(file.path) and file.size > size:
        with open_content(file.path) as source:
            for end in ends_of_blocks(source, header_of(source, file.path), file.path, file.size):
                if end - start >= size:
                    yield start, end
                    start = end
    if start < file.size or not start:
        yield start, file.size


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of the blocks of one of the `pieces`, about 100,000 at a time."""
    with open_content(path) as source:
        header = header_of(source, path)
        decoder = BlockDecoder(header, columns, path)
        runs = runs_of_blocks(source, header, path, start, stop)
        for first, rest in in_order(runs, lambda run: _ahead(decoder.rows(run))):
            yield from first
            yield from rest


Decoded = tuple[list[Rows], Iterator[Rows]]
"""The first rows of a run, and those still to be decoded."""


def _ahead(rows: Iterator[Rows]) -> Decoded:
    """Rows decoded ahead of their turn, up to 64 MiB: a run of a few MiB may hold a thousand times as much."""
    first, size = [], 0
    for part in rows:
        first.append(part)
        size += sum(array.nbytes for array in part.columns.values())
        if size > _AHEAD:
            break
    return first, rows
