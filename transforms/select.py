"""The final stage: all counts of a window to its ranking. Data before it is raw, after it public.

    totals and receipts of item shards --> all of a window group --> Ranking, one for each window

One worker holds the counts of a window: of a public domain those that are not 0, of an unknown domain the largest. It
puts them into the order of the domain, takes their digest, draws, and looks up the labels of the items drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.assign_windows import IntoWindows, window_named
from private_topk.transforms.columnar import Codes, add_up, make_table
from private_topk.transforms.combine import KeyedCounts, NewPairs, PartialCounts, largest
from private_topk.transforms.completeness import (
    NOTHING,
    Counted,
    Fingerprint,
    Receipt,
    check_complete,
    check_pane,
    incomplete,
)
from private_topk.transforms.counters import EmptyRankings, Mark
from private_topk.transforms.domain import CodedDomain, PublicDomain
from private_topk.transforms.errors import crosses, of_another_release
from private_topk.transforms.groups import Groups
from private_topk.transforms.history import History, Step, series_root
from private_topk.transforms.labels import digest_of
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram, IndexedCounts
from private_topk.transforms.mechanisms.exact.series import NewCounts
from private_topk.transforms.mechanisms.mechanism import Flags
from private_topk.transforms.metric import Score
from private_topk.transforms.plan import ExecutionPlan, Partitioning
from private_topk.transforms.release import Ranking, Release
from private_topk.transforms.spec import TopK
from private_topk.transforms.steps import flat_map
from private_topk.transforms.windows import Period, WindowBounds

MAX_HELD = 1 << 26
"""The most nonzero counts held at once: a limit of a worker's memory."""


class SelectTopK(beam.PTransform):
    """((window group, totals or receipt), windows) to one `Ranking` per window.

    Privacy: one draw of `spec.mechanism` per window, a function of the release and the counts, so a retried
    bundle repeats its answer. A window that fires more than once is refused, and so are incomplete data, by an
    IncompleteDataError.

    Memory of a worker: some 30 bytes for each item that somebody holds in the windows of a window group, or in as many
    of them as have 2**26 together; no window, and in it no group of rows, may have more. For a public list, also the
    list. Where a step is published alone, also its new pairs, some 20 bytes each.

    Args:
        step: of windows to date, the one that is published alone.
    """

    def __init__(
        self,
        spec: TopK,
        release: Release,
        plan: ExecutionPlan,
        period: Period | None = None,
        step: Step | None = None,
    ) -> None:
        super().__init__()
        self._fn, self._groups = _SelectDoFn(spec, release, plan, period, step), plan.partitioning.window_groups
        self._period = period

    def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
        totals, windows = inputs
        # A window whose elements were all lost would go unnoticed, so each also gets an empty receipt.
        none = windows | "Start every window group" >> flat_map(_nothing, self._groups).with_output_types(KeyedCounts)
        rankings = (
            (totals, none)
            | "With every window group" >> beam.Flatten()
            | "Await the whole window" >> beam.GroupByKey()
            # (window group, all its counts)  ->  Ranking
            | "Draw the ranking" >> beam.ParDo(self._fn).with_output_types(Ranking)
        )
        return rankings if self._period is None else rankings | "Into their windows" >> IntoWindows(self._period)


def _nothing(_: int, groups: int) -> Iterator[KeyedCounts]:
    yield from ((group, NOTHING) for group in range(groups))


@crosses
class _SelectDoFn(beam.DoFn):
    def __init__(
        self, spec: TopK, release: Release, plan: ExecutionPlan, period: Period | None, step: Step | None = None
    ) -> None:
        self._spec, self._release, self._plan, self._period, self._step = spec, release, plan, period, step
        self._fingerprint = Fingerprint(release.key)
        self._drew, self._empty = Mark(rows_left=False), EmptyRankings()

    def process(
        self,
        element: tuple[int, Iterable[Counted]],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401 - Beam's convention
        pane: Any = beam.DoFn.PaneInfoParam,  # noqa: ANN401
    ) -> Iterator[Ranking]:
        check_pane(pane)
        self._drew.set()
        group, gathered = element
        spec, partitioning = self._spec, self._plan.partitioning
        for windows, tables in self._whole(group, gathered):
            if partitioning.series:
                yield from self._series(windows, tables, gathered)
                continue
            for number, some in by_window(tables, windows) if partitioning.windows > 1 else [(0, tables)]:
                of = ranking_key(spec.groups, partitioning, self._period, number, window)
                if not any(map(len, some)):
                    self._empty.add(of.label())
                yield rank(spec, self._release, of, WindowCounts.of(spec, some, number % partitioning.rankings))

    def _series(self, windows: range, tables: list[pa.RecordBatch], gathered: Iterable[Counted]) -> Iterator[Ranking]:
        """The rankings of all windows to date, a group of users' rows after the other; or of the one that is published
        alone, once what is new in it is kept.
        """
        rankings, period, step = self._plan.partitioning.rankings, self._period, self._step
        assert period is not None
        steps = range(len(period)) if step is None else range(step.number + 1)
        keys: list[list[RankingKey]] = [[] for _ in range(rankings)]
        new: list[list[WindowCounts]] = [[] for _ in range(rankings)]
        parts = by_window(tables, windows) if len(windows) > 1 else [(0, tables)]
        for number, some in parts:
            place = number % rankings
            if number // rankings in steps:
                keys[place].append(ranking_key(self._spec.groups, self._plan.partitioning, period, number, None))
                new[place].append(WindowCounts.of(self._spec, some, place))
        root = series_root(self._release, [window.label() for window in period.windows()], self._spec.parameters())
        histories = [
            History.of_steps(root, place, [counted.digest for counted in counts]) for place, counts in enumerate(new)
        ]
        if step is not None:
            pairs = [counted.table for counted in gathered if isinstance(counted, NewPairs)]
            _check_pairs(pairs, [counts[-1] for counts in new], self._spec.score)
            step.keep([[history.state for history in each] for each in histories], pairs)
        for of_group, counts, each in zip(keys, new, histories, strict=True):
            held = False
            ranked = rank_series(self._spec, of_group, counts, [history.draw() for history in each])
            for number, (ranking, counted) in enumerate(zip(ranked, counts, strict=True)):
                held = held or len(counted.held) > 0
                if step is not None and number < step.number:
                    continue
                if not held:
                    self._empty.add(ranking.label())
                yield ranking

    def _whole(self, group: int, gathered: Iterable[Counted]) -> Iterator[tuple[range, list[pa.RecordBatch]]]:
        """All counts of a window group: of all its windows at once, or, where these have too many, of some after the
        others, for which Beam goes through them again. None before it is known that all are there.

        Raises IncompleteDataError if any are missing or doubled, and InvalidArgument if a single window has too many.
        """
        windows = self._plan.partitioning.group(group)
        held, tables, receipt, fingerprint = np.zeros(len(windows), np.int64), list[pa.RecordBatch](), NOTHING, 0
        for counted in gathered:
            if isinstance(counted, PartialCounts):
                fingerprint += self._fingerprint.of(counted.table)
                held += _rows_of_windows(counted.table, windows)
                tables.append(counted.table)
                if held.sum() > MAX_HELD:
                    tables.clear()
            elif isinstance(counted, Receipt):
                receipt += counted
        check_complete(receipt, fingerprint, group, self._plan.user_shards, self._plan.readers)
        if held.sum() <= MAX_HELD:
            yield windows, tables
            return
        if self._plan.partitioning.series:
            held = held.sum(keepdims=True)  # all windows to date are drawn together
        for part in _parts(held, windows):
            pieces = (counted.table for counted in gathered if isinstance(counted, PartialCounts))
            tables = [some for piece in pieces if len(some := _within(piece, part))]
            if sum(map(len, tables)) != held[part.start - windows.start : part.stop - windows.start].sum():
                raise incomplete("the counts of a window group changed while they were drawn from")
            yield part, tables


def _rows_of_windows(table: pa.RecordBatch, windows: range) -> Codes:
    """How many rows a table has of each of the windows."""
    if "window" not in table.schema.names:
        return np.array([len(table)])
    return np.bincount(table["window"].to_numpy() - windows.start, minlength=len(windows))


def _parts(held: Codes, windows: range) -> Iterator[range]:
    """The windows, as many that follow each other at a time as hold `MAX_HELD` items together."""
    if held.max() > MAX_HELD:
        raise of_another_release(
            "",
            f"more than {MAX_HELD:,} different items are held in a window, or in a group of rows of it: "
            "one worker holds the counts of no more",
            "rank shorter windows, or coarser items",
        )
    start, total = 0, 0
    for number, more in enumerate(held.tolist()):
        if total + more > MAX_HELD:
            yield windows[start:number]
            start, total = number, 0
        total += more
    yield windows[start:]


def _within(table: pa.RecordBatch, windows: range) -> pa.RecordBatch:
    """The rows of some windows, in memory of their own: a slice would keep the whole table."""
    first, last = np.searchsorted(table["window"].to_numpy(), [windows.start, windows.stop])
    return table.take(pa.array(np.arange(first, last)))


def by_window(tables: Sequence[pa.RecordBatch], windows: range) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Every window of the range with its rows of each table. The tables are sorted by window."""
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
    answer = spec.mechanism.guarantee.answer
    drawn = spec.draw(counted.histogram, counted.digest, of.label(), release, counted.catalogued)
    items = counted.items(drawn.ranks)
    if answer == "set":  # in the order of the domain: that of the draw reveals more
        order = np.argsort(items)
        items, drawn = items[order], drawn.in_order(order)
    names = tuple(counted.labels(items).to_pylist())
    return Ranking(
        of.bounds,
        names,
        len(names) if spec.k is None else spec.k,
        answer,
        drawn.noisy_counts,
        drawn.noise,
        of.group,
        drawn.noisy_weights,
        of.group_number,
    )


def _check_pairs(pairs: Sequence[pa.RecordBatch], new: Sequence[WindowCounts], score: Score) -> None:
    """Raise IncompleteDataError unless pairs add up to what is new at their step, group by group."""
    table = pa.Table.from_batches(pairs) if pairs else None
    for group, counted in enumerate(new):
        some = table if table is None or "group" not in table.schema.names else table.filter(pc.field("group") == group)
        found = add_up(np.empty(0, np.int64), np.empty(0, np.int64))
        if some is not None:
            found = add_up(some["item"].to_numpy().astype(np.int64), score.added(some))
        if not all(map(np.array_equal, found, (counted.held, counted.counts))):
            raise incomplete("the pairs to be kept are not those that were counted")


def rank_series(
    spec: TopK, keys: Sequence[RankingKey], new: Sequence[WindowCounts], draws: Sequence[Draw]
) -> Iterator[Ranking]:
    """The rankings of windows to date, in order, from what is new in each.

    Args:
        draws: the keystream of each, of its history (`history.py`).
    """
    added = NewCounts.of([(counted.held, counted.counts) for counted in new])
    listed = new[0].listed
    for step, (of, top) in enumerate(
        zip(keys, spec.mechanism.series(added, listed, spec.max_items, draws), strict=True), 1
    ):
        names = tuple(new[0].labels(top.items).to_pylist())
        ranking = Ranking(of.bounds, names, len(names), "sequence", group=of.group, group_number=of.group_number)
        if spec.draws_counts:
            counts, noise = spec.counts_of_step(top.counts(), step, len(listed))
            ranking = replace(ranking, noisy_counts=counts, noise=noise)
        yield ranking


@dataclass(frozen=True, eq=False)
class WindowCounts:
    """The counts of all items of one window: what the mechanism draws from.

    An item is its place in the order of the domain: in a public one its code, in an unknown one its place among the
    labels that the mechanism looks at, by their bytes. *Ranks* go by decreasing count, ties by that order.

    Args:
        held: (n,) items that somebody holds, in order.
        counts: (n,) theirs, 1 or more.
        listed: all items that can be ranked, in order: a range from 0, or some of it. Those not held count 0.
        named: the domain, or the labels of an unknown one.
        catalogue: of an unknown domain, the items of which are all listed.
    """

    held: Codes
    counts: Codes
    listed: range | Codes
    named: CodedDomain | pa.Array
    catalogue: PublicDomain | None = None

    @classmethod
    def of(cls, spec: TopK, tables: Sequence[pa.RecordBatch], group: int = 0) -> WindowCounts:
        """From a window's totals {item: code or string, count: int64}, in any order.

        Args:
            tables: of a public domain, each in its order, with ranges of codes that do not overlap.
            group: the number of the group of rows.
        """
        domain = spec.domain
        if not domain.is_public:
            return cls._of_labels(tables, spec.head(), domain.catalogue)
        tables = sorted((table for table in tables if len(table)), key=lambda table: table["item"][0].as_py())
        columns = {
            name: np.concatenate([np.empty(0, np.int64), *(table[name].to_numpy() for table in tables)], dtype=np.int64)
            for name in ("item", "count")
        }
        return cls(columns["item"], columns["count"], domain.listed(group), domain)

    @classmethod
    def _of_labels(
        cls, tables: Sequence[pa.RecordBatch], keep: int | None, catalogue: PublicDomain | None
    ) -> WindowCounts:
        nothing = make_table(item=pa.array([], pa.large_string()), count=np.empty(0, np.int64))
        head = largest(pa.Table.from_batches([nothing, *tables]), keep).sort_by("item")
        labels, places = head["item"].cast(pa.large_string()), np.arange(len(head))
        if catalogue is not None:
            held, labels = labels, pa.concat_arrays([labels, catalogue.index().labels]).unique()
            labels = labels.take(pc.sort_indices(labels))
            places = pc.index_in(held, labels).to_numpy().astype(np.int64)
        # A domain without items is treated as one item that nobody holds.
        return cls(places, head["count"].to_numpy(), range(max(len(labels), 1)), labels, catalogue=catalogue)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the items and their counts in order: a function of the window's counts alone, however they were
        added up.
        """
        digest = hashlib.sha256(len(self.held).to_bytes(8, "little"))
        for column in (self.held, self.counts):
            digest.update(np.ascontiguousarray(column, "<i8").data)
        if isinstance(self.named, pa.Array):
            digest.update(bytes.fromhex(digest_of(self.named)))
        return digest.digest()

    @cached_property
    def histogram(self) -> Histogram:
        values, sizes = np.empty(0, np.int64), np.empty(0, np.int64)
        if len(self.held):
            values, sizes = self._of_held.histogram.values, self._of_held.histogram.sizes
        if self._zeros:
            values, sizes = np.append(values, 0), np.append(sizes, self._zeros)
        return Histogram(values, sizes)

    @property
    def catalogued(self) -> Flags | None:
        """Which ranks are of items of the catalogue; None where there is none."""
        if self.catalogue is None:
            return None
        known = self.catalogue.encode(self.labels(np.arange(len(self.listed)))) >= 0
        return known[self.items(np.arange(len(self.listed)))]

    def items(self, ranks: Codes) -> Codes:
        items, zero = np.empty(len(ranks), np.int64), ranks >= len(self.held)
        if not zero.all():
            items[~zero] = self.held[self._of_held.items(ranks[~zero])]
        if zero.any():
            items[zero] = self._unheld(ranks[zero] - len(self.held))
        return items

    def labels(self, items: Codes) -> pa.Array:
        if isinstance(self.named, pa.Array):
            return self.named.take(pa.array(items))
        return self.named.labels(items)

    @property
    def _zeros(self) -> int:
        """How many items nobody holds."""
        return len(self.listed) - len(self.held)

    @cached_property
    def _of_held(self) -> IndexedCounts:
        return IndexedCounts.of(self.counts)

    def _unheld(self, numbers: Codes) -> Codes:
        """The items at these positions among those that nobody holds."""
        listed = self.listed
        places = self.held if isinstance(listed, range) else np.searchsorted(listed, self.held)
        gaps = places - np.arange(len(places))  # how many unheld items come before each held one
        positions = numbers + np.searchsorted(gaps, numbers, "right")
        return positions if isinstance(listed, range) else listed[positions]


class RankingKey(NamedTuple):
    """The window that a ranking is of, and the group with its place in their list, where there are groups."""

    bounds: WindowBounds
    group: str | None = None
    group_number: int | None = None

    def label(self) -> str:
        """A name that is unique among the rankings of a release."""
        return self.bounds.label(self.group)


def ranking_key(
    groups: Groups | None,
    partitioning: Partitioning,
    period: Period | None,
    number: int,
    window: Any,  # noqa: ANN401
) -> RankingKey:
    """The key of the ranking with a number.

    Args:
        window: Beam's window, which determines the declared one if the tables hold just one.
    """
    bounds = window_named(period, number // partitioning.rankings, window, partitioning.time_windows > 1)
    group = number % partitioning.rankings
    return RankingKey(bounds) if groups is None else RankingKey(bounds, groups.name(group), group)
