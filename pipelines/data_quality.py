"""A check of the rows before a run, for the operator only: how many would be dropped, and what may be wrong with them.

None of this is differentially private, so by default it is as coarse as the metrics of a job: orders of magnitude from
100 rows on, and shares in words. Only those who may read the rows should see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.dropped_rows import NONE_LEFT, heading
from private_topk.pipelines.report import Report
from private_topk.pipelines.sources.columns import Columns, Rows, block_of, texts_of, to_microseconds
from private_topk.transforms.counters import order_of_magnitude
from private_topk.transforms.domain import CodedDomain
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.metric import as_numbers
from private_topk.transforms.rows import rankable
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period, from_microseconds

_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_DAY = 86_400_000_000
_MIN, _MAX_DAYS = 100, 10
_MAX_SHAPES, _MAX_LONG = 3, 40
_SPELLINGS = ("spaces around them", "capital letters", "spaces and capital letters")


@dataclass
class DataQuality:
    """Statistics of the rows.

    Args:
        lost: rows that would be dropped, by reason; each row once.
        units: of the rows that are outside the period or have no readable time, how many would be inside if numbers
            were in another unit.
        spellings: of the rows with items outside the domain, how many would be in it in another spelling.
        shapes: of the texts that are no time, or no amount, how many look alike: by column, with 9 for every digit and
            a for every letter.
        days: rows inside, by day since 1970 UTC.
    """

    total: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    spellings: dict[str, int] = field(default_factory=dict)
    shapes: dict[tuple[str, str], int] = field(default_factory=dict)
    days: dict[int, int] = field(default_factory=dict)
    period: Period | None = None

    def lines(self, exact: bool = False) -> Iterator[str]:
        """The lines for the operator."""
        yield f"rows {heading(exact)}:"
        yield f"  in the input: {self._said(self.total, exact)}"
        for reason, count in self.lost.items():
            yield f"  {reason}: {self._said(count, exact)}{self._share(count)}"
        for unit, count in self.units.items():
            if 2 * count > self._missed() and count >= _MIN:
                yield (
                    f"  the times look like {_UNITS[unit]}: read so, most of those outside lie in the period "
                    f"(--time-unit {unit})"
                )
        for (column, shape), count in sorted(self.shapes.items(), key=lambda one: -one[1])[:_MAX_SHAPES]:
            if count >= _MIN:
                told = self._said(count, exact)
                yield f"  {told} of {column!r} are like {shape}, which is not read (docs/formats.md)"
        for spelling, count in self.spellings.items():
            if 2 * count > self.lost.get("not in domain", 0) and count >= _MIN:
                yield f"  most items outside the domain are in it but for {spelling}: compare the spelling"
                break
        if sum(self.lost.values()) == self.total:
            yield f"  {NONE_LEFT}"
        yield from self._days()

    def _said(self, count: int, exact: bool) -> str:
        return f"{count:,}" if exact else order_of_magnitude(count)

    def _share(self, count: int) -> str:
        if count and count == self.total:
            return ", all"
        if count < _MIN:
            return ""
        return ", most" if 2 * count > self.total else ", fewer than half"

    def _missed(self) -> int:
        return self.lost.get("outside the period", 0) + self.lost.get("unreadable", 0)

    def _days(self) -> Iterator[str]:
        if self.period is None:
            return
        first, last = int(self.period.starts[0]) // _DAY, (int(self.period.ends[-1]) - 1) // _DAY
        few = [day for day in range(first, last + 1) if self.days.get(day, 0) < _MIN]
        named = ", ".join(f"{from_microseconds(day * _DAY):%Y-%m-%d}" for day in few[:_MAX_DAYS])
        more = f" and {len(few) - _MAX_DAYS:,} more" if len(few) > _MAX_DAYS else ""
        yield f"  days (UTC) of the period with fewer than 100 rows: {named or 'none'}{more}, of {last - first + 1:,}"


def data_quality_of(report: Report) -> DataQuality:
    """Read the input once, here. Cost: about that of reading it in a run.

    Raises InvalidArgument if only a run can read it.
    """
    period, domain = report.question.input_period, report.question.top_k.domain
    parts = report.source.rows(period)
    if parts is None:
        raise InvalidArgument(
            "show_dropped_rows",
            f"cannot look at {verbatim(report.source.uri)} before a run",
            "files and Kafka topics can be looked at; a run tells afterwards",
        )
    columns = report.source.columns.within(period)
    look = DataQuality(period=period)
    spelled = _Spelled(domain) if domain.is_public else None
    for rows in parts:
        _add(look, rows, columns, report.question.top_k, spelled)
    return look


def _add(look: DataQuality, rows: Rows, columns: Columns, spec: TopK, spelled: _Spelled | None) -> None:
    block, missing = block_of(rows, columns)
    look.total += len(next(iter(rows.columns.values())))
    for reason in ("null", "unreadable"):
        _count(look.lost, reason, missing.get(reason, 0))
    if missing.get("unreadable"):
        _add_shapes(look, rows, columns)
    if look.period is not None:
        times = block["time"].to_numpy()
        first, after = look.period.spans(times)
        inside = first < after
        _count(look.lost, "outside the period", int((~inside).sum()))
        if not inside.all() or missing.get("unreadable"):
            _try_units(look, rows, columns)
        for day, count in zip(*np.unique(times[inside] // _DAY, return_counts=True), strict=True):
            look.days[int(day)] = look.days.get(int(day), 0) + int(count)
        block = block.filter(pa.array(inside))
    found = rankable(block, spec.domain, spec.groups, spec.amounts)
    applies = (spec.amounts is not None, spec.groups is not None, spelled is not None)
    for (reason, count), told in zip(found.dropped.items(), applies, strict=True):
        if told:
            _count(look.lost, reason.replace("_", " "), count)
    if spelled is not None:
        spelled.add(found.unknown, look.spellings)


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
            alike = (column, shape["values"])
            look.shapes[alike] = look.shapes.get(alike, 0) + shape["counts"]


def _try_units(look: DataQuality, rows: Rows, columns: Columns) -> None:
    assert columns.time is not None and look.period is not None
    times, _ = texts_of(rows.columns[columns.time])
    read = {unit: to_microseconds(times, unit) for unit in _UNITS}
    inside = {}
    for unit, values in read.items():
        first, after = look.period.spans(values.fill_null(-(2**62)).to_numpy(zero_copy_only=False))
        inside[unit] = first < after
    for unit in _UNITS:
        if unit != columns.unit:
            _count(look.units, unit, int((inside[unit] & ~inside[columns.unit]).sum()))


class _Spelled:
    """The domain, and its items in normalised spellings."""

    def __init__(self, domain: CodedDomain) -> None:
        self._domain = domain
        labels = domain.spellings()
        self._plain = {} if labels is None else {name: _without(labels, name) for name in _SPELLINGS}

    def add(self, items: pa.Array, spellings: dict[str, int]) -> None:
        """Count those of the items outside the domain that would be in it in another spelling."""
        outside = items.filter(pa.array(self._domain.encode(items) < 0)) if len(items) else items
        for name, known in self._plain.items():
            if len(outside):
                _count(spellings, name, pc.sum(pc.is_in(_without(outside, name), value_set=known)).as_py() or 0)


def _without(labels: pa.Array, spelling: str) -> pa.Array:
    labels = labels.cast(pa.large_string())
    labels = pc.utf8_trim_whitespace(labels) if "spaces" in spelling else labels
    return pc.utf8_lower(labels) if "capital" in spelling else labels


def _count(counts: dict[str, int], name: str, more: int) -> None:
    counts[name] = counts.get(name, 0) + more
