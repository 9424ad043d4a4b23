"""From the columns of a file to a block: which columns are read, what their values may be, what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.identity import IF_GIVEN
from private_topk.transforms.columnar import LONGEST_LABEL, as_labels, make_block, type_name
from private_topk.transforms.errors import Refusal, refused, verbatim
from private_topk.transforms.metric import as_numbers

__all__ = [
    "ROLES",
    "SAY_WHICH",
    "Columns",
    "Rows",
    "as_bytes",
    "block_of",
    "check_types",
    "is_text",
    "read_rows",
    "texts_of",
    "to_microseconds",
]

SAY_WHICH = "name the column that is meant as the user, item, time, value, group or domain column"

ROLES = ("user", "item", "time", "value", "group")
_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class Columns:
    """The names of the columns. `time` is None where the rows are not cut by event time.

    `time_unit` is what a plain number means: s, ms or us since 1970 UTC. Timestamps, dates and ISO 8601 texts say it
    themselves; those without a time zone are in UTC.

    `quoted_line_ends` lets a quoted CSV value hold line ends. It costs the independence of rows: a value with an
    unclosed quote then takes along every row up to the next quote, whoever's they are.

    `value` holds the amounts that are added up; None where users are counted. `group` holds the group that a row is of;
    None where there is one ranking for all.
    """

    identity_tag: ClassVar[str] = "columns"

    user: str = "user"
    item: str = "item"
    time: str | None = None
    time_unit: str = "s"
    quoted_line_ends: bool = False
    value: str | None = field(default=None, metadata={IF_GIVEN: True})
    group: str | None = field(default=None, metadata={IF_GIVEN: True})

    def __post_init__(self) -> None:
        for role in ROLES:
            name = getattr(self, role)
            if not (isinstance(name, str) and name) and not (role not in ("user", "item") and name is None):
                raise Refusal(f"{role}_column", f"must be the name of a column, got {verbatim(repr(name))}")
        if self.value is not None and self.value in (self.user, self.item, self.time):
            raise Refusal("value_column", "must be another column than {user_column}, {item_column} and {time_column}")
        if self.group is not None and self.group in (self.user, self.item, self.time, self.value):
            raise Refusal("group_column", "must be another column than {user_column}, {item_column} and {time_column}")
        if self.time_unit not in _UNITS:
            raise Refusal("time_unit", f"must be one of {', '.join(_UNITS)}, got {verbatim(self.time_unit)}")

    def by_role(self) -> dict[str, str]:
        """The names of the columns that are read, by what each is: one of `ROLES`."""
        return {role: getattr(self, role) for role in ROLES if getattr(self, role) is not None}

    def names(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(self.by_role().values()))

    def labels(self) -> list[str]:
        """Those whose values are labels, and neither times nor amounts."""
        return [name for role, name in self.by_role().items() if role in ("user", "item", "group")]

    def within(self, period: object) -> Columns:
        """Those that are read of rows of a period: where there is None, no times."""
        return self if period is not None else replace(self, time=None)

    def why_not(self, role: str, kind: pa.DataType) -> str | None:
        """Why a column of a type cannot be the one of a role; None where it can."""
        empty = pa.nulls(0, kind)
        try:
            if role == "time":
                to_microseconds(empty, self.time_unit)
            else:
                as_numbers(empty) if role == "value" else as_labels(empty)
        except TypeError as error:
            return str(error)
        except pa.ArrowException:
            return f"Arrow cannot convert {type_name(kind)}"
        return None


class Rows(NamedTuple):
    """The columns of some rows as their format has them, null where a value is missing; texts may be bytes.

    `unreadable` says of every row whether the format itself could not read it; None where it could read them all.
    """

    columns: dict[str, pa.Array]
    unreadable: pa.Array | None = None


def block_of(
    rows: Rows, columns: Columns, arrived: Sequence[int] | None = None
) -> tuple[pa.RecordBatch, dict[str, int]]:
    """A block of the rows that have every value, and how many were left out, by reason.

    A row is unreadable if its format cannot read it, if a text is no UTF-8, or if its time or its amount is none;
    otherwise null if it lacks a value.

    Args:
        arrived: for a column of this name, one a row.
    """
    found, unreadable = read_rows(rows, columns)
    whole, missing = make_block(
        found["user"], found["item"], found.get("time"), found.get("amount"), found.get("group")
    )
    if arrived is not None:
        valid = [np.asarray(array.is_valid()) for array in found.values()]
        whole = whole.append_column("arrived", pa.array(np.asarray(arrived, np.int64)[np.logical_and.reduce(valid)]))
    if not missing:
        return whole, {}
    bad = pc.sum(unreadable).as_py() or 0 if unreadable is not None else 0
    return whole, {reason: count for reason, count in (("unreadable", bad), ("null", missing - bad)) if count}


def read_rows(rows: Rows, columns: Columns) -> tuple[dict[str, pa.Array], pa.Array | None]:
    """The columns by their role, row by row, null where there is no value; and which are unreadable, None for none."""
    found, masks = {}, [rows.unreadable] if rows.unreadable is not None else []
    for role, name in (("user", columns.user), ("item", columns.item), ("group", columns.group)):
        if name is not None:
            found[role], bad = _labels(rows.columns[name])
            masks += bad
    for role, column in (("time", columns.time), ("amount", columns.value)):
        if column is not None:
            given, bad = texts_of(rows.columns[column])
            found[role] = to_microseconds(given, columns.time_unit) if role == "time" else as_numbers(given)
            masks += bad
            if found[role].null_count > given.null_count:
                masks.append(pc.and_(pc.is_valid(given), pc.is_null(found[role])))
    if not masks:
        return found, None
    unreadable = _any(masks)
    nothing = pa.nulls(len(unreadable), found["user"].type)
    return found | {"user": pc.if_else(unreadable, nothing, found["user"])}, unreadable


def _labels(values: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
    """Labels, null where they are unreadable, and where that is."""
    texts, bad = texts_of(values)
    labels = as_labels(texts)
    too_long = pc.greater(pc.binary_length(labels), LONGEST_LABEL)
    if pc.any(too_long).as_py():
        too_long = too_long.fill_null(False)
        return pc.if_else(too_long, pa.scalar(None, labels.type), labels), [*bad, too_long]
    return labels, bad


def texts_of(values: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
    """Bytes as text, null where they are no UTF-8; where that is, unless nowhere. Other types as they are."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type) and _is_binary(values.type.value_type):
        words, _ = texts_of(values.dictionary)
        texts = words.take(values.indices)
        return texts, [] if texts.null_count == values.null_count else [pc.and_(values.is_valid(), texts.is_null())]
    if not _is_binary(values.type):
        return values, []
    try:
        return values.cast(pa.large_string()), []
    except pa.ArrowInvalid:
        pass
    texts = pa.array([_text(value) for value in values.to_pylist()], pa.large_string())
    return texts, [pc.and_(values.is_valid(), texts.is_null())]


def as_bytes(values: pa.Array) -> pa.Array:
    """Texts as bytes: Arrow takes any bytes for text, and what is no UTF-8 is one row's matter. Others as they are."""
    kind = values.type
    if pa.types.is_dictionary(kind) and is_text(kind.value_type):
        return pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(pa.large_binary()))
    return values.cast(pa.large_binary()) if is_text(kind) else values


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _any(masks: Iterable[pa.Array]) -> pa.Array:
    return pa.array(np.logical_or.reduce([np.asarray(mask) for mask in masks]))


def check_types(path: str, kinds: dict[str, pa.DataType], columns: Columns) -> None:
    """Raise Refusal unless the columns are there, users and items as labels, the time as a time, amounts as numbers."""
    for role, name in columns.by_role().items():
        if name not in kinds:
            raise refused(f"{path} has no column {name!r}: it has: {', '.join(sorted(kinds))}; {SAY_WHICH}")
        rule = columns.why_not(role, kinds[name])
        if rule is not None:
            raise refused(f"{path}: column {name!r} cannot be used: {rule}")


_TEXT = (r"^([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?"
         r"(?:[Zz]|([+-][0-9]{2})(?::?([0-9]{2}))?)?)?$")  # fmt: skip
_WHOLE = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_FARTHEST = 3_155_760_000_000_000_000  # microseconds in 100,000 years, well inside int64


def to_microseconds(times: pa.Array, unit: str) -> pa.Array:
    """Event times as microseconds since 1970 UTC, int64; null where a value is no time or farther than 100,000 years.

    Finer times are rounded down, floating-point ones that are not whole to the nearest (ties to even). What a value
    means never depends on the others of its column.

    Raises TypeError for a type that cannot be a time.
    """
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks()
    if pa.types.is_dictionary(times.type):
        times = times.dictionary_decode()
    kind = times.type
    if pa.types.is_timestamp(kind):
        ticks = times.cast(pa.int64())
        return _micros_of(ticks) if kind.unit == "ns" else _scaled(ticks, _UNITS[kind.unit])
    if pa.types.is_date32(kind):
        return _scaled(times.cast(pa.int32()).cast(pa.int64()), 86_400_000_000)
    if pa.types.is_date64(kind):
        return _scaled(times.cast(pa.int64()), _UNITS["ms"])
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _scaled(times, _UNITS[unit])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _from_text(times.cast(pa.large_string()), unit)
    if pa.types.is_null(kind):
        return times.cast(pa.int64())
    raise TypeError(f"event times must be timestamps, dates, numbers or ISO 8601 texts, got {type_name(kind)}")


def _micros_of(nanos: pa.Array) -> pa.Array:
    """Rounded down on both sides of 1970; Arrow's own division and cast round towards it."""
    floor = np.floor_divide(nanos.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    return pa.array(floor, mask=np.asarray(nanos.is_null()))


def _scaled(values: pa.Array, factor: int) -> pa.Array:
    """values * factor as int64, null where the product would be out of range: it must never wrap into a window."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        return _scaled_floats(values.cast(pa.float64()), factor)
    if values.type.bit_width == 64:
        most = _FARTHEST // factor
        least = 0 if pa.types.is_unsigned_integer(values.type) else 1 - most
        near = [pc.less(values, pa.scalar(most, values.type)), pc.greater_equal(values, pa.scalar(least, values.type))]
        values = pc.if_else(pc.and_(*near), values, pa.scalar(None, values.type))
    return pc.multiply(values.cast(pa.int64()), factor)


def _scaled_floats(values: pa.Array, factor: int) -> pa.Array:
    """Whole numbers exactly, as if they were integers: 5.0 and 5 are one time, however a library writes them."""
    near = pc.less(pc.abs(values), float(_FARTHEST // factor))  # false for NaN
    values = pc.if_else(near, values, None)
    whole = pc.equal(values, pc.floor(values))
    exact = pc.multiply(pc.floor(values).cast(pa.int64()), factor)
    rounded = pc.round(pc.multiply(values, float(factor)), round_mode="half_to_even").cast(pa.int64())
    return pc.if_else(whole, exact, rounded)


def _from_text(texts: pa.Array, unit: str) -> pa.Array:
    """ISO 8601 texts and numbers, each by itself.

    Arrow casts whole columns of one well-formed kind to the same times, and raises at the first other text. What it
    raises at must not be read by another rule: users whose times are written oddly would take other users' rows along.
    """
    first = texts.slice(0, 1)
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            first.cast(kind)  # Arrow makes up an error for every text before it raises one: slow, where all are wrong
            return texts.cast(kind).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
    import polars as pl  # loads as long as the rest of this package

    found = pl.Series("time", _from_numbers(texts, unit))
    if found.null_count() > texts.null_count:
        found = found.fill_null(pl.Series("time", _from_calendar(texts)))
    return found.to_arrow().cast(pa.int64())


def _from_numbers(texts: pa.Array, unit: str) -> pa.Array:
    """Numbers as JSON writes them, with a sign, leading zeros and a bare point besides; null for others."""
    import polars as pl

    column = pl.Series("time", texts)
    whole = column.set(~column.str.contains(_WHOLE).fill_null(False), None).cast(pl.Int64, strict=False)
    found = _scaled(whole.to_arrow(), _UNITS[unit])
    if whole.null_count() == column.null_count():
        return found
    others = column.set(~column.str.contains(_NUMBER).fill_null(False) | whole.is_not_null(), None)
    return pc.coalesce(found, _scaled(others.cast(pl.Float64, strict=False).to_arrow(), _UNITS[unit]))


def _from_calendar(texts: pa.Array) -> pa.Array:
    """Dates and times of ISO 8601 in digits; null for others, and for what no calendar or clock shows."""
    import polars as pl

    parts = pl.Series("time", texts).str.extract_groups(_TEXT).struct.unnest()
    columns = parts.get_columns()
    fraction = columns[6].fill_null("").str.slice(0, 6).str.pad_end(6, "0")
    numbers = [column.cast(pl.Int64).fill_null(0).to_numpy() for column in (*columns[:6], fraction, *columns[7:])]
    year, month, day, hour, minute, second, micro, zone, past = numbers
    months = (year * 12 + month - 1 - 1970 * 12).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    real = (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("datetime64[M]") == months)
    real &= (hour < 24) & (minute < 60) & (second < 60) & (np.abs(zone) < 24) & (past < 60)
    behind = columns[7].str.starts_with("-").fill_null(False).to_numpy()
    offset = 60 * zone + np.where(behind, -past, past)
    seconds = days.astype(np.int64) * 86_400 + hour * 3600 + (minute - offset) * 60 + second
    return pa.array(seconds * 1_000_000 + micro, mask=~real | columns[0].is_null().to_numpy())
