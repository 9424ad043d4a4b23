"""Charts as inline SVG: places over the windows, and counts with their noise. Colours are those of the page's style.

A chart is one picture to a screen reader, with a title and a description; the numbers are in a table beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from private_topk.pipelines.show.published_report import Listing
from private_topk.pipelines.show.templates import rendered

__all__ = ["COLOURS", "bump_chart", "count_chart", "has_places"]

COLOURS = 8
_DASHES = ("", "7 4", "2 4", "9 3 2 3")
_MOST_PLACES = 30
_ROW, _LEFT, _TOP, _STEP, _LENGTH = 26, 40, 30, 96, 260


def has_places(listings: Sequence[Listing]) -> bool:
    """Whether there are places over several windows to be drawn."""
    return len(listings) > 1 and any(listing.ranked for listing in listings)


def bump_chart(listings: Sequence[Listing], name: str) -> str:
    """Every item's place from window to window.

    Args:
        name: starts the identifiers in the picture, which must differ within a page.
    """
    places = min(max(len(listing.rows) for listing in listings), _MOST_PLACES)
    paths, last = _paths(listings, places), len(listings) - 1
    left = f" Only the first {places} places are drawn." if any(len(its.rows) > places for its in listings) else ""
    return rendered(
        "places.svg", name=name, title=f"Places over {len(listings)} windows",
        about="Each line is an item; place 1 is at the top. A thin line spans windows without the item. The table of "
        f"places has the same.{left}",
        width=_LEFT + _STEP * last + 24 + max(map(_width, paths), default=0), height=_TOP + _ROW * places + 10,
        left=_LEFT, top=_TOP, bottom=_TOP + places * _ROW,
        marks=[(place, _y(place) + 4) for place in range(1, places + 1)],
        windows=[(_x(n), f"{its.start:%Y-%m-%d}" if its.start else "") for n, its in enumerate(listings)],
        lines=[_line(item, where, n, last) for n, (item, where) in enumerate(paths.items())],
    )  # fmt: skip


def _paths(listings: Sequence[Listing], places: int) -> dict[str, list[tuple[int, int]]]:
    """(window, place) of every item, those of the last window first."""
    drawn = [(window, str(row["item"]), row["rank"]) for window, listing in enumerate(listings) for row in listing.rows
             if row["rank"] is not None and row["rank"] <= places]  # fmt: skip
    found: dict[str, list[tuple[int, int]]] = {item: [] for _, item, _ in sorted(drawn, key=lambda its: -its[0])}
    for window, item, place in drawn:
        found[item].append((window, place))
    return found


def _line(item: str, where: list[tuple[int, int]], number: int, last: int) -> dict[str, Any]:
    points = [(_x(window), _y(place)) for window, place in where]
    dashes = _DASHES[number // COLOURS % len(_DASHES)]
    curves = []
    for (window, _), (after, _), start, end in zip(where, where[1:], points, points[1:], strict=False):
        middle, away = (start[0] + end[0]) // 2, after > window + 1  # it was not published in between
        curve = f"M{start[0]},{start[1]} C{middle},{start[1]} {middle},{end[1]} {end[0]},{end[1]}"
        curves.append((curve, "1 5" if away else dashes, away))
    room = 40 if where[-1][0] == last else (_STEP - 24) // 8  # up to the next window's points
    return {"item": item, "colour": number % COLOURS, "curves": curves, "points": points, "label": _short(item, room)}


def _x(window: int) -> int:
    return _LEFT + window * _STEP


def _y(place: int) -> int:
    return _TOP + place * _ROW - _ROW // 2


def count_chart(listing: Listing, name: str) -> str:
    """The published counts as bars, each with the range in which the true one lies with a probability of 95%."""
    rows = [row for row in listing.rows if row.get("noisy_count") is not None][:_MOST_PLACES]
    low = min(0, *(row["noisy_count"] - (row.get("noise_95") or 0) for row in rows))
    high = max(1, *(row["noisy_count"] + (row.get("noise_95") or 0) for row in rows))
    start = max(_width(row["item"]) for row in rows) + 12

    def x(value: float) -> int:
        return round(start + (value - low) * _LENGTH / (high - low))

    def bar(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
        count, noise = row["noisy_count"], row.get("noise_95")
        return {
            "y": 6 + number * _ROW, "label": _short(row["item"]), "x": x(min(count, 0)),
            "length": max(x(abs(count)) - x(0), 1),
            "whisker": None if noise is None else (x(count - noise), x(count + noise)),
            "numbers": f"about {count:,}" + ("" if noise is None else f" ± {noise:,}"),
        }  # fmt: skip

    return rendered(
        "counts.svg", name=name, title=f"Noisy counts, {listing.title()}",
        about="Bars are the published counts, which hold noise. A whisker, where there is one, spans the range in "
        "which the true count lies with a probability of at least 95%.",
        width=start + _LENGTH + 10 + _width("about 1,000,000 ± 100,000"), height=12 + _ROW * len(rows),
        start=start, longest=_LENGTH, bars=[bar(n, row) for n, row in enumerate(rows)],
    )  # fmt: skip


def _short(item: object, most: int = 40) -> str:
    text = str(item)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _width(item: object) -> int:
    """About how wide a text is, in pixels; letters of East Asia are twice as wide."""
    return 12 + sum(14 if ord(letter) > 0x2E80 else 8 for letter in _short(item))
