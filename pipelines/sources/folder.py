"""Files that arrive in a folder: an unbounded source, a splittable DoFn that keeps track of the files it has read."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from private_topk.pipelines.files import (
    FileInfo,
    as_it_is,
    exists,
    is_local,
    match_any,
    open_file,
    refuse_doubled,
    refuse_folder,
    refuse_tables,
    write_file,
)
from private_topk.pipelines.release.identity import not_in_fingerprint
from private_topk.pipelines.release.input_record import Entry, InputRecord
from private_topk.pipelines.sources.clock import Clock, StreamTracker, now_of
from private_topk.pipelines.sources.columns import Columns, Rows, block_of
from private_topk.pipelines.sources.formats import check_files, reader_of, rows_in
from private_topk.pipelines.sources.source import BlockReader, DroppedRowsByReason, Source, horizon
from private_topk.transforms.completeness import BlockChecksums, SentChecksums
from private_topk.transforms.errors import (
    ANOTHER_RELEASE,
    InvalidArgument,
    crosses,
    of_another_release,
    of_field,
    verbatim,
)
from private_topk.transforms.windows import Period

_READER = 0
_TURN = 5.0
_DIGEST = 16
_NAME = 10  # bytes of a digest for the path; the rest are for its size and time


@dataclass(frozen=True)
class Folder(Source):
    """The files that match a pattern, now or later, until the clock has passed the horizon.

    A file must appear complete: written under a name that the pattern does not match, and renamed.

    Args:
        uri: a pattern of paths, whose ending determines the format.
        clock: "log": a file has arrived when it was last written, or where windows had closed by then, when it was
            found. "event": the rows' times close windows.
        poll: the time between two listings of the folder.
    """

    identity_tag: ClassVar[str] = "folder"

    uri: str
    columns: Columns = Columns(time="time")
    clock: str = "log"
    poll: timedelta = field(
        default=timedelta(seconds=10), metadata=not_in_fingerprint("files arrive when they do, seen or not")
    )

    bounded = False

    def __post_init__(self) -> None:
        if not (isinstance(self.poll, timedelta) and self.poll > timedelta(0)):
            raise InvalidArgument("poll", f"must be a length of time, got {verbatim(self.poll)}")

    def check(self, period: Period | None) -> None:
        horizon(period)
        with of_field("input"):
            refuse_folder(self.uri)
            reader_of(self.uri)
            there = arrived(self.uri)
            refuse_tables(there)
            check_files(there, self.columns)

    def check_record(self, record: InputRecord) -> None:
        refuse_others(record, record.read(), arrived(self.uri))

    def rows(self, period: Period | None) -> Iterator[Rows]:
        """The rows of the files that are there, as a stream that starts now would read them."""
        clock = Clock(self.clock, horizon(period))
        with of_field("input"):
            for file in arrived(self.uri):
                at = None if clock.by_rows else arrival_of(file, clock, 0)
                for rows in rows_in(file, self.columns):
                    many = len(next(iter(rows.columns.values())))
                    yield rows if at is None else rows._replace(arrived=np.full(many, at))

    def read(self, period: Period | None) -> BlockReader:
        watching = _WatchDoFn(self.columns, Clock(self.clock, horizon(period)), self.poll.total_seconds())

        def read(pipeline: beam.Pipeline, reading: BlockReader) -> beam.PCollection:
            watching.record = reading.record
            pattern = pipeline | "Name the folder" >> beam.Create([self.uri], reshuffle=False)
            return pattern | "Read files as they arrive" >> beam.ParDo(watching)

        return BlockReader(read, (_READER,))

    def asked(self) -> Any:  # noqa: ANN401 - a value with an identity
        return replace(self, uri=os.path.abspath(self.uri)) if is_local(self.uri) else self

    def local_paths(self) -> tuple[str, ...]:
        return (self.uri,) if is_local(self.uri) else ()


class _Read(NamedTuple):
    """The files that have been read, 16 bytes each: 10 of the path's digest, 6 of the digest of size and time.

    Args:
        over: whether this part of the work is done.
        sent: the checksums that have been sent, for every window.
        reading: whether the last of the files is still being read.
    """

    files: bytes
    over: bool = False
    sent: SentChecksums = SentChecksums()
    reading: bool = False

    def digests(self) -> dict[bytes, bytes]:
        digests = (self.files[at : at + _DIGEST] for at in range(0, len(self.files), _DIGEST))
        return {digest[:_NAME]: digest for digest in digests}


class _ReadTracker(StreamTracker):
    """A tracker that does not split within a file, when the checksums to be sent are not yet known."""

    def try_split(self, fraction_of_remainder: float) -> tuple[_Read, _Read] | None:
        return None if self.current_restriction().reading else super().try_split(fraction_of_remainder)


@crosses
class _WatchDoFn(beam.DoFn, RestrictionProvider):
    record: InputRecord | None = None
    """Where files are written down once they are read."""

    def __init__(self, columns: Columns, clock: Clock, poll: float) -> None:
        self._columns, self._clock, self._poll = columns, clock, poll
        self._dropped, self._checksums = DroppedRowsByReason(), BlockChecksums(clock.period)
        self._looked_up = False

    def initial_restriction(self, pattern: str) -> _Read:
        return _Read(b"")

    def create_tracker(self, restriction: _Read) -> _ReadTracker:
        return _ReadTracker(restriction)

    def restriction_size(self, pattern: str, restriction: _Read) -> int:
        return 1

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        pattern: str,
        tracker: Any = beam.DoFn.RestrictionParam(),  # noqa: ANN401, B008 - Beam's convention
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),  # noqa: ANN401, B008
    ) -> Iterator[TimestampedValue]:
        files: list[FileInfo] = []
        yield from self._turn(pattern, tracker, estimator, files)
        if self.record is not None:  # before this bundle is committed, and with it what closes a window
            self.record.add(_entry(file, self.record) for file in files)

    def _turn(
        self,
        pattern: str,
        tracker: Any,  # noqa: ANN401 - Beam's
        estimator: Any,  # noqa: ANN401 - Beam's
        files: list[FileInfo],
    ) -> Iterator[TimestampedValue]:
        """Reads for a while. Adds what it has read to `files`."""
        looked, deadline = time.time(), time.monotonic() + _TURN
        state = tracker.current_restriction()
        read = state.digests()
        there = arrived(pattern)
        self._look_up(there, read)
        self._clock.catch_up(estimator, state.sent.closed)
        for file in there:
            digest = _digest(file)
            known = read.get(digest[:_NAME])
            if known not in (None, digest):
                raise _changed()
            if known is not None:
                continue
            if time.monotonic() > deadline:  # before the clock may move: there are more files
                tracker.defer_remainder(Duration(0))
                return
            state = state._replace(files=state.files + digest, reading=True)
            if not tracker.try_claim(state):
                return
            sent, latest = yield from self._send(file, digest, state.sent, estimator)
            files.append(file)
            receipts, sent = self._close(sent, latest if self._clock.by_rows else None)
            state = state._replace(sent=sent, reading=False)
            tracker.try_claim(state)
            yield from (TimestampedValue(block, now_of(estimator)) for block in receipts)
            if self._clock.by_rows:
                self._clock.advance(estimator, latest)
        if not self._clock.by_rows:
            receipts, sent = self._close(state.sent, int(looked * 1e6))
            state = state._replace(sent=sent)
            if not tracker.try_claim(state):
                return
            yield from (TimestampedValue(block, now_of(estimator)) for block in receipts)
            self._clock.advance(estimator, int(looked * 1e6))
        if self._clock.is_over(estimator):
            tracker.try_claim(state._replace(over=True))
        else:
            tracker.defer_remainder(Duration(self._poll))

    def _look_up(self, there: list[FileInfo], read: dict[bytes, bytes]) -> None:
        """Raise InvalidArgument unless what was read and is to be read again is there: all but what this state has
        read.
        """
        if self.record is not None and not self._looked_up:
            again = [entry for entry in self.record.read() if _of_path(entry["path"]) not in read]
            refuse_others(self.record, again, there)
            self._looked_up = True

    def _send(
        self,
        file: FileInfo,
        digest: bytes,
        sent: SentChecksums,
        estimator: Any,  # noqa: ANN401 - Beam's
    ) -> Generator[TimestampedValue, None, tuple[SentChecksums, int | None]]:
        """Yields the rows of a file; returns the checksums sent so far and the latest time of the rows."""
        at = file.written if self._clock.by_rows else arrival_of(file, self._clock, now_of(estimator).micros)
        latest = None
        for number, block in enumerate(self._blocks(file, at)):
            marked, sent = self._checksums.add(block, b"%s %d" % (digest, number), sent)
            yield TimestampedValue(marked, now_of(estimator))
            latest = max(latest or 0, pc.max(block["time"]).as_py())
        if as_it_is(file) not in (None, file):  # what was read may be a mixture of both versions
            raise _changed()
        return sent, latest

    def _close(self, sent: SentChecksums, clock: int | None) -> tuple[list[pa.RecordBatch], SentChecksums]:
        return self._checksums.close(sent, self._clock.closed_by(clock or 0), _READER)

    def _blocks(self, file: FileInfo, at: int) -> Iterator[pa.RecordBatch]:
        for rows in rows_in(file, self._columns):
            block, missing = block_of(rows, self._columns)
            self._dropped.add(missing)
            if not self._clock.by_rows:
                block = block.append_column("arrived", pa.array(np.full(len(block), at)))
            if len(block):
                yield block


def arrived(pattern: str) -> list[FileInfo]:
    """The complete files of a pattern that have a byte, in the order in which they were last written; there may be
    none. Raises InvalidArgument if one is there under two names.
    """
    files = [file for file in match_any(pattern) if file.size]
    refuse_doubled(files)
    return sorted(files, key=lambda file: (file.written, file.path))


def _entry(file: FileInfo, record: InputRecord) -> Entry:
    return {"path": _full(file.path), "state": record.sealed(file.size, file.written)}


def refuse_others(record: InputRecord, entries: Iterable[Entry], there: Iterable[FileInfo]) -> None:
    """Raise InvalidArgument unless the files on record are among those that are there, as they were."""
    found = {entry["path"]: entry for entry in (_entry(file, record) for file in there)}
    for entry in entries:
        if found.get(entry["path"]) != entry:
            what = "was changed" if entry["path"] in found else "is gone"
            raise InvalidArgument(
                "",
                f"{verbatim(entry['path'])} {what} since an earlier run of this release read it, so what "
                "is published from now on would be of other rows",
                f"bring it back as it was, with the time at which it was written, or {ANOTHER_RELEASE}",
            )


def _full(path: str) -> str:
    return os.path.abspath(path) if is_local(path) else path


def _of_path(path: str) -> bytes:
    return hashlib.sha256(os.fsencode(_full(path))).digest()[:_NAME]


def _digest(file: FileInfo) -> bytes:
    state = hashlib.sha256(b"%d %d" % (file.size, file.written)).digest()
    return _of_path(file.path) + state[: _DIGEST - _NAME]


def _changed() -> InvalidArgument:
    return of_another_release(
        "",
        "a file was changed after it had been read, so a repetition would read another one",
        "write new rows to new files only",
    )


NOTES = ".private-topk-arrivals"


def arrival_of(file: FileInfo, clock: Clock, now: int) -> int:
    """The arrival time of a file, microseconds since 1970 UTC, the same in this run and in every repetition.

    That is when it was written. But a file that was written under another name and renamed may bear a time before the
    close of a window that is already published without it. Such a file arrives when it is first seen. That time is
    noted beside it, in a hidden folder for operators only, so that a repetition knows it.

    Args:
        now: the clock's present time.

    Raises:
        InvalidArgument: it arrived before the close of a window that is published without it, or its late arrival
            cannot be noted.
    """
    folder, slash, name = file.path.rpartition("/")
    note = f"{folder}{slash}{NOTES}/{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}"
    noted = _read(note)
    if noted is None:
        if not clock.closes_between(file.written, now):
            return file.written
        _write(note, now)
        noted = _read(note)
    if noted is None:
        raise InvalidArgument(
            "",
            "a file appeared after windows had closed that it was written before, and its folder takes "
            "no note of that, so a repetition would count it",
            "let this user write there, or set the time of files that are moved in, as `touch` does",
        )
    if clock.closes_between(noted, now):
        raise of_another_release(
            "", "a file appeared too late for closed windows, though another stream over this folder found it in time"
        )
    return noted


def _read(note: str) -> int | None:
    if not exists(note):
        return None
    with open_file(note) as source:
        return int(source.read())


def _write(note: str, at: int) -> None:
    """Writes the note of an arrival unless there is one: the first note counts."""
    content = b"%d\n" % at
    if not is_local(note):
        write_file(note, content)
        return
    draft = f"{note}.{secrets.token_hex(8)}.incomplete"
    with suppress(OSError):  # the caller checks whether it is there
        os.makedirs(os.path.dirname(note), exist_ok=True)
        try:
            write_file(draft, content)
            os.link(draft, note)
        finally:
            os.remove(draft)
