"""Running transforms for real and seeing what flows: no mocks, Beam's own runners."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import IntervalWindow

from private_topk.transforms.combine import AddUp
from private_topk.transforms.contributions import CountContributions
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.parts import MANIFEST, Part
from private_topk.transforms.plan import Layout
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import ShardByUser
from private_topk.transforms.windows import Period

Pairs = list[tuple[Any, Any]]
Build = Callable[[beam.Pipeline], beam.PCollection]


class _Note(beam.DoFn):
    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> None:  # noqa: ANN401, B008
        start = window.start.micros if isinstance(window, IntervalWindow) else None
        with open(self._path, "a", encoding="utf-8") as sink:
            sink.write(json.dumps([start, element]) + "\n")


def outcome(build: Build, runner: Any = None, options: Iterable[str] = ()) -> list[list[Any]]:  # noqa: ANN401
    """Every [window start in microseconds or None, element] that a pipeline ends with; elements must be JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "elements"
        path.touch()
        with beam.Pipeline(runner=runner or FnApiRunner(), options=PipelineOptions(list(options))) as pipeline:
            build(pipeline) | "Note what comes out" >> beam.ParDo(_Note(str(path)))
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def count_by_window(
    domain: PublicDomain | UnknownDomain, blocks: beam.PCollection, key: ReleaseKey, period: Period | None
) -> beam.PCollection:
    """Blocks whose windows are numbers to [window, item, count], as `RankBlocks` counts a bounded input."""
    layout = Layout.of(domain, period)
    return (
        blocks
        | ShardByUser(domain, key, 4, layout)
        | CountContributions(layout, key, None)
        | AddUp(layout, None)
        | beam.FlatMapTuple(lambda place, part: _by_window(domain, part) if place != MANIFEST else [])
    )


def _by_window(domain: PublicDomain | UnknownDomain, part: Part) -> list[list[Any]]:
    rows = _decoded(domain, part)
    windows = part.table["window"].to_pylist() if "window" in part.table.schema.names else [0] * len(rows)
    return [[window, *row] for window, row in zip(windows, rows, strict=True)]


def _decoded(domain: PublicDomain | UnknownDomain, part: Part) -> list[list[Any]]:
    table = part.table
    items = table["item"].to_pylist()
    if isinstance(domain, PublicDomain):
        items = domain.index().labels.take(pa.array(np.array(items, np.int64))).to_pylist()
    return [[item, count] for item, count in zip(items, table["count"].to_pylist(), strict=True)]


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
