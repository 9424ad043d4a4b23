"""The final stage: all counts of a window, a mechanism, a ranking. Raw before it, public after it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.windowed_value import PaneInfoTiming

from private_topk.transforms.columnar import joined, make_table
from private_topk.transforms.counts import largest
from private_topk.transforms.cut import bounds_of_cell
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.guard import check_whole
from private_topk.transforms.keys import Release
from private_topk.transforms.layout import Layout
from private_topk.transforms.parts import MANIFEST, Part, PlacedPart
from private_topk.transforms.release import Draws, Ranking, Selection
from private_topk.transforms.windows import Period, WindowBounds, from_microseconds

__all__ = ["HEARTBEAT", "ReleaseRanking", "rank"]

_HEARTBEAT = -2
HEARTBEAT: PlacedPart = (_HEARTBEAT, Part(np.empty(0, np.int64), make_table(item=np.empty(0, np.int64))))
"""The element that makes a window of the declared period reach the draw even if everything else of it is lost."""

_EMPTY = make_table(item=pa.array([], pa.string()), count=np.empty(0, np.int64))

Labelled = tuple[list[str], Draws]
"""The released items in the order in which they are published, and the draw in that order."""


class ReleaseRanking(beam.PTransform):
    """(place, totals) and manifests to one `Ranking` per window.

    Privacy: one draw of `selection.mechanism` per window, a function of the release and the counts, so a repeated
    bundle repeats its answer. Panes other than the only one of their window are refused.

    Args:
        shards: how many user shards there are. Unless the counts of each are here, once, a LostPartError ends the job.
        layout: how many windows the tables hold. More than one: those of the period, in Beam's global window.
        hints: Beam's resource hints for the one stage that holds all counts of a window.
    """

    def __init__(
        self,
        selection: Selection,
        release: Release,
        shards: int,
        layout: Layout,
        period: Period | None = None,
        hints: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._layout, self._hints = layout, dict(hints or {})
        self._fn = _ReleaseDoFn(selection, release, shards, layout, period)

    def expand(self, totals: beam.PCollection) -> beam.PCollection:
        return (
            totals
            | "Bring windows together" >> beam.FlatMap(_by_group, self._layout).with_output_types(
                tuple[int, PlacedPart])
            | "Await the whole window" >> beam.GroupByKey()
            # (group of windows, [(place, Part)])  ->  Ranking
            | "Draw the ranking" >> beam.ParDo(self._fn).with_output_types(Ranking).with_resource_hints(**self._hints)
        )  # fmt: skip


def _by_group(placed: PlacedPart, layout: Layout) -> Iterator[tuple[int, PlacedPart]]:
    """Totals to the group of windows that they are of; to every group what the manifests say of it."""
    place, part = placed
    if place >= 0:
        yield layout.group_of(place), placed
    elif place == MANIFEST and layout.groups > 1:
        groups = part.table["place"].to_numpy() // layout.item_shards
        for group in range(layout.groups):
            yield group, (place, Part(part.sources, part.table.filter(pa.array(groups == group))))
    else:
        yield from ((group, placed) for group in range(layout.groups))


class _ReleaseDoFn(beam.DoFn):
    def __init__(
        self, selection: Selection, release: Release, shards: int, layout: Layout, period: Period | None
    ) -> None:
        self._selection, self._release, self._shards = selection, release, shards
        self._layout, self._period = layout, period

    def process(
        self,
        element: tuple[int, Iterable[PlacedPart]],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401 - Beam's convention
        pane: Any = beam.DoFn.PaneInfoParam,  # noqa: ANN401
    ) -> Iterator[Ranking]:
        if not pane.is_first or pane.timing not in (PaneInfoTiming.ON_TIME, PaneInfoTiming.UNKNOWN):
            raise RuntimeError("a window fired twice, which would be two releases: use the default trigger and "
                               "an allowed lateness of 0")  # fmt: skip
        parts = [(place, part) for place, part in element[1] if place != _HEARTBEAT]
        check_whole(parts, self._shards)
        tables = [part.table for place, part in parts if place != MANIFEST]
        if self._layout.windows == 1:
            yield rank(self._selection, self._release, self._bounds(window), tables)
            return
        assert self._period is not None
        for number, some in _by_window(tables, self._layout.group(element[0])):
            yield rank(self._selection, self._release, self._period.window(number), some)

    def _bounds(self, window: Any) -> WindowBounds:  # noqa: ANN401 - a Beam window
        if isinstance(window, IntervalWindow):
            if self._period is not None:
                return bounds_of_cell(self._period, window)
            return WindowBounds(from_microseconds(window.start.micros), from_microseconds(window.end.micros))
        return WindowBounds() if self._period is None else self._period.window(0)


def _by_window(tables: list[pa.RecordBatch], windows: range) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Every window of the range, and the rows of each table that are of it. The tables are sorted by window."""
    edges = np.arange(windows.start, windows.stop + 1)
    cuts = [np.searchsorted(table["window"].to_numpy(), edges).tolist() for table in tables]
    bare = [table.select(["item", "count"]) for table in tables]
    for place, number in enumerate(windows):
        yield (
            number,
            [
                table.slice(cut[place], cut[place + 1] - cut[place])
                for table, cut in zip(bare, cuts, strict=True)
                if cut[place + 1] > cut[place]
            ],
        )


def rank(selection: Selection, release: Release, bounds: WindowBounds, tables: list[pa.RecordBatch]) -> Ranking:
    """The ranking of one window from its totals {item: code or string, count: int64}, in whatever order they come."""
    public = isinstance(selection.domain, PublicDomain)
    items, draws = (_ranked_codes if public else _ranked_labels)(selection, release, bounds.label(), tables)
    noisy = None if draws.noisy_counts is None else tuple(draws.noisy_counts.tolist())
    return Ranking(bounds, tuple(items), selection.k, selection.mechanism.answer, noisy, draws.noise)


def _ranked_codes(selection: Selection, release: Release, window: str, tables: list[pa.RecordBatch]) -> Labelled:
    domain = selection.domain
    assert isinstance(domain, PublicDomain)
    counts = np.zeros(domain.size, np.int64)
    for part in tables:
        counts[part["item"].to_numpy()] = part["count"].to_numpy()
    digest = hashlib.sha256(counts.astype("<i8", copy=False).data)
    draws = selection.draw(counts, digest.digest(), window, release)
    return domain.index().labels.take(pa.array(draws.chosen)).to_pylist(), draws


def _ranked_labels(selection: Selection, release: Release, window: str, tables: list[pa.RecordBatch]) -> Labelled:
    table = joined(largest(pa.Table.from_batches([_EMPTY, *tables]), selection.head()).to_batches() or [_EMPTY])
    counts, labels = table["count"].to_numpy(), table["item"].to_pylist()
    digest = hashlib.sha256(counts.astype("<i8").tobytes())
    for label in labels:
        digest.update(len(label.encode()).to_bytes(8, "little") + label.encode())
    draws = selection.draw(counts, digest.digest(), window, release)
    chosen, noisy, noise = draws
    if selection.mechanism.answer == "set":
        # The labels came in order of their counts, so a set must be put into a public order before it is written.
        order = sorted(range(len(chosen)), key=lambda place: labels[chosen[place]].encode())
        chosen, noisy = chosen[order], None if noisy is None else noisy[order]
    return [labels[i] for i in chosen], Draws(chosen, noisy, noise)
