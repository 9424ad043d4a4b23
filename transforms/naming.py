"""Public domain: a draw from the table of values, the names of what was drawn, and the two put together.

    totals of each item shard --> their table of values --> draw, one element a window --> outline --> Ranking
              \\----------------------------------------------> names of what is asked for --/

No stage holds all counts of a window. The names come back by another hop, which may lose or double elements as any
other: a ranking comes out only if every place of its outline was named, once.

Where a mechanism orders candidates by their users, their numbers come back beside the names, for the second draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.columnar import Codes, make_table, partition
from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.guard import check_named, check_pane, check_whole, lost
from private_topk.transforms.headings import Heading, heading
from private_topk.transforms.keys import Release
from private_topk.transforms.layout import Layout
from private_topk.transforms.parts import HEARTBEAT, OUTLINE, Part, PlacedPart, by_group
from private_topk.transforms.release import Ranking, Selection
from private_topk.transforms.tallies import Tally, find_items, tabulate, tallies, users_of
from private_topk.transforms.windows import Period

__all__ = ["RankByValues", "rank_by_values"]

_NOBODY = np.empty(0, np.int64)


class RankByValues(beam.PTransform):
    """((place, totals) and manifests, other answers and heartbeats) to one `Ranking` per window.

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
        self._draw = _DrawDoFn(selection, release, shards, layout, period, readers)
        self._name = _NameDoFn(selection, layout)
        self._assemble = _AssembleDoFn(selection, release, layout, period)

    def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
        totals, others = inputs
        drawn = (
            (totals | "Tabulate" >> beam.Map(_tabulated).with_output_types(PlacedPart), others)
            | "Add empty windows" >> beam.Flatten()
            | "Bring windows together" >> beam.FlatMap(by_group, self._layout).with_output_types(tuple[int, PlacedPart])
            | "Await the whole window" >> beam.GroupByKey()
            # (group of windows, [(place, Part)])  ->  (place, what is asked of it) and (OUTLINE, what was drawn)
            | "Draw the ranking" >> beam.ParDo(self._draw).with_output_types(PlacedPart)
        )
        asked = drawn | "Ask for names" >> beam.FlatMap(_of_items).with_output_types(PlacedPart)
        outlines = drawn | "Outline" >> beam.FlatMap(_of_outlines).with_output_types(PlacedPart)
        names = (
            (totals | "Keep the counts" >> beam.FlatMap(_of_items).with_output_types(PlacedPart), asked)
            | "Counts beside what is asked" >> beam.Flatten()
            | "Bring both together" >> beam.GroupByKey()
            # (place, [totals, what is asked])  ->  (place, names)
            | "Name the items" >> beam.ParDo(self._name).with_output_types(PlacedPart)
        )
        return (
            (names, outlines, others)
            | "Beside the empty windows" >> beam.Flatten()
            | "To their windows" >> beam.FlatMap(_by_window, self._layout).with_output_types(tuple[int, PlacedPart])
            | "Await all names" >> beam.GroupByKey()
            # (group of windows, [outline, names])  ->  Ranking
            | "Write down the ranking" >> beam.ParDo(self._assemble).with_output_types(Ranking)
        )


def _tabulated(placed: PlacedPart) -> PlacedPart:
    place, part = placed
    return placed if place < 0 else (place, Part(part.sources, tabulate(part.table)))


def _of_items(placed: PlacedPart) -> Iterator[PlacedPart]:
    if placed[0] >= 0:
        yield placed


def _of_outlines(placed: PlacedPart) -> Iterator[PlacedPart]:
    if placed[0] == OUTLINE:
        yield placed


def _by_window(placed: PlacedPart, layout: Layout) -> Iterator[tuple[int, PlacedPart]]:
    place, part = placed
    if place >= 0:
        yield layout.group_of(place), placed
    elif place == OUTLINE:
        yield int(part.sources[0]) // layout.together, placed
    elif place == HEARTBEAT:
        yield from ((group, placed) for group in range(layout.groups))


class _DrawDoFn(beam.DoFn):
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
    ) -> Iterator[PlacedPart]:
        check_pane(pane)
        layout, group = self._layout, element[0]
        parts = [(place, part) for place, part in element[1] if place != HEARTBEAT]
        check_whole(parts, self._shards, self._readers)
        tables = [(place % layout.item_shards, part.table) for place, part in parts if place >= 0]
        labels = [heading(self._selection.groups, layout, self._period, number, window).label()
                  for number in layout.group(group)]  # fmt: skip
        yield from self.hand_on(tables, group, labels)

    def hand_on(
        self, tables: list[tuple[int, pa.RecordBatch]], group: int, labels: Sequence[str]
    ) -> Iterator[PlacedPart]:
        """Draw from the tables of values of every item shard: the outline, and what is asked of each shard.

        Args:
            labels: the public names of the group's windows.
        """
        layout, windows = self._layout, self._layout.group(group)
        drawn = [
            self._drawn(number, tally, label)
            for number, tally, label in zip(windows, tallies(tables, layout, windows), labels, strict=True)
        ]
        table = self._outline(drawn)
        yield OUTLINE, Part(np.array(windows), table.drop_columns(["shard", "value", "number"]))
        digests = _digests(tables)
        open_ones = table.filter(pc.is_null(table["code"]))
        for shard, rows in partition(open_ones["shard"].to_numpy(), layout.item_shards):
            asked = open_ones.take(pa.array(rows)).select(["window", "position", "value", "number"])
            of_each = pa.array([digests[number, shard] for number in asked["window"].to_pylist()], pa.binary())
            yield group * layout.item_shards + shard, Part(_NOBODY, asked.append_column("digest", of_each))

    def _drawn(self, window: int, tally: Tally, label: str) -> _Drawn:
        ranks, noisy, _ = self._selection.draw(tally.histogram(), tally.digest, label, self._release)
        values, shards, numbers = tally.where(ranks)
        return _Drawn(np.full(len(ranks), window), np.arange(len(ranks)), shards, values, numbers,
                      tally.seen[shards], np.zeros(len(ranks), np.int64) if noisy is None else noisy,
                      np.full(len(ranks), tally.digest, object))  # fmt: skip

    def _outline(self, drawn: list[_Drawn]) -> pa.RecordBatch:
        """All places of the rankings. Of items in a shard that nobody holds anything of, the code is known here."""
        all_of_them = _Drawn(*(np.concatenate(column) for column in zip(*drawn, strict=True)))
        codes = self._layout.nth_codes(all_of_them.window, all_of_them.shard, all_of_them.number)
        domain = self._selection.domain
        assert not isinstance(domain, UnknownDomain)
        labels = np.full(len(codes), None, object)
        if not all_of_them.asked.all():
            labels[~all_of_them.asked] = domain.labels(codes[~all_of_them.asked]).to_pylist()
        columns: dict[str, Any] = {**all_of_them._asdict(), "item": pa.array(labels, pa.large_string())}
        columns["code"] = pa.array(codes, mask=columns.pop("asked"))
        digest = columns.pop("digest")
        if self._selection.mechanism.orders_by_users:  # nobody holds what is known here
            columns |= {"users": np.zeros(len(codes), np.int64), "digest": pa.array(digest, pa.binary())}
        return make_table(**columns)


class _Drawn(NamedTuple):
    """Places of rankings: the rank in the answer, the item shard and the number of the item in its value there.

    Args:
        asked: whether the shard has to be asked which item that is.
        digest: of all counts of the window.
    """

    window: Codes
    position: Codes
    shard: Codes
    value: Codes
    number: Codes
    asked: np.ndarray
    noisy: Codes
    digest: np.ndarray


def _digests(tables: list[tuple[int, pa.RecordBatch]]) -> dict[tuple[int, int], bytes]:
    """By window and item shard."""
    found = {}
    for shard, table in tables:
        rows = table.filter(pc.greater(pc.binary_length(table["digest"]), 0))
        for window, digest in zip(rows["window"].to_pylist(), rows["digest"].to_pylist(), strict=True):
            found[window, shard] = digest
    return found


class _NameDoFn(beam.DoFn):
    def __init__(self, selection: Selection, layout: Layout) -> None:
        self._domain, self._layout = selection.domain, layout
        self._counted = selection.mechanism.orders_by_users

    def process(self, element: tuple[int, Iterable[Part]]) -> Iterator[PlacedPart]:
        place, parts = element
        both: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        for part in parts:
            both["position" in part.table.schema.names].append(part.table)
        totals, asked = both
        if not asked:
            return
        if len(totals) != 1 or len(asked) != 1:
            raise lost("the counts to be named came more or less than once")
        listed = partial(self._layout.listed, item_shard=place % self._layout.item_shards)
        codes = find_items(totals[0], asked[0], listed)
        if codes is None:
            raise lost("the counts to be named are not those that were drawn from")
        assert not isinstance(self._domain, UnknownDomain)
        found = {name: asked[0][name] for name in ("window", "position")}
        if self._counted:
            found["users"] = users_of(totals[0], found["window"].to_numpy(), codes)
        yield place, Part(_NOBODY, make_table(**found, code=codes, item=self._domain.labels(codes)))


class _AssembleDoFn(beam.DoFn):
    def __init__(self, selection: Selection, release: Release, layout: Layout, period: Period | None) -> None:
        self._selection, self._release, self._layout, self._period = selection, release, layout, period

    def process(
        self,
        element: tuple[int, Iterable[PlacedPart]],
        window: Any = beam.DoFn.WindowParam,  # noqa: ANN401 - Beam's convention
        pane: Any = beam.DoFn.PaneInfoParam,  # noqa: ANN401
    ) -> Iterator[Ranking]:
        check_pane(pane)
        parts = list(element[1])
        windows = self._layout.group(element[0])
        outline = check_named(
            [part for place, part in parts if place == OUTLINE],
            [part.table for place, part in parts if place >= 0],
            windows,
        )
        starts = np.searchsorted(outline["window"].to_numpy(), np.arange(windows.start, windows.stop + 1)).tolist()
        for number, start, end in zip(windows, starts[:-1], starts[1:], strict=True):
            of = heading(self._selection.groups, self._layout, self._period, number, window)
            yield _ranking(self._selection, self._release, of, outline.slice(start, end - start))


def rank_by_values(selection: Selection, release: Release, of: Heading, totals: Iterable[pa.RecordBatch]) -> Ranking:
    """The ranking of one window from its totals {item: code, count: int64}: all stages without Beam.

    Args:
        totals: one table of every item shard with a count above 0, in any order.
    """
    layout = Layout.of(selection.domain)
    assert layout.lists is None, "whose window says nothing of the group"
    by_shard = {int(table["item"][0].as_py()) >> layout.item_bits: table for table in totals if len(table)}
    tables = [(shard, tabulate(table)) for shard, table in by_shard.items()]
    (_, outline), *asked = _DrawDoFn(selection, release, 0, layout, None).hand_on(tables, 0, [of.label()])
    name = _NameDoFn(selection, layout)
    names = [part.table for shard, its in asked
             for _, part in name.process((shard, [Part(_NOBODY, by_shard[shard]), its]))]  # fmt: skip
    return _ranking(selection, release, of, check_named([outline], names, range(1)))


def _ranking(selection: Selection, release: Release, of: Heading, rows: pa.RecordBatch) -> Ranking:
    mechanism = selection.mechanism
    if mechanism.orders_by_users:
        digest = rows["digest"][0].as_py()
        rows = rows.take(pa.array(selection.order(rows["users"].to_numpy(), digest, of.label(), release)))
    if mechanism.answer == "set":  # in the order of the domain: that of the draw tells more than was paid for
        rows = rows.take(pa.array(np.argsort(rows["code"].to_numpy())))
    items, noisy = tuple(rows["item"].to_pylist()), selection.shown(rows["noisy"].to_pylist())
    counted = None if selection.publish_counts is None else noisy
    weighed = noisy if mechanism.publishes_weights else None
    noise = selection.noise(len(items))
    return Ranking(of.bounds, items, selection.k, mechanism.answer, counted, noise, of.group, weighed)
