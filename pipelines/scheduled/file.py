"""A report file: YAML whose fields know their line, each read by its row in the table of options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from private_topk.pipelines.options import Option, rows
from private_topk.pipelines.scheduled.schedule import Schedule, in_zone
from private_topk.pipelines.sources.text import encoding_of
from private_topk.pipelines.texts import columns, name_and_value, printable_text, template
from private_topk.transforms.errors import InvalidArgument, did_you_mean, literal, refused, verbatim
from private_topk.transforms.windows.calendar import UNITS

REMEMBER = "domain.remember"
INPUT = "source.input"
_NOT_FIELDS = {"period_to": "window.first", "correction": "--correction"}
"""The words for what a refusal names and a file has no field for."""
OF_SCHEDULE = {"period_from", "period_to", "window", "time_zone", "release_id", "withdrawn"}


@dataclass(frozen=True)
class Field:
    """One value as it is written: a text, a list of texts, or texts by name. YAML's own typing (1e-6 is a text, no is
    false) is ignored: the schema decides what a value means."""

    value: str | list[str] | dict[str, str]
    line: int


class Document:
    """The fields of a file by their dotted names, such as mechanism.k.

    Args:
    Raises:
        InvalidArgument: the file cannot be read, is no YAML, or repeats a name; with the line.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fields: dict[str, Field] = {}
        self.places: dict[str, int] = {}  # the lines of a list of inputs
        try:
            with open(path, "rb") as source:
                content = source.read()
            root = yaml.compose(content, Loader=yaml.SafeLoader)
        except (OSError, ValueError) as error:  # ValueError: a path with a null byte
            why = getattr(error, "strerror", None) or error
            raise InvalidArgument("", verbatim(f"{path} cannot be read: {why}")) from None
        except yaml.MarkedYAMLError as error:
            raise self._refusal(
                error.problem_mark.line + 1 if error.problem_mark else 1, f"not YAML: {error.problem}"
            ) from None
        except yaml.YAMLError as error:  # invalid characters
            if seen := encoding_of(content):
                raise refused(
                    f"{path} is in {seen.upper()}, and must be in UTF-8: write it so, as iconv does"
                ) from None
            raise refused(f"{path} must be printable text in UTF-8: {str(error).splitlines()[0]}") from None
        except RecursionError:
            raise self._refusal(1, "not what was meant: it is nested too deeply") from None
        if not isinstance(root, yaml.MappingNode):
            raise self._refusal(1, "must be a mapping that starts with `report: NAME`")
        self._add(root, "")

    def records(self) -> list[str]:
        """The names of the inputs that have settings of their own, as sections."""
        return [name for name in self.fields if name.startswith(f"{INPUT}[") and name.endswith("]")]

    def error(self, name: str, text: str) -> InvalidArgument:
        """An error at the line of a field, or of its section or the file if the field is missing."""
        if name in self.places:
            return self._refusal(self.places[name], text)
        while name and name not in self.fields:
            name = name.rpartition(".")[0]
        return self._refusal(self.fields[name].line if name else 1, text)

    def _refusal(self, line: int, text: str) -> InvalidArgument:
        return refused(f"{self.path}:{line}: {text}")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise InvalidArgument for the first field that is not known, with the one that was probably meant."""
        names = set(known)
        sections = {name.rpartition(".")[0] for name in names}
        for name, field in self.fields.items():
            section = name.rpartition(".")[0]
            if section in names - sections:
                raise self.error(name, f"{section} must be a single value")
            if name not in names | sections:
                raise self.error(name, f"{name} is not known: {_hint(name, names | sections)}")
            if name in sections - names and not isinstance(field.value, dict):
                fields = sorted(one.removeprefix(f"{name}.") for one in names if one.startswith(f"{name}."))
                remedy = f"write them below it, indented: {', '.join(fields)}"
                raise self.error(name, f"{name} must be a section of fields: {remedy}")

    def _add(self, node: yaml.MappingNode, prefix: str) -> None:
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise self._refusal(line, "a name must be a single word")
            name = f"{prefix}{key.value}"
            if name in self.fields:
                raise self._refusal(line, f"{name} is given twice, first in line {self.fields[name].line}")
            self.fields[name] = field = Field(_value(value), line)
            for number, item in enumerate(value.value, 1) if name == INPUT and isinstance(field.value, list) else ():
                self.places[f"{name}[{number}]"] = item.start_mark.line + 1
                if isinstance(item, yaml.MappingNode):  # an input with settings of its own
                    self.fields[f"{name}[{number}]"] = Field({}, item.start_mark.line + 1)
                    self._add(item, f"{name}[{number}].")
            # Sections hold no sections; deeper down, a file whose parts refer to each other would have no end.
            if isinstance(value, yaml.MappingNode) and not prefix:
                self._add(value, f"{name}.")


def _value(node: yaml.Node) -> str | list[str] | dict[str, str]:
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if isinstance(node, yaml.SequenceNode):
        return [_text(item) for item in node.value]
    return {_text(name): _text(value) for name, value in node.value}


def _text(node: yaml.Node) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def _hint(name: str, known: set[str]) -> str:
    """A suggestion: the same name in another section, or a similar one in the same section."""
    section, _, last = name.rpartition(".")
    elsewhere = [other for other in known if other.rpartition(".")[2] == last]
    if len(elsewhere) == 1:
        return f"did you mean {elsewhere[0]}?"
    inside = sorted(other.rpartition(".")[2] for other in known if other and other.rpartition(".")[0] == section)
    if not inside:  # of a section that there is not
        return did_you_mean(name, known - {""}, "write fields below the name of their section, indented")
    return did_you_mean(last, inside, f"there can be {', '.join(inside)}")


def fields_for(mechanism: str | None) -> dict[str, Option]:
    """The fields that a file can have: also the parameters of the mechanism that it names, and of all built-in ones."""
    return {option.field: option for option in rows([mechanism or ""]) if option.field}


@dataclass(frozen=True)
class Scheduled:
    """A checked report file.

    Args:
        fields: the fields that it can have.
        values: the values that it has, read, by their names in the file.
        withdrawn: the numbers of the periods whose ranking was taken away and is not drawn again.
    """

    document: Document
    fields: Mapping[str, Option]
    values: Mapping[str, Any]
    schedule: Schedule
    withdrawn: frozenset[int]

    @property
    def name(self) -> str:
        return self.values["report"]

    @property
    def folder(self) -> str:
        """The folder that relative paths in the file start from: the file's own, wherever the command is run."""
        return os.path.dirname(self.document.path)

    def refused(self, error: InvalidArgument, otherwise: str = "", correction: object = None) -> InvalidArgument:
        """A refusal at the line of the field that it is about, with the field's name in the file.

        Args:
            correction: the one that was asked for, if any, so that another release is another correction.
        """
        if error.rule.startswith(literal(f"{self.document.path}:")):  # has one
            return error
        names = {option.name: name for name, option in self.fields.items()} | _NOT_FIELDS
        meant = [names[field] for field in error.fields() if field in names]
        records = self.document.records() if error.input is None else [f"{INPUT}[{error.input}]"]
        own = [f"{record}.{field}" for field in error.fields() for record in records]
        places = (*meant, *own) if error.input is None else (*own, *(n for n in meant if n != INPUT), *records, INPUT)
        known = {**self.document.fields, **self.document.places}
        place = next((name for name in places if name in known), (meant or [otherwise])[0])
        where = self.document.error(place, "").rule
        again = "report name or --correction" if correction is None else "--correction"
        rest = type(error)("", error.rule, error.remedy).shown(
            lambda field: (names | {"release_id": again}).get(field, field)
        )
        return type(error)(
            "", where + literal(f"{names.get(error.field, error.field)} {rest}".strip()), final=error.final
        )


def read_report(path: str) -> Scheduled:
    """Read and check a report file. Raises InvalidArgument that names file and line, the rule and the value."""
    document = Document(path)
    named = document.fields.get("mechanism.name")
    try:
        fields = fields_for(named.value if named is not None and isinstance(named.value, str) else None)
    except InvalidArgument as error:
        raise document.error("mechanism.name", error.shown(lambda _: "mechanism.name")) from None
    own = {each.name: replace(each, many=each.many and name != INPUT) for name, each in fields.items() if each.own}
    document.refuse_unknown([*fields, *(f"{record}.{name}" for record in document.records() for name in own)])
    values = {name: _read(document, name, option) for name, option in fields.items() if name != INPUT}
    values[INPUT] = _inputs(document, own)
    schedule, given = _schedule(document, values), {n: v for n, v in values.items() if v is not None}
    return Scheduled(document, fields, given, schedule, _withdrawn(document, schedule, values))


def _withdrawn(document: Document, schedule: Schedule, values: Mapping[str, Any]) -> frozenset[int]:
    numbers = set[int]()
    for start in values["window.withdrawn"] or ():
        try:
            numbers.add(schedule.starting(in_zone(start, schedule.zone)))
        except ValueError as error:
            shown = start.isoformat().removesuffix("T00:00:00")
            raise document.error("window.withdrawn", f"window.withdrawn {shown} starts no period: {error}") from None
    return frozenset(numbers)


def _schedule(document: Document, values: Mapping[str, Any]) -> Schedule:
    zone = ZoneInfo(values["window.time_zone"] or "UTC")
    first: datetime = values["window.first"]
    first = first if first.tzinfo else first.replace(tzinfo=zone)
    every, horizon = values["window.every"], values["window.horizon"]
    if every in UNITS and UNITS[every].months and first.astimezone(zone).day > 28:
        raise document.error("window.first", "window.first must be a day from 1 to 28: not every month has more")
    if every == "week" and first.astimezone(zone).weekday():
        raise document.error(
            "window.first", "window.first must be a Monday with window.every: week; 7d starts on any day"
        )
    if values["budget.privacy_unit"] == "user" and horizon is None:
        raise document.error(
            "window",
            "window.horizon must be given with budget.privacy_unit: user, since the total is split over its periods",
        )
    if values["budget.max_windows_per_user"] is not None:
        field = "budget.max_windows_per_user"
        raise document.error(
            field,
            f"{field} does not go with a report, which publishes period by period: the windows "
            "of a user are chosen among all of them. Rank the whole horizon in one `private-topk run` "
            "when it is over, or leave it out",
        )
    to_date, state = values["window.to_date"], values["window.state"]
    if to_date and (horizon is None or state is None):
        rule = "needs window.horizon, how many periods there will be, and window.state, a folder for what is counted"
        raise document.error("window.to_date", f"window.to_date {rule}: all periods are one series")
    if state is not None and (not to_date or "://" in state):
        raise document.error("window.state", "window.state must be a folder of this machine, with window.to_date: true")
    if values[REMEMBER] and not values["domain.unknown"]:
        raise document.error(REMEMBER, f"{REMEMBER} needs domain.unknown: of a public domain every item is listed")
    schedule = Schedule(first.astimezone(UTC), every, zone, horizon)
    try:
        schedule.period(max(horizon or 1, 1) - 1)
    except (OverflowError, ValueError):
        raise document.error(
            "window.first", "window.first must be so that all periods end before the year 10000"
        ) from None
    if to_date:
        _check_series(document, schedule)
    return schedule


def _inputs(document: Document, own: Mapping[str, Option]) -> tuple[object, ...]:
    """The places of the rows; one with settings of its own is these."""
    given = document.fields.get(INPUT)
    if given is None or not given.value or isinstance(given.value, dict):
        raise document.error(INPUT, f"{INPUT} must be given: a place, or a list of places")
    places, records = [given.value] if isinstance(given.value, str) else given.value, document.records()
    return tuple(
        {n: v for n in own if (v := _read(document, f"{record}.{n}", own[n])) is not None}
        if (record := f"{INPUT}[{number}]") in records
        else _one(document, INPUT, template, text)
        for number, text in enumerate(places, 1)
    )


def _check_series(document: Document, schedule: Schedule) -> None:
    """Raise InvalidArgument unless the periods are the windows to date that `run` has of the whole horizon."""
    try:
        ends = [window.end for window in schedule.series().windows()]
    except InvalidArgument as error:
        raise document.error("window.every", error.shown(lambda field: f"window.{field}" if field else "")) from None
    if ends != [schedule.period(number).end for number in range(schedule.horizon or 0)]:
        rule = "window.every must be day or week with window.to_date, where days of the time zone differ in length"
        raise document.error("window.every", rule)


def _read(document: Document, name: str, option: Option) -> object:
    field = document.fields.get(name)
    if field is None:
        if option.required:
            raise document.error(name, f"{name} must be given")
        return None
    value, names = field.value, option.read is columns
    if isinstance(value, dict) and option.read is name_and_value:
        value = [f"{key}={text}" for key, text in value.items()]
    if option.many and option.path and isinstance(value, str):
        value = [value]
    listed = isinstance(value, list)
    if isinstance(value, dict) or (listed != option.many and not (listed and names and value)):
        raise document.error(name, f"{name} must be {'a list' if option.many else 'a single value'}")
    read = option.template or option.read or _true
    if read is str or (names and listed):  # a list says itself where names end
        read = printable_text
    one = partial(_one, document, name, read)
    if not isinstance(value, list):
        return one(value)
    values = tuple(map(one, value))
    return values[0] if names and len(values) == 1 else values


def _one(document: Document, name: str, read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except ValueError as error:
        raise document.error(name, f"{name} {error}") from None


def _true(text: str) -> bool:
    if text != "true":
        raise ValueError(f"must be true, or be left out; got {text!r}")
    return True
