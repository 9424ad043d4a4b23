"""Where rows come from. A format is a module with `check`, `pieces` and `read`; a table names them by file ending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows, TimestampCombiner

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo
from private_topk.pipelines.progress import PROGRESS
from private_topk.pipelines.sources import avro, csv, json_lines, parquet
from private_topk.pipelines.sources.ahead import read_ahead
from private_topk.pipelines.sources.columns import Columns, LeftOut, block_of

__all__ = ["FORMATS", "Columns", "Piece", "ReadBlocks", "bundle", "check_files", "cut_into_pieces", "format_of"]

FORMATS: dict[str, ModuleType] = {
    ".avro": avro,
    ".avro.gz": avro,
    ".parquet": parquet,
    ".parquet.gz": parquet,
    ".csv": csv,
    ".csv.gz": csv,
    ".jsonl": json_lines,
    ".jsonl.gz": json_lines,
    ".ndjson": json_lines,
    ".ndjson.gz": json_lines,
    ".json": json_lines,
    ".json.gz": json_lines,
}

_EARLIEST = TimestampCombiner.OUTPUT_AT_EARLIEST
_LEAST_PIECE = 8 << 20
_MOST_PIECES = 1000


class Piece(NamedTuple):
    """A part of a file: byte range or row groups, as its format has it, and about how many bytes it is stored in."""

    path: str
    start: int
    stop: int
    stored: int


def format_of(path: str) -> ModuleType:
    """The format of a file by its ending. Raises InputError for an unknown one."""
    for ending, module in FORMATS.items():
        if path.lower().endswith(ending):
            return module
    raise InputError(f"{path} has no known ending: use one of {', '.join(FORMATS)}")


def check_files(files: Sequence[FileInfo], columns: Columns) -> None:
    """Raise InputError unless every file can be read. Looks at headers, footers and first lines only."""
    with ThreadPoolExecutor(16) as pool:
        for _ in pool.map(lambda file: format_of(file.path).check(file, columns), files):
            pass
    for module in (csv, json_lines):
        module.check_rows([file for file in files if format_of(file.path) is module], columns)


def cut_into_pieces(files: Sequence[FileInfo]) -> list[Piece]:
    """Pieces of about equal size, at least 8 MiB each and about a thousand in all."""
    total = sum(file.size for file in files)
    size = max(_LEAST_PIECE, total // _MOST_PIECES)
    found = []
    for file in files:
        ranges = list(format_of(file.path).pieces(file, size))
        found += [Piece(file.path, start, stop, file.size // len(ranges)) for start, stop in ranges]
    return found


def bundle(pieces: Sequence[Piece]) -> list[tuple[int, Piece]]:
    """Pieces with the number of their bundle, which one worker reads in one go: small ones together, up to 8 MiB."""
    found, number, stored = [], 0, 0
    for piece in pieces:
        if stored and stored + piece.stored > _LEAST_PIECE:
            number, stored = number + 1, 0
        found.append((number, piece))
        stored += piece.stored
    return found


@beam.typehints.with_output_types(pa.RecordBatch)
class ReadBlocks(beam.PTransform):
    """The rows of many files as blocks. Rows without a user, an item or a readable time are left out and counted."""

    def __init__(self, pieces: Sequence[Piece], columns: Columns) -> None:
        super().__init__()
        self._pieces, self._columns = pieces, columns

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        pieces = bundle(self._pieces)
        return (
            pipeline
            | beam.Impulse()
            | "Name the pieces" >> beam.FlatMap(lambda _: pieces).with_output_types(tuple[int, Piece])
            # A grouping spreads the pieces over the workers like a Reshuffle, with a tenth of its transforms. It must
            # keep the early timestamp: rows sent back in time from the end of the window would be late, and dropped.
            | "At the start" >> beam.WindowInto(GlobalWindows(), timestamp_combiner=_EARLIEST)
            | "Spread the pieces" >> beam.GroupByKey()
            # (bundle, [Piece])  ->  block of up to 100,000 rows
            | "Read the pieces" >> beam.ParDo(_ReadDoFn(self._columns, sum(piece.stored for piece in self._pieces)))
        )


class _ReadDoFn(beam.DoFn):
    def __init__(self, columns: Columns, stored: int) -> None:
        self._columns, self._stored = columns, stored
        self._left_out = LeftOut()

    def process(self, bundled: tuple[int, Iterable[Piece]]) -> Iterator[pa.RecordBatch]:
        # In order, so that a repetition meets the same blocks.
        for block, missing in read_ahead(self._blocks(sorted(bundled[1]))):
            self._left_out.add(missing)
            if len(block):
                yield block

    def _blocks(self, pieces: Iterable[Piece]) -> Iterator[tuple[pa.RecordBatch, dict[str, int]]]:
        for path, start, stop, stored in pieces:
            for rows in format_of(path).read(path, start, stop, self._columns):
                yield block_of(rows, self._columns)
            PROGRESS.add(stored / max(self._stored, 1))
