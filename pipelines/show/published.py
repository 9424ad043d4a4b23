"""What there is to show of a published report: its rows and what its manifest says. All of it is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

__all__ = ["Listing", "PublishedReport", "when"]

Rows = Sequence[Mapping[str, Any]]


class Listing(NamedTuple):
    """The released items of one window, and of one group where there are several."""

    start: datetime | None
    end: datetime | None
    group: str | None
    rows: Rows
    zone: str = "UTC"

    @property
    def items(self) -> tuple[str, ...]:
        return tuple(row["item"] for row in self.rows)

    @property
    def ranked(self) -> bool:
        return bool(self.rows) and self.rows[0]["rank"] is not None

    @property
    def counted(self) -> bool:
        return any(row.get("noisy_count") is not None for row in self.rows)

    @property
    def weighed(self) -> bool:
        return any(row.get("noisy_weight") is not None for row in self.rows)

    @property
    def has_ranges(self) -> bool:
        return any(row.get("noise_95") is not None for row in self.rows)

    @property
    def local_start(self) -> datetime:
        """The start by the clocks of the zone."""
        assert self.start is not None
        return self.start.astimezone(_zone(self.zone))

    def title(self) -> str:
        return when(self.start, self.end, self.zone)

    def caption(self) -> str:
        """The title, within all groups."""
        return self.title() if self.group is None else f"{self.group}, {self.title()}"


@dataclass(frozen=True)
class PublishedReport:
    """The rankings of one release, or of a series of releases that ask the same of one window after the other.

    Args:
        rows: the columns of `FIELDS`, and maybe one more that names a group.
        facts: the manifest; empty where there is none, and whatever is missing in it is not said.
        group: the name of the column that tells groups apart; by default `group`, where there is one.
    """

    rows: Rows
    facts: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None

    def __post_init__(self) -> None:
        if self.group is None and self.rows and "group" in self.rows[0]:
            object.__setattr__(self, "group", "group")

    @property
    def name(self) -> str:
        """The release id, or how many there are in a series."""
        ids = list(dict.fromkeys(str(row["release_id"]) for row in self.rows))
        if "report" not in self.facts and len(ids) > 1:
            return f"{len(ids)} releases, {ids[0]} to {ids[-1]}"
        return str(self.facts.get("report") or (ids[0] if ids else "a ranking"))

    @property
    def title(self) -> str:
        """What it is, in a line: `Weekly top 50 of each of 30 groups, 2026-01-05 to 2026-07-05`."""
        k = self.facts.get("k") or (self.rows[0]["k"] if self.rows else None)
        groups, windows = (
            list(self.by_group()),
            sorted({(its.start, its.end) for its in self.listings() if its.start and its.end}),
        )
        of = "" if groups in ([], [None]) else f" of {groups[0]}" if len(groups) == 1 else f" of {len(groups):,} groups"
        what = f"{_rhythm(windows)} top {'items' if k is None else f'{k:,}'}".strip()
        what = what[0].upper() + what[1:] + (" risers" if self.facts.get("against") else "") + of
        zone = str(self.facts.get("time_zone", "UTC"))
        return f"{what}, {_span(windows[0][0], max(end for _, end in windows), zone)}" if windows else what

    @property
    def is_private(self) -> bool:
        return self.facts.get("private", True) is not False

    def listings(self) -> list[Listing]:
        """Every window and group, in the order of the rows; a window of the manifest that released nothing is empty."""
        found: dict[tuple[Any, Any, Any], list[Mapping[str, Any]]] = {}
        for window in self.facts.get("windows") or ():
            group = None if self.group is None else window.get("group")
            if self.group is None or group is not None:
                found[_moment(window.get("start")), _moment(window.get("end")), group] = []
        for row in self.rows:
            group = None if self.group is None else row.get(self.group)
            found.setdefault((row["window_start"], row["window_end"], group), []).append(row)
        zone = str(self.facts.get("time_zone", "UTC"))
        return [Listing(*place, rows, zone) for place, rows in found.items()]

    def by_group(self) -> dict[str | None, list[Listing]]:
        """The listings of every group, in order of their windows."""
        found: dict[str | None, list[Listing]] = {}
        for listing in self.listings():
            found.setdefault(listing.group, []).append(listing)
        return {group: sorted(of_it, key=_in_time) for group, of_it in found.items()}

    def of_group(self, group: str | None) -> PublishedReport:
        """One group's part of it, which promises the same."""
        rows = [row for row in self.rows if row.get(self.group or "") == group]
        windows = [window for window in self.facts.get("windows") or () if window.get("group") in (group, None)]
        return PublishedReport(rows, {**self.facts, "windows": windows} if self.facts else {}, self.group)


def _rhythm(windows: Sequence[Any]) -> str:
    """In a word, where windows follow each other by a day, a week or the like."""
    if len(windows) < 2 or any(end > start for (_, end), (start, _) in pairwise(windows)):
        return ""
    if all(end - start == timedelta(hours=1) for start, end in windows):
        return "hourly"
    days = {round((end - start) / timedelta(days=1)) for start, end in windows}  # the clocks change now and then
    known = {"daily": {1}, "weekly": {7}, "monthly": {28, 29, 30, 31}, "yearly": {365, 366}}
    return next((name for name, some in known.items() if days <= some), "")


def _span(start: datetime, end: datetime, zone: str) -> str:
    """From the first day to the last; of less than a day, moments."""
    own = _zone(zone)
    first, last = start.astimezone(own), (end - timedelta(microseconds=1)).astimezone(own)
    if end - start < timedelta(days=1):
        return when(start, end, zone)
    return f"{first:%Y-%m-%d}" if first.date() == last.date() else f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _zone(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (ValueError, KeyError, OSError):  # a zone that this machine's list does not have: it is of another year
        return ZoneInfo("UTC")


def when(start: datetime | None, end: datetime | None, zone: str = "UTC") -> str:
    """A window as a person reads it, by the clocks of a zone; between two readings of them their distance from UTC is
    told, where that changes."""
    if start is None or end is None:
        return "All rows"
    own = _zone(zone)
    zone = own.key
    first, last = start.astimezone(own), end.astimezone(own)
    whole = not any(moment.second or moment.microsecond for moment in (first, last))
    shown = [moment.replace(tzinfo=None).isoformat(" ", "minutes" if whole else "auto") for moment in (first, last)]
    if first.utcoffset() != last.utcoffset():
        shown = [f"{text}{moment.isoformat()[-6:]}" for text, moment in zip(shown, (first, last), strict=True)]
    return f"{shown[0]} to {shown[1]} {zone}"


def _in_time(listing: Listing) -> tuple[bool, Any, bool, Any]:
    return listing.start is not None, listing.start, listing.end is not None, listing.end


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
