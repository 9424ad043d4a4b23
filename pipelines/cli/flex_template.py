"""The Dataflow flex template: its parameters, described from the command line's own, and its entry point.

private-topk flex-template > deploy/dataflow/metadata.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from private_topk.pipelines.cli import main, run
from private_topk.pipelines.cli.parser import Parser, Value
from private_topk.pipelines.texts import whole

__all__ = ["as_command_line", "execute", "metadata", "parser", "start"]

_REQUIRED = {"input", "output", "mechanism", "k", "epsilon", "release_key", "release_id"}
_SET_BY_SERVICE = {"runner", "help"}
_OF_A_TERMINAL = {"check", "config", "exact_counters", "json", "log_format", "quiet", "show_dropped_rows"}
_EXAMPLE = """examples:
  private-topk flex-template
  private-topk flex-template > metadata.json"""


def parser(words: Sequence[str] = ()) -> Parser:
    text = "Print the description of the Dataflow flex template, as JSON."
    return Parser(prog="private-topk flex-template", description=text, epilog=_EXAMPLE)


def execute(arguments: argparse.Namespace, others: list[str]) -> None:
    parser().refuse(others)
    print(json.dumps(metadata(), indent=2))


def start(words: Sequence[str]) -> int:
    """Run the report that the template's parameters describe; the exit status."""
    return main(["run", "--quiet", *as_command_line(words)])


def metadata() -> dict[str, Any]:
    """What the service shows of the template: one parameter for every argument of a report."""
    return {
        "name": "private-topk",
        "description": "Publishes differentially private top-k rankings of rows in files.",
        "parameters": [_parameter(name, action) for name, action in _arguments().items()],
    }


def as_command_line(words: Sequence[str]) -> list[str]:
    """Template parameters `--release_key=X` as arguments `--release-key=X`; Beam's own stay as they are.

    A template knows no flags: `--overwrite=true` becomes `--overwrite`, and `--overwrite=false` goes.
    """
    own = _arguments()
    line = []
    for word in words:
        name, equals, value = word.partition("=")
        action = own.get(name.removeprefix("--"))
        if action is None or not name.startswith("--"):
            line.append(word)
        elif action.nargs != 0:
            line.append(action.option_strings[0] + equals + value)
        elif value.lower() != "false":
            line.append(action.option_strings[0])
    return line


def _arguments() -> dict[str, argparse.Action]:
    named = {action.option_strings[-1].removeprefix("--").replace("-", "_"): action for action in run.parser()._actions}
    return {name: action for name, action in named.items() if name not in _SET_BY_SERVICE | _OF_A_TERMINAL}


def _parameter(name: str, action: argparse.Action) -> dict[str, Any]:
    found = {
        "name": name,
        "label": name.replace("_", " ").capitalize(),
        "helpText": action.help or "",
        "isOptional": name not in _REQUIRED,
    }
    if action.nargs == 0:
        found["regexes"] = ["^(true|false)$"]
    elif str(action.metavar).startswith("{"):
        found["regexes"] = [f"^({str(action.metavar)[1:-1].replace(',', '|')})$"]
    elif isinstance(action, Value) and action.parse is whole:
        found["regexes"] = ["^[0-9]+$"]
    return found
