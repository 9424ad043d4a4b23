"""The words of a command line, read once: every argument becomes a typed value or a refusal that names it."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from private_topk.pipelines.logs import FORMATS
from private_topk.pipelines.options import RENAMED, require
from private_topk.transforms.errors import Refusal, did_you_mean, verbatim

__all__ = ["LOG_FORMAT", "Group", "Parser", "Value", "add", "add_json", "add_switch", "flag"]

Group = argparse._ActionsContainer
"""Whatever takes arguments: a parser or a group of one."""

_FLAGS = {"period_from": "--from", "period_to": "--to"}
_WIDTH = 110
_UNBROKEN = "\x1f"
_REQUIRED = "required: "
LOG_FORMAT = "--log-format"


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
    """The arguments of one command.

    Args:
        needs: the fields that must be given: the usage line begins with them, and the help marks them.
        choose: fields of which one is given.
        also: what else the usage line names.
    """

    def __init__(
        self,
        *,
        needs: Sequence[str] = (),
        choose: Sequence[Sequence[str]] = (),
        also: str = "",
        **named: Any,  # noqa: ANN401 - argparse's own
    ) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, exit_on_error=False, formatter_class=formatter, **named)
        self.needs, self.choose, self._also = tuple(needs), tuple(choose), also
        self.add_argument(
            LOG_FORMAT,
            action=Value,
            parse=_format,
            metavar=f"{{{','.join(FORMATS)}}}",
            default=argparse.SUPPRESS,  # whoever calls the command has read it by then
            help="how stderr is written: as text, or each line a JSON object of time, level and message "
            "(default: text)",
        )

    def require(self, given: Mapping[str, object]) -> None:
        """Raise Refusal unless all that is needed was given."""
        require(given, *self.needs)

    def format_help(self) -> str:
        """The help, with what is required shown as such."""
        self.usage = self._usage()
        for action in self._actions:
            if action.dest in self.needs and not str(action.help).startswith(_REQUIRED):
                action.help = f"{_REQUIRED}{action.help}"
        return super().format_help()

    def _usage(self) -> str:
        """What must be given, what one must be chosen of, and that there is more."""
        own = {action.dest: action for action in self._actions}
        alone = [str(action.metavar) for action in self._actions if not action.option_strings]
        alone = [] if self.prog.endswith(tuple(alone)) else alone  # the action of `budget`
        parts = [*alone, *(_worded(own[name]) for name in self.needs if own[name].option_strings)]
        parts += [f"({' | '.join(_worded(own[name]) for name in names)})" for names in self.choose]
        whole = [self.prog, *parts, *([self._also] if self._also else []), "[arguments]"]
        words = [part.replace(" ", _UNBROKEN) for part in whole]
        lines = textwrap.wrap(" ".join(words), _WIDTH - len("usage: "), subsequent_indent=" " * 11,
                              break_long_words=False, break_on_hyphens=False)  # fmt: skip
        return "\n".join(lines).replace(_UNBROKEN, " ").replace("%", "%%")

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
        if not word.startswith("-"):
            rule = f"{verbatim(repr(word))} stands alone: values follow their argument, as in --input rows.csv"
            return Refusal("", rule, "those with spaces are quoted, and globs are too")
        name, known = word.partition("=")[0], [*self._option_string_actions, *others]
        renamed = flag(RENAMED.get(name.lstrip("-").replace("-", "_"), ""))
        if renamed in self._option_string_actions:
            return Refusal("", f"{name} is now called {renamed}")
        return Refusal("", f"{verbatim(name)} is no argument of `{self.prog}`{owner}",
                       did_you_mean(name, known, f"`{self.prog} --help` lists the arguments"))  # fmt: skip

    def error(self, message: str) -> NoReturn:
        raise Refusal("", verbatim(message), f"`{self.prog} --help` lists the arguments")


def _worded(action: argparse.Action) -> str:
    return f"{action.option_strings[0]} {action.metavar}" if action.nargs != 0 else action.option_strings[0]


def add(
    group: Group, field: str, metavar: str, text: str, parse: Callable[[str], object] = str, many: bool = False
) -> None:
    """An argument with a value, which is None where it is not given."""
    group.add_argument(flag(field), action=Value, dest=field, metavar=metavar, help=text, parse=parse, many=many)


def add_switch(group: Group, field: str, text: str) -> None:
    """An argument without a value: True where it is given, else None."""
    group.add_argument(flag(field), action="store_const", const=True, dest=field, help=text)


def add_json(group: Group, text: str) -> None:
    """The switch for whoever reads with a program: stdout is one JSON document then (docs/command-line.md)."""
    add_switch(group, "json", f"print {text} as one JSON document (docs/command-line.md)")


def _format(text: str) -> str:
    if text not in FORMATS:  # not by `one_of`, whose file loads numpy before its settings are made
        raise ValueError(f"must be one of {', '.join(FORMATS)}; got {text!r}")
    return text
