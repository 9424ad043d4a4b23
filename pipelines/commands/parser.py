"""The words of a command line, read once: every argument becomes a typed value or a refusal that names it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from private_topk.pipelines.commands.guesses import meant
from private_topk.transforms.near import did_you_mean
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["Group", "Parser", "Value", "add", "add_switch", "flag"]

Group = argparse._ActionsContainer
"""Whatever takes arguments: a parser or a group of one."""

_FLAGS = {"period_from": "--from", "period_to": "--to"}


def flag(field: str) -> str:
    """How the command line spells a field: `publish_counts` is --publish-counts."""
    return _FLAGS.get(field, f"--{field.replace('_', '-')}") if field.isidentifier() else field


class Value(argparse.Action):
    """One value, given once: of a budget that is given twice nobody knows which was meant.

    Args:
        parse: what the text means; a ValueError of it is the rule that the text breaks.
        choices: the words that are let through, for the help.
        many: may be given again; the values are a tuple then.
    """

    def __init__(
        self,
        *names: Any,  # noqa: ANN401
        parse: Callable[[str], object] = str,
        many: bool = False,
        **named: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*names, **named)
        self.parse, self.many = parse, many

    def __call__(self, parser: Any, namespace: argparse.Namespace, text: Any, option: str | None = None) -> None:  # noqa: ANN401
        held = getattr(namespace, self.dest)
        if held is not None and not self.many:
            raise Refusal(self.dest, "must be given once, got it twice")
        text = text if isinstance(text, str) else "--"  # argparse takes two dashes away, as if nothing had been given
        if not text.strip():
            raise Refusal(self.dest, "must not be empty")
        try:
            value = self.parse(text)
        except ValueError as error:
            raise Refusal(self.dest, verbatim(error)) from None
        setattr(namespace, self.dest, (*(held or ()), value) if self.many else value)


class Parser(argparse.ArgumentParser):
    """The arguments of one command."""

    def __init__(self, **named: Any) -> None:  # noqa: ANN401 - argparse's own
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, exit_on_error=False, formatter_class=formatter, **named)

    def read(self, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The arguments, and the words that are none of them. Raises Refusal."""
        try:
            return self.parse_known_args(list(words))
        except argparse.ArgumentError as error:
            name = str(error.argument_name)
            action = self._option_string_actions.get(name)
            if action is not None and action.nargs == 0:
                raise Refusal("", f"{name} stands alone: it takes no value") from None
            raise Refusal("", f"{name} needs a value; one that starts with a dash is given as {name}=-1") from None

    def refuse(self, others: Sequence[str]) -> None:
        """Raise Refusal if there are words that are no arguments: this command hands none on to Beam."""
        if others:
            raise self.unknown(others[0])

    def unknown(self, word: str, others: Sequence[str] = (), owner: str = "") -> Refusal:
        """What is said of a word that is no argument, nor one of the others that are known elsewhere."""
        if word == "help":
            return Refusal("", f"help is no argument of `{self.prog}`", f"did you mean `{self.prog} --help`?")
        if not word.startswith("-"):
            rule = f"{verbatim(repr(word))} stands alone: values follow their argument, as in --input rows.csv"
            return Refusal("", rule, "those with spaces are quoted, and globs are too")
        name, known = word.partition("=")[0], [*self._option_string_actions, *others]
        remedy = meant(name, self._option_string_actions) or did_you_mean(
            name, known, f"`{self.prog} --help` lists the arguments"
        )
        return Refusal("", f"{verbatim(name)} is no argument of `{self.prog}`{owner}", remedy)

    def error(self, message: str) -> NoReturn:
        raise Refusal("", verbatim(message), f"`{self.prog} --help` lists the arguments")


def add(
    group: Group, field: str, metavar: str, text: str, parse: Callable[[str], object] = str, many: bool = False
) -> None:
    """An argument with a value, which is None where it is not given."""
    group.add_argument(flag(field), action=Value, dest=field, metavar=metavar, help=text, parse=parse, many=many)


def add_switch(group: Group, field: str, text: str) -> None:
    """An argument without a value: True where it is given, else None."""
    group.add_argument(flag(field), action="store_const", const=True, dest=field, help=text)
