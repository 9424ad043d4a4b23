"""The whole way from rows to rankings, for any pipeline: `rows | PrivateTopK(...)`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Unpack

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows

from private_topk.transforms.asked import Asked, answer, mechanism_for
from private_topk.transforms.assign_windows import AssignWindows, DropLateBlocks, EveryWindow
from private_topk.transforms.combine import CombineCounts
from private_topk.transforms.contributions import BoundContributions
from private_topk.transforms.counters import exact_counters as counting_exactly
from private_topk.transforms.counters import warnings_of_workers
from private_topk.transforms.domain import Domain, check_columns, check_digits, padded
from private_topk.transforms.elements import ElementSchema
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.history import Step
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.choice import AUTO
from private_topk.transforms.mechanisms.parameters import as_written, check_parameter
from private_topk.transforms.plan import Execution, plan
from private_topk.transforms.release import Ranking, Release, check_paid
from private_topk.transforms.rows import MakeBlocks, ShardByUser
from private_topk.transforms.select import SelectTopK
from private_topk.transforms.spec import TopK, check_kinds
from private_topk.transforms.steps import flat_map
from private_topk.transforms.validation import (
    answer_once,
    check_key,
    check_lists,
    check_windowing,
    grouped_in_windows,
    named_as_arguments,
)
from private_topk.transforms.windows import Period, utc_text

DEFAULT_SHARDS = 64


@beam.typehints.with_output_types(Ranking)
class PrivateTopK(beam.PTransform):
    """(user, item) pairs to the differentially private top k items: one `Ranking` per window.

    Elements are tuples or lists of two, or rows and dicts with the fields `user` and `item`. Any other type is refused
    where the transform is applied, as far as Beam knows it by then. As they flow elements refuse nothing: one with a
    None, or of another shape, is dropped and counted.

    Args:
        k: how many items; None for all above the threshold of a mechanism for private partition selection, such as
            "weighted-gaussian".
        mechanism: how to draw them: an object such as `Joint(epsilon=1.0)`, or a name such as "joint" with `epsilon`.
            Its epsilon and delta are the cost of every ranking: a user of several groups of a window, or with
            `overall`, costs them as often. By default one that applies is chosen by the arguments alone
            (docs/choosing.md).
        domain: the public list of items, which must not come from the elements: a list, a column, a frame of one, or
            the path of a file, which workers read again; consecutive integers, as a `RangeDomain`; or
            `UnknownDomain()`.
        max_items_per_user: keep at most so many items of every user and window, chosen by a hash.
        publish_counts: a budget of its own for noisy counts of the released items; a number is its epsilon. Or
            "drawn": the counts that the draw decides by, at no epsilon of their own.
        release: key and id that make the draw repeatable; by default new random ones for each input that it is applied
            to. A random key stays in the memory of this process: workers that are other processes need one that they
            can read. In a pipeline a release answers one input, once.
        period: the declared windows of event time: every one is published, empty or not, and its ranking is in that
            window, whatever the windows of the input are. Input that is windowed already needs it; amounts are refused
            in windows that overlap and in panes that accumulate. Elements that were given no time lie in none of the
            windows.
        reveal_active_windows: take the windows of the input in place of a period, and accept that a window is
            published where somebody was active in it and not where nobody was. That tells of a user who is alone in
            one, and no epsilon covers it.
        shards: how many user shards; any power of two gives the same ranking.
        user, item, value, group: the names of the fields, where elements are rows or dicts with other names. A list of
            names, as in item=["country", "title"], makes an item of several fields, and so for groups; the domain is
            then a list of tuples, and so are the items of a `Ranking`, whose rows have these columns.
        waits_for_timers: the runner's watermark waits for timers, as Flink's, Dataflow's and Prism's does and that of
            Beam's in-process streaming runner does not: there a job would fail. An unbounded input is then deduplicated
            as it arrives, in the memory of its distinct pairs; otherwise all rows of a window are gathered. The ranking
            is the same.
        amounts: rank by amounts and not by users: such as `Amounts(max_value=60)`, of which one user adds at most 60 to
            an item's score. Elements are then tuples or lists of three, (user, item, value), or have the field `value`;
            one without an amount, None or NaN, is dropped (docs/amounts.md).
        groups: a ranking for every group of a public list, such as countries: the list, or `Groups`, with how many of
            them a user counts in (docs/groups.md). Elements are then (user, item, group), or have the field `group`.
            Where `domain` is a dict of lists, one for each group, these are the groups.
        max_windows_per_user: a user counts in at most so many windows of the period, chosen by a hash of those that
            they are active in (docs/windows.md). Bounded input only.
        epsilon, delta: with a mechanism's name, or without one; a chosen one that needs no delta spends none. The
            choice and its reason are logged at the level INFO, and shown on the runner's page of the transform.
        neighbours, parameters: with a mechanism's name, likewise.
        unknown_domain, domain_range, max_value, value_resolution, groups_per_user, publish_counts_delta, round_counts:
            the fields of the command line, in place of objects.
        overall: with groups: all rows have a ranking too, as one more group named "overall"; elements whose group is
            missing or not listed count in it alone.
        exact_counters: count exactly how many elements this transform dropped, and why, or left: for tests. No epsilon
            covers that. Late ones that the runner drops are not among them (docs/beam.md says where to look).

    Attributes:
        columns: the names of the columns of items, and of those of groups, in the rows of a `Ranking`: `item` and
            `group`, or of several fields their own.
        user_column: the name of the field of users; None where elements may be tuples, whose places have no names.
        top_k, period, release: what is drawn, in which windows, by which key: what a ledger is charged for. A random
            release is that of the first input.
        blocks: what draws them.
        fields: the names of the fields of elements that have a role under another name, for the ledger too: of other
            fields of the same rows, an answer is another one.

    Guarantee: within a window, `mechanism`'s plus that of `publish_counts`, for one user's rows in that window; with
    `reveal_active_windows` only where others are active in the window as well. Rankings of several windows compose:
    with `max_windows_per_user` so many of them for all of a user's rows, and for those in one window two for every
    window that overlaps it, itself included. So do those of several groups where a user counts in more than one:
    `TopK.rankings_of_a_user` times as much.

    Raises:
        ValueError: at construction, or where it is applied: an argument breaks its rule, the input is windowed and
            no period given, or its windows may fire more than once.
        RuntimeError: in the job, by whatever waits for it: the runner lost counts of a window, or handed them over
            twice. Nothing is published for that window. With `reveal_active_windows`, one of which everything is lost
            looks like one without rows.
    """

    __pandas_priority__ = 10_000  # pandas leaves `frame | rank` to this class, as other libraries do

    @named_as_arguments
    def __init__(
        self,
        k: int | None = None,
        mechanism: Mechanism | str = AUTO,
        domain: Domain | Iterable[Any] | Mapping[str, Iterable[Any]] | os.PathLike[str] | None = None,
        *,
        release: Release | None = None,
        period: Period | None = None,
        shards: int = DEFAULT_SHARDS,
        waits_for_timers: bool = False,
        reveal_active_windows: bool = False,
        user: str | None = None,
        item: str | Sequence[str] | None = None,
        value: str | None = None,
        group: str | Sequence[str] | None = None,
        exact_counters: bool = False,
        **asked: Unpack[Asked],
    ) -> None:
        super().__init__()
        check_kinds(release=release, period=period)
        if reveal_active_windows and period is not None:
            raise InvalidArgument(
                "reveal_active_windows", "does not go with {period}: every window of a period is published"
            )
        items = ElementSchema(user, item).names("item")
        mechanism, since = mechanism_for(mechanism, period)
        spec, reason = answer(_settled, lambda spec: spec.mechanism, k, mechanism, domain, items, **asked)
        self._reason = reason or since
        if self._reason is not None:
            name = spec.mechanism.about.name
            logging.getLogger(__name__).info("mechanism: %s (%s)", name, self._reason)
        schema = ElementSchema(user, item, value, spec.score, group, spec.groups is not None)
        if spec.groups is not None:
            check_columns("groups", schema.names("group"), spec.groups.labels)
        for sentence in padded(domain=spec.domain, groups=spec.groups and spec.groups.labels):
            logging.getLogger(__name__).warning("%s", sentence)
        self.columns, self.fields = (schema.published("item"), schema.published("group")), schema.renamed()
        self.user_column = None if schema.order else schema.names("user")[0]
        self.top_k, self.period, self.release = spec.over(period), period, release or Release.fresh()
        self.reveal_active_windows, self._schema, self._exact = reveal_active_windows, schema, exact_counters
        self._execution = Execution(shards, waits_for_timers=waits_for_timers)
        self.blocks, self._is_random, self._is_used = self._drawing(self.release), release is None, False

    def _drawing(self, release: Release) -> RankBlocks:
        windows = self.period, self._execution, self.reveal_active_windows
        return RankBlocks(self.top_k, release, *windows, columns=self.columns)

    def display_data(self) -> dict[str, Any]:
        # Beam asks as a pipeline starts, on every runner, and leaves what is raised as it is.
        check_paid(self)
        return self.blocks.display_data() | ({} if self._reason is None else {"mechanism_chosen_since": self._reason})

    def __ror__(self, left: Any, label: str | None = None) -> Any:  # noqa: ANN401 - whatever stands before the bar
        if hasattr(left, "__arrow_c_stream__") or hasattr(left, "__dataframe__"):
            rule = f"PrivateTopK is applied to a PCollection of elements, got a {type(left).__name__}"
            raise InvalidArgument("", rule, "rank(...) takes tables in memory")
        return super().__ror__(left, label)

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        # (user, item), with a group or a value too  ->  block  ->  Ranking
        if not isinstance(pairs, beam.PCollection):
            raise InvalidArgument(
                "",
                "PrivateTopK is applied to one PCollection of elements, neither to a pipeline itself nor to several",
                "as in pipeline | beam.Create(pairs) | PrivateTopK(...); beam.Flatten() joins several",
            )
        kinds, spec = self._schema.check(pairs.element_type), self.top_k
        if names := self._schema.unchecked(pairs.element_type):
            logging.getLogger(__name__).warning(
                "PrivateTopK cannot check that elements have the fields %s, since Beam does not know their type: those "
                "without are left out. Map them to beam.Row, or declare .with_output_types(...)",
                names,
            )
        if grouped_in_windows(pairs):
            logging.getLogger(__name__).warning(
                "Beam's in-process runner for streams hands over the groups of a window when the window has ended, so "
                "that PrivateTopK drops them as late: run this pipeline on Prism, Flink or Dataflow"
            )
        check_digits("domain", kinds.get("item"), spec.domain, self._schema.order)
        if spec.groups is not None:
            check_digits("groups", kinds.get("group"), spec.groups.labels, self._schema.order)
        with counting_exactly(self._exact), warnings_of_workers():
            again = self._is_random and self._is_used  # by one key, equal answers would tell that inputs are equal
            blocks = self._drawing(Release.fresh()) if again else self.blocks
            rankings = pairs | MakeBlocks(with_times=self.period is not None, schema=self._schema) | blocks
        self._is_used = True
        return rankings


def _settled(spec: TopK, delta: float | Fraction | None, aside: bool) -> TopK:
    """The specification, whose every window has the whole budget, in decimals: ten times 0.1 fit into 1. Raises
    InvalidArgument for a delta without a use.
    """
    if delta is not None and not aside:
        name = spec.mechanism.about.name
        raise InvalidArgument("delta", f"does not apply to {name}, which needs none", "leave it out")
    if delta:
        check_parameter("delta", delta)
    return replace(spec, mechanism=as_written(spec.mechanism), publish_counts=as_written(spec.publish_counts))


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(Ranking)
class RankBlocks(beam.PTransform):
    """Blocks of rows to one `Ranking` per window. The code path of every runner and source.

    Args:
        period: the declared windows; blocks then have a column of times.
        execution: what the launch offers.
        reveal_active_windows: as for `PrivateTopK`.
        step: of windows to date, the one that is published alone: blocks then also hold the pairs that were counted
            before, {user: uint64, item: code, first}, and `group` and `value` where there are any.
        columns: in which items and groups are published.
    """

    def __init__(
        self,
        spec: TopK,
        release: Release,
        period: Period | None,
        execution: Execution | None = None,
        reveal_active_windows: bool = False,
        step: Step | None = None,
        columns: tuple[tuple[str, ...], tuple[str, ...]] = (("item",), ("group",)),
    ) -> None:
        super().__init__()
        self._step, self._columns = step, columns
        self._spec, self._release, self._period = spec.over(period), release, period
        self._execution = execution or Execution()
        self._windows_are_public = period is not None or reveal_active_windows

    def display_data(self) -> dict[str, Any]:
        spec, period = self._spec, self._period
        shown = {
            "release": self._release.id,
            "k": spec.k,
            "mechanism": spec.mechanism.about.name,
            "epsilon": spec.epsilon(),
            "epsilon_of_counts": spec.publish_counts and spec.publish_counts.epsilon,
            "delta": spec.delta(),
            "rankings_of_a_user": each if (each := spec.rankings_of_a_user()) > 1 else None,
            "domain": spec.domain.summary(),
            "period": period and f"{len(period)} windows, {utc_text(period.start)} to {utc_text(period.end)}",
            "groups": spec.groups and spec.groups.size,
            **{name: value and str(value) for name, value in spec.score.options().items()},
        }
        return {name: value for name, value in shown.items() if value is not None}

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        spec, key, step = self._spec, self._release.key, self._step
        number = None if step is None else step.number
        check_key(key, blocks.pipeline.runner, blocks.pipeline.options)
        check_lists(spec, blocks.pipeline.runner)
        # block  ->  block in its windows, or with their numbers
        placed = blocks | "Assign windows" >> AssignWindows(self._period, number)
        check_windowing(blocks, placed, spec, self._period, self._windows_are_public)
        if not placed.is_bounded and not self._execution.readers:
            placed |= "Drop late blocks" >> DropLateBlocks()
        in_global_window = isinstance(placed.windowing.windowfn, GlobalWindows)
        execution_plan = plan(spec, self._execution, self._period, in_global_window, placed.is_bounded, number)
        answer_once(blocks.pipeline, self._release)
        windows = placed | "Every window" >> EveryWindow(self._period, execution_plan.windows)
        # block  ->  (user shard, rows)
        rows = placed | "Shard by user" >> ShardByUser(spec, key, execution_plan)
        # (user shard, rows)  ->  (item shard, partial counts or receipt): the privacy proof starts here
        counts = (rows, windows) | "Bound contributions" >> BoundContributions(spec, key, execution_plan)
        # (item shard, partial counts or receipt)  ->  (window group, totals or receipt)
        totals = counts | "Combine counts" >> CombineCounts(spec, key, execution_plan)
        # (window group, all its totals and receipts)  ->  Ranking, if the receipts add up
        rankings = (totals, windows) | "Select top k" >> SelectTopK(
            spec, self._release, execution_plan, self._period, step
        )
        if all(len(names) == 1 for names in self._columns):
            return rankings
        # Ranking of labels  ->  Ranking in columns
        columns = self._columns
        apart = flat_map(lambda ranking: [ranking.in_columns(*columns)]).with_output_types(Ranking)
        return rankings | "In columns" >> apart
