"""The arguments of every command, made from the table of options. `--config FILE` gives them from a YAML file:

    input: plays-*.avro
    k: 10
    from: 2026-01-05
    overwrite: true
    options: [--cores=4]     # for Beam

The command line overrides the file; an error in an argument of the file names its line.
"""

from __future__ import annotations

import re
import textwrap
from argparse import Action, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from private_topk.pipelines.cli.parser import LOG_FORMAT, Parser, Value, flag
from private_topk.pipelines.report_file.file import Document
from private_topk.transforms.errors import Refusal, did_you_mean
from private_topk.transforms.options import OPTIONS, RENAMED, Option, Options, require, rows
from private_topk.transforms.texts import listed

__all__ = ["Command", "Config", "called", "options_of", "parser_of", "shown"]

_BEAMS = "options"
_NOT_IN_A_FILE = {"--config", LOG_FORMAT, "--help", "-h"}
_SWITCH = {"true": True, "false": None}


@dataclass(frozen=True)
class Command:
    """A command, without its options.

    Args:
        execute: runs it, given the arguments and the words for Beam.
        text, examples: its help before and after the arguments.
        needs: the options that must be given.
        choose: the options of which one must be given.
        also: further arguments in the usage line.
        alone: the name of a positional argument, and its help.
        takes: what that is, for the error if it is missing.
        several: whether there may be several of them.
        beam: whether other words go to Beam.
        grouped: whether its help has headings.
    """

    execute: Callable[[Namespace, list[str]], None]
    text: str
    examples: str
    needs: tuple[str, ...] = ()
    choose: tuple[str, ...] = ()
    also: str = ""
    alone: tuple[str, str] | None = None
    takes: str = ""
    several: bool = False
    beam: bool = False
    grouped: bool = False


def parser_of(name: str, command: Command, words: Sequence[str] = ()) -> Parser:
    """The parser of a command: its options are the rows of the table that name it.

    Args:
        words: the command line, which may name a mechanism of one's own: its parameters become arguments too.
    """
    options = {option.name: option for option in rows(_mechanisms(words)) if option.helps(name) is not None}
    worded = {field: " ".join(filter(None, (flag(field), _metavar(option)))) for field, option in options.items()}
    usage = [f"private-topk {name}", *(command.alone or ())[:1], *(worded[field] for field in command.needs)]
    usage += [f"({' | '.join(worded[field] for field in command.choose)})"] if command.choose else []
    usage += [*filter(None, [command.also]), "[arguments]"]
    parser = Parser(prog=f"private-topk {name}", usage=_wrapped(" ".join(usage)), description=command.text,
                    epilog=command.examples)  # fmt: skip
    if command.alone:
        metavar, text = command.alone
        parser.add_argument(metavar.lower(), metavar=metavar, nargs="*" if command.several else "?",
                            help=f"required: {text}")  # fmt: skip
    groups: dict[str, Any] = {"": parser}
    for field, option in options.items():
        heading = option.group if command.grouped else ""
        group = groups.get(heading) or groups.setdefault(heading, parser.add_argument_group(heading))
        text = "required: " * (field in command.needs) + shown(option, name)
        if option.read is None:
            group.add_argument(flag(field), action="store_const", const=True, dest=field, help=text)
        else:
            read = listed(option.read) if name in option.several else option.read
            group.add_argument(flag(field), action=Value, dest=field, metavar=_metavar(option), help=text, parse=read,
                               many=option.many)  # fmt: skip
    return parser


def called(name: str, command: Command, words: list[str]) -> None:
    """Run a command with its words, and with the file of arguments that they may name."""
    parser = parser_of(name, command, words)
    arguments, others = parser.read(words)
    if getattr(arguments, "config", None) is None:
        _call(parser, command, arguments, others)
        return
    config = Config(arguments.config)
    parser = parser_of(name, command, [*words, *config.words()])
    arguments, others = parser.read(words)
    with config.pointing():
        _call(parser, command, arguments, [*others, *config.fill(parser, command, arguments)])


def _call(parser: Parser, command: Command, arguments: Namespace, others: list[str]) -> None:
    if command.beam:
        from private_topk.runners import UnknownArgument

        try:
            command.execute(arguments, others)
        except UnknownArgument as error:
            raise _refused(parser, error.word, error.known, " or of Beam") from None
        return
    if others:
        raise _refused(parser, others[0])
    if command.alone and not getattr(arguments, command.alone[0].lower()):
        raise Refusal("", f"{command.alone[0]} must be given: {command.takes}")
    require({name: value for name, value in vars(arguments).items() if value is not None}, *command.needs)
    command.execute(arguments, others)


def _refused(parser: Parser, word: str, known: Sequence[str] = (), owner: str = "") -> Refusal:
    """The refusal of a word that is no argument, with the new name of a renamed one."""
    name = word.partition("=")[0]
    renamed = flag(RENAMED.get(name.lstrip("-").replace("-", "_"), ""))
    if renamed in parser._option_string_actions:
        return Refusal("", f"{name} is now called {renamed}")
    return parser.unknown(word, known, owner)


def options_of(arguments: Namespace) -> Options:
    """The options that were given; those that the table does not name are the mechanism's parameters."""
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    options = {name: value for name, value in given.items() if name in _NAMES}
    parameters = {name: value for name, value in given.items() if name not in _NAMES}
    return {**options, **({"parameters": parameters} if parameters else {})}


_NAMES = {option.name for option in OPTIONS}


def _wrapped(usage: str) -> str:
    return textwrap.fill(usage, 110, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False)


def _metavar(option: Option) -> str:
    return option.metavar or (f"{{{','.join(option.words)}}}" if option.words else "")


def shown(option: Option, command: str) -> str:
    """The help of an option in a command."""
    text = re.sub(r"\{([a-z_]+)\}", lambda match: flag(match[1]), option.helps(command) or "")
    return text + " (or several, with commas)" * (command in option.several)


def _mechanisms(words: Sequence[str]) -> list[str]:
    """The mechanisms that a command line names."""
    name = next((after for before, after in pairwise(words) if before == "--mechanism"), "")
    return next((word.partition("=")[2] for word in words if word.startswith("--mechanism=")), name).split(",")


class Config:
    """A file of arguments. Raises Refusal if it is invalid."""

    def __init__(self, path: str) -> None:
        self._document = Document(path, "a mapping of arguments, such as `k: 10`", "config")
        self._names: dict[str, str] = {}

    def words(self) -> list[str]:
        """The words that decide which arguments a command has: the mechanism."""
        field = self._document.fields.get("mechanism")
        return ["--mechanism", field.value] if field is not None and isinstance(field.value, str) else []

    def fill(self, parser: Parser, command: Command, given: Namespace) -> list[str]:
        """Set what the command line has not given; returns the words for Beam. Raises Refusal that names the line."""
        known = {name.removeprefix("--"): action for name, action in parser._option_string_actions.items()
                 if name not in _NOT_IN_A_FILE}  # fmt: skip
        chosen = {name for name in command.choose if any(getattr(given, other) is not None for other in command.choose)}
        beams: list[str] = []
        seen: dict[str, str] = {}
        for name, field in self._document.fields.items():
            if name == _BEAMS:
                if not isinstance(field.value, list):
                    raise self._document.error(name, f"{name} must be a list of words for Beam")
                beams = field.value
                continue
            renamed = RENAMED.get(name.replace("-", "_"))
            if renamed is not None:
                raise self._document.error(name, f"{name} is now called {renamed}")
            action = known.get(name.replace("_", "-"))
            if action is None:
                hint = did_you_mean(name, [*known, _BEAMS], f"`{parser.prog} --help` lists the arguments")
                raise self._document.error(name, f"{name} is not known: {hint}")
            if action.dest in seen:
                raise self._document.error(name, f"{name} is given twice, first as {seen[action.dest]}")
            seen[action.dest] = name
            if getattr(given, action.dest) is None and action.dest not in chosen:
                setattr(given, action.dest, self._value(name, action, field.value))
                self._names[action.dest] = name
        return beams

    @contextmanager
    def pointing(self) -> Iterator[None]:
        """Refusals inside of a field that the file gave name its line."""
        try:
            yield
        except Refusal as error:
            named = next((self._names[field] for field in error.fields() if field in self._names), None)
            if named is None:
                raise
            shown = error.shown(lambda field: self._names.get(field, flag(field)))
            raise self._document.error(named, shown) from None

    def _value(self, name: str, action: Action, value: str | list[str]) -> object:
        try:
            if isinstance(action, Value) and action.many:
                return tuple(map(action.read, value if isinstance(value, list) else [value]))
            if isinstance(value, list):
                raise ValueError("must be a single value")
            if isinstance(action, Value):
                return action.read(value)
            if value not in _SWITCH:
                raise ValueError(f"must be true or false, got {value}")
            return _SWITCH[value]
        except ValueError as error:
            raise self._document.error(name, f"{name} {error}") from None
