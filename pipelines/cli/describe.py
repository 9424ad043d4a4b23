"""Descriptions of the command line for other programs: shell completion, and the Dataflow flex template.

private-topk flex-template > deploy/dataflow/metadata.json
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from private_topk.pipelines.cli import COMMANDS as NAMES
from private_topk.pipelines.cli import main, parser_of
from private_topk.pipelines.cli.arguments import Command, shown
from private_topk.pipelines.cli.parser import Parser, flag
from private_topk.pipelines.options import Option, rows
from private_topk.pipelines.texts import count, whole
from private_topk.runners import RUNNERS
from private_topk.transforms.errors import InvalidArgument, did_you_mean, verbatim
from private_topk.transforms.mechanisms import MECHANISMS

_COMPLETION = """examples:
  private-topk completion bash
  private-topk completion bash > private-topk.bash
  private-topk completion fish > private-topk.fish

bash: `source <(private-topk completion bash)` in ~/.bashrc.
zsh: `eval "$(private-topk completion zsh)"` in ~/.zshrc after compinit.
fish: write it to ~/.config/fish/completions/private-topk.fish."""

_FLEX_TEMPLATE = """examples:
  private-topk flex-template
  private-topk flex-template > metadata.json"""

_SHELLS = ("bash", "zsh", "fish")
_FILES = {"FILE", "PATH", "FOLDER", "PLACE", "RANKING", "WHAT"}
_CHOICES = {"mechanism": tuple(MECHANISMS), "runner": tuple(RUNNERS), "shell": _SHELLS}
_NOT_OF_A_TEMPLATE = {"dry_run", "exact_counters", "json", "quiet", "runner", "show_dropped_rows"}
"""Arguments of `run` that the service sets, or that are for a terminal."""


def _completion(arguments: Namespace, others: list[str]) -> None:
    import shtab

    if arguments.shell not in _SHELLS:
        rule = f"SHELL must be one of {', '.join(_SHELLS)}; got {verbatim(repr(arguments.shell))}"
        raise InvalidArgument("", rule, did_you_mean(arguments.shell, _SHELLS))
    print(shtab.complete(_every_command(), arguments.shell))


def _every_command() -> ArgumentParser:
    """A parser of all commands, for description only: a run checks the choices of arguments by its own rules."""
    root = ArgumentParser(prog="private-topk")
    root.add_argument("--version", action="store_true", help="say which version this is")
    commands = root.add_subparsers()
    for name, (module, text) in NAMES.items():
        actions = [
            key
            for key in import_module(f"private_topk.pipelines.cli.{module}").COMMANDS
            if key != name and key.startswith(f"{name} ")
        ]
        if actions:
            inner = commands.add_parser(name, help=text).add_subparsers()
            for action in actions:
                parser = _described(parser_of(*action.split()))
                inner.add_parser(action.split()[1], help=parser.description, parents=[parser], add_help=False)
        else:
            commands.add_parser(name, help=text, parents=[_described(parser_of(name))], add_help=False)
    return root


def _described(parser: Parser) -> Parser:
    """A parser with the completions of each argument: words, or files."""
    import shtab

    for action in parser._actions:
        metavar = str(action.metavar)
        if metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        else:
            words = tuple(metavar[1:-1].split(",")) if metavar.startswith("{") else None
            action.choices = _CHOICES.get(action.dest) or words
    return parser


def _flex_template(arguments: Namespace, others: list[str]) -> None:
    print(json.dumps(metadata(), indent=2))


def start(words: Sequence[str]) -> int:
    """Run the report that the template's parameters describe; the exit status."""
    return main(["run", "--quiet", *as_command_line(words)])


def metadata() -> dict[str, Any]:
    """The metadata of the template: one parameter for every argument of a report."""
    return {
        "name": "private-topk",
        "description": "Publishes differentially private top-k rankings of rows in files.",
        "parameters": [_parameter(name, option) for name, option in _parameters().items()],
    }


def as_command_line(words: Sequence[str]) -> list[str]:
    """Template parameters `--release_key=X` as arguments `--release-key=X`; Beam's own stay as they are.

    A template knows no flags: `--overwrite=true` becomes `--overwrite`, and `--overwrite=false` goes.
    """
    parameters = _parameters()
    line = []
    for word in words:
        name, equals, value = word.partition("=")
        option = parameters.get(name.removeprefix("--"))
        if option is None or not name.startswith("--"):
            line.append(word)
        elif option.read is not None:
            line.append(flag(option.name) + equals + value)
        elif value.lower() != "false":
            line.append(flag(option.name))
    return line


def _parameters() -> dict[str, Option]:
    return {
        flag(option.name).removeprefix("--").replace("-", "_"): option
        for option in rows()
        if option.helps("run") is not None and option.name not in _NOT_OF_A_TEMPLATE
    }


def _parameter(name: str, option: Option) -> dict[str, Any]:
    parameter = {
        "name": name,
        "label": name.replace("_", " ").capitalize(),
        "helpText": shown(option, "run"),
        "isOptional": not option.required,
    }
    if option.read is None:
        parameter["regexes"] = ["^(true|false)$"]
    elif option.words and not option.metavar:
        parameter["regexes"] = [f"^({'|'.join(option.words)})$"]
    elif option.read in (count, whole):
        parameter["regexes"] = ["^[0-9]+$"]
    return parameter


COMMANDS = {
    "completion": Command(
        _completion,
        f"Print a script with which a shell completes commands and arguments: {', '.join(_SHELLS)}.",
        _COMPLETION,
        alone=("SHELL", " or ".join(_SHELLS)),
        takes=", ".join(_SHELLS),
    ),
    "flex-template": Command(
        _flex_template, "Print the description of the Dataflow flex template, as JSON.", _FLEX_TEMPLATE
    ),
}
