"""Charts as SVG: places over the windows, and counts with their noise, in the light colours of the page's style.

To a screen reader a chart is one picture, with a title and a description; the numbers are in a table beside it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from private_topk.pipelines.files import as_path, replace_file
from private_topk.pipelines.show.published import Listing, number_of, share_starts
from private_topk.pipelines.show.templates import rendered
from private_topk.transforms.errors import InvalidArgument, verbatim

COLOURS, LIT = 8, 10
_GAP = "…"
_DASHES = ("", "7 4", "2 4", "9 3 2 3")
_MAX_PLACES, _MAX_WINDOWS = 50, 104
_LABEL, _BETWEEN, _TOP, _LENGTH, _BAR, _ROOMY = 34, 16, 30, 260, 150, 26


@dataclass(frozen=True)
class Picture:
    """A drawing that a notebook shows.

    Args:
        style: of its elements, within those of the class `ptk`.
    """

    svg: str = field(repr=False)
    style: str = field(default="", repr=False)

    def _repr_html_(self) -> str:
        return f'<div class="ptk"><style>{self.style}</style>{self.svg}</div>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing as an .svg file of its own, in the colours of the light."""
        place = as_path(path, "path")
        if not place.endswith(".svg"):
            remedy = "save it as .svg, of which cairosvg or rsvg-convert makes a .png or .pdf"
            raise InvalidArgument("path", f"must end with .svg, got {verbatim(place)}", remedy)
        replace_file(place, self.svg.encode())


def has_places(listings: Sequence[Listing]) -> bool:
    """Whether there are places over several windows to draw."""
    return len(listings) > 1 and any(listing.ranked for listing in listings)


def how_many_are_noise(listings: Sequence[Listing]) -> str:
    """In how many of some windows most is noise, to be said behind their name; nothing where that is in none."""
    noisy, judged = sum(bool(each.noise) for each in listings), sum(each.drawn is not None for each in listings)
    return f": mostly noise in {noisy}{f' of the newest {judged}' if judged < len(listings) else ''}" if noisy else ""


def bump_chart(listings: Sequence[Listing], name: str) -> str:
    """Every item's place from window to window; the first ten of the newest window in colour, the others pale.

    Args:
        name: the prefix of identifiers in the picture, unique within a page.
    """
    shown = _with_gaps(listings[-_MAX_WINDOWS:])
    most = max(len(listing.rows) for listing in shown)
    places, last = min(most, _MAX_PLACES), len(shown) - 1
    row, step = _ROOMY if places <= 20 else 18, min(max(600 // last, 14), 96)
    ends = [
        [(place, each["item"]) for each in shown[n].rows if (place := each["rank"] or places + 1) <= places]
        for n in (0, last)
    ]
    before, after = (max((_width(f"00 {item}", _LABEL) for _, item in end), default=0) for end in ends)
    half = 4 * len(shown[-1].day()) + 4  # of a date, which stands below or above its window
    left, beyond = max(before + 12, half), max(after + 12, half)
    by_item = _places(shown, places)
    lit = [item for place, item in sorted(ends[1]) if place <= LIT]
    looks = {item: (n % COLOURS, _DASHES[n // COLOURS % len(_DASHES)]) for n, item in enumerate(lit)}
    lines = [(item, looks.get(item), _path(where, left, step, row)) for item, where in by_item.items()]
    lines.sort(key=lambda line: line[1] is not None)  # coloured lines are drawn last, and so on top
    left_out = f" Only the first {places} places are drawn." if most > places else ""
    left_out += " A broken line stands where something was asked otherwise." if any(e.changed for e in shown) else ""
    left_out += f" {_GAP} stands where windows are missing." if any(e.is_gap for e in shown) else ""
    cut = f" Only the last {_MAX_WINDOWS} of {len(listings)} windows are drawn." if len(listings) > _MAX_WINDOWS else ""
    group, noise = listings[-1].group, how_many_are_noise(listings)
    title = f"Places{'' if group is None else f' of {group}'} over {len(listings)} windows{noise}"
    note = (f"{title}." if noise or group is not None else "") + cut
    of_ends = share_starts(shown)
    every = -(-8 * len(shown[-1].day()) // step)  # so that dates do not run into each other
    return rendered(
        "places.svg",
        name=name,
        title=title,
        about="Each line is an item; place 1 is at the top. A gap is a window without the item. The first "
        f"{len(lit)} items of the newest window are in colour. The table of all windows has the same.{left_out}{cut}",
        width=max(left + step * last + beyond, _width(note, len(note))),
        height=_TOP + row * places + (22 if note else 10),
        step=step,
        row=row,
        left=left,
        right=left + step * last,
        top=_TOP,
        bottom=_TOP + places * row,
        windows=[
            (left + n * step, _GAP if each.is_gap else each.day(of_ends) if (last - n) % every == 0 else "")
            for n, each in enumerate(shown)
        ],
        marks=[
            (left + n * step - step // 2, f"From {each.day(of_ends)}: {each.changed}")
            for n, each in enumerate(shown)
            if n and each.changed
        ],
        ends=[
            [
                (f"{place} {_short(item, _LABEL)}", looks.get(item), _TOP + place * row - row // 2 + 4)
                for place, item in end
            ]
            for end in ends
        ],
        lines=lines,
        between=_between(by_item, last, left, step) if row == _ROOMY else [],
        note=note,
    )


def _with_gaps(listings: Sequence[Listing]) -> Sequence[Listing]:
    """The listings in the order of time, with an empty one between two where windows are missing."""
    shown = list(listings[:1])
    for before, each in pairwise(listings):
        if before.end is not None and each.start is not None and before.end < each.start:
            shown.append(Listing(before.end, each.start, each.group, (), each.zone, is_gap=True))
        shown.append(each)
    return shown


def _between(by_item: Mapping[str, Mapping[int, int]], last: int, left: int, step: int) -> list[tuple[int, int, str]]:
    """The names of items that are in neither end, each where its line begins, as far as there is room above it."""
    names, taken = [], dict[int, int]()
    starts = [(*min(where.items()), item) for item, where in by_item.items() if not {0, last} & where.keys()]
    for window, place, item in sorted(starts):
        x = min(left + window * step, left + last * step - _width(item, _BETWEEN))
        if x >= taken.get(place, left):
            names.append((x, _TOP + place * _ROOMY - _ROOMY // 2 - 5, _short(item, _BETWEEN)))
            taken[place] = x + _width(item, _BETWEEN)
    return names


def _places(listings: Sequence[Listing], places: int) -> dict[str, dict[int, int]]:
    by_item: dict[str, dict[int, int]] = {}
    for window, listing in enumerate(listings):
        for row in listing.rows:
            if row["rank"] is not None and row["rank"] <= places:
                by_item.setdefault(row["item"], {})[window] = row["rank"]
    return by_item


def _path(where: Mapping[int, int], left: int, step: int, row: int) -> str:
    """A path through the (window, place)s of consecutive windows, with a short stroke for a single one."""
    path, half = "", round(0.06 * step)
    for window, place in where.items():
        x, y = left + window * step, _TOP + place * row - row // 2
        if window - 1 in where:
            path += f"l{step} {row * (place - where[window - 1])}"
        else:
            path += f"M{x} {y}" if window + 1 in where else f"M{x - half} {y}h{2 * half}"
    return path


def count_bar(listing: Listing, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The geometry of a count's bar and its noise in a cell of a table."""
    return {"width": _BAR, **_bar(row, _reach(listing.rows), 0, _BAR)}


def _bar(row: Mapping[str, Any], reach: tuple[float, float], start: int, longest: int) -> dict[str, Any]:
    """A count's bar and the whisker of its noise, in pixels from a start."""
    low, high = reach
    count, noise = row["noisy_count"], row.get("noise_95")

    def x(value: float) -> int:
        return round(start + (value - low) * longest / (high - low))

    whisker = None if noise is None else (x(count - noise), x(count + noise))
    return {"x": x(min(count, 0)), "length": max(x(abs(count)) - x(0), 1), "whisker": whisker}


def _reach(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    counts = [(row["noisy_count"], row.get("noise_95") or 0) for row in rows if row.get("noisy_count") is not None]
    return min([0, *(count - noise for count, noise in counts)]), max([1, *(count + noise for count, noise in counts)])


def list_chart(listing: Listing, name: str) -> str:
    """The items of one window with their places, and their published counts as bars: each with the range in which the
    one without noise lies with a probability of 95%.
    """
    rows = listing.rows[:_MAX_PLACES]
    labels = [f"{row['rank']} {_short(row['item'])}" if listing.ranked else _short(row["item"]) for row in rows]
    reach, start = _reach(rows), max(map(_width, labels)) + 12

    def bar(row: Mapping[str, Any]) -> dict[str, Any]:
        if row.get("noisy_count") is None:
            return {"length": 0}
        return {"numbers": number_of(row), **_bar(row, reach, start, _LENGTH)}

    counted = (
        f"Bars are the published {listing.counts}s, which hold noise. A whisker, where there is one, spans the range "
        f"in which the {listing.counts} without noise lies with a probability of at least 95%."
    )
    order = "The items in their places; place 1 is at the top." if listing.ranked else "The items, in no order of rank."
    left_out = f" Only the first {len(rows)} are drawn." if len(rows) < len(listing.rows) else ""
    beside = _LENGTH + 10 + _width("about 1,000,000 ± 100,000") if listing.counted else 0
    what = f"Noisy {listing.counts}s" if listing.counted else "Ranking" if listing.ranked else "Set"
    title = f"{what}, {listing.caption()}{': mostly noise' * bool(listing.noise)}"
    note = title if listing.noise or listing.group is not None else ""
    return rendered(
        "list.svg",
        name=name,
        title=title,
        about=(counted if listing.counted else order) + left_out,
        width=max(start + beside, _width(note, len(note))),
        height=12 + 26 * len(rows) + 20 * bool(note),
        note=note,
        start=start,
        longest=_LENGTH,
        counted=listing.counted,
        bars=[{"y": 6 + n * 26, "label": labels[n], **bar(row)} for n, row in enumerate(rows)],
    )


def _short(item: str, most: int = 40) -> str:
    """Of a long name its beginning and its end, which tells apart what begins alike."""
    end = most // 3
    return item if len(item) <= most else f"{item[: most - 1 - end]}…{item[-end:]}"


def _width(item: str, most: int = 40) -> int:
    """The estimated width of a text in pixels; letters of East Asia are twice as wide."""
    return 12 + sum(14 if ord(letter) > 0x2E80 else 9 for letter in _short(item, most))
