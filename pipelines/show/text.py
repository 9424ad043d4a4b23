"""A ranking on a terminal: one table for each window, and what they promise."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from private_topk.pipelines.show.guarantee import how_to_read, in_symbols, in_words
from private_topk.pipelines.show.told import Listing, Told
from private_topk.transforms.errors import printable

__all__ = ["in_text", "table"]

_WIDTH = 100


def in_text(told: Told) -> Iterator[str]:
    """The lines: every window, then the guarantee and how to read it."""
    for listing in told.listings():
        yield from table(listing)
        yield ""
    if not told.rows:
        yield "No item was released: with such a mechanism that is a possible answer."
        yield ""
    promise = [*in_words(told), *([in_symbols(told)] if in_symbols(told) else [])]
    for title, sentences in (("What it promises", promise), ("How to read it", how_to_read(told))):
        if sentences:
            yield title
            for sentence in sentences:
                yield textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="  ")
            yield ""


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
    lines = [f"  {'-' if row['rank'] is None else row['rank']:>{width}}  {printable(row['item'])}" for row in rows]
    if listing.counted:
        widest = max(len(line) for line in lines)
        lines = [f"{line:<{widest}}  about {row['noisy_count']:,}{_range(row.get('noise_95'))}"
                 for line, row in zip(lines, rows, strict=True)]  # fmt: skip
    elif listing.weighed:
        widest = max(len(line) for line in lines)
        lines = [f"{line:<{widest}}  weighs about {row['noisy_weight']:,.2f}"
                 for line, row in zip(lines, rows, strict=True)]  # fmt: skip
    return [title, *lines]


def _range(noise: int | None) -> str:
    return "" if noise is None else f" ± {noise:,}"
