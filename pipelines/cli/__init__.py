"""The command `private-topk`: the only argparse. Each command is a module, loaded when it is called.

A command's module has `parser(words)` and `execute(arguments, others)`; the others are the words that are no arguments
of ours, for Beam.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import NoReturn

from private_topk.pipelines.cli.parser import Parser
from private_topk.pipelines.cli.status import guarded, leave, open_streams, told
from private_topk.pipelines.logs import as_json
from private_topk.pipelines.unfinished import heed_signals
from private_topk.transforms.errors import Refusal, did_you_mean, verbatim

__all__ = ["COMMANDS", "console", "main"]

_ROOM = "private_topk.pipelines.cli"

COMMANDS = {
    "run": "publish a ranking from files",
    "stream": "publish a ranking per window from a stream",
    "report": "publish one period of a scheduled report, or what was missed",
    "show": "show a published ranking and what it promises, on the terminal or as a page",
    "preview": "see what a ranking would be like, mechanism by mechanism, before anything is spent",
    "plan": "compute what each window may spend of a total budget",
    "budget": "open a dataset's budget in a ledger, and see what was spent of it",
    "select": "run a mechanism on a vector of counts, without Beam",
    "mechanisms": "compare the mechanisms: guarantee, domain, answer, cost, source",
    "audit": "attack the whole path on neighbouring inputs, and bound epsilon from below",
    "sample": "write sample data: the plays of a music service",
    "doctor": "look whether this machine has what a run needs, and what keeps it from working",
    "completion": "print what a shell completes commands and arguments by",
    "flex-template": "describe the Dataflow flex template, for who builds it",
}
"""Every command and what it does; its module has its name, with underscores."""

_DESCRIPTION = """\
usage: private-topk COMMAND [arguments]

Publish differentially private top-k rankings: the k most bought, played or searched items, such that
no single user's data shows.

commands:
{commands}

`private-topk COMMAND --help` lists the arguments of one, with examples; `private-topk --version` says which version
this is."""


def console() -> NoReturn:
    """Run the installed command `private-topk`, and end this process with its status."""
    # numpy's linear algebra, which nothing here asks for, starts threads when it is loaded, and they spin for a while.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Loading Beam makes some hundred thousand objects, which all stay: to search them for garbage at Python's own pace
    # takes a sixth of a small run, 1.8 s of CPU in place of 1.5.
    gc.set_threshold(100_000, 50, 100)
    open_streams()
    heed_signals()
    leave(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    try:  # how stderr is written holds from the first line on
        given, words = Parser(add_help=False).read(list(sys.argv[1:] if argv is None else argv))
    except Refusal as error:
        return told(error)
    with as_json() if getattr(given, "log_format", "text") == "json" else nullcontext():
        return guarded(lambda: _dispatch(words))


def _dispatch(words: list[str]) -> None:
    if not words:
        raise Refusal("", f"a command must be given: {', '.join(COMMANDS)}", "`private-topk --help` says what they do")
    name, *rest = words
    if name == "help" and rest and rest[0] in COMMANDS:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        print(_DESCRIPTION.format(commands="\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())))
    elif name == "--version":
        from private_topk import __version__

        print(f"private-topk {__version__}")
    elif name not in COMMANDS:
        raise Refusal("", f"{verbatim(name)} is no command of private-topk",
                      did_you_mean(name, COMMANDS, f"there are {', '.join(COMMANDS)}"))  # fmt: skip
    else:
        _call(name, rest)


def _call(name: str, words: list[str]) -> None:
    """A command with its words, and with the file of arguments that they may name."""
    command = import_module(f"{_ROOM}.{name.replace('-', '_')}")
    parser: Parser = command.parser(words)
    arguments, others = parser.read(words)
    if getattr(arguments, "config", None) is None:
        command.execute(arguments, others)
        return
    from private_topk.pipelines.cli.config import Config  # loads YAML

    config = Config(arguments.config)
    parser = command.parser([*words, *config.words()])
    arguments, others = parser.read(words)
    with config.pointing():
        command.execute(arguments, [*others, *config.fill(parser, arguments)])
