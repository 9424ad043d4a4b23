"""What a report file may say, field by field, and the arguments of `private-topk run` that it stands for."""

from __future__ import annotations

import argparse
import os
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from private_topk.budget.units import UNITS
from private_topk.pipelines.options import duration
from private_topk.pipelines.scheduled.document import Document
from private_topk.pipelines.scheduled.schedule import CALENDAR, Schedule
from private_topk.transforms.mechanisms import MECHANISMS

__all__ = ["FIELDS", "Scheduled", "read_report"]

Check = Callable[[str], object]


def _text(value: str) -> str:
    if not value or not value.isprintable():
        raise ValueError("must be a printable text")
    return value


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError("must be a number such as 1, 0.5 or 1e-6") from None


def _ratio(value: str) -> Fraction:
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise ValueError("must be a number such as 0.5 or 5/9") from None


def _whole(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError("must be a whole number of at least 1")
    return int(value)


def _one_of(*names: str) -> Check:
    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return value

    return check


def _length(value: str) -> timedelta | str:
    try:
        return value if value in CALENDAR else duration(value)
    except argparse.ArgumentTypeError:
        raise ValueError(f"must be {', '.join(CALENDAR)}, or a number and one of s, m, h, d, w, such as 7d") from None


def _zone(value: str) -> ZoneInfo:
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be a time zone such as UTC or Europe/Berlin") from None


def _moment(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("must be a date or time such as 2026-01-05") from None


def _template(value: str) -> str:
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(value) if name is not None}
    except ValueError:
        names = {"{"}
    if not names <= {"report", "start", "end"}:
        raise ValueError("may use {report}, {start} and {end}, and nothing else in braces")
    return value


def _output(value: str) -> str:
    if not {"{start}", "{end}"} & set(re.findall(r"\{\w+\}", _template(value))):
        raise ValueError("must contain {start} or {end}, so that periods do not overwrite each other")
    return value


@dataclass(frozen=True)
class Rule:
    """A field: how it is checked, the option of `run` it stands for, and whether it must be there."""

    check: Check
    option: str = ""
    required: bool = False
    path: bool = False


FIELDS: dict[str, Rule] = {
    "report": Rule(_text, required=True),
    "source.input": Rule(_template, "--input", required=True, path=True),
    "source.user_column": Rule(_text, "--user-column"),
    "source.item_column": Rule(_text, "--item-column"),
    "source.time_column": Rule(_text, "--time-column"),
    "source.time_unit": Rule(_one_of("s", "ms", "us"), "--time-unit"),
    "domain.file": Rule(_text, "--domain", path=True),
    "domain.column": Rule(_text, "--domain-column"),
    "domain.unknown": Rule(_one_of("true"), "--unknown-domain"),
    "window.every": Rule(_length, required=True),
    "window.first": Rule(_moment, required=True),
    "window.time_zone": Rule(_zone),
    "window.horizon": Rule(_whole),
    "mechanism.name": Rule(_one_of(*MECHANISMS), "--mechanism", required=True),
    "mechanism.k": Rule(_whole, "--k", required=True),
    "mechanism.skew": Rule(_ratio, "--skew"),
    "mechanism.gamma": Rule(_ratio, "--gamma"),
    "mechanism.noise": Rule(_text, "--noise"),
    "mechanism.beta": Rule(_number, "--beta"),
    "mechanism.kbar": Rule(_whole, "--kbar"),
    "mechanism.max_items_per_user": Rule(_whole, "--max-items-per-user"),
    "budget.epsilon": Rule(_number, "--epsilon", required=True),
    "budget.delta": Rule(_number, "--delta"),
    "budget.publish_counts": Rule(_number, "--publish-counts"),
    "budget.publish_counts_delta": Rule(_number, "--publish-counts-delta"),
    "budget.privacy_unit": Rule(_one_of(*UNITS), "--privacy-unit"),
    "budget.neighbours": Rule(_one_of("add-remove", "swap"), "--neighbours"),
    "release_key": Rule(_text, "--release-key", required=True),
    "sink.output": Rule(_output, "--output", required=True, path=True),
    "ledger.url": Rule(_text, "--ledger"),
    "ledger.dataset": Rule(_text, "--dataset"),
    "runner.name": Rule(_text, "--runner"),
    "runner.shards": Rule(_whole, "--shards"),
    "runner.options": Rule(_text),
}
"""Every field of a report file. Sections are the parts before the dots."""


@dataclass(frozen=True)
class Scheduled:
    """A checked report file."""

    document: Document
    name: str
    schedule: Schedule

    def text(self, field: str) -> str | None:
        found = self.document.fields.get(field)
        return found.value if found is not None and isinstance(found.value, str) else None

    def texts(self, field: str) -> list[str]:
        found = self.document.fields.get(field)
        return list(found.value) if found is not None and isinstance(found.value, list) else []

    @property
    def folder(self) -> str:
        """Where the file's relative paths start: its own folder, wherever the command is run."""
        return os.path.dirname(self.document.path)


def read_report(path: str) -> Scheduled:
    """Read and check a report file. Raises InputError that names file and line, the rule and the value."""
    document = Document(path)
    document.refuse_unknown(FIELDS)
    values: dict[str, Any] = {name: _checked(document, name, rule) for name, rule in FIELDS.items()}
    zone = values["window.time_zone"] or ZoneInfo("UTC")
    first = values["window.first"]
    first = first if first.tzinfo else first.replace(tzinfo=zone)
    every, horizon = values["window.every"], values["window.horizon"]
    if every == "month" and first.astimezone(zone).day > 28:
        raise document.error("window.first", "window.first must be a day from 1 to 28: not every month has more")
    if values["budget.privacy_unit"] == "user" and horizon is None:
        raise document.error("window", "window.horizon must be given with budget.privacy_unit: user, since the total "
                             "is split over its periods")  # fmt: skip
    return Scheduled(document, values["report"], Schedule(first.astimezone(timezone.utc), every, zone, horizon))


def _checked(document: Document, name: str, rule: Rule) -> object:
    field = document.fields.get(name)
    if field is None:
        if rule.required:
            raise document.error(name, f"{name} must be given")
        return None
    many = name == "runner.options"
    if isinstance(field.value, list) != many:
        raise document.error(name, f"{name} must be {'a list' if many else 'a single value'}")
    checked: object = None
    for value in field.value if isinstance(field.value, list) else [field.value]:
        try:
            checked = rule.check(value)
        except ValueError as error:
            raise document.error(name, f"{name} {error}, got {value}") from None
    return checked
