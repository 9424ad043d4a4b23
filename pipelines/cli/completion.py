"""`private-topk completion SHELL`: what a shell completes commands, arguments and their values by, made by shtab."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module

import shtab

from private_topk.pipelines.cli.budget import ACTIONS
from private_topk.pipelines.cli.parser import Parser
from private_topk.runners import RUNNERS
from private_topk.transforms.errors import Refusal, did_you_mean, verbatim
from private_topk.transforms.mechanisms import MECHANISMS

__all__ = ["execute", "parser"]

_EXAMPLE = """examples:
  private-topk completion bash
  private-topk completion bash > private-topk.bash
  private-topk completion fish > private-topk.fish

bash: `source <(private-topk completion bash)` in ~/.bashrc.
zsh: `eval "$(private-topk completion zsh)"` in ~/.zshrc after compinit.
fish: write it to ~/.config/fish/completions/private-topk.fish."""
_SHELLS = ("bash", "zsh", "fish")
_FILES = {"FILE", "GLOB", "PATH", "FOLDER", "PLACE", "RANKING", "WHAT"}
_CHOICES = {"mechanism": tuple(MECHANISMS), "runner": tuple(RUNNERS), "shell": _SHELLS}


def parser(words: Sequence[str] = ()) -> Parser:
    text = f"Print what a shell completes by: {', '.join(_SHELLS)}."
    found = Parser(prog="private-topk completion", description=text, epilog=_EXAMPLE, needs=("shell",))
    found.add_argument("shell", metavar="SHELL", nargs="?", help=" or ".join(_SHELLS))
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    parser().refuse(others)
    if arguments.shell is None:
        raise Refusal("", f"SHELL must be given: {', '.join(_SHELLS)}")
    if arguments.shell not in _SHELLS:
        rule = f"SHELL must be one of {', '.join(_SHELLS)}; got {verbatim(repr(arguments.shell))}"
        raise Refusal("", rule, did_you_mean(arguments.shell, _SHELLS))
    print(shtab.complete(_every_command(), arguments.shell))


def _every_command() -> ArgumentParser:
    """One parser of them all. It only describes: its arguments have choices that a run checks by its own rules."""
    from private_topk.pipelines.cli import COMMANDS

    whole = ArgumentParser(prog="private-topk")
    whole.add_argument("--version", action="store_true", help="say which version this is")
    commands = whole.add_subparsers()
    for name, text in COMMANDS.items():
        module = import_module(f"private_topk.pipelines.cli.{name.replace('-', '_')}")
        if name == "budget":
            actions = commands.add_parser(name, help=text).add_subparsers()
            for action, what in ACTIONS.items():
                actions.add_parser(action, help=what, parents=[_described(module.parser([action]))], add_help=False)
        else:
            commands.add_parser(name, help=text, parents=[_described(module.parser())], add_help=False)
    return whole


def _described(parser: Parser) -> Parser:
    """With what may follow each argument: some words, or files."""
    for action in parser._actions:
        metavar = str(action.metavar)
        if action.dest == "action":  # of `budget`, which the parser above it completes
            action.help = SUPPRESS
        elif metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        else:
            action.choices = _CHOICES.get(action.dest) or _words(metavar)
    return parser


def _words(metavar: str) -> tuple[str, ...] | None:
    """Those of {user-window,user}."""
    return tuple(metavar[1:-1].split(",")) if metavar.startswith("{") else None
