"""Running transforms for real and seeing what flows: no mocks, Beam's own runners."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import apache_beam as beam
import pyarrow as pa
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import IntervalWindow

from private_topk.runners.options import BeamOptions
from private_topk.transforms.combine import Combiner, PartialCounts
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.shuffle import ThreadPoolDoFn

Pairs = list[tuple[Any, Any]]
Build = Callable[[beam.Pipeline], beam.PCollection]


class _Note(beam.DoFn):
    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> None:  # noqa: ANN401, B008
        start = window.start.micros if isinstance(window, IntervalWindow) else None
        with open(self._path, "a", encoding="utf-8") as sink:
            sink.write(json.dumps([start, element]) + "\n")


def direct() -> beam.Pipeline:
    """A pipeline on Beam's runner in this process, with options as every job of ours is given them."""
    return beam.Pipeline(runner=FnApiRunner(), options=BeamOptions([]))


class _Elements(list):
    """A list that may be gone once nobody has it."""


_GIVEN: WeakValueDictionary[int, _Elements] = WeakValueDictionary()


class _Give(beam.DoFn):
    def __init__(self, number: int) -> None:
        self._number = number

    def process(self, _: bytes) -> Iterable[Any]:
        return list(_GIVEN[self._number])


class create(beam.PTransform):  # noqa: N801 - as a function is called
    """The elements as a collection of a pipeline in this process. Beam's own would pack them into the pipeline, and go
    through six stages that cost as much as ours.
    """

    def __init__(self, elements: Iterable[Any]) -> None:
        super().__init__()
        self._elements = _Elements(elements)
        _GIVEN[id(self._elements)] = self._elements

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        kind = beam.Create(self._elements).infer_output_type(None)
        return pbegin | beam.Impulse() | beam.ParDo(_Give(id(self._elements))).with_output_types(kind)


def outcome(build: Build, runner: Any = None, options: Iterable[str] = ()) -> list[list[Any]]:  # noqa: ANN401
    """Every [window start in microseconds or None, element] that a pipeline ends with; elements must be JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "elements"
        path.touch()
        with beam.Pipeline(runner=runner or FnApiRunner(), options=BeamOptions(list(options))) as pipeline:
            build(pipeline) | "Note what comes out" >> beam.ParDo(_Note(str(path)))
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def added_up(counted: Iterable[tuple[int, pa.RecordBatch]], partitioning: Partitioning) -> list[pa.RecordBatch]:
    """The totals of every item shard, from partial counts by item shard."""
    held: dict[int, list[PartialCounts]] = defaultdict(list)
    for key, table in counted:
        held[key].append(PartialCounts(table))
    return [Combiner(partitioning, None).totals(key, some)[0] for key, some in held.items()]


def set_counts(pairs: Iterable[tuple[Any, Any]]) -> dict[str, int]:
    """How many users hold each item, by sets alone."""
    holders: dict[str, set[str]] = {}
    for user, item in pairs:
        if user is not None and item is not None:
            holders.setdefault(str(item), set()).add(str(user))
    return {item: len(users) for item, users in holders.items()}


def describe(ranking: Any) -> list[Any]:  # noqa: ANN401 - a Ranking
    """A `Ranking` as JSON."""
    return [ranking.window.label(), list(ranking.items), ranking.k, ranking.answer]


def through(fn: ThreadPoolDoFn, elements: Sequence[Any]) -> list[Any]:
    fn.setup()
    fn.start_bundle()
    found = [result for element in elements for result in fn.process(element)]
    found += [windowed.value for windowed in fn.finish_bundle()]
    fn.teardown()
    return found
