"""Every declared window is named and every user shard answers in it, rows or no rows: so that what is missing shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.parts import PlacedPart, manifest_of
from private_topk.transforms.rows import ShardedPairs, late_moment
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.assign import last_moment

__all__ = ["AnswerForEmpty", "NameWindows", "WakeShards"]


class NameWindows(beam.PTransform):
    """Blocks to one empty element for every window of theirs, which is in that window.

    Of a declared period every window is named, whether it has rows or not, and so is the one global window. Of other
    windows only those of the blocks are known: each is named once a bundle or more.
    """

    def __init__(self, period: Period | None) -> None:
        super().__init__()
        self._period = period

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        if self._period is None and not isinstance(blocks.windowing.windowfn, GlobalWindows):
            return blocks | "Name the windows of the rows" >> beam.ParDo(_NameDoFn()).with_output_types(int)
        return (
            blocks.pipeline
            | beam.Impulse()
            | "Declared windows" >> beam.FlatMap(_declared, self._period).with_output_types(int)
            | "Into the same windows" >> beam.WindowInto(blocks.windowing)
        )


def _declared(_: bytes, period: Period | None) -> Iterator[Any]:
    if period is None:
        yield 0
    else:
        yield from (TimestampedValue(0, last_moment(period, number)) for number in range(len(period)))


class _NameDoFn(beam.DoFn):
    def start_bundle(self) -> None:
        self._windows: set[Any] = set()

    def process(self, block: pa.RecordBatch, window: Any = beam.DoFn.WindowParam) -> None:  # noqa: ANN401
        self._windows.add(window)

    def finish_bundle(self) -> Iterable[WindowedValue]:
        for window in self._windows:
            yield WindowedValue(0, late_moment(window), (window,))


class AnswerForEmpty(beam.PTransform):
    """(pairs, names of windows) to one manifest a window, in the name of all user shards that no pair was sent to.

    These are told by the pairs as they leave for their shards, so the pairs themselves need not wait for anything. A
    shard whose pairs get lost is not answered for; one that is answered for although it has pairs is heard twice.
    """

    def __init__(self, shards: int) -> None:
        super().__init__()
        self._shards = shards

    def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
        pairs, names = inputs
        met = pairs | "Note the shards met" >> beam.ParDo(_NoteDoFn()).with_output_types(tuple[int, bytes])
        named = names | "Note the windows" >> beam.Map(lambda _: (0, b"")).with_output_types(tuple[int, bytes])
        return (
            (met, named)
            | beam.Flatten()
            | beam.GroupByKey()
            # (0, [shards met, as 16-bit words])  ->  (MANIFEST, Part)
            | "Answer" >> beam.Map(_answer, self._shards).with_output_types(PlacedPart)
        )


class _NoteDoFn(beam.DoFn):
    def start_bundle(self) -> None:
        self._met: dict[Any, set[int]] = {}

    def process(self, pairs: ShardedPairs, window: Any = beam.DoFn.WindowParam) -> None:  # noqa: ANN401
        self._met.setdefault(window, set()).add(pairs[0])

    def finish_bundle(self) -> Iterable[WindowedValue]:
        for window, shards in self._met.items():
            words = np.array(sorted(shards), "<u2").tobytes()
            yield WindowedValue((0, words), late_moment(window), (window,))


def _answer(met: tuple[int, Iterable[bytes]], shards: int) -> PlacedPart:
    silent = np.setdiff1d(np.arange(shards), np.frombuffer(b"".join(met[1]), "<u2").astype(np.int64))
    return manifest_of(silent)


class WakeShards(beam.PTransform):
    """Names of windows to an empty table of pairs for every user shard, so that each sends a manifest."""

    def __init__(self, empty: pa.RecordBatch, shards: int) -> None:
        super().__init__()
        self._empty, self._shards = empty, shards

    def expand(self, names: beam.PCollection) -> beam.PCollection:
        return names | beam.FlatMap(_everywhere, self._shards, self._empty).with_output_types(ShardedPairs)


def _everywhere(_: int, shards: int, empty: pa.RecordBatch) -> Iterator[ShardedPairs]:
    yield from ((shard, empty) for shard in range(shards))
