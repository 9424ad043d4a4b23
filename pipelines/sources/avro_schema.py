"""The types of an Avro schema: which columns can be read, and what their decoded values mean.

Logical types are removed before decoding and applied afterwards, in one place: libraries differ in how they read a uuid
in capitals or a time after the year 9999, and one such value would make its whole block unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.read import LOGICAL_READERS
from fastavro.schema import expand_schema

from private_topk.pipelines.sources.columns import Columns, Rows, no_column, texts_of, to_microseconds
from private_topk.transforms.errors import refused

__all__ = [
    "Branch",
    "Unreadable",
    "are_integers",
    "bare",
    "branches_of",
    "check_columns",
    "meant",
    "only",
    "plain_types",
    "rows_of",
    "schema_for",
]

_TAG = "private-topk-int"
"""The logical type that marks an int in a union with a long, where the two are times in different units."""

LOGICAL_READERS[f"int-{_TAG}"] = lambda value, *_: (value,)

_TIMESTAMPS = {f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")}
_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {"time-micros"} | _TIMESTAMPS,
    "bytes": {"decimal", "big-decimal"},
    "fixed": {"decimal", "duration", "uuid"},
}
_PLAIN = {"boolean", "int", "long", "float", "double", "bytes", "string"}
_COMPLEX = {"record", "error", "enum", "fixed", "array", "map"}
_LABELS = {"string", "int", "long", "enum"}
_NUMBERS = {"string", "int", "long", "float", "double"}
_TIMES = _NUMBERS | {"date"} | _TIMESTAMPS
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}


class Unreadable(ValueError):
    """The error of a schema by which a row of a few bytes could take any time or memory; the text names the reason."""


class Branch(NamedTuple):
    """One type that a value may have.

    Args:
        base: the type it is stored as.
        meaning: its logical type, if that changes the meaning, otherwise its base.
        symbols: of an enum.
    """

    base: str
    meaning: str
    symbols: tuple[str, ...] = ()


def branches_of(schema: dict[str, Any]) -> dict[str, list[Branch]]:
    """The types of every field of a record, in order. A logical type on the wrong base is ignored.

    Raises Unreadable; for an invalid schema whatever fastavro raises.
    """
    expanded: Any = expand_schema(bare(schema, ("logicalType",)))
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


def schema_for(schema: dict[str, Any], fields: dict[str, list[Branch]], columns: Columns) -> dict[str, Any]:
    """The schema by which fastavro decodes the records for `rows_of`.

    Args:
        schema: a bare one.
    """
    time = columns.time
    if time is None or not _needs_tag(fields[time]):
        return schema
    tagged = {"type": "int", "logicalType": _TAG}
    return {**schema, "fields": [
        {**field, "type": [tagged if kind == "int" else kind for kind in field["type"]]}
        if field["name"] == time else field
        for field in schema["fields"]
    ]}  # fmt: skip


def check_columns(where: str, fields: dict[str, list[Branch]], columns: Columns) -> None:
    """Raise Refusal, naming where they are, unless the fields have the columns, of types that can be read."""
    for role, name in columns.by_role().items():
        if name not in fields:
            raise no_column(where, role, name, fields)
        allowed = {columns.time: _TIMES, columns.value: _NUMBERS}.get(name, _LABELS)
        meanings = {branch.meaning for branch in fields[name]}
        if not meanings <= allowed | {"null"}:
            raise refused(f"{where}: column {name!r} must be one of {', '.join(sorted(allowed))}, "
                             f"got {', '.join(sorted(meanings - allowed))}")  # fmt: skip


def are_integers(branches: list[Branch]) -> bool:
    """Whether a field has integers only, or nothing."""
    return {"null"} < {branch.meaning for branch in branches} | {"null"} <= {"int", "long", "null"}


def rows_of(records: list[dict[str, Any]], fields: dict[str, list[Branch]], columns: Columns) -> Rows:
    """The rows of records that fastavro has read by `schema_for`, with errors of UTF-8 as surrogates."""
    arrays, unreadable = {}, None
    for name in columns.names():
        values = [record[name] for record in records]
        if name == columns.time:
            arrays[name], unreadable = _times(values, fields[name], columns.time_unit)
        elif name == columns.value:
            arrays[name] = _amounts(values)
        else:
            arrays[name] = _labels(values)
    return Rows(arrays, unreadable)


def _branches(kind: Any) -> Iterator[Branch]:  # noqa: ANN401 - an expanded schema
    if isinstance(kind, list):
        for branch in kind:
            yield from _branches(branch)
    elif isinstance(kind, str):
        yield Branch(kind, kind)
    else:
        base, logical = kind["type"], kind.get("logicalType")
        known = isinstance(logical, str) and logical in _LOGICAL.get(base, ())
        yield Branch(base, str(logical) if known else base, tuple(kind["symbols"]) if base == "enum" else ())


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
            raise Unreadable("an array of items that take no bytes, of which one row could hold a billion")
        for inner in (kind.get("items"), kind.get("values"), *(field["type"] for field in kind.get("fields", ()))):
            if inner is not None:
                _refuse_unreadable(inner)


def _takes_no_bytes(kind: Any) -> bool:  # noqa: ANN401 - an expanded schema
    if not isinstance(kind, dict):
        return kind == "null"  # the number of a branch of a union takes a byte
    if kind["type"] in ("record", "error"):
        return all(_takes_no_bytes(field["type"]) for field in kind["fields"])
    return kind["type"] == "null" or kind.get("size") == 0


def _needs_tag(branches: list[Branch]) -> bool:
    """Whether an int and a long in one union differ in meaning."""
    meanings = {branch.base: branch.meaning for branch in branches if branch.base in ("int", "long")}
    return len(meanings) == 2 and meanings != {"int": "int", "long": "long"}


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
        return values.cast(pa.int64()).cast(pa.timestamp(_UNITS[branch.meaning.rpartition("-")[2]]))
    return values


def _labels(values: list[Any]) -> pa.Array:
    """Texts and integers as text; as bytes if some are not UTF-8, which fastavro returns as surrogates."""
    texts = [value if value is None or isinstance(value, str) else str(value) for value in values]
    try:
        return pa.array(texts, pa.large_string())
    except (UnicodeEncodeError, pa.ArrowInvalid):
        return pa.array([text and text.encode("utf-8", "surrogateescape") for text in texts], pa.large_binary())


def _amounts(values: list[Any]) -> pa.Array:
    """Numbers as texts, since the column may also hold texts."""
    texts = [repr(float(v)).replace("inf", "1e999") if isinstance(v, int | float) else v for v in values]
    return _labels(texts)


def _times(values: list[Any], branches: list[Branch], unit: str) -> tuple[pa.Array, pa.Array | None]:
    """The times of a column, and which are unreadable if it has several types: each value is read by its own type."""
    by_type: dict[type, Branch] = {
        _python_type(branch, branches): branch for branch in branches if branch.base != "null"
    }
    if len(by_type) < 2:
        return _of_one_type(values, only(branches)), None
    micros = pa.nulls(len(values), pa.int64())
    for kind, branch in by_type.items():
        mask = pa.array([type(value) is kind for value in values], pa.bool_())
        some: list[Any] = [value for value in values if type(value) is kind]
        some = [value for (value,) in some] if kind is tuple else some
        times, _ = texts_of(_of_one_type(some, branch))
        micros = pc.replace_with_mask(micros, mask, to_microseconds(times, unit))
    valid = pa.array([value is not None for value in values], pa.bool_())
    return micros.cast(pa.timestamp("us")), pc.and_(valid, micros.is_null())


def _python_type(branch: Branch, branches: list[Branch]) -> type:
    if branch.base == "int" and _needs_tag(branches):
        return tuple
    return {"string": str, "float": float, "double": float}.get(branch.base, int)


def _of_one_type(values: list[Any], branch: Branch) -> pa.Array:
    kinds = {"int": pa.int64(), "long": pa.int64(), "float": pa.float64(), "double": pa.float64(), "null": pa.null()}
    return _labels(values) if branch.base == "string" else meant(pa.array(values, kinds[branch.base]), branch)
