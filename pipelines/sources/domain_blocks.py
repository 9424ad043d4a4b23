"""A public list that is read in blocks, so that no worker need hold all of it: lines, Parquet or Avro."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from private_topk.pipelines.files import is_gzip, open_file
from private_topk.pipelines.sources.domain import (
    about,
    columns_of,
    found_at,
    has_columns,
    items_in,
    lines_in,
    pieces_of,
)
from private_topk.transforms.domain import SplitDomain
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["LineBlocks", "PieceBlocks", "read_split_domain"]

_BYTES = 4 << 20
"""Of a block, about: what a worker reads at a time, and what is read to name an item."""

_IN_PARTS = (".avro", ".parquet")


@dataclass(frozen=True)
class LineBlocks:
    """Reads some lines of a file, an item on each.

    Args:
        edges: where every block begins, in bytes, and where the last one ends.
    """

    path: str
    edges: tuple[int, ...]

    @classmethod
    def of(cls, path: str) -> LineBlocks:
        """The blocks of a file, which is read once for it; without the blank lines at its end. Memory: a block."""
        edges, start, end = [0], 0, 0
        with open_file(path) as source:
            while chunk := source.read(_BYTES):
                chunk += source.readline() if not chunk.endswith(b"\n") else b""
                lines = lines_in(chunk, first=not start)
                kept = len(chunk) if lines[-1].is_valid else _end_of_text(chunk, not start)
                start, end = start + len(chunk), start + kept if kept else end
                edges.append(start)
        return cls(path, (*(edge for edge in edges if edge < end), end))

    def __call__(self, number: int) -> pa.Array:
        start, stop = self.edges[number : number + 2]
        with open_file(self.path) as source:
            source.seek(start)
            return lines_in(source.read(stop - start), first=not start)


def _end_of_text(chunk: bytes, first: bool) -> int:
    """Where the last line ends that is not blank, if another one follows; 0 where all are."""
    text = chunk.decode().rstrip()
    return chunk.index(b"\n", len(text.encode())) + 1 if text and not (first and text == "\ufeff") else 0


@dataclass(frozen=True)
class PieceBlocks:
    """Reads some items of a table: row groups of Parquet, blocks of Avro."""

    path: str
    column: str
    pieces: tuple[tuple[int, int], ...]

    def __call__(self, number: int) -> pa.Array:
        return items_in(self.path, columns_of(self.column), *self.pieces[number])[0]


def read_split_domain(path: str, column: str) -> SplitDomain:
    """The list of a file as one that no worker holds all of. Reads it three times, a block at a time.

    Raises Refusal, naming the file, unless it is a list of distinct items that can be read in parts.
    """
    file = found_at(path)[0].path
    if is_gzip(file) or has_columns(file) and not file.lower().endswith(_IN_PARTS):
        raise Refusal("domain_split", f"needs a list that can be read in parts, and {verbatim(path)} cannot be",
                      "give one item per line, not zipped, or a Parquet or Avro file")  # fmt: skip
    with about(path):
        if has_columns(file):
            pieces = tuple(pieces_of(file, columns_of(column), _BYTES))
            return SplitDomain.of_blocks(PieceBlocks(file, column, pieces), len(pieces))
        lines = LineBlocks.of(file)
        return SplitDomain.of_blocks(lines, len(lines.edges) - 1)
