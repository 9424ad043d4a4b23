"""The final stage: one element per window, a mechanism, a ranking. Raw before it, public after it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.windowed_value import PaneInfoTiming

from private_topk.transforms.columnar import make_table
from private_topk.transforms.counts import largest
from private_topk.transforms.cut import bounds_of_cell
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.guard import check_whole
from private_topk.transforms.keys import Release
from private_topk.transforms.parts import MANIFEST, Part, PlacedPart
from private_topk.transforms.selection import CountBudget, Draws, Selection
from private_topk.transforms.windows import Period, WindowBounds, from_microseconds

__all__ = ["CountBudget", "Ranking", "ReleaseRanking", "Selection"]

Labelled = tuple[list[str], "list[int] | None"]
"""The released items, and their noisy counts where those are published."""

_HEARTBEAT = -2
HEARTBEAT: PlacedPart = (_HEARTBEAT, Part(np.empty(0, np.int64), make_table(item=np.empty(0, np.int64))))
"""The element that makes a window of the declared period reach the draw even if everything else of it is lost."""


@dataclass(frozen=True)
class Ranking:
    """The released top items of one window. Public.

    Args:
        items: in rank order; where the mechanism answers with a set, in the order of the domain, or of the labels'
            bytes if the domain is unknown.
        k: how many were asked for. In the unknown domain fewer may be returned; that is part of the guarantee.
        answer: "sequence" or "set".
        noisy_counts: of the items in their order, where a budget was set aside for them; may be negative.
    """

    window: WindowBounds
    items: tuple[str, ...]
    k: int
    answer: str
    noisy_counts: tuple[int, ...] | None = None


class ReleaseRanking(beam.PTransform):
    """(item shard, totals) and manifests to one `Ranking` per window.

    Privacy: one draw of `selection.mechanism` per window, a function of the release and the counts, so a repeated
    bundle repeats its answer. Panes other than the only one of their window are refused.

    Args:
        shards: how many user shards there are. Unless the counts of each are here, once, a LostPartError ends the job.
    """

    def __init__(self, selection: Selection, release: Release, shards: int, period: Period | None = None) -> None:
        super().__init__()
        self._fn = _ReleaseDoFn(selection, release, shards, period)

    def expand(self, totals: beam.PCollection) -> beam.PCollection:
        return (
            totals
            | "Bring one window together" >> beam.Map(lambda total: (0, total)).with_output_types(
                tuple[int, PlacedPart])
            | "Await the whole window" >> beam.GroupByKey()
            # (0, [(item shard, Part)])  ->  Ranking
            | "Draw the ranking" >> beam.ParDo(self._fn).with_output_types(Ranking)
        )  # fmt: skip


class _ReleaseDoFn(beam.DoFn):
    def __init__(self, selection: Selection, release: Release, shards: int, period: Period | None) -> None:
        self._selection, self._release, self._shards, self._period = selection, release, shards, period

    def process(
        self,
        element: tuple[int, Iterable[PlacedPart]],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention
        pane: Any = beam.DoFn.PaneInfoParam,  # noqa: ANN401, B008
    ) -> Iterator[Ranking]:
        if not pane.is_first or pane.timing not in (PaneInfoTiming.ON_TIME, PaneInfoTiming.UNKNOWN):
            raise RuntimeError("a window fired twice, which would be two releases: use the default trigger and "
                               "an allowed lateness of 0")  # fmt: skip
        parts = [(place, part) for place, part in element[1] if place != _HEARTBEAT]
        check_whole(parts, self._shards)
        tables = [part.table for place, part in parts if place != MANIFEST]
        bounds = self._bounds(window)
        public = isinstance(self._selection.domain, PublicDomain)
        items, counts = (self._ranked_codes if public else self._ranked_labels)(tables, bounds)
        noisy = None if counts is None else tuple(counts)
        yield Ranking(bounds, tuple(items), self._selection.k, self._selection.mechanism.answer, noisy)

    def _ranked_codes(self, tables: list[pa.RecordBatch], bounds: WindowBounds) -> Labelled:
        domain = self._selection.domain
        assert isinstance(domain, PublicDomain)
        counts = np.zeros(domain.size, np.int64)
        for part in tables:
            counts[part["item"].to_numpy()] = part["count"].to_numpy()
        chosen, noisy = self._draw(counts, hashlib.sha256(counts.astype("<i8").tobytes()), bounds)
        labels = domain.index().labels.take(pa.array(chosen)).to_pylist()
        return labels, None if noisy is None else noisy.tolist()

    def _ranked_labels(self, tables: list[pa.RecordBatch], bounds: WindowBounds) -> Labelled:
        table = largest(pa.Table.from_batches([_EMPTY, *tables]), self._selection.head())
        counts, labels = table["count"].to_numpy(), table["item"].to_pylist()
        digest = hashlib.sha256(counts.astype("<i8").tobytes())
        for label in labels:
            digest.update(len(label.encode()).to_bytes(8, "little") + label.encode())
        chosen, noisy = self._draw(counts, digest, bounds)
        if self._selection.mechanism.answer == "set":
            # The labels came in order of their counts, so a set must be put into a public order before it is written.
            order = sorted(range(len(chosen)), key=lambda place: labels[chosen[place]].encode())
            chosen, noisy = chosen[order], None if noisy is None else noisy[order]
        return [labels[i] for i in chosen], None if noisy is None else noisy.tolist()

    def _draw(self, counts: np.ndarray, digest: Any, bounds: WindowBounds) -> Draws:  # noqa: ANN401 - a hash
        return self._selection.draw(counts, digest.digest(), bounds.label(), self._release)

    def _bounds(self, window: Any) -> WindowBounds:  # noqa: ANN401 - a Beam window
        if self._period is not None:
            return bounds_of_cell(self._period, window)
        if not isinstance(window, IntervalWindow):
            return WindowBounds()
        return WindowBounds(from_microseconds(window.start.micros), from_microseconds(window.end.micros))


_EMPTY = make_table(item=pa.array([], pa.string()), count=np.empty(0, np.int64))
