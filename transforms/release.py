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

from private_topk.transforms.columnar import from_ipc
from private_topk.transforms.counts import largest
from private_topk.transforms.cut import bounds_of_cell
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.keys import Release
from private_topk.transforms.selection import CountBudget, Draws, Selection
from private_topk.transforms.windows import Period, WindowBounds, from_microseconds

__all__ = ["CountBudget", "Ranking", "ReleaseRanking", "Selection"]

Labelled = tuple[list[str], "list[int] | None"]
"""The released items, and their noisy counts where those are published."""

HEARTBEAT = (-1, b"")
"""The element that makes a window of the declared period fire although it has no rows."""


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
    """(item shard, totals) to one `Ranking` per window.

    Privacy: one draw of `selection.mechanism` per window, a function of the release and the counts, so a repeated
    bundle repeats its answer. Panes other than the only one of their window are refused.
    """

    def __init__(self, selection: Selection, release: Release, period: Period | None = None) -> None:
        super().__init__()
        self._fn = _ReleaseDoFn(selection, release, period)

    def expand(self, totals: beam.PCollection) -> beam.PCollection:
        return (
            totals
            | "Bring one window together" >> beam.Map(lambda total: (0, total)).with_output_types(
                tuple[int, tuple[int, bytes]])
            | "Await the whole window" >> beam.GroupByKey()
            # (0, [(item shard, totals)])  ->  Ranking
            | "Draw the ranking" >> beam.ParDo(self._fn).with_output_types(Ranking)
        )  # fmt: skip


class _ReleaseDoFn(beam.DoFn):
    def __init__(self, selection: Selection, release: Release, period: Period | None) -> None:
        self._selection, self._release, self._period = selection, release, period

    def process(
        self,
        element: tuple[int, Iterable[tuple[int, bytes]]],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401, B008 - Beam's convention
        pane: Any = beam.DoFn.PaneInfoParam,  # noqa: ANN401, B008
    ) -> Iterator[Ranking]:
        if not pane.is_first or pane.timing not in (PaneInfoTiming.ON_TIME, PaneInfoTiming.UNKNOWN):
            raise RuntimeError("a window fired twice, which would be two releases: use the default trigger and "
                               "an allowed lateness of 0")  # fmt: skip
        # A runner may hand the shards over in any order: sort them, so that nothing depends on it.
        streams = [stream for shard, stream in sorted(element[1]) if (shard, stream) != HEARTBEAT]
        bounds = self._bounds(window)
        public = isinstance(self._selection.domain, PublicDomain)
        items, counts = (self._ranked_codes if public else self._ranked_labels)(streams, bounds)
        noisy = None if counts is None else tuple(counts)
        yield Ranking(bounds, tuple(items), self._selection.k, self._selection.mechanism.answer, noisy)

    def _ranked_codes(self, streams: list[bytes], bounds: WindowBounds) -> Labelled:
        domain = self._selection.domain
        assert isinstance(domain, PublicDomain)
        counts = np.zeros(domain.size, np.int64)
        for stream in streams:
            part = from_ipc([stream])
            counts[part["item"].to_numpy()] = part["count"].to_numpy()
        chosen, noisy = self._draw(counts, hashlib.sha256(counts.astype("<i8").tobytes()), bounds)
        labels = domain.index().labels.take(pa.array(chosen)).to_pylist()
        return labels, None if noisy is None else noisy.tolist()

    def _ranked_labels(self, streams: list[bytes], bounds: WindowBounds) -> Labelled:
        table = largest(from_ipc(streams), self._selection.head()) if streams else _EMPTY
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


_EMPTY = pa.table({"item": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
