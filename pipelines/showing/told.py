"""What there is to show of a published ranking: its rows and what its manifest says. All of it is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

__all__ = ["Listing", "Told", "when"]

Rows = Sequence[Mapping[str, Any]]


class Listing(NamedTuple):
    """The released items of one window, and of one group where there are several."""

    start: datetime | None
    end: datetime | None
    group: str | None
    rows: Rows

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

    def title(self) -> str:
        return when(self.start, self.end)


@dataclass(frozen=True)
class Told:
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
        return [Listing(*place, rows) for place, rows in found.items()]

    def by_group(self) -> dict[str | None, list[Listing]]:
        """The listings of every group, in order of their windows."""
        found: dict[str | None, list[Listing]] = {}
        for listing in self.listings():
            found.setdefault(listing.group, []).append(listing)
        return {group: sorted(of_it, key=_in_time) for group, of_it in found.items()}

    def _declared(self) -> Iterator[tuple[datetime | None, datetime | None]]:
        for window in self.facts.get("windows") or ():
            yield _moment(window.get("start")), _moment(window.get("end"))


def when(start: datetime | None, end: datetime | None) -> str:
    """A window as a person reads it."""
    if start is None or end is None:
        return "All rows"
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def _in_time(listing: Listing) -> tuple[bool, Any, Any]:
    return listing.start is not None, listing.start, listing.end


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
