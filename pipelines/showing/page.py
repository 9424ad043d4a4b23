"""One page that stands alone: the rankings, what they promise and how to read them. No script, nothing loaded.

Whatever comes from data is escaped, and the page's own policy forbids scripts and all that is elsewhere besides.
"""

from __future__ import annotations

from collections.abc import Sequence

from private_topk.pipelines.showing.charts import bump_chart, count_chart, has_places
from private_topk.pipelines.showing.guarantee import how_to_read, in_symbols, in_words, parameters
from private_topk.pipelines.showing.markup import Markup, element, joined
from private_topk.pipelines.showing.style import STYLE
from private_topk.pipelines.showing.told import Listing, Told

__all__ = ["page", "snippet", "table"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MANY = 8
_MOST_IN_A_TABLE = 26


def page(told: Told) -> str:
    """The whole page, as HTML."""
    head = joined(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"Ranking: {told.name}"),
        element("style", Markup(STYLE)),
    )
    skip = element("a", "Skip to the ranking", href="#ranking", class_="skip")
    body = joined(skip, element("main", *_parts(told)))
    whole = element("html", element("head", head), element("body", body, class_="ptk"), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def snippet(told: Told, name: str) -> str:
    """A piece of a page, for a notebook: table, guarantee, a small chart.

    Args:
        name: starts the identifiers in it, which must differ within the notebook.
    """
    listings = told.listings()
    shown = listings[:_MANY]
    tables = [table(listing) for listing in shown]
    if len(listings) > len(shown):
        tables.append(
            element("p", f"{len(listings) - len(shown):,} more windows: .to_polars() has all.", class_="soft")
        )
    words = [element("p", sentence, class_=_kind(told)) for sentence in in_words(told)[:2]]
    return element("div", element("style", Markup(STYLE)), *words, *_chart_of(listings, name), *tables, class_="ptk")


def _parts(told: Told) -> list[Markup]:
    groups = told.by_group()
    parts = [
        element("h1", told.name),
        *_promise(told),
        element("h2", "Ranking", id="ranking", tabindex=-1),
        _contents(groups),
    ]
    first = 0
    for group, listings in groups.items():
        parts += _group(group, listings, first)
        first += len(listings)
    if not told.rows:
        parts.append(element("p", "No item was released: with such a mechanism that is a possible answer."))
    parts += [element("h2", "How to read this ranking"), _list(how_to_read(told)), element("h2", "Parameters"),
              _definitions(parameters(told))]  # fmt: skip
    return parts


def _promise(told: Told) -> list[Markup]:
    words = in_words(told)
    if not words:
        return [element("p", "There is no manifest beside this ranking, so nothing can be said of what it promises.",
                        class_="warn")]  # fmt: skip
    symbols = in_symbols(told)
    return [
        element("h2", "What it promises"),
        *(element("p", sentence, class_=_kind(told)) for sentence in words),
        *([element("p", symbols, class_="symbols")] if symbols else []),
    ]


def _kind(told: Told) -> str | None:
    return None if told.is_private else "warn"


def _contents(groups: dict[str | None, list[Listing]]) -> Markup:
    """Links to the groups and windows, where there are several."""
    titles = [_caption(listing) for listings in groups.values() for listing in listings]
    if len(titles) < 2:
        return Markup("")
    links = [element("li", element("a", text, href=f"#window-{n}")) for n, text in enumerate(titles)]
    inside = element("nav", element("ul", *links), aria_label="Windows")
    return inside if len(links) <= _MANY else element("details", element("summary", f"{len(links):,} rankings"), inside)


def _group(group: str | None, listings: Sequence[Listing], first: int) -> list[Markup]:
    """All windows of a group, which are numbered from `first` on."""
    parts = [] if group is None else [element("h3", group)]
    if has_places(listings):
        of_it = "" if group is None else f", {group}"
        chart = bump_chart(listings, f"places-{first}")
        parts += [_wide(f"chart of places{of_it}", chart), _places(listings, f"table of places{of_it}")]
    sections = [_section(listing, number) for number, listing in enumerate(listings, first)]
    if len(sections) > _MANY:  # a link to a window inside opens it
        earlier = element("summary", f"{len(sections) - _MANY:,} earlier windows")
        sections = [element("details", earlier, *sections[:-_MANY]), *sections[-_MANY:]]
    return parts + sections


def _section(listing: Listing, number: int) -> Markup:
    chart = []
    if listing.counted:
        chart = [_wide(f"chart of counts, {_caption(listing)}", count_chart(listing, f"counts-{number}"))]
    heading = element("h3" if listing.group is None else "h4", listing.title(), id=f"title-{number}")
    return element(
        "section", heading, *chart, table(listing, True), id=f"window-{number}", aria_labelledby=f"title-{number}"
    )


def _caption(listing: Listing) -> str:
    return listing.title() if listing.group is None else f"{listing.group}, {listing.title()}"


def _chart_of(listings: Sequence[Listing], name: str) -> list[Markup]:
    if has_places(listings):
        return [_wide("chart of places", bump_chart(listings, name))]
    if len(listings) == 1 and listings[0].counted:
        return [_wide("chart of counts", count_chart(listings[0], name))]
    return []


def table(listing: Listing, below_its_title: bool = False) -> Markup:
    """The items of one window, with all that is published of them."""
    if not listing.rows:
        return element("p", f"{listing.title()}: no item was released.")
    returned, wanted = listing.rows[0]["returned"], listing.rows[0]["k"]
    caption = _caption(listing)
    caption += f": {returned:,} of {wanted:,}, as the guarantee allows" if returned < wanted else ""
    ranges = any(row.get("noise_95") is not None for row in listing.rows)
    heads = [*(["Place"] if listing.ranked else []), "Item"]
    counts = [*(["Noisy count"] if listing.counted else []), *(["± (95%)"] if ranges else [])]
    counts += ["Noisy weight"] if listing.weighed else []
    names = [element("th", name, scope="col", class_="number" if name == "Place" else None) for name in heads]
    names += [element("th", name, scope="col", class_="number") for name in counts]
    rows = []
    for row in listing.rows:
        cells = [element("td", row["rank"], class_="number")] if listing.ranked else []
        cells.append(element("th", row["item"], scope="row"))
        cells += [element("td", f"{row['noisy_count']:,}", class_="number")] if listing.counted else []
        cells += [element("td", f"{row['noise_95']:,}", class_="number")] if ranges else []
        cells += [element("td", f"{row['noisy_weight']:,.2f}", class_="number")] if listing.weighed else []
        rows.append(element("tr", *cells))
    return element(
        "table", element("caption", caption), element("thead", element("tr", *names)), element("tbody", *rows)
    )


def _places(listings: Sequence[Listing], name: str) -> Markup:
    """The chart of places as a table, folded away: items down, windows across."""
    shown = listings[-_MOST_IN_A_TABLE:]
    items = dict.fromkeys(str(row["item"]) for listing in reversed(shown) for row in listing.rows)
    by_window = [{str(row["item"]): row["rank"] for row in listing.rows} for listing in shown]
    heads = [
        element("th", f"{its.start:%Y-%m-%d}" if its.start else "All", scope="col", class_="number") for its in shown
    ]
    rows = [
        element("tr", element("th", item, scope="row"),
                *(element("td", places.get(item, "–"), class_="number") for places in by_window))
        for item in items
    ]  # fmt: skip
    left = f", the last {len(shown)} of {len(listings)}" if len(listings) > len(shown) else ""
    caption = element("caption", f"Place of every item by the start of the window{left}; – where it was not published")
    inside = element("table", caption, element("thead", element("tr", element("th", "Item", scope="col"), *heads)),
                     element("tbody", *rows))  # fmt: skip
    return element("details", element("summary", "The places as a table"), _wide(name, inside))


def _wide(name: str, inside: Markup) -> Markup:
    """What is wider than a phone scrolls by itself, by finger and by arrow keys."""
    return element("div", inside, class_="wide", tabindex=0, role="region", aria_label=name)


def _list(sentences: Sequence[str]) -> Markup:
    return element("ul", *(element("li", sentence) for sentence in sentences))


def _definitions(pairs: Sequence[tuple[str, str]]) -> Markup:
    return element(
        "dl", *(element(name, text) for pair in pairs for name, text in zip(("dt", "dd"), pair, strict=True))
    )
