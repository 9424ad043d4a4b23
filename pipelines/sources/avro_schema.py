"""What the types of an Avro schema mean, and the same schema in types that hide nothing from either decoder.

A logical type is taken off before decoding and given its meaning afterwards, in one place: libraries differ in what
they make of a uuid in capitals or of a time after the year 9999, and one such value would take its whole block along.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["TAG", "Branch", "Recursive", "Weightless", "branches_of", "of_any_type", "of_plain_types"]

TAG = "private-topk-int"
"""Marks the int beside a long, where the two are times in different units."""

_TIMES = {f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")}
_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {"time-micros"} | _TIMES,
    "bytes": {"decimal", "big-decimal"},
    "fixed": {"decimal", "duration", "uuid"},
}
_PLAIN = {"boolean", "int", "long", "float", "double", "bytes", "string"}
_NAMED = {"record", "error", "enum", "fixed"}


class Recursive(ValueError):
    """A record that may hold itself: one row could be nested as deep as it is long, and overrun fastavro's stack."""


class Weightless(ValueError):
    """An array of what takes no bytes: one row of a few bytes could hold a billion, each of which takes time."""


class Branch(NamedTuple):
    """One type that a value may have.

    Args:
        base: what it is stored as.
        meaning: its logical type where that changes what it means, otherwise its base.
        symbols: of an enum.
    """

    base: str
    meaning: str
    symbols: tuple[str, ...] = ()


def branches_of(schema: dict[str, Any]) -> dict[str, list[Branch]]:
    """The types of every field of a record, in their order. A logical type on another base than its own is none.

    Raises Recursive, Weightless; and KeyError, TypeError, ValueError or RecursionError for what is no schema.
    """
    if schema["type"] not in ("record", "error"):
        raise ValueError("the rows of a file are records")
    named = dict(_named(schema, "", ()))
    _refuse_weightless(schema, named, "")
    space = _space_of(schema, "")
    fields = [(field["name"], list(_branches(field["type"], named, space))) for field in schema["fields"]]
    found = dict(fields)
    if len(found) != len(fields) or not all(isinstance(name, str) for name in found):
        raise ValueError("fields have one name each")
    return found


def of_plain_types(schema: dict[str, Any], fields: dict[str, list[Branch]]) -> dict[str, Any] | None:
    """The schema for polars, with fields c0, c1, ...; None unless each is a primitive or an enum, or one and null."""
    plain = []
    for place, (field, branches) in enumerate(zip(schema["fields"], fields.values(), strict=True)):
        kinds = ["int" if branch.base == "enum" else _bytes(branch.base) for branch in branches]
        if not set(kinds) <= _PLAIN | {"null"} or len(kinds) > 2 or ("null" in kinds) != (len(kinds) == 2):
            return None
        if _is_union(field["type"]) != (len(kinds) == 2):  # a union of one is stored with its number, too
            return None
        plain.append({"name": f"c{place}", "type": kinds if len(kinds) == 2 else kinds[0]})
    return {"type": "record", "name": "row", "fields": plain}


def of_any_type(schema: dict[str, Any], tagged: str | None) -> dict[str, Any]:
    """The schema for fastavro, without logical types.

    Args:
        tagged: the field whose ints are to be told from its longs.
    """
    bare = _bare(schema)
    for field in bare["fields"]:
        if field["name"] == tagged:
            field["type"] = [{"type": "int", "logicalType": TAG} if _is_int(kind) else kind for kind in field["type"]]
    return bare


def _branches(kind: Any, named: dict[str, Any], space: str) -> Iterator[Branch]:  # noqa: ANN401 - an Avro schema
    if isinstance(kind, list):
        for branch in kind:
            yield from _branches(branch, named, space)
    elif isinstance(kind, str):
        full = kind if "." in kind or not space else f"{space}.{kind}"
        if kind in _PLAIN | {"null"}:
            yield Branch(kind, kind)
        else:
            yield from _branches(named.get(full) or named[kind], named, space)
    elif isinstance(kind["type"], str) and kind["type"] not in named:
        base, logical = kind["type"], kind.get("logicalType")
        known = isinstance(logical, str) and logical in _LOGICAL.get(base, ())
        yield Branch(base, str(logical) if known else base, tuple(kind["symbols"]) if base == "enum" else ())
    else:
        yield from _branches(kind["type"], named, space)


def _named(kind: Any, space: str, around: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401
    """The types that a schema gives names to, under their full names. `around` are those of the records around it."""
    if isinstance(kind, list):
        for branch in kind:
            yield from _named(branch, space, around)
    elif isinstance(kind, str):
        if {kind, f"{space}.{kind}"} & set(around):
            raise Recursive
    elif isinstance(kind, dict):
        if _is_named(kind.get("type")):
            space = _space_of(kind, space)
            name = kind["name"].rpartition(".")[2]
            full = f"{space}.{name}" if space else name
            yield full, kind
            around = (*around, full)
        for inner in (kind.get("type"), kind.get("items"), kind.get("values")):
            if not _is_named(inner):
                yield from _named(inner, space, around)
        for field in kind.get("fields", ()):
            yield from _named(field["type"], space, around)


def _refuse_weightless(kind: Any, named: dict[str, Any], space: str) -> None:  # noqa: ANN401 - an Avro schema
    if isinstance(kind, list):
        for branch in kind:
            _refuse_weightless(branch, named, space)
    elif isinstance(kind, dict):
        space = _space_of(kind, space) if _is_named(kind.get("type")) else space
        if kind.get("type") == "array" and _is_weightless(kind["items"], named, space):
            raise Weightless
        for inner in (kind.get("type"), kind.get("items"), kind.get("values"), kind.get("fields")):
            _refuse_weightless(inner, named, space)


def _is_weightless(kind: Any, named: dict[str, Any], space: str) -> bool:  # noqa: ANN401 - an Avro schema
    """Whether every value of a type is stored as no bytes at all."""
    if isinstance(kind, str):
        found = named.get(f"{space}.{kind}", named.get(kind))
        return kind == "null" or (found is not None and _is_weightless(found, named, space))
    if not isinstance(kind, dict):
        return False  # the number of a branch of a union takes a byte
    if kind["type"] in ("record", "error"):
        return all(_is_weightless(field["type"], named, _space_of(kind, space)) for field in kind["fields"])
    return kind.get("size") == 0 if kind["type"] == "fixed" else _is_weightless(kind["type"], named, space)


def _is_named(kind: Any) -> bool:  # noqa: ANN401 - an Avro schema
    return isinstance(kind, str) and kind in _NAMED


def _space_of(kind: dict[str, Any], space: str) -> str:
    before, dot, _ = kind["name"].rpartition(".")
    return before if dot else kind.get("namespace", space)


def _bare(kind: Any) -> Any:  # noqa: ANN401 - an Avro schema
    if isinstance(kind, list):
        return [_bare(branch) for branch in kind]
    if not isinstance(kind, dict):
        return kind
    if not isinstance(kind["type"], str) or kind["type"] in _PLAIN | {"null"}:
        return _bare(kind["type"])
    kept = {name: kind[name] for name in ("name", "namespace", "symbols", "size") if name in kind}
    if "fields" in kind:
        kept["fields"] = [{"name": field["name"], "type": _bare(field["type"])} for field in kind["fields"]]
    return kept | {name: _bare(kind[name]) for name in ("type", "items", "values") if name in kind}


def _is_union(kind: Any) -> bool:  # noqa: ANN401 - an Avro schema
    return isinstance(kind, list) or (isinstance(kind, dict) and _is_union(kind["type"]))


def _is_int(kind: Any) -> bool:  # noqa: ANN401 - an Avro schema
    return kind == "int" or (isinstance(kind, dict) and _is_int(kind["type"]))


def _bytes(base: str) -> str:
    """Texts are decoded as bytes: one that is no UTF-8 is then no more than one row that cannot be read."""
    return "bytes" if base == "string" else base
