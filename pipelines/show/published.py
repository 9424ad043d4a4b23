"""A published report: its rows and its manifest. All of it is public."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from private_topk.pipelines.budget.accounting import Entry
from private_topk.pipelines.release.formats import as_text, columns_in, group_of, item_of, label_in
from private_topk.pipelines.release.manifest import Manifest, Window
from private_topk.pipelines.release.promise import not_corrected
from private_topk.pipelines.show import certainty, noise
from private_topk.transforms.errors import printable
from private_topk.transforms.groups import OVERALL
from private_topk.transforms.metric import USERS, Score
from private_topk.transforms.spec import TopK

Rows = Sequence[Mapping[str, Any]]


def of_kept_rows(called: str) -> str:
    """That bounds leave something out of each count or sum."""
    return (
        f"What a person has beyond the bounds is in no {called}: with all rows {called}s may be larger, and in another "
        "order."
    )


class Listing(NamedTuple):
    """The released items of one window, and of one group where there are several.

    Args:
        steps: what noisy counts are multiples of before and after they are rounded; None where no manifest tells.
        drawn: with what; None where its noisy counts do not tell how much was found, or it is too old to be judged.
        helped: its noisy counts come with the draw, and noise has helped what is shown.
        bounded: a bound has kept some of a person's rows out of what was counted.
        changed: what was asked otherwise in the windows before it.
        corrected: other rankings of the same window were published before.
        is_gap: it stands for windows that are missing.
        manifest: of the release that it is of, which knows the law of its noise.
    """

    start: datetime | None
    end: datetime | None
    group: str | None
    rows: Rows
    zone: str = "UTC"
    steps: tuple[float, float] | None = None
    drawn: TopK | None = None
    helped: bool = False
    bounded: bool = False
    changed: str = ""
    corrected: bool = False
    is_gap: bool = False
    manifest: Manifest | None = None

    @property
    def ranked(self) -> bool:
        return bool(self.rows) and self.rows[0]["rank"] is not None

    @property
    def _counts(self) -> list[Any]:
        return [row["noisy_count"] for row in self.rows if row.get("noisy_count") is not None]

    @property
    def counted(self) -> bool:
        return bool(self._counts)

    @property
    def counts(self) -> str:
        """What a count of it is called."""
        return self._score.called

    @property
    def _score(self) -> Score:
        return USERS if self.manifest is None else self.manifest.score

    @property
    def weighed(self) -> bool:
        return any(row.get("noisy_weight") is not None for row in self.rows)

    @property
    def has_ranges(self) -> bool:
        return any(row.get("noise_95") is not None for row in self.rows)

    @property
    def _gap(self) -> float | None:
        """By how much two published counts must differ to tell an order; None where they tell none."""
        counts = self._counts
        stddev = next((row["noise_stddev"] for row in self.rows if row.get("noise_stddev") is not None), None)
        if stddev is None or self.steps is None or not self.ranked or len(counts) < 2:
            return None
        of_all = max(row["noise_95"] for row in self.rows) if self.helped else None
        own = None if self.manifest is None else noise.own_gaussian(self.manifest, len(counts))
        return certainty.least_gap(stddev, len(counts), *self.steps, of_all, own)

    @property
    def certainty(self) -> str:
        """How sure the order is, as far as published counts tell; nothing where none are."""
        gap = self._gap
        return "" if gap is None else certainty.in_words(self._counts, gap, self.counts)

    @property
    def doubtful(self) -> set[int]:
        """The places whose counts contradict them: an item further down has the larger one."""
        if (gap := self._gap) is None:
            return set()
        places = [row["rank"] for row in self.rows if row.get("noisy_count") is not None]
        return {place for place, below in zip(places, certainty.below_a_later(self._counts, gap), strict=True) if below}

    @property
    def disorder(self) -> str:
        """Why counts are out of order, where they are, and what the mark of doubtful places means."""
        if not self.ranked or self._counts == sorted(self._counts, reverse=True):
            return ""
        told = f"{self.counts.capitalize()}s may be out of order: the order is drawn separately."
        if self.doubtful:
            told += f" Places marked ? are doubtful: an item further down has a larger true {self.counts} (95% "
            told += "confidence), so theirs may belong below it or not in the list."
        return told

    @property
    def bias(self) -> str:
        """That the counts are too high, where they are, and what noise alone may have shown.

        All ranges of such counts hold together, with 95%, and no item that is not shown has a larger noisy count than
        the last one: so what is above that by more than two ranges has a larger count than all but those shown.
        """
        if not self.helped or not self.counted:
            return ""
        told = f"These {self.counts}s are too high on average: noise has helped the items shown to be shown."
        low = [str(row["rank"]) for row in self.rows if (row.get("noisy_count") or 0) <= (row.get("noise_95") or 0)]
        if len(low) == len(self.rows):
            told += " Each range reaches down to 0: all of these items may be shown by noise alone."
        elif low and self.ranked:  # the last ones, as these counts are in order
            ranks = f"of rank {low[0]} reaches" if len(low) == 1 else f"of ranks {low[0]} to {low[-1]} reach"
            told += f" The range{'s' * (len(low) > 1)} {ranks} down to 0: noise alone may show what stands there."
        if len(low) < len(self.rows) != (self._listed or 0) and self.ranked:
            above = self._counts[-1] + 2 * max(row["noise_95"] for row in self.rows)
            sure = sum(count > above for count in self._counts)
            if sure:
                which = "the item of rank 1" if sure == 1 else f"the items of ranks 1 to {sure}"
                told += f" Without noise {which} would surely be listed too (95% confidence); others may not."
            else:
                told += " It is sure of none of these items that it would be listed without noise."
        return told

    @property
    def _listed(self) -> int | None:
        """How many items there were to choose from, where a manifest tells."""
        return self.manifest.domain.number if self.manifest and self.manifest.domain else None

    @property
    def noise(self) -> str:
        """That most of it is noise, where published counts tell that."""
        counts = self._counts
        if self.drawn is None or self.steps is None or not counts:
            return ""
        unit, told = self.steps[0], self.rows[0].get("noise_stddev")
        if self.helped and told and (one := self.drawn.noise(len(counts))):  # a series of one step has less
            unit *= told / one.stddev
        return noise.in_words(tuple(round(count / unit) for count in counts), self.drawn)

    def below(self) -> list[str]:
        """The sentences below it."""
        left_out = of_kept_rows(self.counts) if self.counted and (self.bounded or self._score.columns) else ""
        return [line for line in (left_out, self.bias, self.disorder, self.certainty, self.noise) if line]

    @property
    def hours(self) -> bool:
        """Whether it is of a window shorter than a day, which days do not tell."""
        return self.start is not None and self.end is not None and self.end - self.start < timedelta(hours=23)

    def day(self, of_end: bool = False) -> str:
        """The first day in local time of the zone, or the last one; of a window shorter than a day with its time."""
        if self.start is None or self.end is None:
            return "All"
        moment = self.end - timedelta(microseconds=1) if of_end else self.start
        return day_of(moment, self.zone, self.hours)

    def __repr__(self) -> str:
        return "\n".join(table(self))

    def title(self) -> str:
        return f"{when(self.start, self.end, self.zone)}{', corrected' if self.corrected else ''}"

    def caption(self) -> str:
        """The title, with the group where there are groups."""
        return self.title() if self.group is None else f"{self.group}, {self.title()}"


def in_the_newest(groups: Mapping[str | None, Sequence[Listing]]) -> dict[str | None, Listing]:
    """The listing of each group that the newest window has, of groups as `by_group` gives them: its own are first."""
    newest = next((each[-1][:2] for each in groups.values()), None)
    return {group: each[-1] for group, each in groups.items() if each[-1][:2] == newest}


@dataclass(frozen=True)
class PublishedReport:
    """The rankings of one release, or of a series of releases with the same parameters for consecutive windows.

    Args:
        rows: as they are in ranking files.
        manifest: None if there is none, and then nothing is promised.
        heading: what is ranked, as its title begins.
        changes: of a series, the first moment of each window for which something was asked otherwise than before;
            what; and of the windows before it, back to the change before, what was asked otherwise than of the newest,
            None where nothing was.
        lost: the names of manifests whose rankings are lost, and their windows, which count and are not shown; and of
            rankings whose manifests are lost, of which nothing is known.
        rankings_of_a_user: how many rankings one user may have changed, by the manifests here; None of windows to date.
        parts: the manifests of a series, with those of rankings that were corrected.
        corrected: the first moments of the windows of which a correction is shown.
        charged: what else of it the numbers count that a ledger has charged; None where no ledger was asked.
        charged_again: how often of windows of which nothing is here, by their first moments, where more than once.
        disputed: the sentences on what that has charged otherwise than the manifests state, or not at all.
        adopted: the sentence on what that may lack, having been lost.
        limits: the sentences on the budgets there, within which all that is charged stays.
        judged: how many rankings, the newest first, may be looked at for whether most of each is noise.
    """

    rows: Rows
    manifest: Manifest | None = None
    heading: str = ""
    changes: Sequence[tuple[datetime | None, str, str | None]] = ()
    lost: Mapping[str, Collection[Window]] = field(default_factory=dict)
    rankings_of_a_user: int | None = None
    parts: Sequence[Manifest] = ()
    corrected: Collection[datetime | None] = ()
    charged: Sequence[Entry] | None = None
    charged_again: Mapping[datetime | None, int] = field(default_factory=dict)
    disputed: Sequence[str] = ()
    adopted: str = ""
    limits: Sequence[str] = ()
    judged: int = noise.MAX_RANKINGS

    @property
    def _grouped(self) -> bool:
        if self.rows:
            return bool(columns_in(self.rows[0])[0])
        return any(window.group is not None for window in self.windows)

    @property
    def windows(self) -> tuple[Window, ...]:
        """What was declared to be published and is not lost, of which some may be without an item."""
        lost = set[Window]().union(*self.lost.values())
        return () if self.manifest is None else tuple(each for each in self.manifest.windows if each not in lost)

    @property
    def name(self) -> str:
        """The release id, or how many there are in a series, also of those that were corrected or are lost."""
        parts = [str(each.release_id) for each in not_corrected(self.parts)]
        ids = list(dict.fromkeys(parts or [str(row["release_id"]) for row in self.rows]))
        report = None if self.manifest is None else self.manifest.release_id
        if report is None and len(ids) > 1:
            corrected = len(self.manifest.corrects) if self.manifest is not None else 0
            some = f", {corrected} of them {'a correction' if corrected == 1 else 'corrections'}" if corrected else ""
            some += " or only charged" if some and self.charged else ""  # which may never have been published
            return f"{len(ids) + corrected} releases, {ids[0]} to {ids[-1]}{some}"
        return report or (ids[0] if ids else "a ranking")

    @property
    def k(self) -> int | None:
        """How many items were asked for; None for all above a threshold, or if nothing tells."""
        if self.manifest is not None:
            return self.manifest.k
        return self.rows[0]["k"] if self.rows else None

    @property
    def title(self) -> str:
        """A title of one line, such as `Weekly top 50 of 30 groups, 2026-01-05 00:00 to 2026-07-06 00:00 UTC`."""
        groups = list(self.by_group())
        every = () if self.manifest is None else self.manifest.windows  # where all rankings are lost
        shown = {(each.start, each.end) for each in (self.listings() or every)}  # of a group, from when it was listed
        windows = sorted((start, end) for start, end in shown if start and end)
        overall = self.manifest is not None and self.manifest.groups is not None and self.manifest.groups.overall
        several = f"{len(groups) - overall:,} groups{' and overall' if overall else ''}"
        of = "" if groups in ([], [None]) else f" of {groups[0] if len(groups) == 1 else several}"
        parts = [each for each in reversed(not_corrected(self.parts)) if shown & each.bounds()]
        asked = dict.fromkeys(each.k for each in parts) or [self.k]
        what = f"{_rhythm(windows)} top {' or '.join('items' if k is None else f'{k:,}' for k in asked)}".strip()
        what = f"{self.heading}, {what}" if self.heading else what[0].upper() + what[1:]
        what += of
        return f"{what}, {when(windows[0][0], max(end for _, end in windows), self.zone)}" if windows else what

    def leaves_rows_out(self, group: str | None = None) -> bool:
        """Whether a bound may keep rows out of what is counted, in any window of the series; of one group, or all."""
        parts = self.parts or (() if self.manifest is None else (self.manifest,))
        of_groups = group is None or {*group.split(", ")} != {OVERALL}
        return any(part.leaves_rows_out(of_groups) for part in parts)

    @property
    def is_private(self) -> bool:
        return self.manifest is None or self.manifest.private

    @cached_property
    def _drawn(self) -> dict[tuple[datetime | None, datetime | None], tuple[Manifest, TopK | None]]:
        """The manifest of each window and what it was drawn with, which may differ in a series."""
        parts = not_corrected(self.parts) or [each for each in [self.manifest] if each is not None]
        return {at: told for each in parts for told in [(each, noise.drawn_with(each))] for at in each.bounds()}

    def listings(self) -> list[Listing]:
        """The listing of every window and group, in the order of the rows; empty for windows without released items.
        Items and groups are texts, whatever their type in a file; those of several columns as a line of CSV has them.
        """
        by_window: dict[tuple[Any, Any, Any], list[Mapping[str, Any]]] = {}
        grouped = self._grouped
        for window in self.windows:
            if not grouped:
                by_window[window.start, window.end, None] = []
            elif window.group is not None:
                by_window[window.start, window.end, as_text(window.group)] = []
        for row in self.rows:
            place = row["window_start"], row["window_end"], group_of(row)
            by_window.setdefault(place, []).append(with_item(row, item_of(row)))
        groups = len({group for _, _, group in by_window}) or 1
        of_its = {at: self._drawn.get(at[:2], (None, None)) for at in by_window}
        newest = sorted({at[:2] for at in by_window}, key=_in_time, reverse=True)[: self.judged // groups]
        helped = self.manifest is not None and self.manifest.draws_counts
        changed = {start: what for start, what, _ in self.changes}
        return [
            Listing(
                *at,
                rows,
                self.zone,
                self._steps,
                of_its[at][1] if at[:2] in newest else None,
                helped,
                self.leaves_rows_out(at[2]),
                changed.get(at[0], ""),
                at[0] in self.corrected,
                manifest=of_its[at][0],
            )
            for at, rows in by_window.items()
        ]

    def by_group(self) -> dict[str | None, list[Listing]]:
        """The listings of every group, in order of their windows; groups as the newest window has them, so that one
        which was added later stands in its place; those that it no longer has come last.
        """
        groups: dict[str | None, list[Listing]] = {}
        for listing in sorted(self.listings(), key=_in_time, reverse=True):
            groups.setdefault(listing.group, []).append(listing)
        return {group: listings[::-1] for group, listings in groups.items()}

    def tables(self) -> Iterator[str]:
        """The lines of every window."""
        for listing in self.listings():
            yield from table(listing)
            yield ""

    def of_group(self, group: str | None) -> PublishedReport:
        """The report of one group, with the same guarantee, from the first window that has the group."""
        rows = [row for row in self.rows if group_of(row) == group]
        if self.manifest is None:
            return replace(self, rows=rows)
        windows = tuple(
            window for window in self.manifest.windows if window.group is None or as_text(window.group) == group
        )
        first = min((window.start for window in windows if window.start is not None), default=None)
        groups = len({window.group for window in self.manifest.windows})
        return replace(
            self,
            rows=rows,
            manifest=msgspec.structs.replace(self.manifest, windows=windows),
            changes=[each for each in self.changes if first is None or each[0] is None or each[0] > first],
            judged=max(1, self.judged // max(1, groups)),
        )

    @property
    def _steps(self) -> tuple[float, float] | None:
        if self.manifest is None:
            return None
        unit = float(self.manifest.score.unit)
        return unit, unit * (self.manifest.counts_rounded_to or 1)

    @property
    def zone(self) -> str:
        """The time zone in which days begin and moments are shown."""
        return (None if self.manifest is None else self.manifest.time_zone) or "UTC"


def titled(report: PublishedReport, titles: Mapping[tuple[str, ...], str]) -> PublishedReport:
    """A report with items by their titles; what has none, or one that others have too, keeps its own name.

    Args:
        titles: of an item by what each of its columns has.
    """
    names = columns_in(report.rows[0])[1] if report.rows else ("item",)
    times = Counter(titles.values())
    alone = {item: title for item, title in titles.items() if title and times[title] == 1}
    shown = (alone.get(tuple(str(row[name]) for name in names), label_in(row, names)) for row in report.rows)
    return replace(report, rows=[with_item(row, item) for row, item in zip(report.rows, shown, strict=True)])


def with_item(row: Mapping[str, Any], item: object) -> dict[str, Any]:
    """A row with this text as its only column of the item."""
    names = columns_in(row)[1]
    return {"item" if name in names else name: item if name in names else value for name, value in row.items()}


def share_starts(listings: Sequence[Listing]) -> bool:
    """Whether listings of one group are told apart by their ends alone, as those of windows to date."""
    return len({listing.start for listing in listings}) < len(listings)


def _rhythm(windows: Sequence[Any]) -> str:
    """The rhythm of windows in one word, such as daily or weekly, or nothing."""
    if len(windows) < 2 or any(end > start for (_, end), (start, _) in pairwise(windows)):
        return ""
    if all(end - start == timedelta(hours=1) for start, end in windows):
        return "hourly"
    days = {round((end - start) / timedelta(days=1)) for start, end in windows}  # the clocks change now and then
    known = {"daily": {1}, "weekly": {7}, "monthly": {28, 29, 30, 31}, "yearly": {365, 366}}
    return next((name for name, some in known.items() if days <= some), "")


def _zone(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (ValueError, KeyError, OSError):  # a zone that this machine's database does not have
        return ZoneInfo("UTC")


def day_of(moment: datetime, zone: str, hours: bool = False) -> str:
    """The day of a moment as people read it, in local time of a zone; with the time of day where that tells more."""
    seconds = ":%S" * bool(moment.second or moment.microsecond)
    return f"{moment.astimezone(_zone(zone)):{f'%Y-%m-%d %H:%M{seconds}' if hours else '%Y-%m-%d'}}"


def when(start: datetime | None, end: datetime | None, zone: str = "UTC") -> str:
    """A window as people read it, in local time of a zone: its first and last day, or its hours, with the offsets from
    UTC if these differ.
    """
    if start is None or end is None:
        return "All rows"
    local = _zone(zone)
    zone = local.key
    first, last = start.astimezone(local), end.astimezone(local)
    if first.time() == last.time() == time():
        return f"{_days(first.date(), last.date() - timedelta(days=1))} ({zone})"
    minutes = not any(moment.second or moment.microsecond for moment in (first, last))
    shown = [moment.replace(tzinfo=None).isoformat(" ", "minutes" if minutes else "auto") for moment in (first, last)]
    if first.utcoffset() != last.utcoffset():
        shown = [f"{text}{moment.isoformat()[-6:]}" for text, moment in zip(shown, (first, last), strict=True)]
    return f"{shown[0]} to {shown[1]} {zone}"


def _days(first: date, last: date) -> str:
    """Days in words, without what the last one says for both: 23 to 29 November 2026; whole months by their names."""
    months = first.day == (last + timedelta(days=1)).day == 1
    words = [[*([] if months else [f"{day.day}"]), f"{day:%B}", f"{day.year}"] for day in (first, last)]
    while words[0] and words[0][-1] == words[1][len(words[0]) - 1]:
        words[0].pop()
    return " to ".join(" ".join(each) for each in words if each)


def _in_time(window: Sequence[Any]) -> tuple[bool, Any, bool, Any]:
    start, end = window[:2]
    return start is not None, start, end is not None, end


def table(listing: Listing) -> list[str]:
    """The items of one window, below its name."""
    rows, title = listing.rows, printable(listing.caption())
    if not rows:
        return [f"{title}: no item was released"]
    if rows[0]["returned"] < rows[0]["k"]:
        title += f": {rows[0]['returned']} of {rows[0]['k']}, as the guarantee allows"
    if not listing.ranked:
        title += ": a set, in no order of rank"
    width = len(str(rows[0]["k"]))
    doubtful = listing.doubtful
    lines = [
        f"{'?' if row['rank'] in doubtful else ' '} {row['rank'] or '-':>{width}}  {printable(row['item'])}"
        for row in rows
    ]
    widest = max(map(len, lines))
    lines = [
        f"{line:<{widest}}  {number}" if (number := number_of(row)) else line
        for line, row in zip(lines, rows, strict=True)
    ]
    return [title, *lines, *(f"  {'':>{width}}  {line}" for line in listing.below())]


def number_of(row: Mapping[str, Any]) -> str:
    """What is published of an item beside its place."""
    count, noise, weight = (row.get(name) for name in ("noisy_count", "noise_95", "noisy_weight"))
    if count is not None:
        return f"about {count:,}{'' if noise is None else f' ± {noise:,}'}"
    return "" if weight is None else f"weighs about {weight:,.2f}"
