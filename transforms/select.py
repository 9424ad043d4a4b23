"""The final stage: all counts of a window to its ranking. Raw before it, public after it.

    totals of item shards, manifests, heartbeats --> all of a group of windows --> Ranking, one for each window

Whatever the domain, one worker holds the counts of a window: of a public domain those that are not 0, of an unknown one
the largest. It brings them into the order of the domain, takes their digest, draws, and names what it drew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from private_topk.transforms.columnar import Codes, make_table
from private_topk.transforms.combine import largest
from private_topk.transforms.completeness import check_pane, check_whole
from private_topk.transforms.domain import CodedDomain
from private_topk.transforms.errors import Refusal
from private_topk.transforms.groups import Groups
from private_topk.transforms.labels import digest_of
from private_topk.transforms.mechanisms.exact.histogram import Histogram, Named
from private_topk.transforms.parts import HEARTBEAT, PlacedPart, by_group
from private_topk.transforms.plan import Layout
from private_topk.transforms.release import Ranking, Release
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period, WindowBounds
from private_topk.transforms.windows.assign import window_named

__all__ = ["MOST_HELD", "RankingKey", "SelectTopK", "WindowCounts", "by_window", "heading", "rank"]

MOST_HELD = 1 << 26
"""So many counts other than 0 are held at once: a worker's memory, and what a runner hands over as one element."""


class SelectTopK(beam.PTransform):
    """((place, totals), manifests, statements and heartbeats) to one `Ranking` per window.

    Privacy: one draw of `spec.mechanism` per window, a function of the release and the counts, so a repeated
    bundle repeats its answer. Panes other than the only one of their window are refused.

    Memory of a worker: of a group of windows some 30 bytes for each item that somebody holds in each, at most 2**24
    together; or a single window, of up to 2**26 items. Of a public list the list besides.

    Args:
        shards: how many user shards there are. Unless the counts of each are here, once, an
            IncompleteDataError ends the job.
        layout: how many windows the tables hold. More than one: those of the period, in Beam's global window.
        readers: those that state what they have sent, which must then be what was counted.
    """

    def __init__(
        self,
        spec: TopK,
        release: Release,
        shards: int,
        layout: Layout,
        period: Period | None = None,
        readers: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self._layout = layout
        self._fn = _SelectDoFn(spec, release, shards, layout, period, readers)

    def expand(self, inputs: tuple[beam.PCollection, ...]) -> beam.PCollection:
        return (
            inputs
            | "Add empty windows" >> beam.Flatten()
            | "Bring windows together" >> beam.FlatMap(by_group, self._layout).with_output_types(tuple[int, PlacedPart])
            | "Await the whole window" >> beam.GroupByKey()
            # (group of windows, [(place, Part)])  ->  Ranking
            | "Draw the ranking" >> beam.ParDo(self._fn).with_output_types(Ranking)
        )


class _SelectDoFn(beam.DoFn):
    def __init__(
        self,
        spec: TopK,
        release: Release,
        shards: int,
        layout: Layout,
        period: Period | None,
        readers: Sequence[int] | None = None,
    ) -> None:
        self._spec, self._release, self._shards, self._readers = spec, release, shards, readers
        self._layout, self._period = layout, period

    def process(
        self,
        element: tuple[int, Iterable[PlacedPart]],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401 - Beam's convention
        pane: Any = beam.DoFn.PaneInfoParam,  # noqa: ANN401
    ) -> Iterator[Ranking]:
        check_pane(pane)
        group, gathered = element
        parts = [(place, part) for place, part in gathered if place != HEARTBEAT]
        check_whole(parts, self._shards, self._readers)
        tables = [part.table for place, part in parts if place >= 0]
        del parts
        _check_size(tables)
        layout, spec = self._layout, self._spec
        windows = by_window(tables, layout.group(group)) if layout.windows > 1 else [(0, tables)]
        for number, some in windows:
            of = heading(spec.groups, layout, self._period, number, window)
            yield rank(spec, self._release, of, WindowCounts.of(spec, some, number % layout.parts))


def _check_size(tables: Sequence[pa.RecordBatch]) -> None:
    if sum(map(len, tables)) > MOST_HELD:
        raise Refusal("", f"more than {MOST_HELD:,} different items are held in a window, or in some that are drawn "
                      "from together, which are as many as one worker holds the counts of",
                      "rank shorter windows, or coarser items")  # fmt: skip


def by_window(tables: Sequence[pa.RecordBatch], windows: range) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
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


def rank(spec: TopK, release: Release, of: RankingKey, counted: WindowCounts) -> Ranking:
    """The ranking of one window from its counts."""
    mechanism, label = spec.mechanism, of.label()
    ranks, noisy, noise = spec.draw(counted.histogram, counted.digest, label, release)
    items = counted.items(ranks)
    if mechanism.guarantee.two_stage:
        items = items[spec.order(counted.users_of(items), counted.digest, label, release)]
    if mechanism.guarantee.answer == "set":  # in the order of the domain: that of the draw tells more than was paid for
        order = np.argsort(items)
        items, noisy = items[order], None if noisy is None else noisy[order]
    shown = None if noisy is None else spec.shown(noisy.tolist())
    published, weighed = (None, shown) if mechanism.guarantee.publishes_weights else (shown, None)
    names = tuple(counted.labels(items).to_pylist())
    return Ranking(of.bounds, names, spec.k, mechanism.guarantee.answer, published, noise, of.group, weighed)


@dataclass(frozen=True, eq=False)
class WindowCounts:
    """The counts of one window, of all its items: what is drawn from, and whose they are.

    An item is known by its place in the order of the domain: in a public one its code, in an unknown one its place
    among the labels that are looked at, by their bytes. *Ranks* go by decreasing count, and by that order among equals.

    Args:
        held: (n,) items that somebody holds, in order.
        counts: (n,) theirs, none of them 0; of risers they may be below 0.
        listed: all items that can be ranked, in order: a range from 0, or some of it. Those not held count 0.
        named: the domain, or the labels of an unknown one.
        users: (n,) of a `two_stage` mechanism.
    """

    held: Codes
    counts: Codes
    listed: range | Codes
    named: CodedDomain | pa.Array
    users: Codes | None = None

    @classmethod
    def of(cls, spec: TopK, tables: Sequence[pa.RecordBatch], group: int = 0) -> WindowCounts:
        """From a window's totals {item: code or string, count: int64}, in whatever order they come.

        Args:
            tables: of a public domain each in its order, and no code of one between those of another.
            group: the number of the group of users' rows that they are of.
        """
        domain = spec.domain
        if not domain.is_public:
            return cls._of_labels(tables, spec.head())
        tables = sorted((table for table in tables if len(table)), key=lambda table: table["item"][0].as_py())
        columns = {name: np.concatenate([np.empty(0, np.int64), *(table[name].to_numpy() for table in tables)],
                                        dtype=np.int64)
                   for name in (tables[0].schema.names if tables else ("item", "count"))}  # fmt: skip
        users = columns.get("users")
        if users is None and spec.mechanism.guarantee.two_stage:
            users = np.empty(0, np.int64)
        return cls(columns["item"], columns["count"], domain.listed(group), domain, users)

    @classmethod
    def _of_labels(cls, tables: Sequence[pa.RecordBatch], keep: int | None) -> WindowCounts:
        nothing = make_table(item=pa.array([], pa.large_string()), count=np.empty(0, np.int64))
        head = largest(pa.Table.from_batches([nothing, *tables]), keep).sort_by("item")
        labels = head["item"].combine_chunks().cast(pa.large_string())
        # No item at all is as good as one that nobody holds.
        return cls(np.arange(len(labels)), head["count"].to_numpy(), range(max(len(labels), 1)), labels)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the items and their counts in their order, and of their users where these are beside them: a
        function of the window's counts alone, however they were added up.
        """
        digest = hashlib.sha256(len(self.held).to_bytes(8, "little"))
        for column in (self.held, self.counts, *([] if self.users is None else [self.users])):
            digest.update(np.ascontiguousarray(column, "<i8").data)
        if isinstance(self.named, pa.Array):
            digest.update(bytes.fromhex(digest_of(self.named)))
        return digest.digest()

    @cached_property
    def histogram(self) -> Histogram:
        """Scores below 0 are moved up together, so that the least is 0: a mechanism that is given any looks at their
        differences alone.
        """
        values, sizes = np.empty(0, np.int64), np.empty(0, np.int64)
        if len(self.held):
            values, sizes = self._of_held.histogram.values + self._least, self._of_held.histogram.sizes
        if self._zeros:
            place = int(np.searchsorted(-values, 0))
            values, sizes = np.insert(values, place, 0), np.insert(sizes, place, self._zeros)
        return Histogram(values - self._least, sizes)

    def items(self, ranks: Codes) -> Codes:
        """The items at distinct ranks."""
        found = np.empty(len(ranks), np.int64)
        above = int(np.count_nonzero(self.counts > 0))
        zero = (ranks >= above) & (ranks < above + self._zeros)
        if not zero.all():
            others = ranks[~zero]
            found[~zero] = self.held[self._of_held.items(np.where(others < above, others, others - self._zeros))]
        if zero.any():
            found[zero] = self._unheld(ranks[zero] - above)
        return found

    def users_of(self, items: Codes) -> Codes:
        """How many users hold each of the items."""
        assert self.users is not None
        places = np.searchsorted(self.held, items)
        found = np.zeros(len(items), np.int64)
        inside = np.flatnonzero(places < len(self.held))
        inside = inside[self.held[places[inside]] == items[inside]]
        found[inside] = self.users[places[inside]]
        return found

    def labels(self, items: Codes) -> pa.Array:
        """What the items are called."""
        if isinstance(self.named, pa.Array):
            return self.named.take(pa.array(items))
        return self.named.labels(items)

    @property
    def _zeros(self) -> int:
        """How many items nobody holds."""
        return len(self.listed) - len(self.held)

    @cached_property
    def _least(self) -> int:
        return min(int(self.counts.min()), 0) if len(self.counts) else 0

    @cached_property
    def _of_held(self) -> Named:
        return Named.of(self.counts - self._least if self._least else self.counts)

    def _unheld(self, numbers: Codes) -> Codes:
        """The items of so high a number among those that nobody holds."""
        listed = self.listed
        places = self.held if isinstance(listed, range) else np.searchsorted(listed, self.held)
        gaps = places - np.arange(len(places))  # how many of them come before each that is held
        found = numbers + np.searchsorted(gaps, numbers, "right")
        return found if isinstance(listed, range) else listed[found]


class RankingKey(NamedTuple):
    """What a ranking is of: a window, and a group of it where there are groups."""

    bounds: WindowBounds
    group: str | None = None

    def label(self) -> str:
        """A name of its own among the rankings of a release."""
        return self.bounds.label(self.group)


def heading(groups: Groups | None, layout: Layout, period: Period | None, number: int, window: Any) -> RankingKey:  # noqa: ANN401
    """What the ranking of a number is of.

    Args:
        window: Beam's, which tells the declared one where the tables hold no more than one.
    """
    bounds = window_named(period, number // layout.parts, window, layout.dates > 1)
    return RankingKey(bounds, None if groups is None else groups.name(number % layout.parts))
