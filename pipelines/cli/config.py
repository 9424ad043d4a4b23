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
from collections.abc import Iterator
from contextlib import contextmanager

from private_topk.pipelines.cli.parser import LOG_FORMAT, Parser, Value, flag
from private_topk.pipelines.options import RENAMED
from private_topk.pipelines.report_file.document import Document
from private_topk.transforms.errors import Refusal, did_you_mean

__all__ = ["Config"]

_BEAMS = "options"
_NOT_IN_A_FILE = {"--config", LOG_FORMAT, "--help", "-h"}
_SWITCH = {"true": True, "false": None}


class Config:
    """A file of arguments. Raises Refusal if it is none."""

    def __init__(self, path: str) -> None:
        self._document = Document(path, "a mapping of arguments, such as `k: 10`", "config")
        self._names: dict[str, str] = {}

    def words(self) -> list[str]:
        """What decides which arguments a command has: the mechanism."""
        field = self._document.fields.get("mechanism")
        return ["--mechanism", field.value] if field is not None and isinstance(field.value, str) else []

    def fill(self, parser: Parser, given: argparse.Namespace) -> list[str]:
        """Set what the command line has not given; the words for Beam. Raises Refusal with the line."""
        known = {name.removeprefix("--"): action for name, action in parser._option_string_actions.items()
                 if name not in _NOT_IN_A_FILE}  # fmt: skip
        chosen = {name for names in parser.choose for name in names
                  if any(getattr(given, other) is not None for other in names)}  # fmt: skip
        beams: list[str] = []
        seen: dict[str, str] = {}
        for name, field in self._document.fields.items():
            if name == _BEAMS:
                if not isinstance(field.value, list):
                    raise self._document.error(name, f"{name} must be a list of words for Beam")
                beams = field.value
                continue
            action = known.get(name.replace("_", "-"))
            renamed = RENAMED.get(name.replace("-", "_"))
            if renamed is not None:
                raise self._document.error(name, f"{name} is now called {renamed}")
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
        """A refusal of a field that the file gave is said of its line."""
        try:
            yield
        except Refusal as error:
            named = next((self._names[field] for field in error.fields() if field in self._names), None)
            if named is None:
                raise
            shown = error.shown(lambda field: self._names.get(field, flag(field)))
            raise self._document.error(named, shown) from None

    def _value(self, name: str, action: argparse.Action, value: str | list[str]) -> object:
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
