"""A word to the operator on dropped rows: after a run how many there were, roughly, and where none was left; before it
also what may be wrong with them.

It is told to those who may read the rows, as whoever starts a run in a terminal may: no file, no manifest and no exit
status holds it. None of it is differentially private, so by default it is as coarse as the metrics of a job: orders of
magnitude from 100 rows on, and shares in words.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.process import is_read_along
from private_topk.pipelines.report import Report
from private_topk.pipelines.show.published import when
from private_topk.pipelines.sources.columns import UNITS, Columns, Rows, block_of, texts_of, to_microseconds
from private_topk.pipelines.sources.files import Files
from private_topk.pipelines.sources.frame import Frame, count_unread
from private_topk.runners import Line, say
from private_topk.transforms.columnar import mix
from private_topk.transforms.counters import (
    AboutUsers,
    about_users,
    order_of_magnitude,
    read_about_users,
    read_dropped_rows,
    read_empty_rankings,
    read_rounded_rows,
    read_whether_rows_are_left,
)
from private_topk.transforms.domain import CodedDomain
from private_topk.transforms.errors import InvalidArgument, of_input, printable, verbatim
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.metric import as_numbers
from private_topk.transforms.rows import rankable
from private_topk.transforms.spec import TopK
from private_topk.transforms.stated import some
from private_topk.transforms.types import is_text
from private_topk.transforms.windows import Period

if TYPE_CHECKING:
    from private_topk.pipelines.run import Done

_BASIC = "basic"
_READINGS = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    _BASIC: "dates without hyphens",
}
"""What times that are outside the period may be: numbers of another unit, or dates that are read as numbers."""
_MIN, _MAX_NAMED, _MAX_EMPTY = 100, 10, 4
_MAX_LONG = 40
_LATENESS = {"10s": 10, "1m": 60, "10m": 600, "1h": 3600, "6h": 21_600, "1d": 86_400}
_LISTS = {"domain": "items outside the domain", "groups": "groups outside the list"}
_SPELT = "that are in it but for spaces, capital letters, Unicode form or a '.0': compare the spelling"
_ANOTHER_ENCODING = "are not in UTF-8"
_CSV_ENCODING = " (of CSV files, --csv-encoding names another encoding)"
_ROUNDED = "rows have an amount with decimals, which are rounded away, as no value resolution is given"
_NO_ZONE = "times have no zone: they are read as UTC"
_BLANK = "rows have a user of blanks alone: they count as one person"
_SPELLED = "rows have a user with blanks around, or not in NFC: each spelling counts as another person"
_MISREAD = "rows have a user or an item with signs of UTF-8 read as latin-1 or cp1252, such as Ã¼ for ü"
_SIGNS = "[ÃÂ][\u0080-\u00bf" + bytes(range(0x80, 0xA0)).decode("cp1252", "ignore") + "]"
"""What becomes of two bytes of UTF-8."""
_LOCAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]+$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
"""Texts that are times of day without a zone; and dates, which lack one where windows have another than UTC."""
_LETTERS = re.compile(r"((?<=9)T(?=9)|(?<=[9 ])(?:UTC|Z)$)|[^\W\d_]")
"""Letters of a text whose digits are 9; those that belong to a time are a group."""
NONE_LEFT = "no row is left: this is pure noise"
_USERS: dict[AboutUsers | None, str] = {
    "few": "fewer than 100 users, few for a private ranking: is the user column right?",
    "many": "a user has three rows or fewer on average: a survey or rare visits, or is the user column an id of rows, "
    "orders or sessions?",
}
_LISTED = (
    "these rows have nearly all items of the list, and no other: one made from them promises nothing, so is it public?"
)
_MIN_LISTED, _NEARLY_ALL = 20, 0.95
"""Of a shorter list all items may well be there; and of one made from rows some are only in rows that are left out."""
_MAX_USERS, _ALL = 1 << 21, (1 << 64) - 1


def tell_dropped_rows(done: Done, asked: bool | None, exact: bool = False) -> None:
    """Tell on stderr, in one line, what became of the rows of a run. It never fails: the ranking is published.

    Args:
        asked: True to tell, False not to, None to tell where a person reads along: stderr is a terminal, or the process
            a notebook's. A JSON log is neither.
        exact: the run counted exactly.
    """
    if done.deferred or done.job is None or not (is_read_along() if asked is None else asked):
        return
    try:
        metrics = done.job.metrics()
        lost, left = read_dropped_rows(metrics), read_whether_rows_are_left(metrics)
        empty, users = read_empty_rankings(metrics), _USERS.get(read_about_users(metrics))
        rounded = read_rounded_rows(metrics)
    except Exception:  # whatever a runner raises that keeps no metrics, or whose server has gone
        say("dropped rows: not known, as the runner does not tell", sys.stderr)
        return
    told = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in sorted(lost.items()))
    if left is False:
        told = f"all of them: {told}; {NONE_LEFT}" if told else NONE_LEFT
    told = told or ("none" if exact else "none, or too few to tell")
    source = done.report.source.parts()[0]
    if left is False and isinstance(source, Frame):  # which is still here
        told = "; ".join([told, *data_quality_of(done.report).why()])
    elif (lost or left is False) and isinstance(source, Files):
        told = f"{told}; --dry-run --show-dropped-rows tells why, and of which input"
    told = f"{told}; {rounded} {_ROUNDED}" if rounded and _ROUNDED not in told else told
    told = f"{told}; {users}" if users else told
    told = f"{told}; {_LISTED}" if isinstance(source, Frame) and _lists_its_items(done.report) else told
    if left is not False and empty:
        others = "; and more" if len(empty) > _MAX_EMPTY else ""
        told = f"{told}. Pure noise, since nothing was counted there: {'; '.join(_plainly(empty, done.report))}{others}"
    facts = {"dropped": lost, "any_left": left, "nothing_counted": empty, "rounded": rounded}
    say(Line(f"dropped rows {heading(exact)}: {printable(told)}", event="dropped_rows", **facts), sys.stderr)


class ListedItems:
    """Whether rows have nearly all items of a long list, and no other."""

    def __init__(self, spec: TopK) -> None:
        domain = spec.domain if spec.domain.is_public else None
        labels = None if domain is None else domain.spellings()
        self._listed = domain if labels is not None and len(labels) >= _MIN_LISTED else None
        self._seen = np.zeros(0 if labels is None else len(labels), bool)

    @property
    def may_be(self) -> bool:
        return self._listed is not None

    def add(self, items: pa.Array) -> None:
        if self._listed is not None:
            codes = self._listed.encode(items)
            if (codes < 0).any():
                self._listed = None
            else:
                self._seen[codes] = True

    def are_all(self) -> bool:
        return self._listed is not None and bool(self._seen.mean() >= _NEARLY_ALL)


def _lists_its_items(report: Report) -> bool:
    part, period, items = report.source.parts()[0], report.question.period, ListedItems(report.question.top_k)
    for rows in (part.rows(period) or ()) if items.may_be else ():
        items.add(block_of(rows, part.columns.within(period), rows.arrived)[0]["item"])
    return items.are_all()


def _plainly(names: list[str], report: Report) -> Iterator[str]:
    """The first of some windows, each with its group if there are groups, as `show` writes them."""
    period = report.question.period
    shown = {} if period is None else {at.label(): when(at.start, at.end, period.zone) for at in period.windows()}
    for name in names[:_MAX_EMPTY]:
        window, _, group = name.partition("|")
        yield f"{shown.get(window, 'all rows')}{f' ({group})' * bool(group)}"


def heading(exact: bool) -> str:
    """The line above the numbers of dropped rows: whom they are for, and what they mean."""
    return f"(operator only, never publish; {'exact' if exact else 'fewer than 100 are not told'})"


@dataclass
class DistinctUsers:
    """Counts rows and their distinct users: of more than two million, by those of the lowest hashes.

    Memory: 8 bytes for each of some four million users.
    """

    rows: int = 0
    _key: bytes = field(default_factory=partial(os.urandom, 16), repr=False)
    _words: list[np.ndarray] = field(default_factory=list, repr=False)
    _below: int = _ALL

    def add(self, users: pa.Array) -> None:
        self.rows += len(users)
        words = mix(hash_labels(users, self._key))  # which is linear: of numbered users too many may be low
        self._words.append(np.unique(words[words <= self._below]))
        if sum(map(len, self._words)) > 2 * _MAX_USERS:
            self._join()

    def _join(self) -> np.ndarray:
        words = np.unique(np.concatenate([np.empty(0, np.uint64), *self._words]))
        while len(words) > _MAX_USERS:
            self._below //= 2
            words = words[words <= self._below]
        self._words = [words]
        return words

    def look(self) -> AboutUsers | None:
        lowest = len(self._join())
        users = lowest * _ALL // self._below
        error = 5 * users / math.sqrt(lowest) if self._below < _ALL else 0
        return about_users(self.rows, users, users + int(error))


@dataclass
class OfInput:
    """Statistics of the rows of one input.

    Args:
        uri: its place.
        rows: how many it has.
        drops: those that would be dropped, by reason; each row once.
        readings: of those that are outside the period or have no readable time, how many would be inside if their times
            were read in another way.
        notes: those that are read, though perhaps not as they are meant, by what is told of them.
        spellings: of those outside a public list, how many would be in it but for their spelling; by the list's name.
        causes: what is wrong with the unreadable ones, where that can be said.
        shapes: of the texts that are no time, or no number, how many look alike: by column, with 9 for every digit and
            a for every letter.
        days: rows inside, by day of the period's time zone.
        users: those of the rows that would be ranked, of several inputs.
    """

    uri: str
    rows: int = 0
    drops: Counter[str] = field(default_factory=Counter)
    readings: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    spellings: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    shapes: Counter[tuple[str, str]] = field(default_factory=Counter)
    days: Counter[date] = field(default_factory=Counter)
    users: DistinctUsers | None = None

    def why(self, exact: bool, in_memory: bool) -> Iterator[str]:
        """What may be wrong with rows that are lost, or read otherwise than they are meant."""
        least = 1 if exact else _MIN
        for reading, count in self.readings.items():
            if count >= least:
                yield self._reading(reading, count, exact, in_memory)
        for note, count in self.notes.items():
            if count >= least:
                yield f"{_said(count, exact)} {note}"
        # However exact: the form of a few texts would show them.
        for (column, shape), count in self.shapes.most_common(_MAX_NAMED):
            if count >= _MIN:
                yield f"{_said(count, exact)} of {column!r} are like {shape!r}, which is not read (docs/cleaning.md)"
        for cause, count in self.causes.most_common():
            if count >= least:
                many = "most" if 2 * count > self.drops["unreadable"] else _said(count, exact)
                option = "" if in_memory or cause != _ANOTHER_ENCODING else _CSV_ENCODING
                yield f"{many} of the unreadable rows {cause}{option}"
        for listed, count in self.spellings.items():
            if count >= least:
                yield f"{_said(count, exact)} rows have {_LISTS[listed]} {_SPELT}"

    def _reading(self, reading: str, count: int, exact: bool, in_memory: bool) -> str:
        like = f"times look like {_READINGS[reading]}"
        outside = self.drops["outside the period"] + self.drops["unreadable"]
        if self.rows - self.drops["null"] - outside > count:
            return f"some of the {like}: convert them, as all times of an input are read alike"
        remedy = f'time_unit="{reading}"' if in_memory else f"--time-unit {reading}; in a report, time_unit"
        remedy = "write them as 2026-01-10" if reading == _BASIC else remedy
        most = "most" if 2 * count > outside else _said(count, exact)
        return f"the {like}: read so, {most} of those outside lie in the period ({remedy})"

    def line(self, exact: bool) -> str:
        """How many rows it has, and what share of them is lost for which reason."""
        facts = [
            f"{reason}: {_said(count, exact)}{_share(count, self.rows)}"
            for reason, count in self.drops.items()
            if exact or _share(count, self.rows)
        ]
        none = ["no row of it counts"] * (self.drops.total() == self.rows)
        return "; ".join([_said(self.rows, exact), *facts, *none])


@dataclass
class DataQuality:
    """Statistics of the rows.

    Args:
        inputs: those of each input, by its place.
        groups: rows that would be ranked, by declared group.
        overall: those of no declared group, which count in the ranking of all rows alone; None where there is none.
        before, after: rows of all inputs that are outside the period, where they lie.
        late: rows inside that would still be late with more lateness, by how much it is.
        in_order: which rows are late follows from the order in which a run reads them.
        users: those of the rows that would be ranked.
        in_memory: the rows are a table of Python's, so arguments and no options are named.
        items: those of all rows.
    """

    inputs: dict[str, OfInput] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    overall: int | None = None
    before: int = 0
    after: int = 0
    late: Counter[str] = field(default_factory=Counter)
    in_order: bool = False
    users: DistinctUsers = field(default_factory=DistinctUsers)
    period: Period | None = None
    in_memory: bool = False
    items: ListedItems | None = None

    @property
    def total(self) -> int:
        return sum(its.rows for its in self.inputs.values())

    @property
    def lost(self) -> Counter[str]:
        """The rows of all inputs that would be dropped, by reason."""
        lost: Counter[str] = Counter()
        for its in self.inputs.values():
            lost.update(its.drops)
        return lost

    def lines(self, exact: bool = False) -> Iterator[str]:
        yield f"rows {heading(exact)}:"
        yield from (f"  {line}" for line in self._facts(exact))

    def _facts(self, exact: bool) -> Iterator[str]:
        lost, total = self.lost, self.total
        yield f"in the input: {_said(total, exact)}"
        for reason, count in lost.items():
            told = f"{reason}: {_said(count, exact)}{_share(count, total)}"
            if reason == "outside the period" and count >= (1 if exact else _MIN):
                told += f"; before it: {_said(self.before, exact)}, after it: {_said(self.after, exact)}"
            if reason == "late" and count >= (1 if exact else _MIN) and self.late:
                still = ", ".join(f"{name}: {_said(number, exact)}" for name, number in self.late.items())
                told += f"; still late with --allowed-lateness {still}"
            yield told
        if self.in_order:
            yield "late: not known before a run, with --clock event; the stream tells at its end"
        if self.overall is not None:
            yield f"in overall alone: {_said(self.overall, exact)}{_share(self.overall, total)}"
        yield from self.why(exact)
        if users := _USERS.get(self.users.look()):
            yield users
        else:
            for its in self.inputs.values():
                if its.users is not None and (look := its.users.look()):
                    yield f"{its.uri}: {_USERS[look]}"
        if self.items is not None and self.items.are_all():
            yield _LISTED
        if lost.total() == total:
            few = not exact and not self.in_memory and max(lost.values(), default=0) < _MIN
            yield f"{NONE_LEFT}{'; --exact-counters also tells why of fewer than 100 rows' * few}"
        yield from self._days()
        if self.groups:
            yield _with_few("groups", self.groups)
        if len(self.inputs) > 1:
            yield from (f"{its.uri}: {its.line(exact)}" for its in self.inputs.values())

    def why(self, exact: bool = False) -> Iterator[str]:
        """What may be wrong with rows of each input."""
        for its in self.inputs.values():
            yield from (f"{self._where(its)}{told}" for told in its.why(exact, self.in_memory))

    def _where(self, its: OfInput) -> str:
        return f"{its.uri}: " if len(self.inputs) > 1 else ""

    def _days(self) -> Iterator[str]:
        if self.period is None:
            return
        first, last = _days_of(np.array([self.period.starts[0], self.period.ends[-1] - 1]), self.period.zone)
        days = pl.date_range(first, last, eager=True)
        for its in self.inputs.values():
            rows = {f"{day}": its.days[day] for day in days}
            yield _with_few(f"{self._where(its)}days ({self.period.zone}) of the period", rows)


def _said(count: int, exact: bool) -> str:
    return f"{count:,}" if exact else order_of_magnitude(count)


def _days_of(times: np.ndarray, zone: str) -> pl.Series:
    """The days of moments in microseconds since 1970 UTC."""
    return pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone).dt.date()


def _share(count: int, total: int) -> str:
    if count and count == total:
        return ", all"
    if count < _MIN:
        return ""
    return ", most" if 2 * count > total else ", a tenth to half" if 10 * count >= total else ", less than a tenth"


def _with_few(what: str, rows: dict[str, int]) -> str:
    few = [name for name, count in rows.items() if count < _MIN]
    return f"{what} with fewer than 100 rows: {some(few, _MAX_NAMED) or 'none'}, of {len(rows):,}"


def data_quality_of(report: Report) -> DataQuality:
    """Read the input once, here. Cost: about that of reading it in a run.

    Raises InvalidArgument if only a run can read it.
    """
    period, domain = report.question.period, report.question.top_k.domain
    items = ListedItems(report.question.top_k)
    look = DataQuality(period=period, in_memory=isinstance(report.source, Frame), items=items)
    groups = report.question.top_k.groups
    listed = {"domain": domain if domain.is_public else None, "groups": None if groups is None else groups.labels}
    uris = dict.fromkeys(part.uri for part in report.source.parts())
    look.inputs = {uri: OfInput(uri, users=DistinctUsers() if len(uris) > 1 else None) for uri in uris}
    spelled = {name: _Spelled(labels) for name, labels in listed.items() if labels is not None}
    if groups is not None:
        look.groups = dict.fromkeys(map(groups.name, range(groups.labels.size)), 0)
        look.overall = 0 if groups.overall else None
    for number, part in enumerate(report.source.parts(), 1):
        there, columns, its = part.rows(period), part.columns.within(period), look.inputs[part.uri]
        if there is None:
            raise InvalidArgument(
                "show_dropped_rows",
                f"cannot look at {verbatim(part.uri)} before a run",
                "files and Kafka topics can be looked at; a run tells afterwards",
            )
        look.in_order |= not part.bounded and not part.closes_by_arrivals
        with of_input(number):
            for rows in there:
                _add(look, its, rows, columns, report.question.top_k, spelled)
    return look


def _add(
    look: DataQuality, its: OfInput, rows: Rows, columns: Columns, spec: TopK, spelled: Mapping[str, _Spelled]
) -> None:
    block, missing = block_of(rows, columns, rows.arrived)
    lost, total = its.drops, len(next(iter(rows.columns.values())))
    its.rows += total
    for reason in ("null", "unreadable"):
        lost[reason] += missing.get(reason, 0)
    for name in columns.names() if missing.get("null") else ():
        values = (
            rows.columns[name] if rows.unreadable is None else rows.columns[name].filter(pc.invert(rows.unreadable))
        )
        its.notes[f"rows have no {name!r}"] += values.null_count
    if missing.get("unreadable"):
        _add_shapes(its, rows, columns)
        broken = [0]
        for name in columns.names():
            unread = count_unread(rows.columns[name]) if look.in_memory else 0
            broken += (pc.sum(mask).as_py() - unread for mask in texts_of(rows.columns[name])[1])
        its.causes[_ANOTHER_ENCODING] += max(broken)
        for cause, count in rows.causes().items():
            its.causes[cause] += count
    if look.items is not None:
        look.items.add(block["item"])
    users = block["user"].cast(pa.large_string())
    trimmed = pc.utf8_trim_whitespace(users)
    its.notes[_BLANK] += pc.sum(pc.equal(trimmed, "")).as_py() or 0
    composed = pl.Series(trimmed).str.normalize("NFC").to_arrow()  # Arrow's NFC leaves texts decomposed
    spelled_otherwise = pc.and_(pc.not_equal(composed.cast(users.type), users), pc.not_equal(trimmed, ""))
    its.notes[_SPELLED] += pc.sum(spelled_otherwise).as_py() or 0
    signs = [pc.match_substring_regex(block[name].cast(pa.large_string()), _SIGNS) for name in ("user", "item")]
    its.notes[_MISREAD] += pc.sum(pc.or_(*signs)).as_py() or 0
    if look.period is not None:
        times = block["time"].to_numpy()
        first, after = look.period.spans(times)
        inside = first < after
        lost["outside the period"] += int((~inside).sum())
        look.before += int((times < look.period.starts[0]).sum())
        look.after += int((times >= look.period.ends[-1]).sum())
        _try_readings(look.period, its, rows, columns, bool(inside.all()) and not missing.get("unreadable"))
        for day, count in _days_of(times[inside], look.period.zone).value_counts().rows():
            its.days[day] += count
        block = block.filter(pa.array(inside))
        if rows.arrived is not None:
            late_by = block["arrived"].to_numpy() - look.period.ends[after[inside] - 1]
            allowed = int(look.period.closing[0] - look.period.ends[0])
            for name, seconds in _LATENESS.items():
                if seconds * 1_000_000 > allowed:
                    look.late[name] += int((late_by >= seconds * 1_000_000).sum())
            late = late_by >= allowed
            lost["late"] += int(late.sum())
            block = block.filter(pa.array(~late))
    found = rankable(block, spec)
    look.users.add(found.rows["user"])
    if its.users is not None:
        its.users.add(found.rows["user"])
    its.notes[_ROUNDED] += found.rounded
    in_groups = spec.groups is not None and not spec.groups.overall
    applies = (bool(spec.score.columns), in_groups, "domain" in spelled)
    for (reason, count), told in zip(found.dropped.items(), applies, strict=True):
        if told:
            lost[reason.replace("_", " ")] += count
    outside = {"domain": found.unknown}
    if spec.groups is not None:
        outside["groups"] = block["group"]
        counts = np.bincount(found.rows["group"], minlength=spec.groups.size).tolist()
        look.overall = look.overall + counts.pop() if look.overall is not None else None
        for name, count in zip(look.groups, counts, strict=True):
            look.groups[name] += count
    for name, each in spelled.items():
        its.spellings[name] += each.misspelt(outside[name])


def _add_shapes(its: OfInput, rows: Rows, columns: Columns) -> None:
    for column, read in (
        (columns.time, lambda times: to_microseconds(times, columns.unit)),
        (columns.value, as_numbers),
    ):
        if column is None:
            continue
        values, _ = texts_of(rows.columns[column])
        if not is_text(values.type):
            continue
        texts = values.filter(pc.and_(values.is_valid(), read(values).is_null()))
        texts = texts.filter(pc.less_equal(pc.utf8_length(texts), _MAX_LONG))
        for found in pc.value_counts(pc.replace_substring_regex(texts, r"\p{Nd}", "9")).to_pylist():
            shape = _LETTERS.sub(lambda letter: letter[1] or "a", found["values"])
            its.shapes[column, shape] += found["counts"]


def _try_readings(period: Period, its: OfInput, rows: Rows, columns: Columns, all_inside: bool) -> None:
    """Count times without a zone, and unless all are inside the period, those that another reading has inside."""
    assert columns.time is not None
    times, _ = texts_of(rows.columns[columns.time])
    if pa.types.is_timestamp(times.type) or pa.types.is_date(times.type) and period.zone != "UTC":
        its.notes[_NO_ZONE] += 0 if getattr(times.type, "tz", None) else len(times) - times.null_count
    elif is_text(times.type):
        local = _LOCAL if period.zone == "UTC" else f"{_LOCAL}|{_DATE}"
        its.notes[_NO_ZONE] += pc.sum(pc.match_substring_regex(times, local)).as_py() or 0
    if all_inside:
        return
    read = {unit: to_microseconds(times, unit) for unit in UNITS}
    if is_text(times.type) or pa.types.is_integer(times.type):
        dates = pc.replace_substring_regex(times.cast(pa.large_string()), r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3")
        read[_BASIC] = to_microseconds(dates, columns.unit)
    inside = {}
    for reading, values in read.items():
        first, after = period.spans(values.fill_null(-(2**62)).to_numpy(zero_copy_only=False))
        inside[reading] = first < after
    for reading in {*read} - {columns.unit}:
        its.readings[reading] += int((inside[reading] & ~inside[columns.unit]).sum())


class _Spelled:
    """A public list, and its labels in one spelling."""

    def __init__(self, listed: CodedDomain) -> None:
        labels = listed.spellings()
        self._listed, self._plain = listed, None if labels is None else _plain(labels)

    def misspelt(self, labels: pa.Array) -> int:
        """How many of the labels are outside the list only by a spelling that is easily overlooked."""
        if self._plain is None or not len(labels):
            return 0
        outside = _plain(labels.filter(pa.array(self._listed.encode(labels) < 0)))
        return pc.sum(pc.is_in(outside, value_set=self._plain)).as_py() or 0


def _plain(labels: pa.Array) -> pa.Array:
    one_form = pc.utf8_normalize(labels.cast(pa.large_string()), "NFC")
    one_form = pc.replace_substring_regex(one_form, r"^([0-9]+)\.0$", r"\1")  # whole numbers that were floats once
    return pc.utf8_lower(pc.utf8_trim_whitespace(pc.replace_substring_regex(one_form, r"[\s\p{Z}]+", " ")))
