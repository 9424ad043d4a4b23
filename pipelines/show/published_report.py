"""What there is to show of a published ranking: its rows and what its manifest says. All of it is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
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

    def title(self) -> str:
        return when(self.start, self.end, self.zone)

    def caption(self) -> str:
        """The title, within all groups."""
        return self.title() if self.group is None else f"{self.group}, {self.title()}"


@dataclass(frozen=True)
class PublishedReport:
    """A ranking as it was published.

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
        return str(self.facts.get("report") or (self.rows[0]["release_id"] if self.rows else "a ranking"))

    @property
    def is_private(self) -> bool:
        return self.facts.get("private", True) is not False

    def listings(self) -> list[Listing]:
        """Every window and group, in the order of the rows; a window of the manifest that released nothing is empty."""
        found: dict[tuple[Any, Any, Any], list[Mapping[str, Any]]] = {}
        for start, end in self._declared():
            if self.group is None:
                found[start, end, None] = []
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

    def _declared(self) -> Iterator[tuple[datetime | None, datetime | None]]:
        for window in self.facts.get("windows") or ():
            yield _moment(window.get("start")), _moment(window.get("end"))


def when(start: datetime | None, end: datetime | None, zone: str = "UTC") -> str:
    """A window as a person reads it, by the clocks of a zone; between two readings of them their distance from UTC is
    told, where that changes."""
    if start is None or end is None:
        return "All rows"
    try:
        own = ZoneInfo(zone)
    except (ValueError, KeyError, OSError):  # a zone that this machine's list does not have: it is of another year
        own, zone = ZoneInfo("UTC"), "UTC"
    first, last = start.astimezone(own), end.astimezone(own)
    whole = not any(moment.second or moment.microsecond for moment in (first, last))
    shown = [moment.replace(tzinfo=None).isoformat(" ", "minutes" if whole else "auto") for moment in (first, last)]
    if first.utcoffset() != last.utcoffset():
        shown = [f"{text}{moment.isoformat()[-6:]}" for text, moment in zip(shown, (first, last), strict=True)]
    return f"{shown[0]} to {shown[1]} {zone}"


def _in_time(listing: Listing) -> tuple[bool, Any, Any]:
    return listing.start is not None, listing.start, listing.end


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
