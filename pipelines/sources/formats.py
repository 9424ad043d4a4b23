"""Formats of files of rows: a module with `check`, `pieces` and `read` each; a table names them by ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import NamedTuple

import pyarrow as pa

from private_topk.pipelines.files import PACKINGS, FileInfo, open_content, packing_of
from private_topk.pipelines.sources import avro, csv, json_lines, parquet
from private_topk.pipelines.sources.columns import Columns, Rows, Types, block_of
from private_topk.pipelines.sources.names import besides, keys_of, with_keys
from private_topk.pipelines.sources.text import PACKED
from private_topk.transforms.errors import InvalidArgument, refused

_PLAIN: dict[str, ModuleType] = {
    ".avro": avro,
    ".parquet": parquet,
    ".csv": csv,
    ".tsv": csv,
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": json_lines,
}

INPUT_FORMATS = {ending + packing: module for ending, module in _PLAIN.items() for packing in ("", *PACKINGS)}

_MIN_PIECE = 8 << 20
_MAX_PIECES = 1000
_TEXT_TO_PACKED = 4
_AT_ONCE = 4
"""Files are decoded that many at a time, since each may take the memory of its largest row group."""


class Piece(NamedTuple):
    """A part of a file: byte range or row groups, as its format has it, about how many bytes it is stored in, and the
    columns that are read.
    """

    path: str
    start: int
    stop: int
    stored: int
    columns: Columns

    def rows(self) -> Iterator[Rows]:
        """Its rows, some at a time, with the columns that its path holds."""
        keys = keys_of(self.path, self.columns)
        for rows in reader_of(self.path).read(self.path, self.start, self.stop, besides(self.columns, keys)):
            yield with_keys(rows, keys)


class Read(NamedTuple):
    """One result of reading a piece: a block, or its end.

    Args:
        block: None at the end of a piece.
        dropped: how many rows were dropped of the block, by reason.
        stored: at the end of a piece, how many bytes it is stored in.
    """

    block: pa.RecordBatch | None
    dropped: dict[str, int]
    stored: int = 0


def reader_of(path: str) -> ModuleType:
    """The module that reads a file, by its ending, but for columns of its path. Raises InvalidArgument for an unknown
    one.
    """
    for ending, module in INPUT_FORMATS.items():
        if path.lower().endswith(ending):
            return module
    first = "unpack it first, and " * path.lower().endswith(tuple(ending for ending, _ in PACKED.values()))
    known = f"{', '.join(_PLAIN)}, each also with {' or '.join(PACKINGS)}"
    raise refused(f"{path} has no known ending: {first}use one of {known}")


def format_name(path: str) -> str:
    """The name of a file's format, such as avro or csv.gz. Raises InvalidArgument for an unknown ending."""
    name, packing = reader_of(path).__name__.rpartition(".")[2], packing_of(path)
    name = "tsv" if csv.has_tabs(path) else name
    return name + next((ending for ending, kind in PACKINGS.items() if kind == packing), "")


def check_files(files: Sequence[FileInfo], columns: Columns) -> Sequence[Types]:
    """The types of the columns of each file. Raises InvalidArgument unless every file can be read. Looks at headers and
    footers, and at no row: otherwise one user's row could decide whether there is a ranking.
    """
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda file: check_file(file, columns), files))


def check_file(file: FileInfo, columns: Columns) -> Types:
    """The types of a file's columns, but for those of its path. Raises InvalidArgument unless it can be read, without a
    look at its rows.
    """
    keys = keys_of(file.path, columns)
    types: Types = reader_of(file.path).check(file, besides(columns, keys))
    return types


def check_decodable(files: Sequence[FileInfo], columns: Columns) -> None:
    """Raise InvalidArgument if a file is damaged anywhere, so far as its format can tell: decodes all of it, and keeps
    nothing.

    Of text every line is a row, and none refuses a file: there is nothing to be found but in its zip stream, and where
    quotes may hold line ends.
    """
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _AT_ONCE)) as pool:
        list(pool.map(_decode, cut_into_pieces(files, columns)))


def _decode(piece: Piece) -> None:
    module = reader_of(piece.path)
    if module in (avro, parquet) or (module is csv and piece.columns.quoted_line_ends):
        for _ in piece.rows():
            pass
    elif packing_of(piece.path):
        with open_content(piece.path) as content:
            while content.read(1 << 20):
                pass


def packed_size(file: FileInfo) -> int:
    """About how many bytes the rows of a file take when compressed: a quarter, if it is plain text."""
    plain = reader_of(file.path) in (csv, json_lines) and not packing_of(file.path)
    return file.size // _TEXT_TO_PACKED if plain else file.size


def cut_into_pieces(files: Sequence[FileInfo], columns: Columns) -> list[Piece]:
    """Pieces of about equal size, at least 8 MiB each and about a thousand in all."""
    total = sum(file.size for file in files)
    size = max(_MIN_PIECE, total // _MAX_PIECES)
    pieces = []
    for file in files:
        ranges = list(reader_of(file.path).pieces(file, size))
        pieces += [Piece(file.path, start, stop, file.size // len(ranges), columns) for start, stop in ranges]
    return pieces


def rows_in(file: FileInfo, columns: Columns) -> Iterator[Rows]:
    """The rows of one file, some at a time. Raises InvalidArgument if it cannot be read, or is damaged."""
    check_file(file, columns)
    for piece in cut_into_pieces([file], columns):
        yield from piece.rows()


def bundle(pieces: Sequence[Piece]) -> list[tuple[int, Piece]]:
    """Pieces with the number of their bundle, which one worker reads: small pieces together, up to 8 MiB."""
    bundled, number, stored = [], 0, 0
    for piece in pieces:
        if stored and stored + piece.stored > _MIN_PIECE:
            number, stored = number + 1, 0
        bundled.append((number, piece))
        stored += piece.stored
    return bundled


def read_pieces(pieces: Sequence[Piece], check: Callable[[str], None]) -> Iterator[Read]:
    """The rows of pieces as blocks of up to about 100,000, in order, so that a retry gives the same blocks.

    Raises InvalidArgument if a file is damaged, and what `check` raises of the file of a piece of which the last row
    was read.
    """
    for piece in pieces:
        try:
            for rows in piece.rows():
                yield Read(*block_of(rows, piece.columns))
        except InvalidArgument:
            check(piece.path)  # which knows better why, where the file was changed
            raise
        check(piece.path)
        yield Read(None, {}, piece.stored)
