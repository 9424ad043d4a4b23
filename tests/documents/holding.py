"""How a block of a page is held: typed into a shell, run as Python, saved as a file, or not run."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest

from private_topk.pipelines.cli import command_of, parser_of
from private_topk.pipelines.release.formats import RANKING_FORMATS
from private_topk.runners import check_arguments
from tests.documents.reading import ROOT, Block, Command, blocks, commands
from tests.documents.worlds import World, differences

Check = Callable[[World], None]
MOMENTS = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d": "MOMENT",
    r"localhost:\d+": "ADDRESS",
    r'"time": "[^"]*"': "TIME",
    r"(?m)^ok +python .*$": "PYTHON",
    r"logs in \S+\. Run": "logs in FOLDER. Run",
    r"(?m)^( +\d+)  .*$": r"\1  an item",
    r"(?m)^trying .*\n": "",
}
"""What depends on the moment, or on fresh noise: the items of a ranking."""


@dataclass(frozen=True)
class Held:
    """How one block is held.

    Args:
        starts: how it begins, so that a block that was moved or added is noticed.
        how: `typed` into a shell, run as `python`, `saved` under a name, `parsed` as the arguments of benchmarks that
            take long, or `not run`.
        reason: why it is not run.
        instead: what is replaced before, which is the address of a server, or the date of today.
        status: of the last command; all before it end with 0.
        says: what must be printed besides.
        name: of the file that it is saved as.
        before, after: what else the page takes for granted, and what must be so afterwards.
    """

    starts: str
    how: str = "typed"
    reason: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)
    status: int = 0
    says: str = ""
    name: str = ""
    before: Check = lambda world: None
    after: Check = lambda world: None


def hold(world: World, page: str, helds: list[Held]) -> None:
    """Hold all blocks of a page, in one world."""
    found = blocks(page)
    assert len(found) == len(helds), f"{page}: blocks at {[b.line for b in found]}, and {len(helds)} ways to hold them"
    earlier: list[Command] = []
    for block, held in zip(found, helds, strict=True):
        assert block.text.startswith(held.starts), f"{block.place} starts with {block.text[:60]!r}"
        for old, new in held.instead.items():
            assert old in block.text, f"{block.place}: no {old}"
            block = Block(block.page, block.line, block.language, block.text.replace(old, new))
        held.before(world)
        WAYS[held.how](world, block, held, earlier)
        held.after(world)


def typed(world: World, block: Block, held: Held, earlier: list[Command]) -> None:
    """In one shell, as a reader's: variables that were set in an earlier block are set."""
    typed = commands(block)
    done = world.type([*earlier, *typed])[len(earlier) :]
    for number, (command, (status, printed)) in enumerate(zip(typed, done, strict=True)):
        wanted = held.status if number == len(typed) - 1 else 0
        assert status == wanted, f"{block.place}: {command.typed}\nends with {status}:\n{printed}"
        if command.shown:
            said = differences(command.shown, printed, MOMENTS)
            assert not said, f"{block.place}: {command.typed}\n{said}"
    assert held.says in done[-1][1], f"{block.place}: {done[-1][1]}"
    earlier += [command for command in typed if re.match(r"[A-Z]+=\S+($|\s+[A-Z]+=)", command.typed)]


def python(world: World, block: Block, held: Held, _: list[Command]) -> None:
    """What a line prints stands behind it after `# `, where the page shows it."""
    (world.folder / "block.py").write_text(block.text)
    [(status, printed)] = world.type([Command("python block.py")])
    assert status == held.status, f"{block.place}: {printed}"
    assert re.search(held.says, printed), f"{block.place}: {printed}"
    for shown in re.findall(r"^print\(.*\)  # (.*)$", block.text, re.M):
        assert shown in printed.splitlines(), f"{block.place}: {printed}"


def saved(world: World, block: Block, held: Held, _: list[Command]) -> None:
    (world.folder / held.name).parent.mkdir(exist_ok=True)
    (world.folder / held.name).write_text(block.text)
    assert held.name in (ROOT / block.page).read_text(), f"{block.place}: the page does not say where it is saved"


def parsed(world: World, block: Block, held: Held, _: list[Command]) -> None:
    assert held.reason
    for command in commands(block):
        parses(command.typed)


def not_run(world: World, block: Block, held: Held, _: list[Command]) -> None:
    assert held.reason


WAYS = {"typed": typed, "python": python, "saved": saved, "parsed": parsed, "not run": not_run}


def reads(words: list[str]) -> None:
    """A command of ours takes these words; what it leaves to a runner, Beam or that runner knows."""
    given, others = parser_of(*words).read(command_of(words)[2])
    assert not others or vars(given).get("runner"), f"{words}: {others}"
    check_arguments(vars(given).get("runner") or "direct", others)


def parses(line: str) -> None:
    """A `python -m benchmarks.NAME ...`, or a command of ours: it is there and takes these arguments."""
    if line.startswith("private-topk "):
        return reads(shlex.split(line, comments=True)[1:])

    python_, dash, module, *words = shlex.split(line, comments=True)
    assert (python_, dash) == ("python", "-m") and module.startswith("benchmarks."), line
    found, parse = import_module(module), argparse.ArgumentParser.parse_known_args
    found = import_module(f"{module}.__main__") if hasattr(found, "__path__") else found  # a folder of modules

    def only_parse(parser: argparse.ArgumentParser, *_: object) -> None:
        assert not parse(parser, words)[1], line
        raise _Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_known_args", only_parse)
        with pytest.raises(_Parsed):
            found.main()


class _Parsed(Exception):
    """Arguments were understood; nothing else is to happen."""


def ranked(path: str, rows: int) -> Check:
    """A ranking is there, and has so many rows."""

    def check(world: World) -> None:
        content = (world.folder / path).read_bytes()
        assert len(RANKING_FORMATS[Path(path).suffix].decode(content)) == rows

    return check
