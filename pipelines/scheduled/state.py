"""The state of a report to date: what its steps have counted, so that a call reads the rows of a new step alone.

A folder for the operator alone, with a file for the beginning and for every step: the pairs that are new at the step,
of keyed users and codes of items, and h_j of every group (`transforms/history.py`), which chains it to the step before.
A file is written once, complete and for good, before anything is drawn from it. So a step that was kept is never
counted again: whatever becomes of its rows, it is published as it was, or not at all.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from private_topk.pipelines.differences import differences, told
from private_topk.pipelines.files import names_in, replace_file
from private_topk.pipelines.question import Question
from private_topk.pipelines.release.identity import fingerprint
from private_topk.pipelines.release.store import alone_with, sweep
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.source import BlockReader, Source
from private_topk.runners import Launch
from private_topk.transforms.completeness import with_receipt
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.history import Step
from private_topk.transforms.release import DRAWS, Release, ReleaseKey
from private_topk.transforms.steps import flat_map
from private_topk.transforms.windows import Period

_ENDING = ".state"
_ROWS = 1 << 17
_MEANWHILE = InvalidArgument("state", "was added to by another call meanwhile", "call the report again")
_BACK = "bring the folder back from a copy, or give the report another name, which costs"


class _Kept(NamedTuple):
    """A file of the state, but for its pairs.

    Args:
        key_id, asked: everything public that the series depends on.
        token: a random name of this beginning of it.
        before, after: h of every group, one step before and at this one.
    """

    key_id: str
    asked: Mapping[str, Any]
    token: str
    number: int
    before: Sequence[str]
    after: Sequence[str]


@dataclass(frozen=True)
class SeriesState:
    """The state of a series as it is now, checked.

    Args:
        folder: its absolute path.
        asked: what the series depends on, as JSON.
        token: a random name of this beginning of the series; empty where it was not begun.
        steps: h_j of every group, step by step.
    """

    folder: str
    release: Release
    asked: str
    token: str = ""
    steps: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, folder: str, question: Question, charged: bool) -> SeriesState:
        """The state that is kept in a folder; a new one where nothing was counted or charged of another question.

        Args:
            charged: a ledger has a charge of it, so that its beginning stands though nothing was counted.

        Raises InvalidArgument: a file is lost or damaged, or of another series.
        """
        period, release = question.period, question.release
        assert period is not None
        windows = hashlib.sha256(" ".join(window.label() for window in period.windows()).encode()).hexdigest()
        asked: dict[str, Any] = {"draws": DRAWS, "report": release.id, "steps": len(period), "windows": windows}
        asked = json.loads(json.dumps(asked | question.top_k.parameters()))
        state = cls(os.path.abspath(folder), release, json.dumps(asked))
        kept = list[_Kept]()
        paths = _files(state.folder)
        for number, path in enumerate(paths):
            if path != state.path(number):
                raise refused_state(f"{verbatim(state.path(number))} is missing, and what follows it is there")
            kept.append(_read(state.path(number), release.key)[0])
            if kept[-1].asked != asked:
                if len(paths) == 1 and not charged:
                    return state
                differing = told(differences(kept[-1].asked, asked))
                rule = f"{verbatim(state.folder)} is of another series: with {verbatim(differing)}"
                raise InvalidArgument(
                    "state", rule, "ask the same again, or give the report another name and state, which costs"
                )
        for number, each in enumerate(kept):
            before = kept[number - 1] if number else each._replace(after=each.before)
            if (each.token, each.number, each.before) != (before.token, number, before.after):
                raise refused_state(f"{verbatim(state.path(number))} does not follow from the file before it")
        if not kept:
            return state
        return cls(state.folder, release, state.asked, kept[0].token, tuple(tuple(each.after) for each in kept[1:]))

    def path(self, number: int) -> str:
        """The file of a step, from 1; 0 is the beginning."""
        return f"{self.folder}/{number:04}{_ENDING}"

    def begin(self) -> SeriesState:
        """The state with its beginning written down, so that a state that is lost is not taken for a new one."""
        if self.token:
            return self
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        kept = self._add(_Kept("", {}, secrets.token_hex(16), 0, (), ()), pa.table({}))
        if kept.asked != json.loads(self.asked):
            raise _MEANWHILE
        return SeriesState(self.folder, self.release, self.asked, kept.token)

    def add(self, histories: Sequence[str], pairs: pa.Table) -> None:
        """Keep a step for good. Raises InvalidArgument if another call has meanwhile kept it with another history."""
        before = self.steps[-1] if self.steps else ()
        kept = self._add(_Kept("", {}, self.token, len(self.steps) + 1, before, tuple(histories)), pairs)
        if (kept.token, list(kept.after)) != (self.token, list(histories)):
            raise _MEANWHILE

    def _add(self, kept: _Kept, pairs: pa.Table) -> _Kept:
        """What is kept of a number: this, or what another call has kept first."""
        key, path = self.release.key, self.path(kept.number)
        with alone_with(path):
            sweep(path)
            there = _read(path, key)[0] if os.path.exists(path) else None
            if there is not None and self._stands(there):
                return there
            kept = kept._replace(key_id=key.key_id(), asked=json.loads(self.asked))
            replace_file(path, _sealed(kept, pairs, key))
        return kept

    def _stands(self, there: _Kept) -> bool:
        """Whether a file is kept for good: all but a beginning of another question of which nothing was counted."""
        return there.number > 0 or there.asked == json.loads(self.asked) or len(_files(self.folder)) > 1

    def pairs(self, steps: int) -> Iterator[pa.RecordBatch]:
        """The pairs of the first steps, some at a time, with the number of the step as `first`."""
        for number in range(1, steps + 1):
            for part in _read(self.path(number), self.release.key)[1].to_batches(max_chunksize=_ROWS):
                yield part.append_column("first", pa.array(np.full(len(part), number - 1, np.uint16)))


@dataclass(frozen=True)
class KeptStep(Step):
    """A step whose new pairs are added to a state, or have been.

    Args:
        state: with every step before it.
    """

    state: SeriesState
    number: int

    @property
    def is_kept(self) -> bool:
        return self.number < len(self.state.steps)

    def keep(self, histories: Sequence[Sequence[bytes]], pairs: Sequence[pa.RecordBatch]) -> None:
        counted = [tuple(state.hex() for state in states) for states in zip(*histories, strict=True)]
        for number, (is_kept, was) in enumerate(zip(self.state.steps, counted, strict=False), 1):
            if is_kept != was:
                raise refused_state(
                    f"{verbatim(self.state.path(number))} has pairs that are not those that were counted"
                )
        if not self.is_kept:
            nothing = pa.table({"user": np.empty(0, np.uint64)})
            table = pa.Table.from_batches(pairs) if pairs else nothing
            self.state.add(counted[-1], table)


def forget(folder: str, key: ReleaseKey, users: Sequence[str]) -> None:
    """Give the pairs of some users to random users: all counts stay, and nobody can tell whose they were.

    May be repeated, also after it was interrupted. Raises InvalidArgument if a file is damaged, or there is none.
    """
    words, paths = hash_labels(pa.array(users, pa.large_string()), key.derive("user hash")), _files(folder)
    if not paths:
        raise InvalidArgument("state", f"{verbatim(folder)} holds nothing that could be forgotten")
    for path in paths[1:]:
        with alone_with(path):
            sweep(path)
            kept, table = _read(path, key)
            held = table["user"].to_numpy().copy()
            theirs = np.isin(held, words)
            held[theirs] = np.frombuffer(secrets.token_bytes(8 * int(theirs.sum())), np.uint64)
            replace_file(path, _sealed(kept, table.set_column(0, "user", pa.array(held)), key))


def _files(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in sorted(names_in(folder)) if re.fullmatch(rf"\d{{4}}\{_ENDING}", name)]


def refused_state(rule: str) -> InvalidArgument:
    """The refusal of a state that is not as it was."""
    return InvalidArgument("state", rule, _BACK)


def _sealed(kept: _Kept, pairs: pa.Table, key: ReleaseKey) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pairs.schema) as writer:
        writer.write_table(pairs)
    content = json.dumps(kept._asdict()).encode() + b"\n" + sink.getvalue().to_pybytes()
    return f"{_seal(content, key)} {key.key_id()}\n".encode() + content


def _read(path: str, key: ReleaseKey) -> tuple[_Kept, pa.Table]:
    """A file of the state. Raises InvalidArgument if it is not as it was written."""
    try:
        with open(path, "rb") as source:
            first, _, content = source.read().partition(b"\n")
    except OSError as error:
        raise refused_state(f"{verbatim(path)} cannot be read: {error.strerror}") from None
    seal, _, key_id = first.partition(b" ")
    if not hmac.compare_digest(seal, _seal(content, key).encode()):
        if re.fullmatch(rb"[0-9a-f]{16}", key_id) and key_id.decode() != key.key_id():
            raise InvalidArgument("state", f"{verbatim(path)} was written under another release key", "give that one")
        raise refused_state(f"{verbatim(path)} is damaged")
    head, _, pairs = content.partition(b"\n")
    return _Kept(**json.loads(head)), pa.ipc.open_stream(pairs).read_all()


def _seal(content: bytes, key: ReleaseKey) -> str:
    return hmac.digest(key.derive("state of a series"), content, "sha256").hex()


@dataclass(frozen=True)
class NewAndCounted(Source):
    """The rows of a step, and the pairs that were counted before; of a step that was kept, these alone.

    A ledger knows it by the token of the state: all steps are one release, and its rows are those that each had.
    """

    new: Source
    step: KeptStep

    bounded = True

    @property
    def uri(self) -> str:  # type: ignore[override]
        return self.new.uri

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        return self.new.columns

    def parts(self) -> Sequence[Source]:
        return self.new.parts()

    def manner(self, period: Period | None) -> dict[str, Any]:
        return self.new.manner(period)

    def check(self, period: Period | None) -> None:
        self.new.check(period)

    def check_runner(self, launch: Launch) -> None:
        if launch.remote:
            raise InvalidArgument("state", f"is on this machine, and {launch.name} runs elsewhere", "take direct")
        self.new.check_runner(launch)

    def read(self, period: Period | None) -> BlockReader:
        new = None if self.step.is_kept else self.new.read(period)
        others = () if new is None else new.readers or ()
        reader = max(others, default=-1) + 1

        def read(pipeline: beam.Pipeline, reading: BlockReader) -> beam.PCollection:
            pairs = flat_map(_counted_before, self.step, reader)
            counted = pipeline | beam.Impulse() | "Read what was counted" >> pairs
            if new is None:
                return counted
            new.live, new.record = reading.live, reading.record
            return (pipeline | "Read what is new" >> new, counted) | beam.Flatten()

        return BlockReader(read, (*others, reader))

    def stored_bytes(self) -> int:
        return self.new.stored_bytes() + sum(map(os.path.getsize, self._files()))

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        return fingerprint({"kind": "series", "state": self.step.state.token}, key)

    def local_paths(self) -> tuple[str, ...]:
        return (*self.new.local_paths(), *self._files())

    def _files(self) -> Iterable[str]:
        return (self.step.state.path(number) for number in range(1, len(self.step.state.steps) + 1))


def _counted_before(_: bytes, step: KeptStep, reader: int) -> Iterator[pa.RecordBatch]:
    return with_receipt(step.state.pairs(step.number + step.is_kept), reader)
