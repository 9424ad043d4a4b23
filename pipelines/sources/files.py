"""Files of rows that exist at the launch: a bounded source."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows, TimestampCombiner

from private_topk.pipelines.files import FileInfo, is_local, match, refuse_tables
from private_topk.pipelines.release.identity import fingerprint, identity_of
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.pipelines.sources.formats import (
    Piece,
    bundle,
    check_decodable,
    check_files,
    cut_into_pieces,
    format_name,
    packed_size,
    read_pieces,
    reader_of,
)
from private_topk.pipelines.sources.keys import keys_of
from private_topk.pipelines.sources.source import BlockReader, DroppedRowsByReason, Source, about_the_input
from private_topk.pipelines.sources.unchanged import Original
from private_topk.transforms.completeness import with_receipt
from private_topk.transforms.errors import crosses
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period

_EARLIEST = TimestampCombiner.OUTPUT_AT_EARLIEST
T = TypeVar("T")


@dataclass(frozen=True)
class Files(Source):
    """The files of a glob, listed once: the same list is checked, identified for a ledger, and read.

    The identity comes from the files' contents, and from the keys of their paths that are read: the same files under
    other paths or in another order are the same input; the same rows written anew are not. What is read after it was
    identified must still be the same. Cost of the identity: every local file is read, at about 1.5 GB/s a core, and
    decoded, some 0.2 s a million rows of Avro or Parquet; of remote ones only the checksum that their store keeps.

    Args:
        uri: a path or a glob.
    """

    identity_tag: ClassVar[str] = "files"

    uri: str
    columns: Columns = Columns()

    bounded = True

    @cached_property
    def originals(self) -> tuple[Original, ...]:
        """The files as they are at the launch, sorted by path. Raises InvalidArgument if there are none, or if one is
        part of a table. One of 0 bytes has no rows, whatever its name: warehouses leave such ones beside their data.
        """
        with about_the_input():
            files = match(self.uri)
            refuse_tables(files)
            return tuple(each for each in map(Original.of, files) if each.file.size)

    @property
    def files(self) -> tuple[FileInfo, ...]:
        return tuple(each.file for each in self.originals)

    @cached_property
    def integer_items(self) -> bool:
        with about_the_input():
            return check_files(self.files, self.columns.within(None))

    def check(self, period: Period | None) -> None:
        with about_the_input():
            # Kept as what `integer_items` is: it would open every file once more.
            vars(self)["integer_items"] = check_files(self.files, self.columns.within(period))

    def read(self, period: Period | None) -> BlockReader:
        with about_the_input():
            return ReadBlocks(cut_into_pieces(self.files), self.columns.within(period), self.originals)

    def rows(self, period: Period | None) -> Iterator[Rows]:
        with about_the_input():
            for path, start, stop, _ in cut_into_pieces(self.files):
                yield from reader_of(path).read(path, start, stop, self.columns.within(period))

    def stored_bytes(self) -> int:
        return sum(map(packed_size, self.files))

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        """Raises InvalidArgument if a local file is damaged anywhere, so that this costs nothing, or is just being
        written.
        """
        columns = self.columns.within(period)
        with about_the_input(), ThreadPoolExecutor(16) as pool:
            originals = tuple(pool.map(Original.identified, self.originals))
            check_decodable([each.file for each in originals if is_local(each.file.path)], columns)
            list(pool.map(Original.check_still, originals))
            contents = sorted(_content(each, columns) for each in originals)
        vars(self)["originals"] = originals  # for whatever reads them next
        return fingerprint({"kind": "files", "contents": contents, "columns": identity_of(columns)}, key)

    def local_paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files if is_local(file.path))


def _content(original: Original, columns: Columns) -> tuple[int | str | None, ...]:
    """What the rows of a file are made of: in another format, or with other keys, the same bytes are other rows."""
    file, keys = original.file, keys_of(original.file.path, columns)
    how = format_name(file.path), *([json.dumps(keys, sort_keys=True)] if keys else [])
    return file.size, original.content, *how


@beam.typehints.with_output_types(pa.RecordBatch)
class ReadBlocks(BlockReader):
    """The rows of many files as blocks. Rows without a user, an item or a readable time are dropped and counted.

    A reader whose file was changed meanwhile fails before it gives its receipt, and nothing is drawn without that.
    """

    def __init__(self, pieces: Sequence[Piece], columns: Columns, originals: Sequence[Original]) -> None:
        super().__init__()
        self._pieces, self._columns, self._originals = pieces, columns, originals
        self.readers = sorted({number for number, _ in bundle(pieces)})

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        pieces = bundle(self._pieces)
        reading = _ReadDoFn(self._columns, self._originals, sum(piece.stored for piece in self._pieces), self.live)
        return (
            pipeline
            | beam.Impulse()
            | "Name the pieces" >> beam.FlatMap(lambda _: pieces).with_output_types(tuple[int, Piece])
            # A grouping spreads the pieces over the workers like a Reshuffle, with a tenth of its transforms. It must
            # keep the early timestamp: rows sent back in time from the end of the window would be late, and dropped.
            | "At the start" >> beam.WindowInto(GlobalWindows(), timestamp_combiner=_EARLIEST)
            | "Spread the pieces" >> beam.GroupByKey()
            # (bundle, [Piece])  ->  block of up to 100,000 rows
            | "Read the pieces" >> beam.ParDo(reading)
        )


@crosses
class _ReadDoFn(beam.DoFn):
    def __init__(self, columns: Columns, originals: Sequence[Original], stored: int, live: RunState | None) -> None:
        self._columns, self._stored, self._live = columns, stored, live
        self._originals = {each.file.path: each for each in originals}
        self._dropped = DroppedRowsByReason()

    def process(self, bundled: tuple[int, Iterable[Piece]]) -> Iterator[pa.RecordBatch]:
        yield from with_receipt(self._counted(bundled[1]), bundled[0])

    def _counted(self, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        for block, missing, stored in read_ahead(read_pieces(sorted(pieces), self._columns, self._check)):
            if self._live is not None:
                self._live.add_read(stored / max(self._stored, 1))
            self._dropped.add(missing)
            if block is not None:
                yield block

    def _check(self, path: str) -> None:
        self._originals[path].check()


def read_ahead(source: Iterator[T], depth: int = 2) -> Iterator[T]:
    """The elements of `source`, made by a thread that runs at most `depth` ahead. Its errors are raised here.

    The decoders release Python's lock, so this fills a second core.
    """
    with ThreadPoolExecutor(1) as pool:
        ahead = deque(pool.submit(next, source, None) for _ in range(depth))
        while (element := ahead.popleft().result()) is not None:
            ahead.append(pool.submit(next, source, None))
            yield element
