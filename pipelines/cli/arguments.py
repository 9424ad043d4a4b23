"""The arguments of every command, made from the table of options."""

from __future__ import annotations

import argparse
import re
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from private_topk.pipelines.cli.parser import Arguments, Parser, Value, flag
from private_topk.pipelines.options import OPTIONS, Option, Options, require, rows
from private_topk.pipelines.texts import listed
from private_topk.transforms.errors import InvalidArgument


@dataclass(frozen=True)
class Command:
    """A command, without its options.

    Args:
        execute: runs it, given the arguments and the words for Beam; returns something true if it did more than to
            print.
        text, examples: its help before and after the arguments.
        needs: the options that must be given.
        choose: the options of which one must be given.
        also: further arguments in the usage line.
        alone: the name of a positional argument, and its help.
        takes: what that is, for the error if it is missing; empty where it may be.
        several: whether there may be several of them.
        beam: whether other words go to Beam.
        first: the options that `--help` shows, with the headings of all others; empty where it shows every option.
    """

    execute: Callable[[Arguments, list[str]], object]
    text: str
    examples: str
    needs: tuple[str, ...] = ()
    choose: tuple[str, ...] = ()
    also: str = ""
    alone: tuple[str, str] | None = None
    takes: str = ""
    several: bool = False
    beam: bool = False
    first: tuple[str, ...] = ()


def parser_of(name: str, command: Command, words: Sequence[str] = ()) -> Parser:
    """The parser of a command: its options are the rows of the table that name it.

    Args:
        words: the command line, which may name a mechanism of one's own: its parameters become arguments too. If it
            asks for the short help, the parser shows only the first options.
    """
    brief = command.first if {"-h", "--help"} & set(words) else ()
    options = {option.name: option for option in rows(_mechanisms(words)) if option.helps(name) is not None}
    parser = Parser(
        prog=f"private-topk {name}",
        usage=_usage(name, command, options),
        description=command.text,
        epilog=f"{_more(options, brief)}\n\n{command.examples}" if brief else command.examples,
    )
    parser.add_argument("--help-all", action="help", help="show all arguments" if command.first else argparse.SUPPRESS)
    if command.alone:
        metavar, text = command.alone
        number, text = "*" if command.several else "?", "required: " * bool(command.takes) + text
        parser.add_argument(metavar.lower(), metavar=metavar, nargs=number, help=text)
    headed = command.first and not brief
    groups: dict[str, Any] = {"": parser}
    for field, option in options.items():
        heading = option.group if headed else ""
        group = groups.get(heading) or groups.setdefault(heading, parser.add_argument_group(heading))
        text = "required: " * (field in command.needs) + shown(option, name).replace("%", "%%")  # argparse fills in %s
        told = {"dest": field, "help": argparse.SUPPRESS if brief and field not in brief else text}
        if option.read is None:
            group.add_argument(flag(field), action="store_const", const=True, **told)
        else:
            read = listed(option.read) if name in option.several else option.read
            group.add_argument(
                flag(field), action=Value, metavar=_metavar(option), parse=read, many=option.many, **told
            )
    return parser


def _usage(name: str, command: Command, options: Mapping[str, Option]) -> str:
    worded = {field: " ".join(filter(None, (flag(field), _metavar(option)))) for field, option in options.items()}
    needs, choose = ([worded[field] for field in fields] for fields in (command.needs, command.choose))
    one_of = f"({' | '.join(choose)})" if choose else ""
    alone = command.alone[0] if command.alone else ""
    alone = alone if command.takes or not alone else f"[{alone}]"
    words = [f"private-topk {name}", alone, *needs, one_of, command.also, "[arguments]"]
    return _wrapped(" ".join(filter(None, words)))


def _more(options: Mapping[str, Option], brief: Sequence[str]) -> str:
    """The headings of the options that the short help leaves out."""
    others = dict.fromkeys(option.group.partition(" (")[0] for option in options.values() if option.name not in brief)
    return _wrapped(f"more, with --help-all: {', '.join(others)}", " " * 2)


def called(name: str, command: Command, words: list[str]) -> object:
    parser = parser_of(name, command, words)
    arguments, others = parser.read(words)
    if command.beam:
        from private_topk.runners import UnknownArgument

        try:
            return command.execute(arguments, others)
        except UnknownArgument as error:
            raise parser.unknown(error.word, error.known, " or of Beam", partial(_where, name)) from None
    if others:
        fields = [option.field for option in rows() if option.field] if name == "report" else []
        owner = " or field of its file" if fields else ""
        raise parser.unknown(others[0], fields, owner, partial(_where, name))
    if command.alone and command.takes and not getattr(arguments, command.alone[0].lower()):
        raise InvalidArgument("", f"{command.alone[0]} must be given: {command.takes}")
    require({name: value for name, value in vars(arguments).items() if value is not None}, *command.needs)
    return command.execute(arguments, others)


def _where(command: str, word: str) -> str:
    """Where an argument belongs that a command does not take: the report file, or other commands; else nothing."""
    for option in OPTIONS:
        if word in (flag(option.name), f"--{option.field}"):
            if command == "report" and option.field:
                return f"write it into the report file, as {option.field}"
            if option.helps(command):
                return f"did you mean {flag(option.name)}?"
            others = option.commands if isinstance(option.help, str) else tuple(option.help)
            return f"it is an argument of {', '.join(f'`private-topk {other}`' for other in others)}" if others else ""
    return ""


def options_of(arguments: argparse.Namespace) -> Options:
    """The options that were given; those that the table does not name are the mechanism's parameters."""
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    options = {name: value for name, value in given.items() if name in _NAMES}
    parameters = {name: value for name, value in given.items() if name not in _NAMES}
    return {**options, **({"parameters": parameters} if parameters else {})}


def words_for(other: str, command: str, arguments: Arguments, asked: Options) -> str:
    """A command's arguments for another command, in words for a shell: those that both take.

    Args:
        other, command: whose arguments they become, and whose they are.
        asked: the options of a question, which stand in place of those that were given; others are as they were given.

    A password in a URL is shown as ***, since terminals are recorded.
    """
    both = [
        option
        for option in rows([asked.get("mechanism", "")])
        if None not in (option.helps(other), option.helps(command))
    ]
    words = []
    for option in sorted(both, key=lambda option: option.name not in ("mechanism", "k", "epsilon")):
        field, given = option.name, getattr(arguments, option.name, None)
        texts: Sequence[str] = arguments.texts.get(field, ())
        if field in asked or option.parameter:
            wanted = asked.get(field)
            as_given = given in (wanted, (wanted,))
            given, texts = wanted, [text.strip() for text in texts] if as_given else [_written(wanted)]
        if given is not None:
            words += [flag(field)] if option.read is None else [word for text in texts for word in _worded(field, text)]
    return shlex.join(words)


def _written(value: object) -> str:
    return f"{float(value):.15g}" if isinstance(value, Fraction | float) else str(value)


def _worded(field: str, text: str) -> list[str]:
    text = _PASSWORD.sub(r"\1\2***", text)
    return [f"{flag(field)}={text}"] if text.startswith("-") else [flag(field), text]


_PASSWORD = re.compile(r"(://[^:/@]*:)[^@]+(?=@)|([?&]\w*password=)[^&]+")
_NAMES = {option.name for option in OPTIONS}


def _wrapped(text: str, indent: str = " " * 11) -> str:
    return textwrap.fill(text, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _metavar(option: Option) -> str:
    return option.metavar or (f"{{{','.join(option.words)}}}" if option.words else "")


def shown(option: Option, command: str) -> str:
    """The help of an option in a command."""
    text = re.sub(r"\{([a-z_]+)\}", lambda match: flag(match[1]), option.helps(command) or "")
    return text + "; or several, with commas" * (command in option.several)


def _mechanisms(words: Sequence[str]) -> list[str]:
    """The mechanisms that a command line names."""
    name = next((after for before, after in pairwise(words) if before == "--mechanism"), "")
    return next((word.partition("=")[2] for word in words if word.startswith("--mechanism=")), name).split(",")
