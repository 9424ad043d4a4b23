"""`private-topk show`: what was published, on the terminal and as a page. Also what `run` prints at its end."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.cli.answering import print_json, print_lines
from private_topk.pipelines.cli.parser import Parser, add, add_json, add_switch
from private_topk.pipelines.files import refuse_special
from private_topk.pipelines.protected_files import refuse_replacing
from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.show.words import in_text, table
from private_topk.transforms.errors import Refusal, printable, verbatim

if TYPE_CHECKING:
    from private_topk.pipelines.sinks.sink import Sink
    from private_topk.transforms.windows import Period

__all__ = ["execute", "parser", "print_published", "show_dropped_rows", "show_rows"]

_EXAMPLE = """examples:
  private-topk show ranking.avro
  private-topk show ranking.avro --html ranking.html
  private-topk show weeks/ --html weeks.html
  private-topk show weeks/ --json

The page stands alone: it loads nothing and runs no script."""


def parser(words: Sequence[str] = ()) -> Parser:
    text = "Show a published ranking: its windows, what it promises, how to read it."
    found = Parser(prog="private-topk show", description=text, epilog=_EXAMPLE, needs=("ranking",))
    found.add_argument("ranking", metavar="RANKING", nargs="*", help="ranking files with their manifests beside "
                       "them, or folders of them: of one release, or of a series of windows")  # fmt: skip
    add(found, "html", "FILE", "write a page to hand on, instead of printing: tables, charts, the guarantee")
    add_switch(found, "overwrite", "with --html: replace an existing file")
    add_json(found, "rows and manifest")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print, or write, what a ranking and its manifest tell."""
    from private_topk.pipelines.show.page import pages
    from private_topk.pipelines.show.reading import read_report

    parser().refuse(others)
    if not arguments.ranking:
        raise Refusal("", "RANKING must be given: a file such as ranking.avro, or a folder of them")
    if arguments.html and arguments.json:
        raise Refusal("html", "does not go with {json}", "give one of them")
    if arguments.overwrite and not arguments.html:
        raise Refusal("overwrite", "is of {html}", "leave it out")
    if arguments.html:
        refuse_replacing([arguments.html], [file for place in arguments.ranking for file in _read(place)], "html")
    report = read_report(*arguments.ranking)
    if arguments.html:
        name = os.path.basename(arguments.html)
        folder = os.path.dirname(arguments.html)
        written = [(os.path.join(folder, path), text) for path, text in pages(report, name)]
        _write(written, bool(arguments.overwrite))
    elif arguments.json:
        print_json({"manifest": report.facts, "rows": [dict(row) for row in report.rows]})
    else:
        print_lines(in_text(report))


def _read(ranking: str) -> list[str]:
    """The files that tell of a ranking, or all in a folder of them."""
    from private_topk.pipelines.sinks.manifest import manifest_path

    if os.path.isdir(ranking):
        return [os.path.join(folder, name) for folder, _, names in os.walk(ranking) for name in names]
    return [ranking, manifest_path(ranking)]


def _write(pages: Sequence[tuple[str, str]], overwrite: bool) -> None:
    """Write the page, and the pages of its groups where there are some."""
    (first, _), *others = pages
    for path, _ in pages:
        refuse_special(path, "html")
        if not overwrite and os.path.lexists(path):
            raise Refusal("html", f"{verbatim(path)} exists and is kept", "give another path, or {overwrite}")
    try:
        for path in {os.path.dirname(path) for path, _ in others}:
            os.makedirs(path, exist_ok=True)
        for path, text in pages:
            with open(path, "w" if overwrite else "x", encoding="utf-8") as sink:
                sink.write(text)
    except OSError as error:
        raise Refusal("html", f"{verbatim(error.filename)} cannot be written: {error.strerror}") from None
    more = f", and {len(others)} in {printable(os.path.dirname(others[0][0]))}" if others else ""
    print(f"page: {printable(first)}{more}")


def show_rows(sink: Sink, period: Period | None) -> None:
    """Print what was published, one table per window; where it cannot be read back, where it went.

    Args:
        period: whose windows they are, or None; their times are told in its zone.
    """
    rows = sink.published()
    if rows is None:
        print(f"published to {printable(sink.place)}")
        return
    print_lines(_lines(rows, sink, "UTC" if period is None else period.zone))


def print_published(sink: Sink) -> None:
    """Print what was published as `show --json` does, with its place; rows and manifest are null if none can look."""
    from private_topk.pipelines.show.reading import read_report

    rows = sink.published()
    report = None if rows is None else read_report(sink.place)
    facts = (
        {"manifest": None, "rows": None} if report is None else {"manifest": report.facts, "rows": list(report.rows)}
    )
    print_json({"output": sink.place, **facts})


def show_dropped_rows(counts: dict[str, str], exact: bool) -> None:
    """Tell the operator, on stderr, how many rows were left out. Never to be published."""
    told = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in sorted(counts.items()))
    how = "exact" if exact else "fewer than 100 are not told"
    print(f"rows left out (operator only, never publish; {how}): {told or 'none'}", file=sys.stderr)


def _lines(rows: list[dict[str, Any]], sink: Sink, zone: str) -> Iterator[str]:
    from private_topk.pipelines.sinks.manifest import manifest_path

    for listing in PublishedReport(rows, {"time_zone": zone}).listings():
        yield from table(listing)
        yield ""
    if not rows:
        yield "No item was released: with such a mechanism that is a possible answer.\n"
    yield f"ranking:  {printable(sink.place)}\nmanifest: {printable(manifest_path(sink.place))}"
