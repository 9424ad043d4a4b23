"""`private-topk select`: one draw from a vector of counts, without Beam."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.cli.answering import print_json
from private_topk.pipelines.cli.arguments import add_mechanism, add_release, options_of
from private_topk.pipelines.cli.parser import Parser, add, add_json
from private_topk.transforms.errors import printable

if TYPE_CHECKING:
    from private_topk.pipelines.select import Drawn

__all__ = ["execute", "parser"]

_NEEDS = ("counts", "mechanism", "k", "epsilon")
_EXAMPLE = """examples:
  private-topk select --counts counts.npy --mechanism joint --k 10 --epsilon 1
  private-topk select --counts counts.csv --mechanism canonical --k 3 --epsilon 0.5 --json

Every call is a release of its own, and costs its epsilon. No ledger is kept."""


def parser(words: Sequence[str] = ()) -> Parser:
    """The arguments, also those of a mechanism of one's own that the words name."""
    text = "Run a mechanism on a vector of counts, without Beam."
    found = Parser(prog="private-topk select", description=text, epilog=_EXAMPLE, needs=_NEEDS)
    add(found, "counts", "FILE", ".npy of integers, or .csv with a column count (and item)")
    budget = "privacy budget of the draw; smaller is more private"
    bound = "for mechanisms with noise for so many items a user: no user may be in more of the counts"
    add_mechanism(found.add_argument_group("privacy"), words, budget, bound)
    add_release(found.add_argument_group("repeatable draws"))
    add_json(found, "what was drawn")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print rank, index and, where the file has them, item of one draw, separated by tabs."""
    from private_topk.pipelines.select import read_counts, select

    parser().refuse(others)
    options = {**options_of(arguments), **({"counts": arguments.counts} if arguments.counts else {})}
    parser().require(options)
    counts = read_counts(arguments.counts)
    drawn = select(counts, options_of(arguments))
    if arguments.json:
        print_json(_plain(arguments, drawn, counts.items))
        return
    print("\t".join(["rank", "index"] + (["item"] if counts.items else [])))
    for place, index in enumerate(drawn.indices, 1):
        row = [str(place) if drawn.ranked else "-", str(index)]
        print("\t".join(row + ([printable(counts.items[index])] if counts.items else [])))
    if len(drawn.indices) < options["k"]:
        print(f"{len(drawn.indices)} of {options['k']}, as the guarantee of an unknown domain allows", file=sys.stderr)


def _plain(arguments: Namespace, drawn: Drawn, items: Sequence[str] | None) -> dict[str, Any]:
    """As JSON."""
    rows = [{"rank": place if drawn.ranked else None, "index": index, **({"item": items[index]} if items else {})}
            for place, index in enumerate(drawn.indices, 1)]  # fmt: skip
    return {"mechanism": arguments.mechanism, "k": arguments.k, "returned": len(rows), "rows": rows}
