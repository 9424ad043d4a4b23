"""`private-topk mechanisms`: the table of mechanisms."""

from __future__ import annotations

import shutil
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from private_topk.pipelines.cli.answering import print_json
from private_topk.pipelines.cli.parser import Parser, add_json, flag
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, parameters_of

__all__ = ["execute", "parser"]

_OF_ALL = ("epsilon", "neighbours")
_EXAMPLE = """examples:
  private-topk mechanisms
  private-topk mechanisms --json"""


def parser(words: Sequence[str] = ()) -> Parser:
    text = "Compare the mechanisms: guarantee, domain, answer, cost, source."
    found = Parser(prog="private-topk mechanisms", description=text, epilog=_EXAMPLE)
    add_json(found, "the mechanisms")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print every mechanism with its guarantee, domain, answer, cost, parameters, source and when to choose it."""
    parser().refuse(others)
    if arguments.json:
        print_json([_plain(mechanism) for mechanism in MECHANISMS.values()])
        return
    width = min(shutil.get_terminal_size((110, 24)).columns, 130)
    for mechanism in MECHANISMS.values():
        about, proved = mechanism.about, mechanism.guarantee
        print(f"{about.name}")
        print(f"    {proved.privacy}; {proved.domain} domain; answers with a {proved.answer}; cost {about.cost}")
        for text in (_arguments(mechanism), about.source, about.when):
            print(textwrap.fill(text, width, initial_indent="    ", subsequent_indent="    "))


def _plain(mechanism: type[Mechanism]) -> dict[str, Any]:
    """As JSON."""
    about, proved = mechanism.about, mechanism.guarantee
    parameters = [{"name": its.name, "required": its.required, "help": its.help}
                  for its in parameters_of(mechanism).values()]  # fmt: skip
    return {"name": about.name, "guarantee": proved.privacy, "domain": proved.domain, "answer": proved.answer,
            "cost": about.cost, "choose_it_when": about.when, "source": about.source,
            "parameters": parameters}  # fmt: skip


def _arguments(mechanism: type[Mechanism]) -> str:
    own = [its for its in parameters_of(mechanism).values() if its.name not in _OF_ALL]
    needed, taken = ([flag(its.name) for its in own if its.required is wanted] for wanted in (True, False))
    words = [f"{verb} {', '.join(found)}" for verb, found in (("needs", needed), ("takes", taken)) if found]
    return "; ".join(words) or "no parameters but epsilon and neighbours"
