"""`private-topk select`: one draw from a vector of counts, without Beam."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from private_topk.pipelines.commands.arguments import add_mechanism, add_release, asked_of
from private_topk.pipelines.commands.parser import Parser, add
from private_topk.pipelines.fields import require
from private_topk.pipelines.printable import printable

__all__ = ["execute", "parser"]


def parser(words: Sequence[str] = ()) -> Parser:
    """The arguments, also those of a mechanism of one's own that the words name."""
    found = Parser(prog="private-topk select", description="Run a mechanism on a vector of counts, without Beam.")
    add(found, "counts", "FILE", ".npy of integers, or .csv with a column count (and item)")
    budget = "privacy budget of the draw; smaller is more private"
    bound = "for mechanisms with noise for so many items a user: no user may be in more of the counts"
    add_mechanism(found.add_argument_group("privacy"), words, budget, bound)
    add_release(found.add_argument_group("repeatable draws"))
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print rank, index and, where the file has them, item of one draw, separated by tabs."""
    from private_topk.pipelines.select import read_counts, select

    parser().refuse(others)
    asked = {**asked_of(arguments), **({"counts": arguments.counts} if arguments.counts else {})}
    require(asked, "counts", "mechanism", "k", "epsilon")
    counts = read_counts(arguments.counts)
    drawn = select(counts, asked_of(arguments))
    print("\t".join(["rank", "index"] + (["item"] if counts.items else [])))
    for place, index in enumerate(drawn.indices, 1):
        row = [str(place) if drawn.ranked else "-", str(index)]
        print("\t".join(row + ([printable(counts.items[index])] if counts.items else [])))
    if len(drawn.indices) < asked["k"]:
        print(f"{len(drawn.indices)} of {asked['k']}, as the guarantee of an unknown domain allows", file=sys.stderr)
