"""One page that stands alone: the rankings, what they promise and how to read them. No script, nothing loaded.

The page's own policy forbids scripts and all that is elsewhere besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from private_topk.pipelines.show.charts import bump_chart, count_chart, has_places
from private_topk.pipelines.show.guarantee import how_to_read, in_symbols, in_words, parameters
from private_topk.pipelines.show.published_report import Listing, PublishedReport
from private_topk.pipelines.show.templates import STYLE, rendered

__all__ = ["page", "snippet"]

_MANY = 8
_MOST_IN_A_TABLE = 26


def page(report: PublishedReport) -> str:
    """The whole page, as HTML."""
    groups: list[dict[str, Any]] = []
    captions: list[str] = []
    for name, listings in report.by_group().items():
        places = _places(listings) if has_places(listings) else None
        groups.append({"name": name, "listings": listings, "first": len(captions), "places": places})
        captions += [listing.caption() for listing in listings]
    return rendered(
        "page.html", report=report, style=STYLE, many=_MANY, groups=groups, captions=captions, words=in_words(report),
        symbols=in_symbols(report), how_to_read=how_to_read(report), parameters=parameters(report),
        bump_chart=bump_chart, count_chart=count_chart,
    )  # fmt: skip


def snippet(report: PublishedReport, name: str) -> str:
    """A piece of a page, for a notebook: table, guarantee, a small chart.

    Args:
        name: starts the identifiers in it, which must differ within the notebook.
    """
    listings = report.listings()
    chart_name, chart = "", ""
    if has_places(listings):
        chart_name, chart = "chart of places", bump_chart(listings, name)
    elif len(listings) == 1 and listings[0].counted:
        chart_name, chart = "chart of counts", count_chart(listings[0], name)
    return rendered("snippet.html", report=report, style=STYLE, words=in_words(report)[:2], chart=chart,
                        chart_name=chart_name, shown=listings[:_MANY], more=max(len(listings) - _MANY, 0))  # fmt: skip


def _places(listings: Sequence[Listing]) -> dict[str, Any]:
    """What the chart of places draws, as a table: items down, windows across."""
    shown = listings[-_MOST_IN_A_TABLE:]
    items = dict.fromkeys(str(row["item"]) for listing in reversed(shown) for row in listing.rows)
    by_window = [{str(row["item"]): row["rank"] for row in listing.rows} for listing in shown]
    return {
        "left": f", the last {len(shown)} of {len(listings)}" if len(listings) > len(shown) else "",
        "starts": [f"{listing.start:%Y-%m-%d}" if listing.start else "All" for listing in shown],
        "rows": [(item, [places.get(item, "–") for places in by_window]) for item in items],
    }
