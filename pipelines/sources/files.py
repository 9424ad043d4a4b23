"""Files of rows that exist at the launch: bounded sources."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows, TimestampCombiner

from private_topk.pipelines.files import FileInfo, is_local, match, refuse_doubled, refuse_tables, same_file
from private_topk.pipelines.release.identity import fingerprint, identity_of
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sources.columns import ROLES, Columns, Rows, Types
from private_topk.pipelines.sources.formats import (
    Piece,
    bundle,
    check_decodable,
    check_files,
    cut_into_pieces,
    format_name,
    packed_size,
    read_pieces,
)
from private_topk.pipelines.sources.names import keys_of
from private_topk.pipelines.sources.source import BlockReader, DroppedRowsByReason, Source
from private_topk.pipelines.sources.unchanged import Original
from private_topk.transforms.completeness import with_receipt
from private_topk.transforms.errors import InvalidArgument, crosses, of_field, of_input, together, verbatim
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.steps import WindowInto, flat_map
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
    def _listed(self) -> list[FileInfo]:
        with of_field("input"):
            return match(self.uri, ". To publish without one of several, take it off the list (docs/reports.md)")

    @cached_property
    def originals(self) -> tuple[Original, ...]:
        """The files as they are at the launch, sorted by path. Raises InvalidArgument if there are none, or if one is
        part of a table, or there under two names. One of 0 bytes has no rows, whatever its name: warehouses leave such
        ones beside their data.
        """
        files = self._listed
        with of_field("input"):
            refuse_tables(files)
            refuse_doubled(files)
            return tuple(each for each in map(Original.of, files) if each.file.size)

    def stated_groups(self) -> set[str | None] | None:
        """Keys of folders state them too. Files without rows count: that they are empty is private."""
        with of_field("input"):
            keys = [keys_of(file.path, self.columns) for file in self._listed]
        name, *more = self.columns.of("group") or ("",)
        return {each[name] for each in keys} if not more and all(name in each for each in keys) else None

    @property
    def files(self) -> tuple[FileInfo, ...]:
        return tuple(each.file for each in self.originals)

    @cached_property
    def _found(self) -> list[Sequence[Types]]:
        """The types of all files, by every check so far: each opens all files."""
        return []

    @property
    def types(self) -> Sequence[Types]:
        if not self._found:
            self.check(None)
        return self._found[-1]

    def check(self, period: Period | None) -> None:
        with of_field("input"):
            self._found.append(check_files(self.files, self.columns.within(period)))

    def read(self, period: Period | None) -> BlockReader:
        return _read_blocks(self.pieces(period), self.originals)

    def pieces(self, period: Period | None) -> list[Piece]:
        with of_field("input"):
            return cut_into_pieces(self.files, self.columns.within(period))

    def rows(self, period: Period | None) -> Iterator[Rows]:
        with of_field("input"):
            for piece in self.pieces(period):
                yield from piece.rows()

    def stored_bytes(self) -> int:
        return sum(map(packed_size, self.files))

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        """Raises InvalidArgument if a local file is damaged anywhere, so that this costs nothing, or is just being
        written.
        """
        return fingerprint(_files_of(self.contents(period), self.columns.within(period)), key)

    def contents(self, period: Period | None) -> list[Content]:
        """What identifies the rows of every file: what is read from now on must still be the same. Raises
        InvalidArgument as `identity` does.
        """
        columns = self.columns.within(period)
        with of_field("input"), ThreadPoolExecutor(16) as pool:
            list(pool.map(Original.identify, self.originals))
            check_decodable([file for file in self.files if is_local(file.path)], columns)
            list(pool.map(Original.check_still, self.originals))
            return [_content(each, columns) for each in self.originals]

    def local_paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files if is_local(file.path))


@dataclass(frozen=True)
class Inputs(Source):
    """The files of several globs, each with columns of its own: by other names, or written in another way. What has a
    role in one has the same role in all, so users are one space and items another.

    The identity is of contents, as that of `Files`: the same files by one glob or by several are the same input.

    Args:
        columns: the names by which users and items are known, in a ranking and in a ledger.
    """

    identity_tag: ClassVar[str] = "inputs"

    inputs: tuple[Files, ...]
    columns: Columns = Columns()

    bounded = True

    def __post_init__(self) -> None:
        for each in self.inputs:
            for role in ROLES:
                own, wanted = len(each.columns.of(role)), len(self.columns.of(role))
                if own != wanted:
                    rule = f"must name {wanted} column{'s' * (wanted != 1)} in every input, got {own} in {each.uri}"
                    rule = rule if wanted else f"must be given for all inputs, and not for some, as for {each.uri}"
                    remedy = "" if wanted else f"give {{{role}_column}}, which an input may call by another name"
                    raise InvalidArgument(f"{role}_column", verbatim(rule), remedy)

    @property
    def uri(self) -> str:  # type: ignore[override]  # which no class of fixed fields has to set
        return ", ".join(each.uri for each in self.inputs)

    def parts(self) -> Sequence[Source]:
        return self.inputs

    def check(self, period: Period | None) -> None:
        """Raises one refusal of all inputs that have mistakes, at the place of the first."""
        found: dict[object, int] = {}
        mistakes: list[InvalidArgument] = []
        for number, each in enumerate(self.inputs):
            try:
                with of_input(number + 1):
                    for file in each.files:
                        first = found.setdefault(same_file(file.path), number)
                        if first != number:
                            other = self.inputs[first].uri
                            rule = f"{each.uri} has {file.path}, as {other} has, so its rows would count twice"
                            raise InvalidArgument("input", verbatim(rule), "give patterns that share no file")
                    each.check(period)
            except InvalidArgument as error:
                mistakes.append(error)
        if mistakes:
            raise together(mistakes)

    def read(self, period: Period | None) -> BlockReader:
        pieces = [piece for each in self.inputs for piece in each.pieces(period)]
        return _read_blocks(pieces, [original for each in self.inputs for original in each.originals])

    def manner(self, period: Period | None) -> dict[str, Any]:
        known, own = self.columns.within(period), [each.columns.within(period) for each in self.inputs]
        names = [field.name for field in fields(known)]
        others = [
            {name: getattr(each, name) for name in names if getattr(each, name) != getattr(known, name)} for each in own
        ]
        return super().manner(period) | ({"inputs": others} if any(others) else {})

    def stored_bytes(self) -> int:
        return sum(each.stored_bytes() for each in self.inputs)

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        contents: dict[Columns, list[Content]] = {}
        for each in self.inputs:
            contents.setdefault(each.columns.within(period), []).extend(each.contents(period))
        known = self.columns.within(period)
        if {*contents} == {known}:
            return fingerprint(_files_of(contents[known], known), key)
        files = sorted((_files_of(some, columns) for columns, some in contents.items()), key=json.dumps)
        return fingerprint({"kind": "inputs", "inputs": files, "columns": identity_of(known)}, key)

    def local_paths(self) -> tuple[str, ...]:
        paths: list[str] = []
        for number, each in enumerate(self.inputs, 1):
            with of_input(number):
                paths += each.local_paths()
        return tuple(paths)


Content = tuple[int | str | None, ...]


def _files_of(contents: Iterable[Content], columns: Columns) -> dict[str, Any]:
    """What identifies files that are read alike, in any order."""
    return {"kind": "files", "contents": sorted(contents), "columns": identity_of(columns)}


def _content(original: Original, columns: Columns) -> Content:
    """What the rows of a file are made of: in another format, or with other keys, the same bytes are other rows."""
    file, keys = original.file, keys_of(original.file.path, columns)
    how = format_name(file.path), *([json.dumps(keys, sort_keys=True)] if keys else [])
    return file.size, original.content, *how


def _read_blocks(pieces: Sequence[Piece], originals: Sequence[Original]) -> BlockReader:
    """The rows of many files as blocks. Rows without a user, an item or a readable time are dropped and counted.

    A reader whose file was changed meanwhile fails before it gives its receipt, and nothing is drawn without that.
    """
    bundled = bundle(pieces)

    def read(pipeline: beam.Pipeline, reading: BlockReader) -> beam.PCollection:
        do = _ReadDoFn(originals, sum(piece.stored for piece in pieces), reading.live)
        return (
            pipeline
            | beam.Impulse()
            | "Name the pieces" >> flat_map(lambda _: bundled).with_output_types(tuple[int, Piece])
            # A grouping spreads the pieces over the workers like a Reshuffle, with a tenth of its transforms. It must
            # keep the early timestamp: rows sent back in time from the end of the window would be late, and dropped.
            | "At the start" >> WindowInto(GlobalWindows(), timestamp_combiner=_EARLIEST)
            | "Spread the pieces" >> beam.GroupByKey()
            # (bundle, [Piece])  ->  block of up to 100,000 rows
            | "Read the pieces" >> beam.ParDo(do)
        )

    return BlockReader(read, sorted({number for number, _ in bundled}))


@crosses
class _ReadDoFn(beam.DoFn):
    def __init__(self, originals: Sequence[Original], stored: int, live: RunState | None) -> None:
        self._stored, self._live = stored, live
        self._originals = {each.file.path: each for each in originals}
        self._dropped = DroppedRowsByReason()

    def process(self, bundled: tuple[int, Iterable[Piece]]) -> Iterator[pa.RecordBatch]:
        yield from with_receipt(self._counted(bundled[1]), bundled[0])

    def _counted(self, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        in_order = sorted(pieces, key=lambda piece: piece[:3])
        for block, missing, stored in read_ahead(read_pieces(in_order, self._check)):
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
