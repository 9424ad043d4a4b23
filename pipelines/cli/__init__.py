"""The command `private-topk`, the only user of argparse. The module of a command is loaded when it is called, and
defines it in its `COMMANDS`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from private_topk.pipelines.cli.output import exit_process, open_streams, report_error, run_command
from private_topk.pipelines.cli.parser import Parser
from private_topk.pipelines.process import as_json, install_signal_handlers
from private_topk.transforms.errors import InvalidArgument, did_you_mean, verbatim

if TYPE_CHECKING:
    from private_topk.pipelines.cli.arguments import Command

__all__ = ["COMMANDS", "command_of", "console", "main", "parser_of"]

_ROOM = "private_topk.pipelines.cli"

COMMANDS = {
    "run": ("publish", "publish a ranking from files"),
    "stream": ("publish", "publish a ranking per window from a stream"),
    "report": ("report", "publish one period of a scheduled report, or what was missed"),
    "show": ("show", "show a published ranking and what it promises, on the terminal or as a page"),
    "preview": ("preview", "estimate rankings of each mechanism, and what windows may spend, before anything is spent"),
    "budget": ("budget", "create a dataset's budget in a ledger, and see what was spent of it"),
    "select": ("show", "run a mechanism on a vector of counts, without Beam"),
    "mechanisms": ("show", "compare the mechanisms: guarantee, domain, answer, cost, source"),
    "sample": ("show", "write sample data: the plays of a music service"),
    "doctor": ("doctor", "check whether this machine has what a run needs"),
    "expansion-service": ("serve", "offer RankRows to Beam pipelines in Java and other languages"),
    "completion": ("describe", "print a script with which a shell completes commands and arguments"),
}
"""Every command: its module, and what it does."""

_DESCRIPTION = """\
usage: private-topk COMMAND [arguments]

Publish differentially private top-k rankings: the k most bought, played or searched items, such that
the result reveals almost nothing about any one user.

commands:
{commands}

`private-topk COMMAND --help` lists the arguments of a command, with examples. `private-topk --version` prints the
version."""


def console() -> NoReturn:
    """Run the installed command `private-topk`, and end this process with its status."""
    # numpy's linear algebra, which nothing here asks for, starts threads when it is loaded, and they spin for a while.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Loading Beam makes some hundred thousand objects, which all stay: garbage collection at Python's default
    # thresholds takes a sixth of a small run, 1.8 s of CPU instead of 1.5.
    gc.set_threshold(100_000, 50, 100)
    open_streams()
    install_signal_handlers()
    exit_process(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    try:  # the format of stderr applies from the first line on
        given, words = Parser(add_help=False).read(list(sys.argv[1:] if argv is None else argv))
    except (InvalidArgument, KeyboardInterrupt) as error:
        return report_error(error)
    with as_json() if getattr(given, "log_format", "text") == "json" else nullcontext():
        return run_command(lambda: _dispatch(words))


def _dispatch(words: list[str]) -> object:
    if not words:
        raise InvalidArgument(
            "", f"a command must be given: {', '.join(COMMANDS)}", "`private-topk --help` says what they do"
        )
    name, *rest = words
    if name == "help" and rest and rest[0] in COMMANDS:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        lines = (f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items())
        print(_DESCRIPTION.format(commands="\n".join(lines)))
    elif name == "--version":
        from private_topk import __version__

        print(f"private-topk {__version__}")
    elif name not in COMMANDS:
        raise InvalidArgument(
            "",
            f"{verbatim(name)} is no command of private-topk",
            did_you_mean(name, COMMANDS, f"there are {', '.join(COMMANDS)}"),
        )
    else:
        from private_topk.pipelines.cli.arguments import called  # loads numpy

        return called(*command_of(words))
    return None


def command_of(words: Sequence[str]) -> tuple[str, Command, list[str]]:
    """The command that words begin with, its name, and the rest of the words."""
    name, *rest = words
    commands = import_module(f"{_ROOM}.{COMMANDS[name][0]}").COMMANDS
    action = f"{name} {rest[0]}" if rest else ""
    return (action, commands[action], rest[1:]) if action in commands else (name, commands[name], rest)


def parser_of(*words: str) -> Parser:
    from private_topk.pipelines.cli.arguments import parser_of

    return parser_of(*command_of(words))
