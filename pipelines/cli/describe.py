"""`private-topk completion`: a description of the command line for shells."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module

from private_topk.pipelines.cli import COMMANDS as NAMES
from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.arguments import Command
from private_topk.pipelines.cli.parser import Parser
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

_SHELLS = ("bash", "zsh", "fish")
_FILES = {"FILE", "PATH", "FOLDER", "PLACE", "RANKING", "WHAT"}
_CHOICES = {"mechanism": tuple(MECHANISMS), "runner": tuple(RUNNERS), "shell": _SHELLS}


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


COMMANDS = {
    "completion": Command(
        _completion,
        f"Print a script with which a shell completes commands and arguments: {', '.join(_SHELLS)}.",
        _COMPLETION,
        alone=("SHELL", " or ".join(_SHELLS)),
        takes=", ".join(_SHELLS),
    ),
}
