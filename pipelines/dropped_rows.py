"""A word to the operator on dropped rows: after a run how many there were, roughly, and where none was left; before it
also what may be wrong with them.

It is told to those who may read the rows, as whoever starts a run in a terminal may: no file, no manifest and no exit
status holds it. None of it is differentially private, so by default it is as coarse as the metrics of a job: orders of
magnitude from 100 rows on, and shares in words.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.process import is_read_along
from private_topk.pipelines.report import Report
from private_topk.pipelines.sources.columns import Columns, Rows, block_of, texts_of, to_microseconds
from private_topk.runners import Line, say
from private_topk.transforms.counters import (
    order_of_magnitude,
    read_dropped_rows,
    read_empty_rankings,
    read_whether_rows_are_left,
)
from private_topk.transforms.domain import CodedDomain
from private_topk.transforms.errors import InvalidArgument, printable, verbatim
from private_topk.transforms.metric import as_numbers
from private_topk.transforms.rows import rankable
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period, from_microseconds

if TYPE_CHECKING:
    from private_topk.pipelines.run import Done

_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_DAY = 86_400_000_000
_MIN, _MAX_NAMED = 100, 10
_MAX_SHAPES, _MAX_LONG = 3, 40
_LISTS = {"domain": "items outside the domain", "groups": "groups outside the list"}
NONE_LEFT = "no row is left: this is pure noise"


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
        empty = read_empty_rankings(metrics)
    except Exception:  # whatever a runner raises that keeps no metrics, or whose server has gone
        say("dropped rows: not known, as the runner does not tell", sys.stderr)
        return
    told = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in sorted(lost.items()))
    if left is False:
        told = f"all of them{': ' if told else ''}{told}; {NONE_LEFT}"
    told = told or ("none" if exact else "none, or too few to tell")
    if left is not False and empty:
        more = " and more" if len(empty) > _MAX_NAMED else ""
        told = f"{told}; pure noise, as nothing was counted there: {', '.join(empty[:_MAX_NAMED])}{more}"
    facts = {"dropped": lost, "any_left": left, "nothing_counted": empty}
    say(Line(f"dropped rows {heading(exact)}: {printable(told)}", event="dropped_rows", **facts), sys.stderr)


def heading(exact: bool) -> str:
    """The line above the numbers of dropped rows: whom they are for, and what they mean."""
    return f"(operator only, never publish; {'exact' if exact else 'fewer than 100 are not told'})"


@dataclass
class DataQuality:
    """Statistics of the rows.

    Args:
        lost: rows that would be dropped, by reason; each row once.
        units: of the rows that are outside the period or have no readable time, how many would be inside if numbers
            were in another unit; by input.
        untimed: how many rows of each input are outside the period or unreadable.
        spellings: of the rows outside a public list, by its name, how many would be in it in another spelling: but for
            spaces around them and capital letters.
        not_utf8: of the unreadable rows, how many hold text in another encoding.
        shapes: of the texts that are no time, or no number, how many look alike: by column, with 9 for every digit and
            a for every letter.
        days: rows inside, by day since 1970 UTC.
        groups: rows that would be ranked, by declared group.
        overall: those of no declared group, which count in the ranking of all rows alone; None where there is none.
        inputs: where there are several, of each how many rows there are, and how many of them are null or unreadable.
    """

    total: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    units: Counter[tuple[str, str]] = field(default_factory=Counter)
    untimed: Counter[str] = field(default_factory=Counter)
    spellings: Counter[str] = field(default_factory=Counter)
    not_utf8: int = 0
    shapes: Counter[tuple[str, str]] = field(default_factory=Counter)
    days: Counter[int] = field(default_factory=Counter)
    groups: dict[str, int] = field(default_factory=dict)
    overall: int | None = None
    inputs: dict[str, tuple[int, int]] = field(default_factory=dict)
    period: Period | None = None

    def lines(self, exact: bool = False) -> Iterator[str]:
        """The lines for the operator."""
        yield f"rows {heading(exact)}:"
        yield f"  in the input: {self._said(self.total, exact)}"
        for reason, count in self.lost.items():
            yield f"  {reason}: {self._said(count, exact)}{self._share(count)}"
        if self.overall is not None:
            yield f"  in overall alone: {self._said(self.overall, exact)}{self._share(self.overall)}"
        for (uri, unit), count in self.units.items():
            if 2 * count > self.untimed[uri] and count >= _MIN:
                where = f"in {uri}, " if self.inputs else ""
                yield (
                    f"  {where}the times look like {_UNITS[unit]}: read so, most of those outside lie in the period "
                    f"(--time-unit {unit}; in a report, time_unit)"
                )
        for (column, shape), count in self.shapes.most_common(_MAX_SHAPES):
            if count >= _MIN:
                told = self._said(count, exact)
                yield f"  {told} of {column!r} are like {shape}, which is not read (docs/formats.md)"
        if 2 * self.not_utf8 > self.lost["unreadable"] and self.not_utf8 >= _MIN:
            yield "  most of the unreadable rows are not in UTF-8 (of CSV files, --csv-encoding names another encoding)"
        for where, outside in _LISTS.items():
            missed = self.lost[f"not in {where}"] + (self.overall or 0) * (where == "groups")
            if self.spellings[where] >= _MIN and 2 * self.spellings[where] > missed:
                yield f"  most {outside} are in it but for spaces or capital letters: compare the spelling"
        if sum(self.lost.values()) == self.total:
            yield f"  {NONE_LEFT}"
        yield from self._days()
        if self.groups:
            yield _with_few("groups", self.groups)
        for uri, (total, lost) in self.inputs.items():
            most = ", most" if lost >= _MIN and 2 * lost > total else ""
            yield f"  in {uri}: {self._said(total, exact)}, null or unreadable {self._said(lost, exact)}{most}"

    def _said(self, count: int, exact: bool) -> str:
        return f"{count:,}" if exact else order_of_magnitude(count)

    def _share(self, count: int) -> str:
        if count and count == self.total:
            return ", all"
        if count < _MIN:
            return ""
        return ", most" if 2 * count > self.total else ", fewer than half"

    def unread(self) -> int:
        return self.lost["null"] + self.lost["unreadable"]

    def _days(self) -> Iterator[str]:
        if self.period is None:
            return
        first, last = int(self.period.starts[0]) // _DAY, (int(self.period.ends[-1]) - 1) // _DAY
        days = {f"{from_microseconds(day * _DAY):%Y-%m-%d}": self.days[day] for day in range(first, last + 1)}
        yield _with_few("days (UTC) of the period", days)


def _with_few(what: str, rows: dict[str, int]) -> str:
    few = [name for name, count in rows.items() if count < _MIN]
    more = f" and {len(few) - _MAX_NAMED:,} more" if len(few) > _MAX_NAMED else ""
    return f"  {what} with fewer than 100 rows: {', '.join(few[:_MAX_NAMED]) or 'none'}{more}, of {len(rows):,}"


def data_quality_of(report: Report) -> DataQuality:
    """Read the input once, here. Cost: about that of reading it in a run.

    Raises InvalidArgument if only a run can read it.
    """
    period, domain = report.question.period, report.question.top_k.domain
    look, groups = DataQuality(period=period), report.question.top_k.groups
    listed = {"domain": domain if domain.is_public else None, "groups": None if groups is None else groups.labels}
    spelled = {name: _Spelled(labels) for name, labels in listed.items() if labels is not None}
    if groups is not None:
        look.groups = dict.fromkeys(map(groups.name, range(groups.labels.size)), 0)
        look.overall = 0 if groups.overall else None
    parts = report.source.parts()
    for part in parts:
        there, columns = part.rows(period), part.columns.within(period)
        if there is None:
            raise InvalidArgument(
                "show_dropped_rows",
                f"cannot look at {verbatim(part.uri)} before a run",
                "files and Kafka topics can be looked at; a run tells afterwards",
            )
        before = look.total, look.unread()
        for rows in there:
            _add(look, rows, columns, report.question.top_k, spelled, part.uri)
        if len(parts) > 1:
            look.inputs[part.uri] = look.total - before[0], look.unread() - before[1]
    return look


def _add(
    look: DataQuality, rows: Rows, columns: Columns, spec: TopK, spelled: Mapping[str, _Spelled], uri: str
) -> None:
    block, missing = block_of(rows, columns)
    look.total += len(next(iter(rows.columns.values())))
    for reason in ("null", "unreadable"):
        look.lost[reason] += missing.get(reason, 0)
    if missing.get("unreadable"):
        _add_shapes(look, rows, columns)
        masks = [mask for name in columns.names() for mask in texts_of(rows.columns[name])[1]]
        look.not_utf8 += max((pc.sum(mask).as_py() or 0 for mask in masks), default=0)
    if look.period is not None:
        times = block["time"].to_numpy()
        first, after = look.period.spans(times)
        inside = first < after
        look.lost["outside the period"] += (outside_it := int((~inside).sum()))
        look.untimed[uri] += outside_it + missing.get("unreadable", 0)
        if not inside.all() or missing.get("unreadable"):
            _try_units(look, rows, columns, uri)
        for day, count in zip(*np.unique(times[inside] // _DAY, return_counts=True), strict=True):
            look.days[int(day)] += int(count)
        block = block.filter(pa.array(inside))
    found = rankable(block, spec)
    in_groups = spec.groups is not None and not spec.groups.overall
    applies = (bool(spec.score.columns), in_groups, "domain" in spelled)
    for (reason, count), told in zip(found.dropped.items(), applies, strict=True):
        if told:
            look.lost[reason.replace("_", " ")] += count
    outside = {"domain": found.unknown}
    if spec.groups is not None:
        outside["groups"] = block["group"]
        counts = np.bincount(found.rows["group"], minlength=spec.groups.size).tolist()
        look.overall = look.overall + counts.pop() if look.overall is not None else None
        for name, count in zip(look.groups, counts, strict=True):
            look.groups[name] += count
    for name, each in spelled.items():
        look.spellings[name] += each.misspelt(outside[name])


def _add_shapes(look: DataQuality, rows: Rows, columns: Columns) -> None:
    for column, read in (
        (columns.time, lambda times: to_microseconds(times, columns.unit)),
        (columns.value, as_numbers),
    ):
        if column is None:
            continue
        values, _ = texts_of(rows.columns[column])
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            continue
        texts = values.filter(pc.and_(values.is_valid(), read(values).is_null()))
        texts = texts.filter(pc.less_equal(pc.utf8_length(texts), _MAX_LONG))
        for mark, kind in (("9", r"\p{Nd}"), ("a", r"\p{L}")):
            texts = pc.replace_substring_regex(texts, kind, mark)
        for shape in pc.value_counts(texts).to_pylist():
            look.shapes[column, shape["values"]] += shape["counts"]


def _try_units(look: DataQuality, rows: Rows, columns: Columns, uri: str) -> None:
    assert columns.time is not None and look.period is not None
    times, _ = texts_of(rows.columns[columns.time])
    read = {unit: to_microseconds(times, unit) for unit in _UNITS}
    inside = {}
    for unit, values in read.items():
        first, after = look.period.spans(values.fill_null(-(2**62)).to_numpy(zero_copy_only=False))
        inside[unit] = first < after
    for unit in _UNITS:
        if unit != columns.unit:
            look.units[uri, unit] += int((inside[unit] & ~inside[columns.unit]).sum())


class _Spelled:
    """A public list, and its labels without spaces around them and capital letters."""

    def __init__(self, listed: CodedDomain) -> None:
        labels = listed.spellings()
        self._listed, self._plain = listed, None if labels is None else _plain(labels)

    def misspelt(self, labels: pa.Array) -> int:
        """How many of the labels are outside the list, and would be in it in another spelling."""
        if self._plain is None or not len(labels):
            return 0
        outside = labels.filter(pa.array(self._listed.encode(labels) < 0))
        return pc.sum(pc.is_in(_plain(outside), value_set=self._plain)).as_py() or 0


def _plain(labels: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim_whitespace(labels.cast(pa.large_string())))
