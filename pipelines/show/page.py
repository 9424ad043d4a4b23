"""Self-contained pages: the rankings, then what they promise and how to read them, without scripts.

A page's content security policy forbids scripts and external resources. Many groups have a page each, and one page
that compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from private_topk.pipelines.show.charts import bump_chart, count_bar, has_places, how_many_are_noise
from private_topk.pipelines.show.published import Listing, PublishedReport, in_the_newest, share_starts
from private_topk.pipelines.show.templates import STYLE, rendered
from private_topk.pipelines.show.words import (
    NO_RANKING,
    how_to_read,
    in_symbols,
    in_words,
    of_places,
    parameters,
    promise,
    ranges,
    what_is_ranked,
)

_GROUPS_ON_A_PAGE = 4
_GROUPS_IN_A_NOTEBOOK = 8
_MAX_WINDOWS, _FIRST, _SHARED = 400, 5, 30
_PLAIN = frozenset("-_. ~+,;@()&$")


def page(report: PublishedReport, links: Sequence[tuple[str, str]] = (), index: Mapping[str, Any] | None = None) -> str:
    """A page as HTML.

    Args:
        links: to other pages, by their names.
        index: the comparison of groups that have pages of their own, in place of the rankings.
    """
    groups = [] if index else [_of_a_group(name, listings) for name, listings in report.by_group().items()]
    told = {"title": report.title, "links": links, "index": index, "groups": groups, "no_ranking": NO_RANKING}
    return rendered("page.html", **told, **_shared(report))


def pages(report: PublishedReport, name: str) -> Iterator[tuple[str, str]]:
    """Every page with its path relative to the first: one page, or for many groups an index and a page for each.

    Args:
        name: the name of the first page's file.
    """
    listings = report.by_group()
    if len(listings) <= _GROUPS_ON_A_PAGE:
        yield name, page(report)
        return
    folder, up = f"{name.removesuffix('.html')}-groups", f"../{quote(name)}"
    files = {group: f"{file_name(str(group))}.html" for group in listings}
    yield name, page(report, index=_index(listings, {group: quote(f"{folder}/{files[group]}") for group in files}))
    names = list(listings)
    for number, group in enumerate(names):
        near = [
            (quote(files[names[n]]), f"{arrow} {names[n]}")
            for n, arrow in ((number - 1, "←"), (number + 1, "→"))
            if 0 <= n < len(names)
        ]
        yield f"{folder}/{files[group]}", page(report.of_group(group), [(up, "All groups"), *near])


def file_name(group: str) -> str:
    """The name of a group's page: letters, digits and few others stay, all else is %XX of UTF-8."""
    return "".join(char if char in _PLAIN or char.isalnum() else quote(char, safe="") for char in group)


def snippet(report: PublishedReport, name: str) -> str:
    """A part of a page, for a notebook: the newest ranking and a chart of every group, then the guarantee.

    Args:
        name: the prefix of identifiers in it, unique within the notebook.
    """
    groups = [_of_a_group(group, listings) for group, listings in report.by_group().items()]
    shown = groups[:_GROUPS_IN_A_NOTEBOOK]
    return rendered("snippet.html", name=name, groups=shown, more=len(groups) - len(shown), **_shared(report))


def _shared(report: PublishedReport) -> dict[str, Any]:
    """The template values that are the same for all groups."""
    return {
        "report": report,
        "style": STYLE,
        "words": in_words(report),
        "symbols": in_symbols(report.manifest),
        "promise": promise(report.manifest),
        "what_is_ranked": what_is_ranked(report.manifest),
        "noise_of_draws": of_places(report),
        "how_to_read": how_to_read(report),
        "parameters": parameters(report),
        "bump_chart": bump_chart,
        "count_bar": count_bar,
    }


def _of_a_group(name: str | None, listings: Sequence[Listing]) -> dict[str, Any]:
    """The newest ranking of a group, the places in the window before it, and all windows if there are several."""
    newest, several = listings[-1], len(listings) > 1
    before = _ranks(listings[-2]) if several and newest.ranked else None
    return {
        "name": name,
        "listings": listings,
        "newest": newest,
        "before": before,
        "places": has_places(listings),
        "all": _all_windows(listings) if several else None,
        "noise": how_many_are_noise(listings),
    }


def _ranks(listing: Listing) -> dict[str, Any]:
    return {row["item"]: "•" if row["rank"] is None else row["rank"] for row in listing.rows}


def _all_windows(listings: Sequence[Listing]) -> dict[str, Any]:
    """A table of all windows: items as rows, those of the newest window first; windows as columns, the newest first."""
    shown = listings[: -_MAX_WINDOWS - 1 : -1]
    items = dict.fromkeys(row["item"] for listing in shown for row in listing.rows)
    ranks, counts = [_ranks(listing) for listing in shown], [_counts(listing) for listing in shown]
    far = ranges(row.get("noise_95") for each in shown for row in each.rows)
    what = f" and its noisy {listings[0].counts}" if any(counts) else ""
    what += f" (± {far}, 95%)" if far else ""
    left = f", the last {len(shown)} of {len(listings)}" if len(listings) > len(shown) else ""
    return {
        "caption": f"Place of every item{what}, the newest window first{left}",
        "starts": [_head(listing, share_starts(shown)) for listing in shown],
        "rows": [
            (item, [(places.get(item, ""), numbers.get(item)) for places, numbers in zip(ranks, counts, strict=True)])
            for item in items
        ],
    }


def _counts(listing: Listing) -> dict[str, str]:
    if listing.weighed:
        return {row["item"]: f"{row['noisy_weight']:,.2f}" for row in listing.rows}
    return {row["item"]: f"{row['noisy_count']:,}" for row in listing.rows if row.get("noisy_count") is not None}


def _head(listing: Listing, of_end: bool) -> str:
    short = ""
    if not listing.rows:
        short = ": none"
    elif listing.rows[0]["returned"] < listing.rows[0]["k"]:
        short = f": {listing.rows[0]['returned']:,} of {listing.rows[0]['k']:,}"
    short += ", mostly noise" * bool(listing.noise)
    return f"{listing.day(of_end)}{', corrected' if listing.corrected else ''}{short}"


def _index(groups: Mapping[str | None, Sequence[Listing]], hrefs: Mapping[str | None, str]) -> dict[str, Any]:
    """The first items of every group in the newest window, and the places of the items that most groups have; apart
    from them the groups that this window does not have.
    """
    latest, rows = in_the_newest(groups), []
    newest = next(iter(latest.values()))
    ranks = {group: _ranks(each) for group, each in latest.items()}
    most = max(min(len(each.rows), _FIRST) for each in latest.values())
    for group, listing in latest.items():
        items, before = [row["item"] for row in listing.rows], groups[group][:-1]
        new = len(set(items) - set(_ranks(before[-1]))) if before else ""
        rows.append((hrefs[group], group, [*items[:most], *[""] * (most - len(items))], new))
    held: dict[str, list[Any]] = {}
    for places in ranks.values():
        for item, place in places.items():
            held.setdefault(item, []).append(place)
    order = sorted(held, key=lambda item: (-len(held[item]), sum(n for n in held[item] if n != "•") / len(held[item])))
    shared = [(item, [(each.get(item, ""), None) for each in ranks.values()]) for item in order[:_SHARED]]
    return {
        "title": newest.title() + ("" if newest.ranked else ", in no order of rank"),
        "most": most,
        "noise": [group for group, listing in latest.items() if listing.noise],
        "groups": rows,
        "gone": [(hrefs[group], group, each[-1].title()) for group, each in groups.items() if group not in latest],
        "shared": shared,
        "new": any(new != "" for *_, new in rows),
    }
