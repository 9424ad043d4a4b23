"""Avro object container files. One large file is split at its sync markers and read by several workers."""

from __future__ import annotations

from collections.abc import Iterator

from private_topk.pipelines.files import FileInfo, is_gzip, open_content
from private_topk.pipelines.sources.ahead import in_order
from private_topk.pipelines.sources.avro_blocks import header_of, runs_of_blocks
from private_topk.pipelines.sources.avro_rows import BlockDecoder, check_columns
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.transforms.refusal import refused

__all__ = ["check", "pieces", "read"]

_AHEAD = 64 << 20
_WHOLE = 1 << 62


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
    """Byte ranges of about `size`; a block belongs to the range in which the sync marker before it starts."""
    if is_gzip(file.path):
        yield 0, _WHOLE
        return
    for start in range(0, max(file.size, 1), size):
        yield start, min(start + size, file.size)


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of the blocks of one byte range, about 100,000 at a time."""
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
