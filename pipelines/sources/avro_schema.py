"""The types of an Avro schema: which columns can be read, and what their decoded values mean.

Logical types are removed before decoding and applied afterwards, in one place: libraries differ in how they read a uuid
in capitals or a time after the year 9999, and one such value would make its whole block unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from fastavro.schema import expand_schema

from private_topk.pipelines.sources.columns import Columns, Rows, Types
from private_topk.pipelines.sources.names import check_names
from private_topk.transforms.errors import InvalidArgument, verbatim

_TIMESTAMPS = {f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")}
_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {"time-micros"} | _TIMESTAMPS,
    "bytes": {"decimal", "big-decimal"},
    "fixed": {"decimal", "duration", "uuid"},
}
_PLAIN = {"boolean", "int", "long", "float", "double", "bytes", "string"}
_COMPLEX = {"record", "error", "enum", "fixed", "array", "map"}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_ARROW = {
    "null": pa.null(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "uuid": pa.uuid(),
    "date": pa.date32(),
    **{
        name: pa.timestamp(_UNITS[name.rpartition("-")[2]], None if name.startswith("local") else "UTC")
        for name in _TIMESTAMPS
    },
    "boolean": pa.bool_(),
    "fixed": pa.binary(1),
    "array": pa.list_(pa.null()),
    "map": pa.list_(pa.null()),
    "record": pa.struct([]),
    "error": pa.struct([]),
}
"""Types of Avro that mean what a type of Arrow does. All others are lengths of time, or as good as these: refused."""


class Unreadable(ValueError):
    """The error of a schema by which a row of a few bytes could take any time or memory; the text names the reason."""


class Branch(NamedTuple):
    """One type that a value may have.

    Args:
        base: the type it is stored as.
        meaning: its logical type, if that changes the meaning, otherwise its base.
        symbols: of an enum.
        precision, scale: of a decimal.
    """

    base: str
    meaning: str
    symbols: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0

    @property
    def arrow(self) -> pa.DataType:
        """The type of Arrow that means the same."""
        if self.meaning == "decimal":
            return pa.decimal256(min(self.precision, _MAX_DIGITS), min(self.scale, _MAX_DIGITS))
        return _ARROW.get(self.meaning, pa.duration("us"))

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})" if self.meaning == "decimal" else self.meaning


def branches_of(schema: dict[str, Any]) -> dict[str, list[Branch]]:
    """The types of every field of a record, in order. A logical type on the wrong base is ignored.

    Raises Unreadable; for an invalid schema whatever fastavro raises.
    """
    expanded: Any = expand_schema(bare(schema, ("logicalType", "precision", "scale")))
    if expanded["type"] not in ("record", "error"):
        raise ValueError("the rows of a file are records")
    _refuse_unreadable(expanded)
    fields = {field["name"]: list(_branches(field["type"])) for field in expanded["fields"]}
    if len(fields) != len(expanded["fields"]) or not all(isinstance(name, str) for name in fields):
        raise ValueError("fields have one name each")
    return fields


def bare(kind: Any, keep: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - an Avro schema
    """A schema without logical types, defaults, documentation and types that are types in braces.

    Args:
        keep: properties that stay.
    """
    if isinstance(kind, list):
        return [bare(branch, keep) for branch in kind]
    if not isinstance(kind, dict):
        return kind
    if not isinstance(kind["type"], str):
        return bare(kind["type"], keep)
    kept = {name: kind[name] for name in ("type", "name", "namespace", "symbols", "size", *keep) if name in kind}
    if kind["type"] not in _COMPLEX and not any(name in kind for name in keep):
        return kind["type"]
    if "fields" in kind:
        kept["fields"] = [{"name": field["name"], "type": bare(field["type"], keep)} for field in kind["fields"]]
    return kept | {name: bare(kind[name], keep) for name in ("items", "values") if name in kind}


def plain_types(schema: dict[str, Any], fields: dict[str, list[Branch]]) -> dict[str, Any] | None:
    """The schema for polars, with fields c0, c1, ...; None unless each is a primitive or an enum, or one and null.

    Args:
        schema: a bare one.
    """
    plain = []
    for index, (field, branches) in enumerate(zip(schema["fields"], fields.values(), strict=True)):
        kinds = [_PLAIN_BASES.get(branch.base, branch.base) for branch in branches]
        if not set(kinds) <= _PLAIN | {"null"} or len(kinds) > 2 or ("null" in kinds) != (len(kinds) == 2):
            return None
        if isinstance(field["type"], list) != (len(kinds) == 2):  # a union of one is stored with its number, too
            return None
        plain.append({"name": f"c{index}", "type": kinds if len(kinds) == 2 else kinds[0]})
    return {"type": "record", "name": "row", "fields": plain}


_PLAIN_BASES = {"enum": "int", "string": "bytes"}
"""Texts are decoded as bytes, so that one that is not UTF-8 makes no more than its own row unreadable."""


def check_columns(where: str, fields: dict[str, list[Branch]], columns: Columns) -> None:
    """Raise InvalidArgument, naming where they are, unless the fields have the columns, of types that can be read."""
    check_names(where, columns, fields)
    for role, name in columns.each():
        for branch in fields[name]:
            columns.check(role, name, branch.arrow, where, str(branch))
        several = [str(branch) for branch in fields[name] if branch.base != "null"]
        if len(several) > 1:
            rule = f"{where}: column {name!r} cannot be used: its values must be of one type, got {', '.join(several)}"
            raise InvalidArgument("", verbatim(rule), "write it as one type, or as that and null")


def types_of(fields: dict[str, list[Branch]]) -> Types:
    """The type of every field, which may also have nothing."""
    return {name: only(branches).arrow for name, branches in fields.items()}


def rows_of(found: dict[str, list[Any]], fields: dict[str, list[Branch]]) -> Rows:
    """The rows of columns that fastavro has read by a bare schema, with errors of UTF-8 as surrogates."""
    return Rows({name: _stored(values, only(fields[name])) for name, values in found.items()})


def _branches(kind: Any) -> Iterator[Branch]:  # noqa: ANN401 - an expanded schema
    if isinstance(kind, list):
        for branch in kind:
            yield from _branches(branch)
    elif isinstance(kind, str):
        yield Branch(kind, kind)
    else:
        base, logical = kind["type"], kind.get("logicalType")
        known = isinstance(logical, str) and logical in _LOGICAL.get(base, ())
        meaning, symbols = str(logical) if known else base, tuple(kind["symbols"]) if base == "enum" else ()
        if meaning == "decimal":
            precision, scale = kind.get("precision"), kind.get("scale", 0)
            if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision > 0:
                yield Branch(base, meaning, symbols, precision, scale)
                return
            meaning = base  # as the format has it: what is no valid logical type is none
        yield Branch(base, base if (meaning, kind.get("size", 16)) != (meaning, 16) else meaning, symbols)


def _refuse_unreadable(kind: Any) -> None:  # noqa: ANN401 - an expanded schema
    """Raise Unreadable for a recursive type, whose name was not expanded, and for an array of items without bytes."""
    if isinstance(kind, str):
        if kind not in _PLAIN | {"null"}:
            raise Unreadable("records that may hold themselves, which is not safe to read")
    elif isinstance(kind, list):
        for branch in kind:
            _refuse_unreadable(branch)
    else:
        if kind["type"] == "array" and _takes_no_bytes(kind["items"]):
            raise Unreadable("an array of items without bytes: one row could hold a billion")
        for inner in (kind.get("items"), kind.get("values"), *(field["type"] for field in kind.get("fields", ()))):
            if inner is not None:
                _refuse_unreadable(inner)


def _takes_no_bytes(kind: Any) -> bool:  # noqa: ANN401 - an expanded schema
    if not isinstance(kind, dict):
        return kind == "null"  # the number of a branch of a union takes a byte
    if kind["type"] in ("record", "error"):
        return all(_takes_no_bytes(field["type"]) for field in kind["fields"])
    return kind["type"] == "null" or kind.get("size") == 0


def only(branches: list[Branch]) -> Branch:
    return next((branch for branch in branches if branch.base != "null"), branches[0])


def meant(values: pa.Array, branch: Branch) -> pa.Array:
    """Stored values converted to what their type means. Raises if an enum has no such symbol."""
    if branch.base == "enum" and not pa.types.is_large_string(values.type):
        return pa.array(branch.symbols, pa.large_string()).take(values)
    if branch.meaning == "date":
        days = np.clip(values.fill_null(0).to_numpy(zero_copy_only=False), -(2**31), 2**31 - 1)  # as far as dates go
        return pa.array(days.astype(np.int32), pa.int32(), mask=np.asarray(values.is_null())).cast(pa.date32())
    if "timestamp" in branch.meaning:
        return values.cast(pa.int64()).cast(_ARROW[branch.meaning])
    if branch.meaning == "uuid" and branch.base == "fixed":
        return pa.ExtensionArray.from_storage(pa.uuid(), values.cast(pa.binary(16)))
    if branch.meaning == "decimal":
        return pa.array([_decimal_text(value, branch.scale) for value in values.to_pylist()], pa.large_binary())
    return values


_MAX_DIGITS = 76
_WIDTH = 32
"""The bytes of the widest decimal of Arrow; wider values are unreadable."""


def _decimal_text(stored: bytes | None, scale: int) -> bytes | None:
    """A decimal, stored as the bytes of a whole number with the highest first, as a text. What is none is not UTF-8."""
    if stored is None:
        return None
    if not 0 < len(stored) <= _WIDTH or scale > _MAX_DIGITS:
        return b"\xff"
    number = int.from_bytes(stored, signed=True)
    return (f"{number}e-{scale}" if scale else str(number)).encode()


_STORED = {
    "null": pa.null(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "enum": pa.large_string(),
    "bytes": pa.large_binary(),
    "fixed": pa.large_binary(),
}


def _stored(values: list[Any], branch: Branch) -> pa.Array:
    """Values of one type, or null, that fastavro has read; texts as bytes if some are not UTF-8."""
    try:
        return meant(pa.array(values, _STORED[branch.base]), branch)
    except UnicodeEncodeError:
        return pa.array([text and text.encode("utf-8", "surrogateescape") for text in values], pa.large_binary())
