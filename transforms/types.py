"""What a value means by its type: the one table by which files, frames and elements of pipelines are read.

A column of a file or a frame has a type, and so have elements whose type is declared: what no value of it can mean is
refused by that type, before any row. A value without a declared type is read by its own, and dropped by itself where
it means nothing, so that no user's row decides how another's is read.

Other systems of types are told in Arrow's: Avro's in `pipelines/sources/avro_schema.py`, Python's here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Meaning = Literal["label", "time", "amount"]
"""As what a value is read: a user, an item or a group; a time; an amount."""


@dataclass(frozen=True)
class Kind:
    """One row of the table: types whose values mean the same.

    Args:
        name: in documents.
        is_it: whether a type of Arrow is of this kind.
        label, time, amount: what a value means there; None where the type is refused.
        arrow, avro, python: what the types are called there.
        remedy: how users and items of this type become ones that can be read.
        counts: whether a time of this kind counts a unit that the type does not say.
    """

    name: str
    is_it: Callable[[pa.DataType], bool]
    label: str | None
    time: str | None
    amount: str | None
    arrow: str
    avro: str
    python: str
    remedy: str = ""
    counts: bool = False

    @property
    def digits(self) -> bool:
        """Whether labels of this kind are whole numbers and nothing else."""
        return self.counts and self.label is not None

    @property
    def fractions(self) -> bool:
        """Whether values of this kind are numbers that may have a fraction."""
        return self.counts and self.label is None

    def means(self, meaning: Meaning) -> str | None:
        found: str | None = getattr(self, meaning)
        return found


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _is_whole(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) and kind.scale <= 0


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


_DIGITS = 'its decimal digits, so 5 and "5" are one user'
_COUNTED = "counts the `--time-unit` since 1970 UTC"
_AS_TEXT = "as that text"
_FRACTION = "the same; whole ones exactly, others to the nearest microsecond, ties to even"
TO_TEXT = "write it as text"

KINDS: tuple[Kind, ...] = (
    Kind(
        "text",
        is_text,
        "itself, letter by letter: no trimming, no other case",
        "ISO 8601, or a number",
        "a number, or unreadable",
        "string, large_string, string_view, json",
        "string, enum",
        "str",
    ),
    Kind(
        "bytes",
        is_binary,
        "the text that they are in UTF-8, or unreadable",
        _AS_TEXT,
        _AS_TEXT,
        "binary, large_binary, binary_view",
        "bytes",
        "bytes",
    ),
    Kind(
        "UUID",
        _is_uuid,
        "its 36 characters, in lower case",
        None,
        None,
        "uuid",
        "uuid in a fixed of 16 bytes",
        "uuid.UUID",
    ),
    Kind(
        "whole number",
        pa.types.is_integer,
        _DIGITS,
        _COUNTED,
        "itself",
        "integers of any width",
        "int, long",
        "int, and numpy's",
        counts=True,
    ),
    Kind(
        "decimal, scale 0",
        _is_whole,
        "the same",
        "the same",
        "itself",
        "decimal",
        "decimal",
        "decimal.Decimal",
        counts=True,
    ),
    Kind(
        "decimal, scale above 0",
        pa.types.is_decimal,
        None,
        _FRACTION,
        "itself",
        "decimal",
        "decimal",
        "decimal.Decimal",
        "cast it to DECIMAL(38, 0), or to text",
        counts=True,
    ),
    Kind(
        "number with a point",
        pa.types.is_floating,
        None,
        "the same",
        "itself, NaN dropped",
        "halffloat, float, double",
        "float, double",
        "float, and numpy's",
        "cast it to whole numbers, such as BIGINT or .astype('Int64')",
        counts=True,
    ),
    Kind(
        "timestamp",
        pa.types.is_timestamp,
        None,
        "itself; finer ones are rounded down, without a zone in UTC",
        None,
        "timestamp of any unit",
        "`timestamp-` and `local-timestamp-` `millis`, `micros`, `nanos`",
        "datetime, numpy.datetime64",
        TO_TEXT,
    ),
    Kind(
        "date",
        pa.types.is_date,
        None,
        "its midnight, in UTC",
        None,
        "date32, date64",
        "date",
        "datetime.date",
        TO_TEXT,
    ),
    Kind(
        "nothing",
        pa.types.is_null,
        "dropped: `null`",
        "dropped: `null`",
        "dropped: `null`",
        "null",
        "null",
        "None, and NaN, NaT and NA of numpy and pandas",
    ),
)
"""Every type that is read. All others are refused."""

_BY_NAME = {kind.name: kind for kind in KINDS}

_WANTED: dict[Meaning, str] = {
    "label": "users, items and groups must be texts, whole numbers or UUIDs",
    "time": "event times must be timestamps, dates, numbers or ISO 8601 texts",
    "amount": "amounts must be numbers",
}
_CONVERT = {"time": "convert it to timestamps or to ISO 8601 texts", "amount": "convert it to numbers"}
_REMEDIES = (
    (pa.types.is_struct, "write its field as a column"),
    (pa.types.is_nested, "write a row for each value, and the value by itself, as .explode(...) of a frame does"),
    (pa.types.is_fixed_size_binary, "write it as text, such as in hexadecimal digits"),
)


def kind_of(kind: pa.DataType) -> Kind | None:
    """The kind of a type of Arrow, or of the values of a dictionary; None where no value of it can be read."""
    kind = _stored(kind)
    return next((each for each in KINDS if each.is_it(kind)), None)


def _stored(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _stored(kind.value_type)
    return kind.storage_type if isinstance(kind, pa.JsonType) else kind


@dataclass(frozen=True)
class Rule:
    """Why no value of a type can be read so, and what to do."""

    rule: str
    remedy: str


def rule_of(meaning: Meaning, kind: pa.DataType, called: str = "") -> Rule | None:
    """The rule that a type of Arrow breaks; None if its values can mean that.

    Args:
        called: the type in the words of whoever wrote the column.
    """
    known = kind_of(kind)
    if known is not None and known.means(meaning) is not None:
        return None
    remedy = next((text for is_it, text in _REMEDIES if is_it(kind)), "") if known is None else known.remedy
    if meaning != "label":
        remedy = _CONVERT[meaning]
    return Rule(f"{_WANTED[meaning]}, got {called or type_name(kind)}", remedy or TO_TEXT)


def type_name(kind: pa.DataType) -> str:
    """The name of a type, or of a dictionary's values, without what a single row may have decided: a struct's fields, a
    decimal's digits.
    """
    if pa.types.is_dictionary(kind):
        return type_name(kind.value_type)
    return kind.extension_name if isinstance(kind, pa.BaseExtensionType) else re.split(r"[<(]", str(kind))[0]


def written_out(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array without dictionaries, views and wrapped types: UUIDs as text, decimals without a fraction
    as texts of their digits.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if isinstance(values.type, pa.JsonType):
        values = values.storage
    if _is_uuid(values.type):
        return _uuid_texts(values.storage)
    if _is_whole(values.type):
        whole = values if values.type.scale == 0 else values.cast(pa.decimal256(76, 0))
        return whole.cast(pa.large_string())
    if pa.types.is_string_view(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if pa.types.is_binary_view(values.type) else values


_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
"""Of the 32 digits, those between dashes."""


def _uuid_texts(values: pa.Array) -> pa.Array:
    """UUIDs of 16 bytes as text: 36 characters, in lower case. Cost: half a microsecond each."""
    held = values.drop_null()
    content = np.frombuffer(held.buffers()[1] or b"", np.uint8)[16 * held.offset : 16 * (held.offset + len(held))]
    digits = _HEX[content].view(np.uint8).reshape(-1, 32)
    letters = np.full((len(held), 36), ord("-"), np.uint8)
    for dashes, (start, stop) in enumerate(_GROUPS):
        letters[:, start + dashes : stop + dashes] = digits[:, start:stop]
    valid = np.asarray(values.is_valid())
    offsets = np.append(0, np.cumsum(valid) * 36).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    texts = pa.Array.from_buffers(pa.large_string(), len(values), buffers)
    return pc.if_else(pa.array(valid), texts, pa.scalar(None, texts.type)) if values.null_count else texts


_CLASSES: tuple[tuple[tuple[type, ...], str | None], ...] = (
    ((bool, np.bool_, np.timedelta64), None),  # of which Python makes numbers
    ((str,), "text"),
    ((bytes,), "bytes"),
    ((UUID,), "UUID"),
    ((Integral,), "whole number"),
    ((Decimal,), "decimal, scale 0"),
    ((Real,), "number with a point"),
    ((datetime, np.datetime64), "timestamp"),
    ((date,), "date"),
    ((NoneType,), "nothing"),
)
"""The kinds of Python's classes; the first that a class is of. Of a Decimal each value says whether it is whole."""


def kind_of_class(cls: type, meaning: Meaning = "label") -> Kind | None:
    """The kind of a class of Python; None where no value of it can be read. A Decimal may have a fraction as an amount,
    and is a label only where it has none.
    """
    for classes, name in _CLASSES:
        if issubclass(cls, classes):
            if name == "decimal, scale 0" and meaning == "amount":
                name = "decimal, scale above 0"
            return None if name is None else _BY_NAME[name]
    return None


def label_of(value: Any) -> str:  # noqa: ANN401
    """A user, an item or a group of Python as text, by the table.

    Raises TypeError for what is none, and ValueError for bytes that are no UTF-8 and for numbers of too many digits.
    """
    if isinstance(value, str):  # such as numpy's, whatever it prints as
        return str.__str__(value)
    if isinstance(value, bool | np.bool_ | np.timedelta64):
        raise TypeError
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, bytes):
        return bytes.decode(value)
    if isinstance(value, UUID):
        return UUID.__str__(value)
    if isinstance(value, Decimal) and value.is_finite() and value.as_tuple().exponent >= 0:  # type: ignore[operator]
        if value.adjusted() > _MAX_DIGITS:  # 1E+999999 would be a megabyte
            raise ValueError
        return str(int(value))
    raise TypeError


_MAX_DIGITS = 4000


def is_missing(value: Any) -> bool:  # noqa: ANN401
    """Whether a value of Python stands for none: None, NaN, and those of numpy and pandas."""
    if type(value) is float:
        return value != value  # noqa: PLR0124
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating | np.datetime64) and bool(value != value)  # noqa: PLR0124
