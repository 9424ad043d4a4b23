"""What a report file may say: every field's name in the file, the field it stands for, and how its text is read."""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from private_topk.pipelines.report_file.document import Document
from private_topk.pipelines.report_file.schedule import Schedule
from private_topk.pipelines.texts import (
    BY_KIND,
    duration,
    fraction,
    moment,
    name_and_value,
    number,
    one_of,
    printable_text,
    whole,
    window_length,
)
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import MECHANISMS, mechanism_by_name, parameters_of
from private_topk.transforms.windows.calendar import time_zone

__all__ = ["FIELDS", "OF_SCHEDULE", "Rule", "Scheduled", "fields_for", "read_report"]


_LONGEST_NAME = 200


def _count(text: str) -> int:
    if whole(text) < 1:
        raise ValueError(f"must be a whole number of at least 1, got {text}")
    return int(text)


def _true(text: str) -> bool:
    if text != "true":
        raise ValueError(f"must be true, or be left out; got {text!r}")
    return True


def _zone(text: str) -> str:
    try:
        return time_zone(text).key
    except Refusal as error:
        raise ValueError(error.rule) from None


def _name(text: str) -> str:
    """A report's name is in release ids and often in paths."""
    if "/" in printable_text(text) or len(text) > _LONGEST_NAME:
        raise ValueError(f"must be a text of at most {_LONGEST_NAME} characters without /")
    return text


def _template(text: str) -> str:
    try:
        parts = [part for part in string.Formatter().parse(printable_text(text)) if part[1] is not None]
        names = {name if not (form or conversion) else "{" for _, name, form, conversion in parts}
    except ValueError as error:
        if not text.strip() or not text.isprintable():
            raise
        names = {f"{{{error}"}
    if not names <= {"report", "start", "end"}:
        raise ValueError(f"may use {{report}}, {{start}} and {{end}}, and nothing else in braces; got {text}")
    return text


def _output(text: str) -> str:
    """A single file needs a name of its own for every period; folders, topics and tables hold them all."""
    last = _template(text).rpartition("/")[2]
    if "://" not in text and "." in last and "{start}" not in text and "{end}" not in text:
        raise ValueError(f"must contain {{start}} or {{end}}, so that periods do not overwrite each other; got {text}")
    return text


def _mechanism(text: str) -> str:
    try:
        mechanism_by_name(text)
    except Refusal as error:
        raise ValueError(": ".join(part for part in (error.rule, error.remedy) if part)) from None
    return text


@dataclass(frozen=True)
class Rule:
    """A field of a report file.

    Args:
        read: what its text means; a ValueError of it is the rule that the text breaks.
        field: the name that it has behind the door; empty where the schedule keeps it.
        path: relative to the file's own folder.
        template: {report}, {start} and {end} are filled in for every period.
        many: a list of such texts.
        parameter: one of the mechanism's own.
    """

    read: Callable[[str], object]
    field: str = ""
    required: bool = False
    path: bool = False
    template: bool = False
    many: bool = False
    parameter: bool = False


FIELDS: dict[str, Rule] = {
    "report": Rule(_name, "release_id", required=True),
    "source.input": Rule(_template, "input", required=True, path=True, template=True),
    "source.expect_rows_at_least": Rule(whole, "expect_rows_at_least"),
    "source.success_file": Rule(_template, "success_file", path=True, template=True),
    "source.watch": Rule(_true),
    "source.user_column": Rule(printable_text, "user_column"),
    "source.item_column": Rule(printable_text, "item_column"),
    "source.time_column": Rule(printable_text, "time_column"),
    "source.time_unit": Rule(one_of("s", "ms", "us"), "time_unit"),
    "amounts.column": Rule(printable_text, "value_column"),
    "amounts.max_value": Rule(number, "max_value"),
    "amounts.resolution": Rule(number, "value_resolution"),
    "source.csv_quoted_newlines": Rule(_true, "csv_quoted_newlines"),
    "source.payload": Rule(one_of("json", "avro"), "payload"),
    "source.payload_schema": Rule(printable_text, "payload_schema", path=True),
    "source.clock": Rule(one_of("log", "event"), "clock"),
    "source.slack": Rule(duration, "slack"),
    "source.poll": Rule(duration, "poll"),
    "source.kafka_readers": Rule(_count, "kafka_readers"),
    "source.kafka_start": Rule(printable_text, "kafka_start"),
    "source.kafka_options": Rule(name_and_value, "kafka_option", many=True),
    "source.snapshot": Rule(printable_text, "snapshot"),
    "groups.column": Rule(printable_text, "group_column"),
    "groups.file": Rule(printable_text, "groups", path=True),
    "groups.per_user": Rule(_count, "groups_per_user"),
    "domain.file": Rule(printable_text, "domain", path=True),
    "domain.column": Rule(printable_text, "domain_column"),
    "domain.group_column": Rule(printable_text, "domain_group_column"),
    "domain.range": Rule(printable_text, "domain_range"),
    "domain.unknown": Rule(_true, "unknown_domain"),
    "window.every": Rule(window_length, "window", required=True),
    "window.first": Rule(moment, "period_from", required=True),
    "window.time_zone": Rule(_zone, "time_zone"),
    "window.horizon": Rule(_count, "horizon"),
    "against.window": Rule(one_of("previous"), "against"),
    "against.weight": Rule(fraction, "against_weight"),
    "mechanism.name": Rule(_mechanism, "mechanism", required=True),
    "mechanism.k": Rule(_count, "k", required=True),
    "mechanism.max_items_per_user": Rule(_count, "max_items_per_user"),
    "budget.epsilon": Rule(number, "epsilon", required=True),
    "budget.delta": Rule(number, "delta"),
    "budget.publish_counts": Rule(number, "publish_counts"),
    "budget.publish_counts_delta": Rule(number, "publish_counts_delta"),
    "budget.round_counts": Rule(_count, "round_counts"),
    "budget.privacy_unit": Rule(one_of("user-window", "user"), "privacy_unit"),
    "budget.max_windows_per_user": Rule(_count, "max_windows_per_user"),
    "budget.neighbours": Rule(one_of("add-remove", "swap"), "neighbours"),
    "preview.like": Rule(_template, "like", path=True, template=True),
    "release_key": Rule(printable_text, "release_key", required=True),
    "sink.output": Rule(_output, "output", required=True, path=True, template=True),
    "sink.partition_by": Rule(printable_text, "partition_by"),
    "sink.format": Rule(one_of("avro", "jsonl", "csv", "parquet"), "output_format"),
    "ledger.url": Rule(printable_text, "ledger"),
    "ledger.dataset": Rule(printable_text, "dataset"),
    "runner.name": Rule(printable_text, "runner"),
    "runner.shards": Rule(_count, "shards"),
    "runner.options": Rule(printable_text, many=True),
}
"""Every field of a report file but for the mechanism's parameters. Sections are the parts before the dots."""

OF_SCHEDULE = {"period_from", "period_to", "window", "time_zone", "release_id"}


def fields_for(mechanism: str | None) -> dict[str, Rule]:
    """The fields of a file: also the parameters of the mechanism that it names, and of every built-in one."""
    kinds = list(MECHANISMS.values())
    if mechanism is not None and ":" in mechanism:
        kinds.append(mechanism_by_name(mechanism))
    known = {rule.field for rule in FIELDS.values()}
    found = {name: its for kind in kinds for name, its in parameters_of(kind).items() if name not in known}
    return {
        **FIELDS,
        **{f"mechanism.{name}": Rule(BY_KIND[its.kind], name, parameter=True) for name, its in found.items()},
    }


@dataclass(frozen=True)
class Scheduled:
    """A checked report file.

    Args:
        fields: all that it may say.
        values: what it says, read, by the names in the file.
    """

    document: Document
    fields: Mapping[str, Rule]
    values: Mapping[str, Any]
    schedule: Schedule

    @property
    def name(self) -> str:
        return self.values["report"]

    @property
    def folder(self) -> str:
        """Where the file's relative paths start: its own folder, wherever the command is run."""
        return os.path.dirname(self.document.path)

    def refused(self, error: Refusal, otherwise: str = "") -> Refusal:
        """What was refused, at the line of the field that is meant, by its name in the file."""
        own = {rule.field: name for name, rule in self.fields.items() if rule.field} | {"period_to": "window.first"}
        meant = [own[field] for field in error.fields() if field in own]
        place = next((name for name in meant if name in self.document.fields), (meant or [otherwise])[0])
        return self.document.error(place, error.shown(lambda field: own.get(field, field)))


def read_report(path: str) -> Scheduled:
    """Read and check a report file. Raises Refusal that names file and line, the rule and the value."""
    document = Document(path)
    named = document.fields.get("mechanism.name")
    try:
        fields = fields_for(named.value if named is not None and isinstance(named.value, str) else None)
    except Refusal as error:
        raise document.error("mechanism.name", error.shown(lambda _: "mechanism.name")) from None
    document.refuse_unknown(fields)
    values = {name: _read(document, name, rule) for name, rule in fields.items()}
    return Scheduled(document, fields, {n: v for n, v in values.items() if v is not None}, _schedule(document, values))


def _schedule(document: Document, values: Mapping[str, Any]) -> Schedule:
    zone = ZoneInfo(values["window.time_zone"] or "UTC")
    first: datetime = values["window.first"]
    first = first if first.tzinfo else first.replace(tzinfo=zone)
    every, horizon = values["window.every"], values["window.horizon"]
    if every == "month" and first.astimezone(zone).day > 28:
        raise document.error("window.first", "window.first must be a day from 1 to 28: not every month has more")
    if values["budget.privacy_unit"] == "user" and horizon is None:
        raise document.error("window", "window.horizon must be given with budget.privacy_unit: user, since the total "
                             "is split over its periods")  # fmt: skip
    if values["against.window"] is not None and any(
        f"{{{name}}}" in values["source.input"] for name in ("start", "end")
    ):
        raise document.error("source.input", "source.input must hold the rows of the period before too, with "
                             "against.window: name the files of all periods, as in plays/*/*.avro")  # fmt: skip
    if values["budget.max_windows_per_user"] is not None:
        field = "budget.max_windows_per_user"
        raise document.error(field, f"{field} does not go with a report, which publishes period by period: the windows "
                             "of a user are chosen among all of them. Rank the whole horizon in one `private-topk run` "
                             "when it is over, or leave it out")  # fmt: skip
    schedule = Schedule(first.astimezone(timezone.utc), every, zone, horizon)
    try:
        schedule.period(max(horizon or 1, 1) - 1)
    except (OverflowError, ValueError):
        raise document.error(
            "window.first", "window.first must be so that all periods end before the year 10000"
        ) from None
    return schedule


def _read(document: Document, name: str, rule: Rule) -> object:
    field = document.fields.get(name)
    if field is None:
        if rule.required:
            raise document.error(name, f"{name} must be given")
        return None
    if isinstance(field.value, list) != rule.many:
        raise document.error(name, f"{name} must be {'a list' if rule.many else 'a single value'}")
    read = partial(_one, document, name, rule)
    return tuple(map(read, field.value)) if isinstance(field.value, list) else read(field.value)


def _one(document: Document, name: str, rule: Rule, text: str) -> object:
    try:
        return rule.read(text)
    except ValueError as error:
        raise document.error(name, f"{name} {error}") from None
