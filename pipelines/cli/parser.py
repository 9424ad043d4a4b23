"""The words of a command line, read once: every argument becomes a typed value or a refusal that names it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from private_topk.pipelines.logs import FORMATS
from private_topk.transforms.errors import Refusal, did_you_mean, verbatim

__all__ = ["LOG_FORMAT", "Parser", "Value", "flag"]

_FLAGS = {"period_from": "--from", "period_to": "--to"}
LOG_FORMAT = "--log-format"


def flag(field: str) -> str:
    """How the command line spells a field: `publish_counts` is --publish-counts."""
    return _FLAGS.get(field, f"--{field.replace('_', '-')}") if field.isidentifier() else field


class Value(argparse.Action):
    """One value, given once: of a budget that is given twice nobody knows which was meant.

    Args:
        parse: what the text means; a ValueError of it is the rule that the text breaks.
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

    def read(self, text: str) -> object:
        """What a text means. Raises ValueError: the rule that it breaks."""
        if not text.strip():
            raise ValueError("must not be empty")
        return self.parse(text)

    def __call__(self, parser: Any, namespace: argparse.Namespace, text: Any, option: str | None = None) -> None:  # noqa: ANN401
        held = getattr(namespace, self.dest, None)
        if held is not None and not self.many:
            raise Refusal(self.dest, "must be given once, got it twice")
        text = text if isinstance(text, str) else "--"  # argparse takes two dashes away, as if nothing had been given
        try:
            value = self.read(text)
        except ValueError as error:
            raise Refusal(self.dest, verbatim(error)) from None
        setattr(namespace, self.dest, (*(held or ()), value) if self.many else value)


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are refusals, with one argument of every command. It knows no other argument."""

    def __init__(self, **named: Any) -> None:  # noqa: ANN401 - argparse's own
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, exit_on_error=False, formatter_class=formatter, **named)
        self.add_argument(
            LOG_FORMAT,
            action=Value,
            parse=_format,
            metavar=f"{{{','.join(FORMATS)}}}",
            default=argparse.SUPPRESS,  # whoever calls the command has read it by then
            help="how stderr is written: as text, or each line a JSON object of time, level and message "
            "(default: text)",
        )

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

    def unknown(self, word: str, others: Sequence[str] = (), owner: str = "") -> Refusal:
        """What is said of a word that is no argument, nor one of the others that are known elsewhere."""
        if not word.startswith("-"):
            rule = f"{verbatim(repr(word))} stands alone: values follow their argument, as in --input rows.csv"
            return Refusal("", rule, "those with spaces are quoted, and globs are too")
        name, known = word.partition("=")[0], [*self._option_string_actions, *others]
        return Refusal("", f"{verbatim(name)} is no argument of `{self.prog}`{owner}",
                       did_you_mean(name, known, f"`{self.prog} --help` lists the arguments"))  # fmt: skip

    def error(self, message: str) -> NoReturn:
        raise Refusal("", verbatim(message), f"`{self.prog} --help` lists the arguments")


def _format(text: str) -> str:
    if text not in FORMATS:  # not by a reading of the table, which loads numpy before its settings are made
        raise ValueError(f"must be one of {', '.join(FORMATS)}; got {text!r}")
    return text
