"""Commands that print: `show` a published ranking, `select` from counts, `mechanisms`, and `sample` data."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.cli.arguments import Command, options_of
from private_topk.pipelines.cli.output import print_json
from private_topk.pipelines.cli.parser import flag
from private_topk.pipelines.files import refuse_replacing, refuse_special, replace_file
from private_topk.transforms.errors import InvalidArgument, did_you_mean, printable, verbatim
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, mechanism_by_name, parameters_of

if TYPE_CHECKING:
    from private_topk.pipelines.show.published import PublishedReport
    from private_topk.pipelines.sinks.sink import Sink


_SHOW = """examples:
  private-topk show ranking.avro
  private-topk show ranking.avro --html ranking.html
  private-topk show weeks/ --html weeks.html

The page stands alone: it loads nothing and runs no script."""

_SELECT = """examples:
  private-topk select --counts counts.npy --mechanism joint --k 10 --epsilon 1
  private-topk select --counts counts.csv --mechanism canonical --k 3 --epsilon 0.5 --json

Every call is a separate release that costs its epsilon. No ledger is charged."""

_MECHANISMS = """examples:
  private-topk mechanisms
  private-topk mechanisms joint peeling --json"""

_SAMPLE = """examples:
  private-topk sample
  private-topk sample --folder music --json"""

_OF_ALL = ("epsilon", "neighbours")


_NEEDS = {
    "overwrite": ("html",),
    "title": ("html",),
    "title_column": ("item_titles",),
    "item_column": ("item_titles",),
}
"""The arguments that only mean something beside one of others."""


def _show(arguments: Namespace, others: list[str]) -> None:
    from private_topk.pipelines.show.books import with_books
    from private_topk.pipelines.show.published import titled
    from private_topk.pipelines.show.reading import read_published, titles_at
    from private_topk.pipelines.show.sign_off import registry_entry, sheet
    from private_topk.pipelines.show.words import in_text, what_is_lost, what_was_adopted

    asked = [name for name in ("html", "json", "sign_off", "registry") if getattr(arguments, name, None)]
    if len(asked) > 1:
        raise InvalidArgument(asked[0], f"does not go with {{{asked[1]}}}", "give one of them")
    for name, owners in _NEEDS.items():
        if getattr(arguments, name) and not any(getattr(arguments, owner) for owner in owners):
            raise InvalidArgument(
                name, f"needs {' or '.join(f'{{{owner}}}' for owner in owners)}", "give it too, or leave this out"
            )
    report = replace(read_published(*arguments.ranking), heading=arguments.title or "")
    if arguments.item_titles:
        titles = titles_at(arguments.item_titles, report, arguments.item_column, arguments.title_column or "title")
        report = titled(report, titles)
    report, books = with_books(report, arguments.ranking, arguments.ledger)
    report = report if arguments.group is None else _of_group(report, arguments.group)
    if arguments.html:
        _write_page(report, arguments)
    elif arguments.json:
        lost = [*what_is_lost(report), *what_was_adopted(report), *books[1:]]
        document = {"manifest": _manifest(report), "rows": [dict(row) for row in report.rows]}
        print_json({**document, "lost": lost} if lost else document)
    elif arguments.sign_off:
        print(*sheet(report, books), sep="\n")
    elif arguments.registry:
        print(registry_entry(report, books), end="")
    else:
        print(*in_text(report), sep="\n")
    for sentence in _corrected_beside(arguments.ranking):
        print(sentence, file=sys.stderr)
    if not (arguments.sign_off or arguments.registry):  # these tell it themselves
        for sentence in [*((*what_is_lost(report), *what_was_adopted(report)) if arguments.json else ()), *books[1:]]:
            print(sentence, file=sys.stderr)


def _corrected_beside(rankings: Sequence[str]) -> Iterator[str]:
    """Which of the rankings were corrected by others beside them, that are not shown."""
    from private_topk.pipelines.scheduled.periods import corrected_place, corrections_beside

    for ranking in filter(os.path.isfile, rankings):
        with suppress(OSError):  # it was shown, whatever else may be listed
            places = [corrected_place(ranking, name) for name in corrections_beside(ranking)]
            if others := [place for place in places if place not in rankings]:
                yield printable(f"{ranking} was corrected: show {', '.join(others)} instead, or the folder of both")


def _write_page(report: PublishedReport, arguments: Namespace) -> None:
    from private_topk.pipelines.show.page import pages

    refuse_replacing([arguments.html], [file for place in arguments.ranking for file in _read(place)], "html")
    folder, name = os.path.split(arguments.html)
    _write([(os.path.join(folder, path), text) for path, text in pages(report, name)], bool(arguments.overwrite))


def _manifest(report: PublishedReport) -> dict[str, Any] | None:
    return None if report.manifest is None else report.manifest.to_json()


def _of_group(report: PublishedReport, group: str) -> PublishedReport:
    known = [str(name) for name in report.by_group() if name is not None]
    if group not in known:
        remedy = did_you_mean(group, known, f"there are {', '.join(known) or 'no groups'}")
        raise InvalidArgument("group", f"{verbatim(group)} has no ranking there", verbatim(remedy))
    return report.of_group(group)


def _read(ranking: str) -> list[str]:
    """The files of a ranking, or all files of a folder."""
    from private_topk.pipelines.release.place import manifest_path

    if os.path.isdir(ranking):
        return [os.path.join(folder, name) for folder, _, names in os.walk(ranking) for name in names]
    return [ranking, manifest_path(ranking)]


def _write(pages: Sequence[tuple[str, str]], overwrite: bool) -> None:
    (first, _), *others = pages
    if not first.endswith(".html"):
        raise InvalidArgument("html", f"must end with .html, got {verbatim(first)}")
    for path, _ in pages:
        refuse_special(path, "html")
        if not overwrite and os.path.lexists(path):
            raise InvalidArgument("html", f"{verbatim(path)} exists and is kept", "give another path, or {overwrite}")
    for path, text in pages:
        try:
            replace_file(path, text.encode())
        except OSError as error:
            raise InvalidArgument("html", f"{verbatim(path)} cannot be written: {error.strerror}") from None
    more = f", and {len(others)} in {printable(os.path.dirname(others[0][0]))}" if others else ""
    print(f"page: {printable(first)}{more}")


def show_rows(sink: Sink) -> None:
    """Print what was published, one table per window and group, and which have none; or its place, if it cannot be
    read back.
    """
    from private_topk.pipelines.show.reading import read_published

    if sink.published() is None:
        print(f"published to {printable(sink.uri)}")
        return
    print(*_lines(read_published(sink.uri), sink), sep="\n")


def print_published(sink: Sink) -> None:
    """Print what was published as `show --json` does, with its place; rows and manifest are null if unreadable."""
    from private_topk.pipelines.show.reading import read_published

    rows = sink.published()
    report = None if rows is None else read_published(sink.uri)
    if report is None:
        print_json({"output": sink.uri, "manifest": None, "rows": None, "empty": None})
        return
    facts = {"output": sink.uri, "manifest": _manifest(report)}
    print_json({**facts, "rows": list(report.rows), "empty": empty_of(report)})


def empty_of(report: PublishedReport) -> list[dict[str, Any]]:
    """The windows, and groups of them, of which no item was released."""
    return [
        {"start": listing.start, "end": listing.end, "group": listing.group}
        for listing in report.listings()
        if not listing.rows
    ]


def _lines(report: PublishedReport, sink: Sink) -> Iterator[str]:
    from private_topk.pipelines.release.place import manifest_path
    from private_topk.pipelines.show.words import why_short

    yield from report.tables()
    for sentence in why_short(report):
        yield f"{textwrap.fill(sentence, 100)}\n"
    yield f"ranking:  {printable(sink.uri)}\nmanifest: {printable(manifest_path(sink.uri))}"


def _select(arguments: Namespace, others: list[str]) -> None:
    """Print rank, index and, where the file has them, item of one draw, separated by tabs."""
    from private_topk.pipelines.select import read_counts, select

    options, counts = options_of(arguments), read_counts(arguments.counts)
    drawn = select(counts, options)
    items = counts.items
    rows: list[dict[str, Any]] = [
        {"rank": place if drawn.ranked else None, "index": index} | ({"item": items[index]} if items else {})
        for place, index in enumerate(drawn.indices, 1)
    ]
    if arguments.json:
        facts = {"mechanism": arguments.mechanism, "k": arguments.k, "returned": len(rows)}
        print_json({**facts, "rows": rows})
        return
    print("\t".join(["rank", "index", *(["item"] if items else [])]))
    for row in rows:
        print("\t".join("-" if value is None else printable(str(value)) for value in row.values()))
    if len(rows) < options["k"]:
        print(f"{len(rows)} of {options['k']}, as the guarantee of an unknown domain allows", file=sys.stderr)


def _mechanisms(arguments: Namespace, others: list[str]) -> None:
    """Print mechanisms with their guarantee, domain, answer, cost, parameters, source and when to choose them."""
    mechanisms = [mechanism_by_name(name) for name in arguments.mechanism or MECHANISMS]
    if arguments.json:
        print_json([_about(mechanism) for mechanism in mechanisms])
        return
    width = min(shutil.get_terminal_size((110, 24)).columns, 130)
    for mechanism in mechanisms:
        about, proved = mechanism.about, mechanism.guarantee
        print(f"{about.name}")
        print(f"    {proved.privacy}; {proved.domain} domain; answers with a {proved.answer}; cost {about.cost}")
        for text in (_arguments(mechanism), about.source, about.when):
            print(textwrap.fill(text, width, initial_indent="    ", subsequent_indent="    "))


def _about(mechanism: type[Mechanism]) -> dict[str, Any]:
    """A mechanism as JSON."""
    about, proved = mechanism.about, mechanism.guarantee
    parameters = [
        {"name": each.name, "required": each.required, "help": each.help} for each in parameters_of(mechanism).values()
    ]
    return {
        "name": about.name,
        "guarantee": proved.privacy,
        "domain": proved.domain,
        "answer": proved.answer,
        "cost": about.cost,
        "choose_it_when": about.when,
        "source": about.source,
        "parameters": parameters,
    }


def _arguments(mechanism: type[Mechanism]) -> str:
    parameters = [each for each in parameters_of(mechanism).values() if each.name not in _OF_ALL]
    needed, taken = ([flag(each.name) for each in parameters if each.required is wanted] for wanted in (True, False))
    words = [f"{verb} {', '.join(names)}" for verb, names in (("needs", needed), ("takes", taken)) if names]
    return "; ".join(words) or "no parameters but epsilon and neighbours"


def _sample(arguments: Namespace, others: list[str]) -> bool:
    from private_topk.pipelines.sample import write_sample

    files = write_sample(arguments.folder or "sample")
    if arguments.json:
        print_json([{"path": path, "holds": text} for path, text in files.items()])
    else:
        print("\n".join(f"{printable(path)}: {text}" for path, text in files.items()))
    return True


COMMANDS = {
    "show": Command(
        _show,
        "Show a published ranking: its windows, what it promises, how to read it.",
        _SHOW,
        alone=(
            "RANKING",
            "ranking files with their manifests beside them, or folders of them: of one "
            "release or of a series of windows",
        ),
        takes="a file such as ranking.avro, or a folder of them",
        several=True,
    ),
    "select": Command(
        _select,
        "Run a mechanism on a vector of counts, without Beam.",
        _SELECT,
        ("counts", "mechanism", "k", "epsilon"),
    ),
    "mechanisms": Command(
        _mechanisms,
        "Compare the mechanisms: guarantee, domain, answer, cost, source.",
        _MECHANISMS,
        alone=("MECHANISM", "the names of some; by default all"),
        several=True,
    ),
    "sample": Command(_sample, "Write sample data: the plays of a music service.", _SAMPLE),
}
