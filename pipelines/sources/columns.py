"""From the columns of a file to a block: which columns are read, which values are valid, which rows are dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.release.identity import NONE_MEANS, OMIT_IF_DEFAULT
from private_topk.transforms.columnar import as_labels, make_block
from private_topk.transforms.composite import composite_column, names_of
from private_topk.transforms.errors import InvalidArgument, did_you_mean, kind_shown, verbatim
from private_topk.transforms.labels import only_labels
from private_topk.transforms.metric import NUMERAL, as_numbers
from private_topk.transforms.types import Meaning, is_binary, is_text, kind_of, rule_of, type_name, written_out

ROLES = ("user", "item", "time", "value", "group")
MEANINGS: dict[str, Meaning] = {"time": "time", "value": "amount"}
"""The kinds of values in columns that hold no labels, by the role of the column."""

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
"""Microseconds in each; a nanosecond counts as the microsecond that it lies in."""
Types = Mapping[str, pa.DataType]
"""The types of columns that are known before a row is read: of texts, and in JSON, each value has its own."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns. `time` is None where the rows are not cut by event time.

    `time_unit` is what a plain number means: s, ms, us or ns since 1970 UTC. Timestamps, dates and ISO 8601 texts say
    it themselves; those without a time zone are in UTC. None means s where numbers are written as text, and a column
    whose type says that it holds numbers is refused.

    `quoted_line_ends` lets a quoted CSV value hold line ends. It costs the independence of rows: a value with an
    unclosed quote then takes along every row up to the next quote, whoever's they are.

    `delimiter` stands between the values of a CSV line; `encoding` is that of CSV files, as Python calls it.

    `constants` are columns that every row has with one value, as if in a folder `country=DE`: the rows themselves lack
    them.

    `value` holds the amounts that are added up; None where users are counted. `group` holds the group that a row is of;
    None where there is one ranking for all. `item` and `group` may be several columns, in the order of their tuple: a
    row's item is then all of their values together.
    """

    identity_tag: ClassVar[str] = "columns"
    public: ClassVar[bool] = False
    """Whether the first line of a CSV file may be shown where it is no header, and so perhaps a row."""

    user: str = "user"
    item: str | Sequence[str] = "item"
    time: str | None = None
    time_unit: str | None = field(default=None, metadata={NONE_MEANS: "s"})
    quoted_line_ends: bool = False
    value: str | None = field(default=None, metadata={OMIT_IF_DEFAULT: True})
    group: str | Sequence[str] | None = field(default=None, metadata={OMIT_IF_DEFAULT: True})
    delimiter: str = field(default=",", metadata={OMIT_IF_DEFAULT: True})
    encoding: str = field(default="utf-8", metadata={OMIT_IF_DEFAULT: True})
    constants: tuple[tuple[str, str], ...] = field(default=(), metadata={OMIT_IF_DEFAULT: True})

    def __post_init__(self) -> None:
        for role in ROLES:
            name = getattr(self, role)
            if name is None and role not in ("user", "item"):
                continue
            if role in ("item", "group"):
                names = names_of(f"{role}_column", "" if self.public else role, name)
                object.__setattr__(self, role, names if len(names) > 1 else names[0])
            elif not (isinstance(name, str) and name):
                rule = f"must be the name of a column, got {kind_shown(name)}"
                raise InvalidArgument(f"{role}_column", rule, "give its name as a text")
        others = {self.user, self.time, *self.of("item")}
        if self.value is not None and self.value in others:
            raise InvalidArgument(
                "value_column", "must be another column than {user_column}, {item_column} and {time_column}"
            )
        if {self.value, *others} & {*self.of("group")}:
            raise InvalidArgument(
                "group_column", "must be another column than {user_column}, {item_column} and {time_column}"
            )
        if self.time_unit not in (None, *UNITS):
            raise InvalidArgument("time_unit", f"must be one of {', '.join(UNITS)}, got {kind_shown(self.time_unit)}")

    @property
    def unit(self) -> str:
        """What a plain number in the column of times counts."""
        return self.time_unit or "s"

    def of(self, role: str) -> tuple[str, ...]:
        """The names of the columns that have a role, in their order."""
        names = getattr(self, role)
        return names if isinstance(names, tuple) else () if names is None else (names,)

    def by_role(self) -> dict[str, str | tuple[str, ...]]:
        """The names of the columns that are read, by what each is: one of `ROLES`."""
        return {role: getattr(self, role) for role in ROLES if getattr(self, role) is not None}

    def each(self) -> list[tuple[str, str]]:
        """Every column that is read, as its role and its name."""
        return [(role, name) for role in ROLES for name in self.of(role)]

    def has_integers(self, types: Types) -> bool:
        """Whether items are integers, by the type of their column: those of several columns are none."""
        items = self.of("item")
        return len(items) == 1 and is_int64(types.get(items[0], pa.null()))

    def may_lack_zone(self, types: Types) -> bool:
        """Whether a time may have no zone, by the type of their column: of texts, each says."""
        kind = pa.string() if self.time is None else types.get(self.time, pa.string())
        if pa.types.is_timestamp(kind):
            return kind.tz is None
        return not getattr(kind_of(kind), "counts", False)

    def manner(self) -> dict[str, Any]:
        """How the columns are read, where that is not the default: all fields that are no role."""
        usual = {each.name: (each.default, each.metadata.get(NONE_MEANS)) for each in fields(self)}
        given = {name: getattr(self, name) for name in usual if name not in ROLES}
        if self.time is None:
            del given["time_unit"]
        return {name: value for name, value in given.items() if value not in usual[name]}

    def names(self) -> list[str]:
        """The names of the columns that are read, without duplicates."""
        return list(dict.fromkeys(name for _, name in self.each()))

    def labels(self) -> list[str]:
        """The names of the columns of labels: users, items and groups."""
        return [name for role, name in self.each() if role in ("user", "item", "group")]

    def within(self, period: object) -> Columns:
        """The columns that are read for a period: without times where it is None."""
        return self if period is not None else replace(self, time=None)

    def check(self, role: str, name: str, kind: pa.DataType, where: str = "", called: str = "") -> None:
        """Raise InvalidArgument if the type of a column cannot have a role.

        Args:
            where: the file or the schema that has the column; empty for a table in memory.
            called: the type in the words of whoever wrote the column.
        """
        broken = rule_of(MEANINGS.get(role, "label"), kind, called)
        if broken is not None:
            opening = f"{where}: column {name!r} cannot be used" if where else f"cannot be the column {name!r}"
            raise InvalidArgument("" if where else role, verbatim(f"{opening}: {broken.rule}"), verbatim(broken.remedy))
        known = kind_of(kind)
        if role == "time" and self.time_unit is None and known is not None and known.counts:
            rule = f"must be given: column {name!r} has numbers, of type {called or type_name(kind)}"
            rule += f", in {where}" if where else ""
            raise InvalidArgument(
                "time_unit", verbatim(rule), f"say what they count since 1970 UTC: {', '.join(UNITS)}"
            )

    def check_apart(self, period: object) -> None:
        """Raise InvalidArgument if one column is to be two of user, item and time: no type is fit for each in every
        format; or if a constant is no column that is read, is the user, or makes every row unreadable.
        """
        if self.user in self.of("item"):
            raise InvalidArgument(
                "user_column",
                "must be another column than {item_column}",
                "the one says who a row is of, the other what is ranked",
            )
        if period is not None and self.time in (self.user, *self.of("item")):
            raise InvalidArgument(
                "time_column",
                "must be another column than {user_column} and {item_column}",
                "it says when a row was; where it is ranked too, write it twice",
            )
        given = [name for name, _ in self.constants]
        if self.user in given:
            rule = f"must not have {self.user!r}, the column of users: all rows would be of one user"
            raise InvalidArgument("constants", verbatim(rule), "write users into the rows")
        known = self.within(period).names()
        if unread := [name for name in given if name not in known]:
            rule = f"must be columns that are read, got {unread[0]!r}"
            remedy = did_you_mean(unread[0], known, f"read are {', '.join(known)}")
            raise InvalidArgument("constants", verbatim(rule), verbatim(remedy))
        if len({*given}) < len(given) or not all(value for _, value in self.constants):
            rule = f"must have each column once, with a value, got {', '.join(map('='.join, self.constants))}"
            raise InvalidArgument("constants", verbatim(rule))
        for name, value in self.constants:
            row = {each: pa.array([value if each == name else "0"]) for each in known}
            if block_of(Rows(row), self.within(period))[1]:
                rule = f"must have values that can be read in a row, got {name}={value}"
                remedy = "write a time as 2026-01-05 or 2026-01-05T10:30:00Z, and an amount as 3.5"
                raise InvalidArgument("constants", verbatim(rule), remedy)


class Rows(NamedTuple):
    """Columns of rows as their format stores them, null where a value is missing; texts may be bytes.

    `unreadable` marks the rows that the format itself could not read; None if there are none. `causes` counts what is
    wrong with them, in words that hold nothing of a row, and costs only whoever asks. `arrived` is when each came
    (microseconds since 1970 UTC), where that decides which are late.
    """

    columns: dict[str, pa.Array]
    unreadable: pa.Array | None = None
    causes: Callable[[], Mapping[str, int]] = dict
    arrived: np.ndarray | None = None


def block_of(
    rows: Rows, columns: Columns, arrived: Sequence[int] | np.ndarray | None = None
) -> tuple[pa.RecordBatch, dict[str, int]]:
    """A block of the rows that have every value, and how many were dropped, by reason.

    A row is unreadable if its format cannot read it, if a text is not UTF-8, or if its time or its amount is invalid;
    otherwise null if it lacks a value. One without a group has the group "", which no list has: where all rows are
    ranked, it counts.

    Args:
        arrived: the values of a column of this name, one for each row.
    """
    arrays, unreadable = read_rows(rows, columns)
    if "group" in arrays:
        arrays["group"] = arrays["group"].fill_null("")
    block, missing = make_block(**arrays)
    if arrived is not None:
        valid = [np.asarray(array.is_valid()) for array in arrays.values()]
        block = block.append_column("arrived", pa.array(np.asarray(arrived, np.int64)[np.logical_and.reduce(valid)]))
    if not missing:
        return block, {}
    bad = pc.sum(unreadable).as_py() or 0 if unreadable is not None else 0
    return block, {reason: count for reason, count in (("unreadable", bad), ("null", missing - bad)) if count}


def read_rows(rows: Rows, columns: Columns) -> tuple[dict[str, pa.Array], pa.Array | None]:
    """The columns by role, null where a value is missing; and a mask of unreadable rows, None if there are none."""
    arrays, masks = {}, [rows.unreadable] if rows.unreadable is not None else []
    for role in ("user", "item", "group"):
        if names := columns.of(role):
            arrays[role], bad = _labels([rows.columns[name] for name in names])
            masks += bad
    for role, column in (("time", columns.time), ("value", columns.value)):
        if column is not None:
            values, bad = texts_of(rows.columns[column])
            values = null_if_empty(values) if is_text(values.type) else values
            arrays[role] = to_microseconds(values, columns.unit) if role == "time" else as_numbers(values)
            masks += bad
            if arrays[role].null_count > values.null_count:
                masks.append(pc.and_(pc.is_valid(values), pc.is_null(arrays[role])))
    if not masks:
        return arrays, None
    unreadable = pa.array(np.logical_or.reduce([np.asarray(mask) for mask in masks]))
    nothing = pa.nulls(len(unreadable), arrays["user"].type)
    return arrays | {"user": pc.if_else(unreadable, nothing, arrays["user"])}, unreadable


def _labels(columns: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
    """Labels, null where there is none, and masks of the unreadable ones; of several columns composites."""
    if len(columns) > 1:
        parts, masks = zip(*(_labels([column]) for column in columns), strict=True)
        labels, unfit = only_labels(composite_column(parts))
        bad = [mask for some in masks for mask in some]
    else:
        texts, bad = texts_of(columns[0])
        labels, unfit = only_labels(as_labels(texts))
    return labels, bad if unfit is None else [*bad, unfit]


def texts_of(values: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
    """Bytes as text, null where they are not UTF-8, with a mask of these if there are any. Other types stay, as
    `written_out` has them.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type) and is_binary(values.type.value_type):
        words, _ = texts_of(values.dictionary)
        texts = words.take(values.indices)
        return texts, [] if texts.null_count == values.null_count else [pc.and_(values.is_valid(), texts.is_null())]
    values = written_out(values)
    if not is_binary(values.type):
        return values, []
    try:
        return values.cast(pa.large_string()), []
    except pa.ArrowInvalid:
        pass
    texts = pa.array([_text(value) for value in values.to_pylist()], pa.large_string())
    return texts, [pc.and_(values.is_valid(), texts.is_null())]


def null_if_empty(values: pa.Array) -> pa.Array:
    """Texts or bytes with null in place of empty ones."""
    empty = pc.equal(pc.binary_length(values), 0)
    return pc.if_else(empty, pa.scalar(None, values.type), values) if pc.any(empty).as_py() else values


def as_bytes(values: pa.Array) -> pa.Array:
    """Texts as bytes, since Arrow does not check that texts are UTF-8: one row's invalid text must not affect others.
    Other types stay.
    """
    kind = values.type
    if pa.types.is_dictionary(kind) and is_text(kind.value_type):
        return pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(pa.large_binary()))
    return values.cast(pa.large_binary()) if is_text(kind) else values


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def is_int64(kind: pa.DataType) -> bool:
    """Whether all values of a type are integers of 64 bits with a sign."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_decimal(kind):
        return kind.scale == 0 and kind.precision <= 18
    return pa.types.is_integer(kind) and kind != pa.uint64()


_TEXT = (
    r"^([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?"
    r"(?: UTC| ?[Zz]| ?([+-][0-9]{2})(?::?([0-9]{2}))?)?)?$"
)
"""ISO 8601, also with a zone behind a blank, as BigQuery and Snowflake export times."""
_WHOLE = r"^[+-]?[0-9]+$"
_FARTHEST = 3_155_760_000_000_000_000  # microseconds in 100,000 years, well inside int64


def to_microseconds(times: pa.Array, unit: str) -> pa.Array:
    """Event times as microseconds since 1970 UTC, int64; null where a value is no time or farther than 100,000 years.

    Finer times are rounded down, floating-point ones that are not whole to the nearest (ties to even). What a value
    means never depends on the others of its column.

    Raises TypeError for a type that cannot be a time.
    """
    broken = rule_of("time", times.type)
    if broken is not None:
        raise TypeError(broken.rule)
    times = written_out(times)
    kind = times.type
    if pa.types.is_timestamp(kind):
        return _counted(times.cast(pa.int64()), kind.unit)
    if pa.types.is_date32(kind):
        return _scaled(times.cast(pa.int32()).cast(pa.int64()), 86_400_000_000)
    if pa.types.is_date64(kind):
        return _counted(times.cast(pa.int64()), "ms")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _counted(times, unit)
    if pa.types.is_null(kind):
        return times.cast(pa.int64())
    return _from_text(times.cast(pa.large_string()), unit)  # a decimal too, whose text is a number


def _counted(values: pa.Array, unit: str) -> pa.Array:
    """Microseconds of numbers that count a unit."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        return _of_floats(values.cast(pa.float64()), unit)
    if unit != "ns":
        return _scaled(values, UNITS[unit])
    if pa.types.is_uint64(values.type):
        values = pc.if_else(pc.less(values, pa.scalar(1 << 63, pa.uint64())), values, pa.scalar(None, values.type))
    return _micros_of(values.cast(pa.int64()))


def _of_floats(values: pa.Array, unit: str) -> pa.Array:
    """Microseconds of floats; of whole ones exactly, as if they were integers: 5.0 and 5 are the same time."""
    factor, most = UNITS[unit], 1 << 63 if unit == "ns" else _FARTHEST // UNITS[unit]
    values = pc.if_else(pc.less(pc.abs(values), float(most)), values, None)  # less is false for NaN
    floor = pc.floor(values).cast(pa.int64())
    exact = _micros_of(floor) if unit == "ns" else pc.multiply(floor, factor)
    scaled = pc.divide(values, 1000.0) if unit == "ns" else pc.multiply(values, float(factor))
    rounded = pc.round(scaled, round_mode="half_to_even").cast(pa.int64())
    return pc.if_else(pc.equal(values, pc.floor(values)), exact, rounded)


def _micros_of(nanos: pa.Array) -> pa.Array:
    """Microseconds, rounded down also before 1970, where Arrow's division and cast round up."""
    floor = np.floor_divide(nanos.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    return pa.array(floor, mask=np.asarray(nanos.is_null()))


def _scaled(values: pa.Array, factor: int) -> pa.Array:
    """values * factor as int64, null where the product would be out of range: it must never wrap into a window."""
    if values.type.bit_width == 64:
        most = _FARTHEST // factor
        least = 0 if pa.types.is_unsigned_integer(values.type) else 1 - most
        near = [pc.less(values, pa.scalar(most, values.type)), pc.greater_equal(values, pa.scalar(least, values.type))]
        values = pc.if_else(pc.and_(*near), values, pa.scalar(None, values.type))
    return pc.multiply(values.cast(pa.int64()), factor)


def _from_text(texts: pa.Array, unit: str) -> pa.Array:
    """Times of ISO 8601 texts and numbers, each read by itself.

    Arrow casts a column of one well-formed kind to the same times, and raises at the first other text. A column where
    it raises must not be read by other rules: then one user's odd text would change how other users' rows are read.
    """
    first = texts.slice(0, 1)
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            first.cast(kind)  # Arrow formats an error for every text before it raises one: slow if all are wrong
            return texts.cast(kind).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
    import polars as pl  # loads as long as the rest of this package

    micros = pl.Series("time", _from_numbers(texts, unit))
    if micros.null_count() > texts.null_count:
        micros = micros.fill_null(pl.Series("time", _from_calendar(texts)))
    return micros.to_arrow().cast(pa.int64())


def _from_numbers(texts: pa.Array, unit: str) -> pa.Array:
    """Times of numbers as in JSON, also with a plus sign, leading zeros or a bare point; null for other texts."""
    import polars as pl

    column = pl.Series("time", texts)
    whole = column.set(~column.str.contains(_WHOLE).fill_null(False), None).cast(pl.Int64, strict=False)
    micros = _counted(whole.to_arrow(), unit)
    if whole.null_count() == column.null_count():
        return micros
    others = column.set(~column.str.contains(NUMERAL).fill_null(False) | whole.is_not_null(), None)
    return pc.coalesce(micros, _counted(others.cast(pl.Float64, strict=False).to_arrow(), unit))


def _from_calendar(texts: pa.Array) -> pa.Array:
    """Times of ISO 8601 dates and times in digits; null for other texts, and for invalid dates and times."""
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
