"""`--config FILE`: arguments from a YAML file, each by its name without the dashes. The command line has the last word.

    input: plays-*.avro
    k: 10
    from: 2026-01-05
    overwrite: true
    options: [--cores=4]     # for Beam

What such an argument breaks is said of its line.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from private_topk.pipelines.commands.parser import LOG_FORMAT, Parser, Value, flag
from private_topk.pipelines.scheduled.document import Document
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["OPTION", "Config", "config_of"]

OPTION = "--config"
_BEAMS = "options"
_NOT_IN_A_FILE = {OPTION, LOG_FORMAT, "--help", "-h"}
_SWITCH = {"true": True, "false": None}


class Config:
    """A file of arguments. Raises Refusal if it is none."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb"):
                pass
        except (OSError, ValueError) as error:  # no name may hold a null
            why = getattr(error, "strerror", None) or error
            raise Refusal("config", verbatim(f"{path} cannot be read: {why}")) from None
        self._document = Document(path, "a mapping of arguments, such as `k: 10`")
        self._names: dict[str, str] = {}

    def words(self) -> list[str]:
        """What decides which arguments a command has: the mechanism."""
        field = self._document.fields.get("mechanism")
        return ["--mechanism", field.value] if field is not None and isinstance(field.value, str) else []

    def fill(self, parser: Parser, given: argparse.Namespace) -> list[str]:
        """Set what the command line has not given; the words for Beam. Raises Refusal with the line."""
        known = {name.removeprefix("--"): action for name, action in parser._option_string_actions.items()
                 if name not in _NOT_IN_A_FILE}  # fmt: skip
        self._document.refuse_unknown([*(one for name in known for one in self._spelled(name)), _BEAMS])
        given_one = [names for names in parser.choose if any(getattr(given, name) is not None for name in names)]
        chosen = {name for names in given_one for name in names}
        for name, field in self._document.fields.items():
            if name == _BEAMS:
                continue
            action = known[name.replace("_", "-")]
            if action.dest in self._names:
                raise self._document.error(name, f"{name} is given twice, first as {self._names[action.dest]}")
            self._names[action.dest] = name
            values = field.value if isinstance(field.value, list) else [field.value]
            if getattr(given, action.dest) is None and action.dest not in chosen:
                setattr(given, action.dest, self._value(name, action, values, isinstance(field.value, list)))
            else:
                del self._names[action.dest]  # the command line's is meant where something is wrong with it
        options = self._document.fields.get(_BEAMS)
        if options is not None and not isinstance(options.value, list):
            raise self._document.error(_BEAMS, f"{_BEAMS} must be a list of words for Beam")
        return list(options.value) if options is not None else []

    @contextmanager
    def pointing(self) -> Iterator[None]:
        """A refusal of a field that the file gave is said of its line."""
        try:
            yield
        except Refusal as error:
            named = next((self._names[field] for field in error.fields() if field in self._names), None)
            if named is None:
                raise
            shown = error.shown(lambda field: self._names.get(field, flag(field)))
            raise self._document.error(named, shown) from None

    def _spelled(self, name: str) -> set[str]:
        """As the file has it: with underscores, with dashes, or by mistake with both."""
        return {name.replace("-", "_"), name} & self._document.fields.keys() or {name}

    def _value(self, name: str, action: argparse.Action, texts: Sequence[str], listed: bool) -> object:
        many = isinstance(action, Value) and action.many
        if listed and not many:
            raise self._document.error(name, f"{name} must be a single value")
        if not isinstance(action, Value):
            if texts[0] not in _SWITCH:
                raise self._document.error(name, f"{name} must be true or false, got {verbatim(texts[0])}")
            return _SWITCH[texts[0]]
        try:
            found = tuple(action.parse(text) for text in texts if text.strip() or _empty())
        except ValueError as error:
            raise self._document.error(name, f"{name} {error}") from None
        return found if many else found[0]


def _empty() -> bool:
    raise ValueError("must not be empty")


def config_of(parser: Parser, words: Sequence[str]) -> Config | None:
    """The file that the words name, of a command that takes one. Raises Refusal if it is none."""
    if OPTION not in parser._option_string_actions:
        return None
    paths = [after for before, after in pairwise(words) if before == OPTION]
    paths += [word.partition("=")[2] for word in words if word.startswith(f"{OPTION}=")]
    return Config(paths[0]) if paths and paths[0].strip() else None
