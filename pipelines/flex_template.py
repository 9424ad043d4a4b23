"""The Dataflow flex template: its parameters, described from the command line's own, and its entry point.

python -m private_topk.pipelines.flex_template > deploy/dataflow/metadata.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from private_topk.pipelines.options import add_run_arguments

__all__ = ["as_command_line", "main", "metadata"]

_REQUIRED = {"input", "output", "mechanism", "k", "epsilon", "release_key", "release_id"}
_SET_BY_SERVICE = {"runner", "help"}


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


def main(argv: Sequence[str]) -> None:
    """Run the batch report that the template's parameters describe."""
    from private_topk.pipelines import batch

    batch.main(as_command_line(argv))


def _arguments() -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    add_run_arguments(parser)
    named = {action.option_strings[0].removeprefix("--").replace("-", "_"): action for action in parser._actions}
    return {name: action for name, action in named.items() if name not in _SET_BY_SERVICE}


def _parameter(name: str, action: argparse.Action) -> dict[str, Any]:
    found = {
        "name": name,
        "label": name.replace("_", " ").capitalize(),
        "helpText": (action.help or "") % {"default": action.default},
        "isOptional": name not in _REQUIRED,
    }
    if action.nargs == 0:
        found["regexes"] = ["^(true|false)$"]
    elif action.choices:
        found["regexes"] = [f"^({'|'.join(map(str, action.choices))})$"]
    elif action.type is int:
        found["regexes"] = ["^[0-9]+$"]
    return found


if __name__ == "__main__":
    print(json.dumps(metadata(), indent=2))
