"""Charts as inline SVG: places over the windows, and counts with their noise. Colours are those of the page's style.

A chart is one picture to a screen reader, with a title and a description; the numbers are in a table beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from private_topk.pipelines.showing.markup import Markup, element, joined
from private_topk.pipelines.showing.told import Listing

__all__ = ["COLOURS", "bump_chart", "count_chart", "has_places"]

COLOURS = 8
_DASHES = (None, "7 4", "2 4", "9 3 2 3")
_MOST_PLACES = 30
_ROW, _LEFT, _TOP = 26, 40, 30


def has_places(listings: Sequence[Listing]) -> bool:
    """Whether there are places over several windows to be drawn."""
    return len(listings) > 1 and any(listing.ranked for listing in listings)


def bump_chart(listings: Sequence[Listing], name: str, step: int = 96) -> Markup:
    """Every item's place from window to window.

    Args:
        name: starts the identifiers in the picture, which must differ within a page.
        step: between two windows, in pixels.
    """
    places = min(max(len(listing.rows) for listing in listings), _MOST_PLACES)
    paths = _paths(listings, places)
    labels = max((_width(item) for item in paths), default=0)
    width = _LEFT + step * (len(listings) - 1) + 24 + labels
    height = _TOP + _ROW * places + 10
    drawn = [_line(item, where, n, step, len(listings) - 1) for n, (item, where) in enumerate(paths.items())]
    title = f"Places over {len(listings)} windows"
    left = f" Only the first {places} places are drawn." if any(len(its.rows) > places for its in listings) else ""
    about = "Each line is an item; place 1 is at the top. A thin line spans windows without the item. The " \
            f"table of places has the same.{left}"  # fmt: skip
    return _picture(name, title, about, width, height, _axes(listings, places, step), *drawn)


def _paths(listings: Sequence[Listing], places: int) -> dict[str, list[tuple[int, int]]]:
    """(window, place) of every item, those of the last window first."""
    found: dict[str, list[tuple[int, int]]] = {}
    for listing in reversed(listings):
        for row in listing.rows:
            if row["rank"] is not None and row["rank"] <= places:
                found.setdefault(str(row["item"]), [])
    for window, listing in enumerate(listings):
        for row in listing.rows:
            if row["rank"] is not None and row["rank"] <= places:
                found[str(row["item"])].append((window, row["rank"]))
    return found


def _line(item: str, where: list[tuple[int, int]], number: int, step: int, last: int) -> Markup:
    points = [(_LEFT + window * step, _TOP + place * _ROW - _ROW // 2) for window, place in where]
    colour, dashes = f"c{number % COLOURS}", _DASHES[number // COLOURS % len(_DASHES)]
    parts = [element("title", item)]
    for (window, _), (after, _), start, end in zip(where, where[1:], points, points[1:], strict=False):
        middle = (start[0] + end[0]) // 2
        curve = f"M{start[0]},{start[1]} C{middle},{start[1]} {middle},{end[1]} {end[0]},{end[1]}"
        if after == window + 1:
            parts.append(element("path", d=curve, stroke_dasharray=dashes))
        else:  # it was not published in between
            parts.append(element("path", d=curve, stroke_dasharray="1 5", class_="away"))
    parts += [element("circle", cx=x, cy=y, r=5) for x, y in points]
    x, y = points[-1]
    room = 40 if where[-1][0] == last else max((step - 24) // 8, 2)  # up to the next window's points
    parts.append(element("text", _short(item, room), x=x + 10, y=y + 4))
    return element("g", *parts, class_=f"item {colour}")


def _axes(listings: Sequence[Listing], places: int, step: int) -> Markup:
    marks = [element("text", place, x=_LEFT - 16, y=_TOP + place * _ROW - _ROW // 2 + 4, text_anchor="end")
             for place in range(1, places + 1)]  # fmt: skip
    every = max(1, -(-70 // step))
    for window, listing in enumerate(listings):
        x = _LEFT + window * step
        marks.append(element("line", x1=x, x2=x, y1=_TOP, y2=_TOP + places * _ROW))
        if window % every == 0 and listing.start is not None:
            marks.append(element("text", f"{listing.start:%Y-%m-%d}", x=x, y=_TOP - 12, text_anchor="middle"))
    return element("g", *marks, class_="axes")


def count_chart(listing: Listing, name: str, length: int = 260) -> Markup:
    """The published counts as bars, each with the range in which the true one lies with a probability of 95%."""
    rows = [row for row in listing.rows if row.get("noisy_count") is not None][:_MOST_PLACES]
    low, high = _range(rows)
    labels = max(_width(row["item"]) for row in rows)
    start, scale = labels + 12, length / max(high - low, 1)

    def x(value: float) -> int:
        return round(start + (value - low) * scale)

    bars = []
    for n, row in enumerate(rows):
        y, count = 6 + n * _ROW, row["noisy_count"]
        numbers = f"about {count:,}" + (f" ± {row['noise_95']:,}" if row.get("noise_95") is not None else "")
        bars += [
            element("text", _short(row["item"]), x=labels + 4, y=y + 15, text_anchor="end"),
            element("rect", x=x(min(count, 0)), y=y + 3, width=max(x(abs(count)) - x(0), 1), height=14, class_="bar"),
            *_whisker(row, y + 10, x),
            element("text", numbers, x=start + length + 10, y=y + 15),
        ]
    width, height = start + length + 10 + _width("about 1,000,000 ± 100,000"), 12 + _ROW * len(rows)
    about = "Bars are the published counts, which hold noise. A whisker, where there is one, spans the range in " \
            "which the true count lies with a probability of at least 95%."  # fmt: skip
    return _picture(name, f"Noisy counts, {listing.title()}", about, width, height, *bars)


def _range(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    counts, noises = [row["noisy_count"] for row in rows], [row.get("noise_95") or 0 for row in rows]
    return (min(0, *(count - noise for count, noise in zip(counts, noises, strict=True))),
            max(1, *(count + noise for count, noise in zip(counts, noises, strict=True))))  # fmt: skip


def _whisker(row: Mapping[str, Any], y: int, x: Any) -> list[Markup]:  # noqa: ANN401 - a scale
    noise = row.get("noise_95")
    if noise is None:
        return []
    left, right = x(row["noisy_count"] - noise), x(row["noisy_count"] + noise)
    ends = [element("line", x1=end, x2=end, y1=y - 4, y2=y + 4, class_="noise") for end in (left, right)]
    return [element("line", x1=left, x2=right, y1=y, y2=y, class_="noise"), *ends]


def _picture(name: str, title: str, about: str, width: int, height: int, *inside: Markup) -> Markup:
    said = joined(element("title", title, id=f"{name}-title"), element("desc", about, id=f"{name}-about"))
    return element("svg", said, *inside, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img",
                   aria_labelledby=f"{name}-title {name}-about", xmlns="http://www.w3.org/2000/svg")  # fmt: skip


def _short(item: object, most: int = 40) -> str:
    text = str(item)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _width(item: object) -> int:
    """About how wide a text is, in pixels; letters of East Asia are twice as wide."""
    return 12 + sum(14 if ord(letter) > 0x2E80 else 8 for letter in _short(item))
