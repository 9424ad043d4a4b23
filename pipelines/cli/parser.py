"""The parser of the command line: every argument becomes a typed value, or a refusal that names it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from private_topk.pipelines.process import LOG_FORMATS
from private_topk.transforms.errors import InvalidArgument, did_you_mean, verbatim

_FLAGS = {"period_from": "--from", "period_to": "--to"}
LOG_FORMAT = "--log-format"


def flag(field: str) -> str:
    """The argument of a field on the command line: --publish-counts for `publish_counts`."""
    return _FLAGS.get(field, f"--{field.replace('_', '-')}") if field.isidentifier() else field


class Arguments(argparse.Namespace):
    """The arguments of a command by their fields, and of those with values the texts as they were given."""

    __slots__ = ("texts",)  # no argument itself: `vars` has these alone

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}


class Value(argparse.Action):
    """The action of an argument with a value, which must be given once: a budget given twice would be ambiguous.

    Args:
        parse: reads the text; its ValueError states the rule that the text breaks.
        many: may be given several times; the value is then a tuple.
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
        """The value of a text. Raises ValueError with the rule that it breaks."""
        if not text.strip():
            raise ValueError("must not be empty")
        return self.parse(text)

    def __call__(self, parser: Any, namespace: Any, text: Any, option: str | None = None) -> None:  # noqa: ANN401
        held = getattr(namespace, self.dest, None)
        if held is not None and not self.many:
            raise InvalidArgument(self.dest, "must be given once, got it twice")
        text = text if isinstance(text, str) else "--"  # argparse removes two dashes, as if there were no value
        try:
            value = self.read(text)
        except ValueError as error:
            raise InvalidArgument(self.dest, verbatim(error)) from None
        setattr(namespace, self.dest, (*(held or ()), value) if self.many else value)
        namespace.texts.setdefault(self.dest, []).append(text)


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises refusals, with the one argument that every command has."""

    def __init__(self, **named: Any) -> None:  # noqa: ANN401 - argparse's own
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, exit_on_error=False, formatter_class=formatter, **named)
        self.add_argument(
            LOG_FORMAT,
            action=Value,
            parse=_format,
            metavar=f"{{{','.join(LOG_FORMATS)}}}",
            default=argparse.SUPPRESS,  # the caller has read it already
            help="how stderr is written: as text, or each line a JSON object of time, level and message "
            "(default: text)",
        )

    def read(self, words: Sequence[str]) -> tuple[Arguments, list[str]]:
        """The arguments, and the words that are none of them. Raises InvalidArgument."""
        try:
            return self.parse_known_args(list(words), Arguments())
        except argparse.ArgumentError as error:
            name = str(error.argument_name)
            action = self._option_string_actions.get(name)
            if action is not None and action.nargs == 0:
                raise InvalidArgument("", f"{name} stands alone: it takes no value") from None
            raise InvalidArgument(
                "", f"{name} needs a value; one that starts with a dash is given as {name}=-1"
            ) from None

    def unknown(
        self, word: str, others: Sequence[str] = (), owner: str = "", where: Callable[[str], str] = lambda _: ""
    ) -> InvalidArgument:
        """The refusal of a word that is no argument here, nor one of the others, which are known elsewhere.

        Args:
            owner: whose arguments the others are.
            where: says of a name where it is known, as a remedy; nothing if it is not.
        """
        if not word.startswith("-"):
            rule = f"{verbatim(repr(word))} stands alone: values follow their argument, as in --input rows.csv"
            return InvalidArgument("", rule, "those with spaces are quoted, and globs are too")
        name, known = word.partition("=")[0], [*self._option_string_actions, *others]
        return InvalidArgument(
            "",
            f"{verbatim(name)} is no argument of `{self.prog}`{owner}",
            where(name) or did_you_mean(name, known, f"`{self.prog} --help` lists the arguments"),
        )

    def error(self, message: str) -> NoReturn:
        raise InvalidArgument("", verbatim(message), f"`{self.prog} --help` lists the arguments")


def _format(text: str) -> str:
    if text not in LOG_FORMATS:  # not by `OneOf`, whose module loads numpy before its settings are made
        raise ValueError(f"must be one of {', '.join(LOG_FORMATS)}; got {text!r}")
    return text
