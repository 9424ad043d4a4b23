"""`private-topk completion SHELL`: what a shell completes commands, arguments and their values by.

It is made from the arguments themselves, so it knows all of them. The script asks nobody: completing starts no process.
"""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from private_topk.pipelines.commands.parser import Parser
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.near import did_you_mean
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["SHELLS", "Completed", "Option", "completed", "execute", "parser", "script"]

_EXAMPLE = """examples:
  private-topk completion bash
  private-topk completion bash > private-topk.bash
  private-topk completion fish > private-topk.fish

bash: `source <(private-topk completion bash)` in ~/.bashrc. zsh: the same, with zsh, in ~/.zshrc after compinit.
fish: write it to ~/.config/fish/completions/private-topk.fish."""
_FILES = {"FILE", "GLOB", "PATH", "FOLDER", "PLACE", "RANKING", "WHAT"}
_RUNNERS = ("direct", "flink", "dataflow", "prism", "portable")
_ACTIONS = ("create", "show", "history")
_LONGEST = 70


class Option(NamedTuple):
    """An argument: what it is for, and what may follow it: some words, files, anything, or nothing."""

    name: str
    text: str
    words: tuple[str, ...]
    files: bool
    alone: bool


class Completed(NamedTuple):
    """A command, its options, and the words or files that may stand by themselves."""

    name: str
    text: str
    options: tuple[Option, ...]
    words: tuple[str, ...] = ()
    files: bool = False


def parser(words: Sequence[str] = ()) -> Parser:
    text = f"Print what a shell completes by: {', '.join(SHELLS)}."
    found = Parser(prog="private-topk completion", description=text, epilog=_EXAMPLE, needs=("shell",))
    found.add_argument("shell", metavar="SHELL", nargs="?", help=" or ".join(SHELLS))
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    parser().refuse(others)
    if arguments.shell is None:
        raise Refusal("", f"SHELL must be given: {', '.join(SHELLS)}")
    if arguments.shell not in SHELLS:
        rule = f"SHELL must be one of {', '.join(SHELLS)}; got {verbatim(repr(arguments.shell))}"
        raise Refusal("", rule, did_you_mean(arguments.shell, SHELLS))
    print(script(arguments.shell), end="")


def completed() -> list[Completed]:
    """All commands, as the parsers have them."""
    from private_topk.pipelines.commands import COMMANDS

    found = []
    for name, text in COMMANDS.items():
        module = import_module(f"private_topk.pipelines.commands.{name.replace('-', '_')}")
        parsers = [module.parser([action]) for action in _ACTIONS] if name == "budget" else [module.parser()]
        options = {option.name: option for its in parsers for option in _options(its)}
        own = {"budget": _ACTIONS, "completion": tuple(SHELLS)}.get(name, ())
        alone = any(a.metavar in _FILES for its in parsers for a in its._actions if not a.option_strings)
        found.append(Completed(name, text, tuple(options.values()), own, alone))
    return found


def _options(parser: Parser) -> list[Option]:
    return [_option(action) for action in parser._actions if action.option_strings]


def _option(action: argparse.Action) -> Option:
    metavar = str(action.metavar)
    words = tuple(metavar[1:-1].split(",")) if metavar.startswith("{") else ()
    words = {"mechanism": tuple(MECHANISMS), "runner": _RUNNERS}.get(action.dest, words)
    text = re.split(r"[:;(]\s|\s\(|, such", str(action.help).removeprefix("required: "))[0]
    return Option(action.option_strings[-1], text[:_LONGEST], words, metavar in _FILES, action.nargs == 0)


def script(shell: str) -> str:
    """The script for one of the shells."""
    return SHELLS[shell](completed())


def _bash(commands: Sequence[Completed]) -> str:
    names = " ".join(command.name for command in commands)
    values = {option.name: option for command in commands for option in command.options if not option.alone}
    cases = [f"        {name}) {_bash_value(option)} return ;;" for name, option in values.items()]
    lists = [f"        {c.name}) words='{' '.join([*c.words, *(o.name for o in c.options)])}'{' files=1' * c.files} ;;"
             for c in commands]  # fmt: skip
    return "\n".join([
        "# bash completion of private-topk: source <(private-topk completion bash)",
        "_private_topk() {",
        '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files= IFS=$\' \\t\\n\'',
        '    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi',
        "    COMPREPLY=()",
        "    if ((COMP_CWORD == 1)); then",
        f"        COMPREPLY=($(compgen -W '{names} --help --version' -- \"$word\")); return",
        "    fi",
        '    case $before in',
        *cases,
        "    esac",
        '    case ${COMP_WORDS[1]} in',
        *lists,
        "    esac",
        '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "    IFS=$'\\n'",
        '    if [[ $files && $word != -* ]]; then compopt -o filenames; COMPREPLY+=($(compgen -f -- "$word")); fi',
        "}",
        "complete -F _private_topk private-topk",
    ]) + "\n"  # fmt: skip


def _bash_value(option: Option) -> str:
    if option.words:
        return f"COMPREPLY=($(compgen -W '{' '.join(option.words)}' -- \"$word\"));"
    files = "compopt -o filenames; IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$word\"));"
    return files if option.files else ""


def _zsh(commands: Sequence[Completed]) -> str:
    listed = [f"        {_quoted(f'{command.name}:{command.text}')}" for command in commands]
    cases = []
    for command in commands:
        own = [_zsh_option(option) for option in command.options]
        own += [_quoted(f"1:what:({' '.join(command.words)})")] * bool(command.words)
        own += [_quoted("*:file:_files")] * command.files
        cases.append(f"        {command.name}) _arguments -s {' '.join(own)} ;;")
    return "\n".join([
        "#compdef private-topk",
        "# zsh completion of private-topk: source <(private-topk completion zsh)",
        "_private_topk() {",
        "    local -a commands=(",
        *listed,
        "    )",
        "    if ((CURRENT == 2)); then _describe command commands; return; fi",
        "    local command=$words[2]",
        "    shift words; ((CURRENT--))",
        "    case $command in",
        *cases,
        "    esac",
        "}",
        "compdef _private_topk private-topk",
    ]) + "\n"  # fmt: skip


def _zsh_option(option: Option) -> str:
    text = re.sub(r"([\[\]:])", r"\\\1", option.text)
    if option.alone:
        return _quoted(f"{option.name}[{text}]")
    values = f"({' '.join(option.words)})" if option.words else "_files" if option.files else ""
    return _quoted(f"{option.name}=[{text}]:value:{values}")


def _fish(commands: Sequence[Completed]) -> str:
    names = " ".join(command.name for command in commands)
    lines = ["# fish completion of private-topk", "complete -c private-topk -f",
             f"set -l commands {names}"]  # fmt: skip
    for command in commands:
        alone = '"not __fish_seen_subcommand_from $commands"'
        lines.append(f"complete -c private-topk -n {alone} -a {command.name} -d {_quoted(command.text)}")
        when = f"complete -c private-topk -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{when} -F"] * command.files + [f"{when} -a '{' '.join(command.words)}'"] * bool(command.words)
        for option in command.options:
            words = f" -x -a '{' '.join(option.words)}'" if option.words else ""
            kind = "" if option.alone else words or (" -r -F" if option.files else " -x")
            lines.append(f"{when} -l {option.name.removeprefix('--')}{kind} -d {_quoted(option.text)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """For a shell, within single quotes; shells differ in how they write one within them, so none is there."""
    return "'" + text.replace("'", "`").replace("\\\\", "") + "'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
