"""The whole way from rows to rankings, for any pipeline: `rows | PrivateTopK(...)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms import window

from private_topk.transforms.combine import AddUp
from private_topk.transforms.completeness import statements
from private_topk.transforms.contributions import CountContributions
from private_topk.transforms.domain import Domain
from private_topk.transforms.elements import Shape
from private_topk.transforms.errors import Refusal
from private_topk.transforms.groups import Groups
from private_topk.transforms.heartbeats import AnswerForEmpty, NameWindows, WakeShards
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.metric import Amounts, Risers
from private_topk.transforms.parts import PlacedPart, heartbeat
from private_topk.transforms.plan import Layout
from private_topk.transforms.release import Ranking, Release
from private_topk.transforms.rows import MakeBlocks, ShardByUser
from private_topk.transforms.select import SelectTopK
from private_topk.transforms.spec import CountBudget, TopK
from private_topk.transforms.user_shards import UserShard
from private_topk.transforms.validation import (
    check_all_windows,
    check_key,
    check_kinds,
    refuse_second_firings,
)
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.assign import AssignWindows, IntoWindows

__all__ = ["PrivateTopK", "RankBlocks"]

DEFAULT_SHARDS = 64


@beam.typehints.with_output_types(Ranking)
class PrivateTopK(beam.PTransform):
    """(user, item) pairs to the differentially private top k items: one `Ranking` per window.

    Elements are tuples or lists of two, or rows and dicts with the fields `user` and `item`. Any other type is refused
    where the transform is applied, as far as Beam knows it by then. As they flow elements refuse nothing: one with a
    None, or of another shape, is left out and counted.

    Args:
        k: how many items.
        mechanism: how to draw them, such as `Joint(epsilon=1.0)`: its epsilon and delta are the cost of every window.
        domain: the public list of items, as a `PublicDomain` or any iterable of labels; consecutive integers, as a
            `RangeDomain`; or `UnknownDomain()`.
        max_items_per_user: keep at most so many items of every user and window, chosen by a hash.
        publish_counts: a budget of its own for noisy counts of the released items; a number is its epsilon.
        release: key and id that make the draw repeatable; by default new random ones. A random key stays in the memory
            of this process: workers that are other processes need one that they can read.
        period: the declared windows of event time: every one is published, empty or not. Input that is windowed
            already needs it. Elements that were given no time lie in none of the windows.
        reveal_active_windows: take the windows of the input in place of a period, and accept that a window is
            published where somebody was active in it and not where nobody was. That tells of a user who is alone in
            one, and no epsilon covers it.
        shards: how many user shards; any power of two gives the same ranking.
        user, item, value, group: the names of the fields, where elements are rows or dicts with other names.
        waits_for_timers: the runner's watermark waits for timers, as Flink's, Dataflow's and Prism's does and that of
            Beam's in-process streaming runner does not. An unbounded input is then deduplicated as it arrives, in the
            memory of its distinct pairs; otherwise all rows of a window are gathered. The ranking is the same.
        amounts: rank by amounts and not by users: such as `Amounts(max_value=60)`, of which one user adds at most 60 to
            an item's score. Elements are then tuples or lists of three, (user, item, value), or have the field `value`;
            one without an amount, None or NaN, is left out (docs/amounts.md).
        groups: a ranking for every group of a public list, such as countries: the list, or `Groups`, with how many of
            them a user counts in (docs/groups.md). Elements are then (user, item, group), or have the field `group`.
            Where `domain` is a dict of lists, one for each group, these are the groups.
        max_windows_per_user: a user counts in at most so many windows of the period, chosen by a hash of those that
            they are active in (docs/windows-per-user.md). Bounded input only.
        risers: rank by how much items rise against the window before, such as `Risers(0.5)` (docs/risers.md). Bounded
            input only, with the rows of one window before the period.

    Guarantee: within a window, `mechanism`'s plus that of `publish_counts`, for one user's rows in that window; with
    `reveal_active_windows` only where others are active in the window as well. Rankings of several windows compose:
    with `max_windows_per_user` so many of them for all of a user's rows, and for those in one window two for every
    window that overlaps it, itself included; with `risers` three of them for a user's rows in a window and the one
    before. So do those of several groups where a user counts in more than one: `TopK.rankings_of_a_user` times as
    much.

    Raises:
        ValueError: at construction, or where it is applied: an argument breaks its rule, the input is windowed and
            no period given, or its windows may fire more than once.
        IncompleteDataError: in the job: the runner lost counts of a window, or handed them over twice. Nothing is
            published for that window. With `reveal_active_windows`, one of which everything is lost looks like one
            without rows.
    """

    def __init__(
        self,
        k: int,
        mechanism: Mechanism,
        domain: Domain | Iterable[str | int],
        max_items_per_user: int | None = None,
        publish_counts: CountBudget | float | None = None,
        release: Release | None = None,
        period: Period | None = None,
        shards: int = DEFAULT_SHARDS,
        waits_for_timers: bool = False,
        reveal_active_windows: bool = False,
        user: str | None = None,
        item: str | None = None,
        amounts: Amounts | None = None,
        value: str | None = None,
        groups: Groups | Iterable[str | int] | None = None,
        group: str | None = None,
        max_windows_per_user: int | None = None,
        risers: Risers | None = None,
    ) -> None:
        super().__init__()
        check_kinds(release=release, period=period)
        for name, flag in (("waits_for_timers", waits_for_timers), ("reveal_active_windows", reveal_active_windows)):
            if not isinstance(flag, bool):
                raise Refusal(name, f"must be True or False, got {type(flag).__name__}")
        if reveal_active_windows and period is not None:
            raise Refusal("reveal_active_windows", "does not go with {period}, of which every window is published")
        given = k, mechanism, domain, max_items_per_user, publish_counts, amounts, groups, max_windows_per_user, risers
        spec = TopK(*given)  # type: ignore[arg-type]  # lists may stand for a domain and for groups
        shape = Shape(user, item, value, amounts is not None, group, spec.groups is not None)
        self._period, self._shape = period, shape
        self._rank = RankBlocks(
            spec,
            release or Release.fresh(),
            period,
            shards,
            waits_for_timers,
            reveal_active_windows=reveal_active_windows,
        )

    def display_data(self) -> dict[str, Any]:
        return self._rank.display_data()

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        # pairs: (user, item), or with a group, an amount
        if self._period is None:
            return pairs | MakeBlocks(shape=self._shape) | self._rank
        blocks = pairs | MakeBlocks(with_times=True, shape=self._shape)
        return blocks | "Cut into the declared windows" >> AssignWindows(self._rank.reads or self._period) | self._rank


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(Ranking)
class RankBlocks(beam.PTransform):
    """Blocks of rows, each of one window, to one `Ranking` per window. The road that every runner and source takes.

    Args:
        period, shards, waits_for_timers, reveal_active_windows: as for `PrivateTopK`.
        cores: how many blocks, and user shards of a bounded input, each worker handles at a time.
        readers: those that state what they have sent, if they do: nothing is drawn unless exactly that was counted.
        by_reference: as for `CountContributions`.
    """

    def __init__(
        self,
        spec: TopK,
        release: Release,
        period: Period | None,
        shards: int,
        waits_for_timers: bool = False,
        reveal_active_windows: bool = False,
        cores: int = 1,
        readers: Sequence[int] | None = None,
        by_reference: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(shards, bool) or shards not in {1 << n for n in range(17)}:
            raise ValueError(f"shards must be a power of two from 1 to 65536, got {shards!r}")
        self._spec, self._release, self._period, self._shards = spec, release, period, shards
        self._waits_for_timers, self._cores, self._readers = waits_for_timers, cores, readers
        self._by_reference = by_reference
        self._windows_are_public = period is not None or reveal_active_windows
        self.reads = spec.reads(period)

    def display_data(self) -> dict[str, Any]:
        spec = self._spec
        return {"k": spec.k, "mechanism": spec.mechanism.about.name, "epsilon": spec.epsilon(), "delta": spec.delta(),
                "domain": spec.domain.words()}  # fmt: skip

    def _check(self, blocks: beam.PCollection) -> None:
        refuse_second_firings(blocks)
        if not self._windows_are_public and not isinstance(blocks.windowing.windowfn, window.GlobalWindows):
            raise Refusal("period", "must be given for input that is windowed: of its windows only those that somebody "
                          "was active in would be published, which tells of a user who is alone in one",
                          "declare the windows, or accept that with {reveal_active_windows}")  # fmt: skip
        check_all_windows(self._spec, self._period, blocks.is_bounded)

    def _sharding(self, blocks: beam.PCollection, rows: Layout, cores: int, waking: int | None) -> ShardByUser:
        spec, everything = self._spec, isinstance(blocks.windowing.windowfn, window.GlobalWindows)
        together = everything and blocks.is_bounded and not self._by_reference
        return ShardByUser(spec.domain, self._release.key, self._shards, rows, cores, spec.amounts,
                           spec.groups, waking, together)  # fmt: skip

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        self._check(blocks)
        check_key(self._release.key, blocks.pipeline.runner, blocks.pipeline.options)
        spec, key, groups = self._spec, self._release.key, self._spec.groups
        numbered = self._period if blocks.is_bounded else None
        most, risers = spec.max_windows_per_user, spec.risers
        many = self._shards if blocks.is_bounded else 0
        layout = Layout.of(spec.domain, numbered, 0 if groups is None else groups.size, many)
        rows = layout if risers is None else Layout.of(spec.domain, self.reads, layout.split, many)
        cores = self._cores if isinstance(blocks.windowing.windowfn, window.GlobalWindows) else 1
        waking = self._readers[0] if blocks.is_bounded and self._readers else None
        pairs = blocks | "Shard by user" >> self._sharding(blocks, rows, cores, waking)
        names = blocks | "Name every window" >> NameWindows(None if numbered else self._period)
        limit, waits, weighting = spec.max_items_per_user, self._waits_for_timers, spec.mechanism.weighting
        cap, per_user = spec.amounts.cap if spec.amounts else None, groups.per_user if groups else 1
        answers: list[beam.PCollection] = []
        if waits and not blocks.is_bounded:  # state waits for a shard's first element to set its timer
            wake = WakeShards(UserShard(layout, key, None, cap).no_pairs(), self._shards)
            empties = names | "Wake every user shard" >> wake
            pairs = (pairs, empties) | "Add empty user shards" >> beam.Flatten()
        elif waking is None:
            answers = [(pairs, names) | "Answer for empty user shards" >> AnswerForEmpty(self._shards)]
        counting = CountContributions(rows, key, limit, waits, cores, cap, per_user, weighting, most, risers,
                                      self._by_reference)  # fmt: skip
        ahead = not self._by_reference and weighting is None
        added = AddUp(layout, spec.head(), spec.least(), ahead, self._by_reference)
        counts = pairs | "Bound contributions" >> counting
        if self._readers is not None and waking is None:
            said = blocks | "What readers state" >> beam.FlatMap(statements).with_output_types(PlacedPart)
            answers.append(said)
        totals = counts | "Count items" >> added
        heartbeats = names | "Beat" >> beam.Map(lambda _: heartbeat()).with_output_types(PlacedPart)
        last = SelectTopK(spec, self._release, self._shards, layout, self._period, self._readers)
        rankings = (totals, *answers, heartbeats) | "Select top k" >> last
        return rankings if numbered is None else rankings | "Into their windows" >> IntoWindows(numbered)
