"""`private-topk sample`: made-up data to try things on."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from private_topk.pipelines.cli.answering import print_json
from private_topk.pipelines.cli.parser import Parser, add, add_json
from private_topk.transforms.errors import printable

__all__ = ["execute", "parser"]

_EXAMPLE = """examples:
  private-topk sample
  private-topk sample --folder music --json"""


def parser(words: Sequence[str] = ()) -> Parser:
    text = "Write sample data: the plays of a music service."
    found = Parser(prog="private-topk sample", description=text, epilog=_EXAMPLE)
    add(found, "folder", "FOLDER", "where to write plays.avro and catalogue.txt (default: sample)")
    add_json(found, "what was written")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    from private_topk.pipelines.sample import write_sample

    parser().refuse(others)
    found = write_sample(arguments.folder or "sample")
    if arguments.json:
        print_json([{"path": path, "holds": text} for path, text in found.items()])
    else:
        print("\n".join(f"{printable(path)}: {text}" for path, text in found.items()))
