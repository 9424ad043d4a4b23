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
from private_topk.pipelines.sources.columns import Columns, block_of
from private_topk.transforms.blocks import left_out

__all__ = ["FORMATS", "Columns", "Piece", "ReadBlocks", "check_files", "cut_into_pieces", "format_of"]

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
    """A part of a file that one worker reads: byte range or row groups, as its format has it."""

    path: str
    start: int
    stop: int
    share: float


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


def cut_into_pieces(files: Sequence[FileInfo]) -> list[Piece]:
    """Pieces of about equal size, at least 8 MiB each and about a thousand in all."""
    total = sum(file.size for file in files)
    size = max(_LEAST_PIECE, total // _MOST_PIECES)
    found = []
    for file in files:
        ranges = list(format_of(file.path).pieces(file, size))
        share = file.size / max(total, 1) / max(len(ranges), 1)
        found += [Piece(file.path, start, stop, share) for start, stop in ranges]
    return found


@beam.typehints.with_output_types(pa.RecordBatch)
class ReadBlocks(beam.PTransform):
    """The rows of many files as blocks. Rows without a user, an item or a readable time are left out and counted."""

    def __init__(self, pieces: Sequence[Piece], columns: Columns) -> None:
        super().__init__()
        self._pieces, self._columns = pieces, columns

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        pieces = list(enumerate(self._pieces))
        return (
            pipeline
            | beam.Impulse()
            | "Name the pieces" >> beam.FlatMap(lambda _: pieces).with_output_types(tuple[int, Piece])
            # A grouping spreads the pieces over the workers like a Reshuffle, with a tenth of its transforms. It must
            # keep the early timestamp: rows sent back in time from the end of the window would be late, and dropped.
            | "At the start" >> beam.WindowInto(GlobalWindows(), timestamp_combiner=_EARLIEST)
            | "Spread the pieces" >> beam.GroupByKey()
            # (number, [Piece])  ->  block of up to 100,000 rows
            | "Read the pieces" >> beam.ParDo(_ReadDoFn(self._columns))
        )


class _ReadDoFn(beam.DoFn):
    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._left_out = left_out("null")

    def process(self, numbered: tuple[int, Iterable[Piece]]) -> Iterator[pa.RecordBatch]:
        for piece in numbered[1]:
            yield from self._read(*piece)

    def _read(self, path: str, start: int, stop: int, share: float) -> Iterator[pa.RecordBatch]:
        tables = format_of(path).read(path, start, stop, self._columns)
        for block, missing in read_ahead(block_of(table, self._columns) for table in tables):
            if missing:
                self._left_out.inc(missing)
            if len(block):
                yield block
        PROGRESS.add(share)
