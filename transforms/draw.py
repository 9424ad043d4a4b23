"""Unknown domain: the largest counts of a window, a mechanism, a ranking. Raw before it, public after it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from private_topk.transforms.columnar import joined, make_table
from private_topk.transforms.counts import largest
from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.guard import check_pane, check_whole
from private_topk.transforms.headings import Heading, heading
from private_topk.transforms.keys import Release
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.naming import rank_by_values
from private_topk.transforms.parts import HEARTBEAT, PlacedPart, by_group
from private_topk.transforms.release import Ranking, Selection
from private_topk.transforms.windows import Period, WindowBounds

__all__ = ["Head", "RankHeads", "head_of", "rank"]

_EMPTY = make_table(item=pa.array([], pa.large_string()), count=np.empty(0, np.int64))


class RankHeads(beam.PTransform):
    """Unknown domain: (place, largest totals), manifests and heartbeats to one `Ranking` per window.

    Privacy: one draw of `selection.mechanism` per window, a function of the release and the counts, so a repeated
    bundle repeats its answer. Panes other than the only one of their window are refused.

    Args:
        shards: how many user shards there are. Unless the counts of each are here, once, a LostPartError ends the job.
        layout: how many windows the tables hold. More than one: those of the period, in Beam's global window.
        readers: those that state what they have sent, which must then be what was counted.
    """

    def __init__(
        self,
        selection: Selection,
        release: Release,
        shards: int,
        layout: Layout,
        period: Period | None = None,
        readers: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self._layout = layout
        self._fn = _ReleaseDoFn(selection, release, shards, layout, period, readers)

    def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
        return (
            inputs
            | "Add empty windows" >> beam.Flatten()
            | "Bring windows together" >> beam.FlatMap(by_group, self._layout).with_output_types(tuple[int, PlacedPart])
            | "Await the whole window" >> beam.GroupByKey()
            # (group of windows, [(place, Part)])  ->  Ranking
            | "Draw the ranking" >> beam.ParDo(self._fn).with_output_types(Ranking)
        )


class _ReleaseDoFn(beam.DoFn):
    def __init__(
        self,
        selection: Selection,
        release: Release,
        shards: int,
        layout: Layout,
        period: Period | None,
        readers: Sequence[int] | None = None,
    ) -> None:
        self._selection, self._release, self._shards, self._readers = selection, release, shards, readers
        self._layout, self._period = layout, period

    def process(
        self,
        element: tuple[int, Iterable[PlacedPart]],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401 - Beam's convention
        pane: Any = beam.DoFn.PaneInfoParam,  # noqa: ANN401
    ) -> Iterator[Ranking]:
        check_pane(pane)
        parts = [(place, part) for place, part in element[1] if place != HEARTBEAT]
        check_whole(parts, self._shards, self._readers)
        tables = [part.table for place, part in parts if place >= 0]
        several = self._layout.windows > 1
        for number, some in _by_window(tables, self._layout.group(element[0])) if several else [(0, tables)]:
            of = heading(self._selection.groups, self._layout, self._period, number, window)
            yield rank(self._selection, self._release, of.bounds, some, of.group)


def _by_window(tables: list[pa.RecordBatch], windows: range) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Every window of the range, and the rows of each table that are of it. The tables are sorted by window."""
    edges = np.arange(windows.start, windows.stop + 1)
    cuts = [np.searchsorted(table["window"].to_numpy(), edges).tolist() for table in tables]
    bare = [table.drop_columns("window") for table in tables]
    for place, number in enumerate(windows):
        yield (
            number,
            [
                table.slice(cut[place], cut[place + 1] - cut[place])
                for table, cut in zip(bare, cuts, strict=True)
                if cut[place + 1] > cut[place]
            ],
        )


def rank(
    selection: Selection,
    release: Release,
    bounds: WindowBounds,
    tables: list[pa.RecordBatch],
    group: str | None = None,
) -> Ranking:
    """The ranking of one window from its totals {item: code or string, count: int64}, in whatever order they come."""
    of = Heading(bounds, group)
    if not isinstance(selection.domain, UnknownDomain):
        return rank_by_values(selection, release, of, tables)
    histogram, digest, labels = head_of(selection, tables)
    chosen, noisy, noise = selection.draw(histogram, digest, of.label(), release)
    if selection.mechanism.answer == "set":
        # The labels came in order of their counts, so a set must be put into a public order before it is written.
        order = sorted(range(len(chosen)), key=lambda place: labels[chosen[place]].encode())
        chosen, noisy = chosen[order], None if noisy is None else noisy[order]
    items = tuple(labels[row] for row in chosen)
    shown = None if noisy is None else selection.shown(noisy.tolist())
    counted, weighed = (None, shown) if selection.mechanism.publishes_weights else (shown, None)
    return Ranking(bounds, items, selection.k, selection.mechanism.answer, counted, noise, group, weighed)


class Head(NamedTuple):
    """What an unknown domain's ranking is drawn from: the largest counts of a window, and whose they are.

    Args:
        digest: of counts and items.
        labels: the items by rank.
    """

    histogram: Histogram
    digest: bytes
    labels: list[str]


def head_of(selection: Selection, tables: list[pa.RecordBatch]) -> Head:
    """From the totals {item: string, count: int64} of a window, in whatever order they come."""
    table = joined(largest(pa.Table.from_batches([_EMPTY, *tables]), selection.head()).to_batches() or [_EMPTY])
    counts, labels = table["count"].to_numpy(), table["item"].to_pylist()
    digest = hashlib.sha256(counts.astype("<i8").tobytes())
    for label in labels:
        digest.update(len(label.encode()).to_bytes(8, "little") + label.encode())
    # The table is in rank order, so ranks are its rows. No item at all is as good as one that nobody holds.
    return Head(Histogram.of(counts if len(counts) else np.zeros(1, np.int64)), digest.digest(), labels)
