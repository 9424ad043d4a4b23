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
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.files import match
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
_ANOTHER_ENCODING = "are not in UTF-8"
_SEVERAL = "that is not read: the column holds several types, make them one"
_OTHER_ENCODING = "their encoding: they look like text of another one, such as UTF-8 read as latin-1"
_OF_FILES = {
    _ANOTHER_ENCODING: " (of CSV files, --csv-encoding names another encoding)",
    _OTHER_ENCODING: " (--csv-encoding)",
}
"""The options that a cause may be mended by, which a table in memory does not have."""
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
_KEPT, _NO_ROWS = "kept", "no rows"
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
    source, few = done.report.source.parts()[0], left is False and not lost
    more = f"--dry-run --show-dropped-rows{' --exact-counters' * few}"
    if left is False and isinstance(source, Frame):  # which is still here
        why = [f"write the rows to a file: `private-topk run {more}` of it tells why"]
        told = "; ".join([told, *(why if few else data_quality_of(done.report).why())])
    elif (lost or left is False) and isinstance(source, Files):
        told = f"{told}; {more} tells why, and of which input"
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
        domain = spec.domain if spec.domain.is_public and spec.groups is None else None
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
    """Whether a table has nearly all items of a long list, and no other."""
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
        """What may be wrong with them."""
        lowest = len(self._join())
        users = lowest * _ALL // self._below
        error = 5 * users / math.sqrt(lowest) if self._below < _ALL else 0
        return about_users(self.rows, users, users + int(error))


@dataclass
class DataQuality:
    """Statistics of the rows.

    Args:
        rows: how many rows each input has.
        drops: of each input the rows that would be dropped, by reason; each row once.
        readings: of the rows of an input that are outside the period or have no readable time, how many would be
            inside if their times were read in another way.
        notes: rows of an input that are read, though perhaps not as they are meant; by input and what is told of them.
        spellings: of the rows of an input outside a public list, how many would be in it but for a difference that is
            easily overlooked; by the list's name and the difference.
        causes: what is wrong with the unreadable rows of an input, where that can be said.
        files: what became of the rows of each file of an input: dropped by a reason, or kept.
        shapes: of the texts that are no time, or no number, how many look alike: by input and column, with 9 for every
            digit and a for every letter.
        days: rows inside, by input and day of the period's time zone.
        groups: rows that would be ranked, by declared group.
        overall: those of no declared group, which count in the ranking of all rows alone; None where there is none.
        before, after: rows of all inputs that are outside the period, where they lie.
        late: rows inside that would still be late with more lateness, by how much it is.
        in_order: which rows are late follows from the order in which a run reads them.
        users: those of the rows that would be ranked.
        users_of: those of each input, of several.
        copies: files of which a row counts and that hold the same bytes.
        in_memory: the rows are a table of Python's, so arguments and no options are named.
        items: those of all rows.
    """

    rows: Counter[str] = field(default_factory=Counter)
    drops: dict[str, Counter[str]] = field(default_factory=dict)
    readings: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    spellings: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)
    files: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    shapes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    days: Counter[tuple[str, date]] = field(default_factory=Counter)
    groups: dict[str, int] = field(default_factory=dict)
    overall: int | None = None
    before: int = 0
    after: int = 0
    late: Counter[str] = field(default_factory=Counter)
    in_order: bool = False
    copies: list[list[str]] = field(default_factory=list)
    users: DistinctUsers = field(default_factory=DistinctUsers)
    users_of: dict[str, DistinctUsers] = field(default_factory=dict)
    period: Period | None = None
    in_memory: bool = False
    items: ListedItems | None = None

    @property
    def total(self) -> int:
        return self.rows.total()

    @property
    def lost(self) -> Counter[str]:
        """The rows of all inputs that would be dropped, by reason."""
        lost: Counter[str] = Counter()
        for drops in self.drops.values():
            lost.update(drops)
        return lost

    def lines(self, exact: bool = False) -> Iterator[str]:
        yield f"rows {heading(exact)}:"
        yield f"  in the input: {self._said(self.total, exact)}"
        for reason, count in self.lost.items():
            told = f"{reason}: {self._said(count, exact)}{_share(count, self.total)}"
            if reason == "outside the period" and count >= (1 if exact else _MIN):
                told += f"; before it: {self._said(self.before, exact)}, after it: {self._said(self.after, exact)}"
            if reason == "late" and count >= (1 if exact else _MIN) and self.late:
                still = ", ".join(f"{name}: {self._said(number, exact)}" for name, number in self.late.items())
                told += f"; still late with --allowed-lateness {still}"
            yield f"  {told}"
        if self.in_order:
            yield "  late: not known before a run, with --clock event; the stream tells at its end"
        if self.overall is not None:
            yield f"  in overall alone: {self._said(self.overall, exact)}{_share(self.overall, self.total)}"
        yield from (f"  {cause}" for cause in self.why(exact))
        if users := _USERS.get(self.users.look()):
            yield f"  {users}"
        else:
            for uri, its in self.users_of.items():
                if look := its.look():
                    yield f"  {self._where(uri)}{_USERS[look]}"
        if self.items is not None and self.items.are_all():
            yield f"  {_LISTED}"
        if self.lost.total() == self.total:
            few = not exact and not self.in_memory and max(self.lost.values(), default=0) < _MIN
            yield f"  {NONE_LEFT}{'; --exact-counters also tells why of fewer than 100 rows' * few}"
        yield from self._days()
        if self.groups:
            yield _with_few("groups", self.groups)
        if len(self.rows) > 1:
            yield from self._inputs(exact)
        for uri, files in self.files.items():
            lost = {path: reasons.most_common(1)[0][0] for path, reasons in files.items() if not reasons[_KEPT]}
            for reason in dict.fromkeys(lost.values()) if len(lost) < len(files) else ():
                paths = [path for path, its in lost.items() if its == reason]
                many = f"{len(paths):,} of the {len(files):,} files of {uri}"
                yield f"  no row counts of {many} ({reason}): {_named(paths)}"
        for paths in self.copies:
            yield f"  {_named(paths)} hold the same bytes: each of their rows is there {len(paths):,} times"

    def why(self, exact: bool = False) -> Iterator[str]:
        """What may be wrong with rows that are lost, or read otherwise than they are meant."""
        least = 1 if exact else _MIN
        for (uri, reading), count in self.readings.items():
            if count >= least:
                yield f"{self._where(uri)}{self._reading(uri, reading, count, exact)}"
        for (uri, note), count in self.notes.items():
            if count >= least:
                yield f"{self._where(uri)}{self._said(count, exact)} {note}"
        # However exact: the form of a few texts would show them.
        shapes = [(*key, count) for key, count in self.shapes.most_common() if count >= _MIN]
        for uri, column, shape, count in shapes[:_MAX_NAMED]:
            told = f"{self._where(uri)}{self._said(count, exact)}"
            yield f"{told} of {column!r} are like {shape!r}, which is not read (docs/cleaning.md)"
        if more := shapes[_MAX_NAMED:]:
            yield f"{len(more):,} other forms that at least 100 are like are not read either"
        for (uri, cause), count in self.causes.most_common():
            if count >= least:
                many = "most" if 2 * count > self.drops[uri]["unreadable"] else self._said(count, exact)
                yield f"{self._where(uri)}{many} of the unreadable rows {cause}{self._option(cause)}"
        for (uri, where, difference), count in self.spellings.items():
            if count >= least:
                told = f"{self._where(uri)}{self._said(count, exact)}"
                yield f"{told} rows have {_LISTS[where]} that are in it but for {difference}{self._option(difference)}"

    def _inputs(self, exact: bool) -> Iterator[str]:
        for uri, total in self.rows.items():
            facts = [
                f"{reason}: {self._said(count, exact)}{_share(count, total)}"
                for reason, count in self.drops[uri].items()
                if exact or _share(count, total)
            ]
            if self.drops[uri].total() == total:
                facts.append("no row of it counts")
            yield f"  {uri}: {'; '.join([self._said(total, exact), *facts])}"

    def _where(self, uri: str) -> str:
        return f"{uri}: " if len(self.rows) > 1 else ""

    def _reading(self, uri: str, reading: str, count: int, exact: bool) -> str:
        lost, like = self.drops[uri], f"times look like {_READINGS[reading]}"
        outside = lost["outside the period"] + lost["unreadable"]
        if self.rows[uri] - lost["null"] - outside > count:
            return f"some of the {like}: convert them, as all times of an input are read alike"
        remedy = f'time_unit="{reading}"' if self.in_memory else f"--time-unit {reading}; in a report, time_unit"
        remedy = "write them as 2026-01-10" if reading == _BASIC else remedy
        most = "most" if 2 * count > outside else self._said(count, exact)
        return f"the {like}: read so, {most} of those outside lie in the period ({remedy})"

    def _option(self, cause: str) -> str:
        return "" if self.in_memory else _OF_FILES.get(cause, "")

    def _said(self, count: int, exact: bool) -> str:
        return f"{count:,}" if exact else order_of_magnitude(count)

    def _days(self) -> Iterator[str]:
        if self.period is None:
            return
        first, last = _days_of(np.array([self.period.starts[0], self.period.ends[-1] - 1]), self.period.zone)
        days = pl.date_range(first, last, eager=True)
        for uri in self.rows:
            rows = {f"{day}": self.days[uri, day] for day in days}
            yield _with_few(f"{self._where(uri)}days ({self.period.zone}) of the period", rows)


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
    return f"  {what} with fewer than 100 rows: {_named(few)}, of {len(rows):,}"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(names[:_MAX_NAMED]) or 'none'}{more}"


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
    look.users_of = {uri: DistinctUsers() for uri in uris} if len(uris) > 1 else {}
    read_as = {"latin-1", "cp1252"} | {part.columns.encoding for part in report.source.parts()} - {"utf-8"}
    spelled = {name: _Spelled(labels, read_as) for name, labels in listed.items() if labels is not None}
    if groups is not None:
        look.groups = dict.fromkeys(map(groups.name, range(groups.labels.size)), 0)
        look.overall = 0 if groups.overall else None
    for number, part in enumerate(report.source.parts(), 1):
        there, columns = part.rows(period), part.columns.within(period)
        if there is None:
            raise InvalidArgument(
                "show_dropped_rows",
                f"cannot look at {verbatim(part.uri)} before a run",
                "files and Kafka topics can be looked at; a run tells afterwards",
            )
        look.in_order |= not part.bounded and not part.closes_by_arrivals
        look.drops.setdefault(part.uri, Counter())
        look.rows[part.uri] += 0
        if isinstance(part, Files):
            look.files[part.uri] = {file.path: Counter({_NO_ROWS: 0}) for file in match(part.uri)}
        with of_input(number):
            for rows in there:
                _add(look, rows, columns, report.question.top_k, spelled, part.uri)
    look.copies = list(_copies(look, [part for part in report.source.parts() if isinstance(part, Files)]))
    return look


def _copies(look: DataQuality, parts: list[Files]) -> Iterator[list[str]]:
    alike = defaultdict(list)
    for part in parts:
        for each in part.originals:
            if look.files[part.uri][each.file.path][_KEPT]:
                alike[each.file.size].append(each)
    for files in alike.values():
        same = defaultdict(list)
        for each in files if len(files) > 1 else ():
            each.identify()
            same[each.content].append(each.file.path)
        yield from (paths for paths in same.values() if len(paths) > 1)


def _add(
    look: DataQuality, rows: Rows, columns: Columns, spec: TopK, spelled: Mapping[str, _Spelled], uri: str
) -> None:
    block, missing = block_of(rows, columns, rows.arrived)
    lost, total = look.drops[uri], len(next(iter(rows.columns.values())))
    before = Counter(lost)
    look.rows[uri] += total
    for reason in ("null", "unreadable"):
        lost[reason] += missing.get(reason, 0)
    for name in columns.names() if missing.get("null") else ():
        values = (
            rows.columns[name] if rows.unreadable is None else rows.columns[name].filter(pc.invert(rows.unreadable))
        )
        look.notes[uri, f"rows have no {name!r}"] += values.null_count
    if missing.get("unreadable"):
        _add_shapes(look, rows, columns, uri)
        broken = [0]
        for name in columns.names():
            unread = count_unread(rows.columns[name]) if look.in_memory else 0
            look.causes[uri, f"have an object in {name!r} {_SEVERAL}"] += unread
            broken += (pc.sum(mask).as_py() - unread for mask in texts_of(rows.columns[name])[1])
        look.causes[uri, _ANOTHER_ENCODING] += max(broken)
        for cause, count in rows.causes().items():
            look.causes[uri, cause] += count
    if look.items is not None:
        look.items.add(block["item"])
    users = block["user"].cast(pa.large_string())
    trimmed = pc.utf8_trim_whitespace(users)
    look.notes[uri, _BLANK] += pc.sum(pc.equal(trimmed, "")).as_py() or 0
    composed = pl.Series(trimmed).str.normalize("NFC").to_arrow()  # Arrow's NFC leaves texts decomposed
    spelled_otherwise = pc.and_(pc.not_equal(composed.cast(users.type), users), pc.not_equal(trimmed, ""))
    look.notes[uri, _SPELLED] += pc.sum(spelled_otherwise).as_py() or 0
    signs = [pc.match_substring_regex(block[name].cast(pa.large_string()), _SIGNS) for name in ("user", "item")]
    look.notes[uri, _MISREAD] += pc.sum(pc.or_(*signs)).as_py() or 0
    if look.period is not None:
        times = block["time"].to_numpy()
        first, after = look.period.spans(times)
        inside = first < after
        lost["outside the period"] += int((~inside).sum())
        look.before += int((times < look.period.starts[0]).sum())
        look.after += int((times >= look.period.ends[-1]).sum())
        _try_readings(look, rows, columns, uri, all_inside=bool(inside.all()) and not missing.get("unreadable"))
        for day, count in _days_of(times[inside], look.period.zone).value_counts().rows():
            look.days[uri, day] += count
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
    if uri in look.users_of:
        look.users_of[uri].add(found.rows["user"])
    look.notes[uri, _ROUNDED] += found.rounded
    in_groups = spec.groups is not None and not spec.groups.overall
    applies = (bool(spec.score.columns), in_groups, "domain" in spelled)
    for (reason, count), told in zip(found.dropped.items(), applies, strict=True):
        if told:
            lost[reason.replace("_", " ")] += count
    dropped = lost - before
    if rows.path:
        file = look.files.setdefault(uri, {}).setdefault(rows.path, Counter())
        file.update({_KEPT: total - dropped.total(), **dropped})
    outside = {"domain": found.unknown}
    if spec.groups is not None:
        outside["groups"] = block["group"]
        counts = np.bincount(found.rows["group"], minlength=spec.groups.size).tolist()
        look.overall = look.overall + counts.pop() if look.overall is not None else None
        for name, count in zip(look.groups, counts, strict=True):
            look.groups[name] += count
    for name, each in spelled.items():
        for difference, count in each.misspelt(outside[name]):
            look.spellings[uri, name, difference] += count


def _add_shapes(look: DataQuality, rows: Rows, columns: Columns, uri: str) -> None:
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
            look.shapes[uri, column, shape] += found["counts"]


def _try_readings(look: DataQuality, rows: Rows, columns: Columns, uri: str, *, all_inside: bool) -> None:
    """Count times without a zone, and unless all are inside the period, those that another reading has inside."""
    assert columns.time is not None and look.period is not None
    times, _ = texts_of(rows.columns[columns.time])
    if pa.types.is_timestamp(times.type) or pa.types.is_date(times.type) and look.period.zone != "UTC":
        look.notes[uri, _NO_ZONE] += 0 if getattr(times.type, "tz", None) else len(times) - times.null_count
    elif is_text(times.type):
        local = _LOCAL if look.period.zone == "UTC" else f"{_LOCAL}|{_DATE}"
        look.notes[uri, _NO_ZONE] += pc.sum(pc.match_substring_regex(times, local)).as_py() or 0
    if all_inside:
        return
    read = {unit: to_microseconds(times, unit) for unit in UNITS}
    if is_text(times.type) or pa.types.is_integer(times.type):
        dates = pc.replace_substring_regex(times.cast(pa.large_string()), r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3")
        read[_BASIC] = to_microseconds(dates, columns.unit)
    inside = {}
    for reading, values in read.items():
        first, after = look.period.spans(values.fill_null(-(2**62)).to_numpy(zero_copy_only=False))
        inside[reading] = first < after
    for reading in {*read} - {columns.unit}:
        look.readings[uri, reading] += int((inside[reading] & ~inside[columns.unit]).sum())


class _Spelled:
    """A public list, and what its labels become by differences that are easily overlooked."""

    def __init__(self, listed: CodedDomain, read_as: set[str]) -> None:
        labels = listed.spellings()
        self._listed, self._forms = listed, {}
        if labels is not None:
            self._forms["spaces, capital letters or Unicode form: compare the spelling"] = _plain(labels)
            self._forms[_OTHER_ENCODING] = _plain(_misread(labels, read_as))

    def misspelt(self, labels: pa.Array) -> Iterator[tuple[str, int]]:
        """The differences, and how many of the labels are outside the list only by each."""
        if not self._forms or not len(labels):
            return
        outside = _plain(labels.filter(pa.array(self._listed.encode(labels) < 0)))
        for difference, forms in self._forms.items():
            yield difference, pc.sum(pc.is_in(outside, value_set=forms)).as_py() or 0


def _plain(labels: pa.Array) -> pa.Array:
    one_form = pc.utf8_normalize(labels.cast(pa.large_string()), "NFC")
    return pc.utf8_lower(pc.utf8_trim_whitespace(pc.replace_substring_regex(one_form, r"[\s\p{Z}]+", " ")))


def _misread(labels: pa.Array, read_as: set[str]) -> pa.Array:
    """Labels that are not plain ASCII as they are where they were written in UTF-8 or cp1252, and read in another."""
    found = (
        (text, text.encode(written, "ignore").decode(other, "ignore"))
        for text in labels.to_pylist()
        if not text.isascii()
        for written in ("utf-8", "cp1252")
        for other in read_as
    )
    return pa.array([form for text, form in found if form not in (text, "")], pa.string())
