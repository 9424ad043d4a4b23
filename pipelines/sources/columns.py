"""From the columns of a file to a block: which columns are read, what their values may be, what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.identity import IF_GIVEN
from private_topk.pipelines.sources.times import to_microseconds
from private_topk.transforms.columnar import LONGEST_LABEL, as_labels, make_block, type_name
from private_topk.transforms.errors import Refusal, refused, verbatim
from private_topk.transforms.metric import as_numbers

__all__ = [
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

_UNITS = ("s", "ms", "us")


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
        for role in ("user", "item", "time", "value", "group"):
            name = getattr(self, role)
            if not (isinstance(name, str) and name) and not (role not in ("user", "item") and name is None):
                raise Refusal(f"{role}_column", f"must be the name of a column, got {verbatim(repr(name))}")
        if self.value is not None and self.value in (self.user, self.item, self.time):
            raise Refusal("value_column", "must be another column than {user_column}, {item_column} and {time_column}")
        if self.group is not None and self.group in (self.user, self.item, self.time, self.value):
            raise Refusal("group_column", "must be another column than {user_column}, {item_column} and {time_column}")
        if self.time_unit not in _UNITS:
            raise Refusal("time_unit", f"must be one of {', '.join(_UNITS)}, got {verbatim(self.time_unit)}")

    def names(self) -> list[str]:
        return list(
            dict.fromkeys(
                name for name in (self.user, self.item, self.time, self.value, self.group) if name is not None
            )
        )

    def labels(self) -> list[str]:
        """Those whose values are labels, and neither times nor amounts."""
        return [name for name in (self.user, self.item, self.group) if name is not None]


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


def check_types(path: str, found: dict[str, pa.DataType], columns: Columns) -> None:
    """Raise Refusal unless the columns are there, users and items as labels, the time as a time, amounts as numbers."""
    for name in columns.names():
        if name not in found:
            raise refused(f"{path} has no column {name!r}: its columns are {', '.join(sorted(found))}; {SAY_WHICH}")
        try:
            empty = pa.array([], found[name])
            if name == columns.value:
                as_numbers(empty)
            else:
                to_microseconds(empty, columns.time_unit) if name == columns.time else as_labels(empty)
        except TypeError as error:
            raise refused(f"{path}: column {name!r} cannot be used: {error}") from None
        except pa.ArrowException:
            kind = type_name(found[name])
            raise refused(f"{path}: column {name!r} cannot be used: Arrow cannot convert {kind}") from None
