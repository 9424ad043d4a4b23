"""`private-topk sample`: made-up data to try things on."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from private_topk.pipelines.commands.parser import Parser, add

__all__ = ["execute", "parser"]


def parser(words: Sequence[str] = ()) -> Parser:
    text = "Write sample data: the plays of a music service."
    found = Parser(prog="private-topk sample", description=text)
    add(found, "folder", "FOLDER", "where to write plays.avro and catalogue.txt (default: sample)")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    from private_topk.pipelines.sample import write_sample

    parser().refuse(others)
    write_sample(arguments.folder or "sample")
