"""`rank(frame, ...)`: a private ranking of a table in memory, for a notebook; `dry_run` of it; and its `Rankings`."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, update_wrapper
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeVar, Unpack, overload

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from private_topk.pipelines.budget.ledger import Account
from private_topk.pipelines.dropped_rows import data_quality_of, tell_dropped_rows
from private_topk.pipelines.dry_run import READY, lines_of
from private_topk.pipelines.dry_run import dry_run as facts_of
from private_topk.pipelines.files import as_path
from private_topk.pipelines.process import is_read_along
from private_topk.pipelines.question import Question
from private_topk.pipelines.release.formats import (
    RankingSchema,
    arrow_schema,
    as_text,
    format_of,
    group_of,
    rankings_in,
)
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.place import pair_at
from private_topk.pipelines.release.store import publish
from private_topk.pipelines.report import Report, held_by
from private_topk.pipelines.run import run
from private_topk.pipelines.show.charts import Picture, bump_chart, has_places, list_chart
from private_topk.pipelines.show.page import page, snippet
from private_topk.pipelines.show.published import PublishedReport, titled
from private_topk.pipelines.show.reading import read_published, titles_at
from private_topk.pipelines.show.templates import STYLE
from private_topk.pipelines.sinks import ToFile
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.frame import Frame, table_of
from private_topk.runners import prepare
from private_topk.transforms.asked import Asked
from private_topk.transforms.domain import Domain, check_digits
from private_topk.transforms.errors import InvalidArgument, by_signature, printable, verbatim
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.choice import AUTO
from private_topk.transforms.release import Ranking, Release, check_stays
from private_topk.transforms.spec import check_kinds
from private_topk.transforms.types import kind_of
from private_topk.transforms.validation import named_as_arguments
from private_topk.transforms.windows import Period

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True)
class _Asked:
    """What the arguments of `rank` ask for, with the table of its rows."""

    question: Question
    frame: Frame
    account: Account | None
    show_dropped_rows: bool | None

    @contextmanager
    def report(self) -> Iterator[Report]:
        """The report, whose output is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="private-topk-") as folder:
            yield Report(self.question, self.frame, ToFile(f"{folder}/ranking.parquet"), self.account)


def _ask(
    rows: object,
    k: int | None = None,
    mechanism: Mechanism | str = AUTO,
    domain: Domain | Iterable[Any] | Mapping[str, Iterable[Any]] | str | os.PathLike[str] | None = None,
    *,
    user: str = "user",
    item: str | Sequence[str] = "item",
    time: str | None = None,
    time_unit: str | None = None,
    value: str | None = None,
    group: str | Sequence[str] | None = None,
    period: Period | None = None,
    release: Release | None = None,
    privacy_unit: str = "user-window",
    horizon: int | None = None,
    ledger: str | None = None,
    dataset: str | None = None,
    show_dropped_rows: bool | None = None,
    **asked: Unpack[Asked],
) -> _Asked:
    check_kinds(release=release)
    account = Account.of({"ledger": ledger, "dataset": dataset})
    if account is not None:
        check_stays(release)
    items = Columns(user, item).of("item")
    question = Question.of(
        k,
        mechanism,
        domain,
        items=items,
        period=period,
        release=release,
        privacy_unit=privacy_unit,
        horizon=horizon,
        held=None
        if account is None
        else held_by(account, {**asked, "mechanism": mechanism, "privacy_unit": privacy_unit}),
        **asked,
    )
    groups = question.asked.groups
    _column("time_unit", time_unit, "period", period)
    columns = Columns(
        user,
        items,
        _column("time", time, "period", period),
        time_unit,
        value=_column("value", value, "amounts", question.asked.score.columns or None),
        group=_column("group", group, "groups", groups),
    )
    columns.check_apart(period)
    frame = Frame(table_of(rows, columns, period), columns)
    if groups is not None and len(columns.of("group")) == 1:
        check_digits("groups", kind_of(frame.table[columns.of("group")[0]].type), groups.labels)
    if len(items) == 1:
        check_digits("domain", kind_of(frame.table[items[0]].type), question.asked.domain)
    return _Asked(question, frame, account, show_dropped_rows)


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _taking(ask: Callable[_P, _Asked]) -> Callable[[Callable[[_Asked], _R]], Callable[_P, _R]]:
    """A door that takes the arguments of `ask`, and has the name and the docstring of what then happens."""

    def door_to(end: Callable[[_Asked], _R]) -> Callable[_P, _R]:
        def door(*given: _P.args, **named: _P.kwargs) -> _R:
            return end(ask(*given, **named))

        update_wrapper(door, end)
        returned = signature(end).return_annotation
        door.__annotations__ = {**ask.__annotations__, "return": returned}
        door.__signature__ = signature(ask).replace(return_annotation=returned)  # type: ignore[attr-defined]
        return named_as_arguments(door)

    return door_to


@_taking(_ask)
def rank(asked: _Asked) -> Rankings:
    """The private top k items of a table: by how many *users* have each item, not by how many rows; or by amounts.

    Every call is a release and costs its epsilon, also when it is called again to see another answer: only the same
    release over the same rows gives the same ranking at no cost. With a ledger each release is charged once, however
    often its cell of a notebook runs, and a release that would exceed the budget is refused.

    Args:
        rows: a polars or pandas frame, an Arrow table or reader, a DuckDB relation, or anything else that hands over
            Arrow's columns.
        k: how many items; None for all above the threshold of "weighted-gaussian" (docs/finding.md).
        mechanism: how to draw them: an object such as `Joint(epsilon=1.0)`, or a name such as "joint". By default one
            that applies is chosen by the arguments alone, and told on stderr with its reason (docs/choosing.md).
        domain: the public list of items, which must not come from the rows: a list, a column, a frame of one, or the
            path of a file; or `UnknownDomain()`, which needs a delta.
        epsilon: with a mechanism's name, or without one.
        user, item: names of columns, of texts, whole numbers or UUIDs. A list of names, as in ["country", "title"],
            makes an item of several columns: a list of them is then one of tuples, or a frame with these columns.
        time: with a period: the name of the column of times, by default "time". What its values mean is what they mean
            in a file (docs/formats.md): without a zone they are UTC. Where windows have another one, a column of such
            timestamps or dates is refused, and of a column of texts that is told on stderr.
        time_unit: what a plain number in the time column counts since 1970 UTC: s, ms, us or ns. A column of numbers
            needs it; numbers written as text are seconds without it.
        period: the declared windows, such as `Period.of("2026-01-05", "2026-02-02", "7d")`, or of whole months by
            "month": each is ranked, empty or not. Without it all rows are one window.
        max_items_per_user: keep at most so many items of every user and window, chosen by a hash.
        publish_counts: an epsilon of its own, on top of the mechanism's, for noisy counts of the released items; or
            "drawn": those that the draw decides by, at no epsilon of their own (docs/run.md).
        release: key and id that make the draw repeatable, on the command line and on any runner too; by default new
            ones.
        privacy_unit: user-window: the mechanism's epsilon is that of every window. user: it is the total of all
            windows, which share it.
        horizon: with the unit user, how many windows there will be in all.
        delta: likewise, for a mechanism that has one. Otherwise, with the unit user, it pays for composing windows.
        amounts: rank by amounts and not by users, such as `Amounts(max_value=60)`: docs/amounts.md.
        value: with amounts: the name of their column, by default "value".
        groups: a ranking for every group of a public list, such as countries: the list, or `Groups(list, per_user=2)`
            where a user counts in several: docs/groups.md. A `domain` that is a dict of lists names them itself;
            `overall` and `groups_per_user` need `groups` all the same.
        group: with groups: the name of their column, by default "group", or a list of names.
        neighbours, parameters: with a mechanism's name: "add-remove" or "replace-one", and its other parameters.
        unknown_domain, domain_range, max_value, value_resolution, groups_per_user, publish_counts_delta, round_counts:
            the fields of the command line, in place of objects.
        overall: with groups: all rows have a ranking too, as one more group named "overall".
        max_windows_per_user: with the unit user, a user counts in at most so many windows of the period, which share
            the total: docs/windows.md.
        ledger, dataset: whose budget is charged, and the URL of the database that keeps it: docs/budget.md. They need a
            `release` whose key and id stay, such as `Release(ReleaseKey.parse("file:key"), "weekly")`.
        show_dropped_rows: tell on stderr roughly how many rows were dropped, and whether any was left: for those who
            may read the rows, and covered by no epsilon. None tells it in a notebook, which keeps it under the cell,
            and in a terminal.

    Returns:
        The rankings of all windows. A notebook shows them with their guarantee in words.

    Cost: that of a run on Beam's runner in this process, a second or two and then about a second a million rows.

    Guarantee: the mechanism's, plus that of `publish_counts`, for one user's rows; what it covers is in the result.

    Raises:
        InvalidArgument: an argument breaks its rule; nothing has been drawn then. No message holds a value of the rows.
    """
    with asked.report() as report:
        done = run(report, prepare("direct", []))
        tell_dropped_rows(done, asked.show_dropped_rows)
        manifest = pair_at(report.sink.uri).manifest
        assert manifest is not None
        table = pq.read_table(report.sink.uri)
        return Rankings(table, msgspec.structs.replace(manifest, output=None, ranking_sha256=None))


@_taking(_ask)
def dry_run(asked: _Asked) -> None:
    """Print what `rank` would do with the same arguments, and what a ledger would say. Nothing is drawn or charged.

    Where `rank` would tell of dropped rows, these are read, and stderr tells roughly how many would drop out, and why.

    Raises:
        InvalidArgument: `rank` would refuse it.
    """
    with asked.report() as report:
        facts = facts_of(report, prepare("direct", []))
        print(*lines_of([(name, told) for name, told in facts if name != "output"]), sep="\n")
        if is_read_along() if asked.show_dropped_rows is None else asked.show_dropped_rows:
            print(*map(printable, data_quality_of(report).lines()), sep="\n", file=sys.stderr)
        print(READY)


_PARTNERS = {
    "period": 'Period.of("2026-01-05", "2026-02-02", "7d")',
    "amounts": "Amounts(max_value=60)",
    "groups": 'the public list of groups, such as ["DE", "FR"],',
}
"""What is given with the name of a column, in words for its refusal."""


def _column(role: str, name: Any, partner: str, its: object) -> Any:  # noqa: ANN401 - a name, or several
    """The name of a column that is read where its partner is given. Raises InvalidArgument for a name without it."""
    if its is None and name is not None:
        raise InvalidArgument(role, f"needs {{{partner}}}", f"give {_PARTNERS[partner]} too, or leave {role} out")
    return None if its is None else role if name is None else name


@dataclass(frozen=True, eq=False)
class Rankings:
    """The rankings of all windows of one release, and every public fact of it. All of it may be published.

    A sequence of the `Ranking` of each window and group, as `PrivateTopK` yields them: `rankings[0].items`, `.window`
    and `.to_rows()`. Items of several columns are tuples there, and columns in rows and frames.

    Args:
        table: one row for each released item, with the columns of a ranking file. Items are int64 where the rows'
            column and the domain are of integers up to int64.
        manifest: every other public fact, as the manifest beside a ranking file has them.
    """

    table: pa.Table = field(repr=False)
    manifest: Manifest = field(repr=False)
    _read: PublishedReport | None = field(default=None, repr=False)
    _titles: Mapping[tuple[str, ...], str] | None = field(default=None, repr=False)

    @classmethod
    @by_signature
    def read(cls, path: str | os.PathLike[str]) -> Rankings:
        """The rankings of a published file, or of a folder of them: one release or a series, as `show` reads them.

        Raises InvalidArgument as that does, and where a manifest is lost.
        """
        found = read_published(as_path(path, "path"))
        if found.manifest is None:
            rule = f"has a ranking without its manifest: {verbatim(str(path))}"
            raise InvalidArgument("path", rule, "copy that there too")
        shown = found.parts[0] if len(found.parts) == 1 else found.manifest
        manifest = msgspec.structs.replace(shown, windows=found.windows, output=None, ranking_sha256=None)
        order = {(at.start, at.end, at.group and as_text(at.group)): place for place, at in enumerate(found.windows)}
        rows = sorted(found.rows, key=lambda row: order[row["window_start"], row["window_end"], group_of(row)])
        schema = RankingSchema.of(manifest)
        rows = [{**row, "item": int(row["item"])} if schema.integers else row for row in rows]  # CSV has no types
        return cls(pa.Table.from_pylist(rows, arrow_schema(schema)), manifest, found)

    def __len__(self) -> int:
        return len(self.windows)

    def __iter__(self) -> Iterator[Ranking]:
        return iter(self.windows)

    @overload
    def __getitem__(self, place: int) -> Ranking: ...
    @overload
    def __getitem__(self, place: slice) -> list[Ranking]: ...
    def __getitem__(self, place: int | slice) -> Ranking | list[Ranking]:
        if not isinstance(place, SupportsIndex | slice):
            raise InvalidArgument(
                "",
                "rankings are taken by their number",
                "those of a group are [its for its in rankings if its.group == G]",
            )
        return self.windows[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rankings) and self.table.equals(other.table)

    def __hash__(self) -> int:
        return hash(self.manifest.release_id)

    @cached_property
    def windows(self) -> list[Ranking]:
        return rankings_in(self.to_rows(), self.manifest)

    @property
    def items(self) -> tuple[Any, ...]:
        """The items of the only ranking. Raises InvalidArgument where there are several."""
        if len(self) != 1:
            raise InvalidArgument(
                "",
                f"items are those of one ranking, and there are {len(self)}, of all windows and groups",
                "take one, such as rankings[0].items, or .to_polars()",
            )
        return self.windows[0].items

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each released item, with the columns of a ranking file."""
        return self.table.to_pylist()

    def __repr__(self) -> str:
        return f"Rankings(release={self.manifest.release_id!r}, rankings={len(self)}, k={self.manifest.k})"

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_polars(self) -> polars.DataFrame:
        import polars

        frame = polars.from_arrow(self.table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """Raises InvalidArgument where pandas is not installed."""
        try:
            return self.table.to_pandas()
        except ImportError:
            raise InvalidArgument(
                "", "to_pandas() needs pandas", "`pip install pandas`, or take .to_polars()"
            ) from None

    @by_signature
    def plot(self, group: str | None = None) -> Picture:
        """A picture of the places over the windows; of one window, of its list, with published counts and their noise.

        Raises InvalidArgument otherwise.

        Args:
            group: whose, where there are several.
        """
        by_group = self.report().by_group()
        if group not in by_group:
            if None in by_group:
                raise InvalidArgument("group", "must be left out: this ranking has no groups")
            raise InvalidArgument(
                "group", f"must be one of {verbatim(', '.join(map(str, by_group)))}", "a plot shows one group"
            )
        listings = by_group[group]
        if has_places(listings):
            return Picture(bump_chart(listings, "places"), STYLE)
        if len(listings) == 1 and listings[0].rows:
            return Picture(list_chart(listings[0], "list"), STYLE)
        any_item = any(listing.rows for listing in listings)
        why = "sets have no places to follow over windows" if any_item else "no item was released"
        raise InvalidArgument("plot", f"has nothing to draw: {why}", "print the rankings")

    @partial(by_signature, argument=lambda field: "titles" if field == "item_titles" else field)
    def titled(self, titles: Mapping[Any, str] | str | os.PathLike[str]) -> Rankings:
        """The same rankings with titles for items where they are printed, plotted or a page; rows and files keep items.

        Args:
            titles: of an item; what has none, or one that others have too, keeps its own name. Those of a frame are
                `dict(zip(books["id"], books["title"]))`; or a table's path, read as `show --item-titles` reads it.

        Raises:
            InvalidArgument: `titles` is no mapping to texts, or no such table.
        """
        if isinstance(titles, str | os.PathLike):
            return replace(self, _titles=titles_at(as_path(titles, "titles"), self.report()))
        if not isinstance(titles, Mapping) or not all(isinstance(title, str) for title in titles.values()):
            raise InvalidArgument(
                "titles", "must be a path or a dict of items to texts", "such as dict(zip(ids, titles))"
            )
        named = {tuple(map(str, item if isinstance(item, tuple) else (item,))): title for item, title in titles.items()}
        return replace(self, _titles=named)

    @by_signature
    def html(self, title: str = "") -> str:
        """A page that stands alone, to be passed on. The `title` says what is ranked.

        It is a text: `Path("places.html").write_text(rankings.html("Drinks"), "utf-8")` saves it.
        """
        if not isinstance(title, str):
            raise InvalidArgument("title", f"must be a text, got {type(title).__name__}")
        return page(replace(self.report(), heading=title))

    @partial(by_signature, argument=lambda field: "path" if field == "output" else field)
    def write(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """A ranking file and its manifest, as `private-topk run` writes them.

        Raises InvalidArgument where one stands, and for another ending; the rankings stay as they are.
        """
        place = as_path(path, "path")
        if self._read is not None and len(self._read.parts) != 1:
            raise InvalidArgument("", "are of several releases, each with a manifest of its own", "copy their files")
        try:
            codec = format_of(place)
        except InvalidArgument as refusal:
            remedy = "other kinds of files are written from .to_polars(), .to_pandas() or .to_arrow()"
            remedy += "; for Excel, take the time zones off the windows first (docs/run.md)"
            raise InvalidArgument("output", refusal.rule, remedy) from None
        rows = codec.encode(self.to_rows(), RankingSchema.of(self.manifest))
        publish(place, rows, self.manifest, overwrite)

    def report(self) -> PublishedReport:
        """The rankings as a report that can be shown."""
        report = self._read or PublishedReport(self.to_rows(), self.manifest)
        return report if self._titles is None else titled(report, self._titles)

    def __str__(self) -> str:
        from private_topk.pipelines.show.words import in_text

        return "\n".join(in_text(self.report()))

    def _repr_html_(self) -> str:
        name = hashlib.sha256(repr(self.to_rows()).encode()).hexdigest()[:12]
        return snippet(self.report(), f"ptk-{name}")
