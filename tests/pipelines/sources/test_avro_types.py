"""Both Avro decoders, files and messages, on every type: schemas and values at random, and what each value means."""

from __future__ import annotations

import io
import json
import math
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from private_topk.pipelines.sources import Columns, avro
from private_topk.pipelines.sources.columns import block_of
from private_topk.pipelines.sources.payloads import AvroPayload
from private_topk.transforms.errors import InvalidArgument
from tests.examples import examples
from tests.pipelines.sources.containers import container
from tests.pipelines.support import read, write
from tests.refusals import refused

SLOW = examples(120)
UUID_ = {"type": "fixed", "name": "U", "size": 16}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}


class Kind(NamedTuple):
    """A type: as a schema gives it, as it is stored, what values it is stored with, and what they mean."""

    schema: Any
    stored: Any
    values: st.SearchStrategy[Any]
    meaning: Callable[[Any], Any]


def logical(base: str, name: str) -> dict[str, str]:
    return {"type": base, "logicalType": name}


def decimal(base: Any, scale: int) -> dict[str, Any]:  # noqa: ANN401
    kind = base if isinstance(base, dict) else {"type": base}
    return kind | {"logicalType": "decimal", "precision": 38, "scale": scale}


def whole(value: bytes) -> int:
    if not 0 < len(value) <= 32:
        raise ValueError
    return int.from_bytes(value, "big", signed=True)


def fraction(value: bytes) -> str:
    """A decimal of scale 2, as its digits are written."""
    sign, digits = "-" * (whole(value) < 0), f"{abs(whole(value)):03}"
    return f"{sign}{digits[:-2]}.{digits[-2:]}"


def seconds(value: int | float) -> int:
    """A number of seconds in microseconds: whole ones exactly, others to the nearest."""
    if not abs(value) < 36_525_000 * 86_400:  # 100,000 years; not for NaN either
        raise ValueError
    return int(value) * 10**6 if value == int(value) else round(value * 10**6)


def micros(value: int) -> int:
    """A timestamp of microseconds, in the way a column of numbers of that unit has it."""
    if abs(value) >= 36_525_000 * 86_400 * 10**6:
        raise ValueError
    return value


def moment(value: bytes) -> int | None:
    """The microseconds of one of the `moments`, None for an empty text."""
    if not value:
        return None
    known = {b"2026-01-01": 1_767_225_600, b"2026-01-01T05:06:07Z": 1_767_243_967, b"1767225600": 1_767_225_600}
    return seconds(known[value] if value in known else float(value))


def never(value: str) -> int:
    """What a name that is no time and no amount means."""
    raise ValueError


def text(value: bytes) -> str:
    return value.decode()  # UnicodeDecodeError is a ValueError


def float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


ints, longs = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**12), 10**12)
texts = st.text(max_size=5).map(str.encode) | st.sampled_from([b"", b"\xff", b"a\x80", b"\xed\xa0\x80", b"5", b"\0"])
uuids = st.uuids().map(lambda found: str(found).upper().encode()) | texts
decimals = st.integers(-(10**14), 10**14).map(lambda value: value.to_bytes(8, "big", signed=True)) | st.sampled_from(
    [b"", b"\0", b"\xff", b"\x80" + bytes(15), b"\0" * 16 + b"\x05", b"\xff" * 31, b"\0" * 33]
)
moments = st.sampled_from([b"2026-01-01", b"2026-01-01T05:06:07Z", b"never", b"1767225600", b"\xff", b"1e3", b""])
floats = st.floats(-1e13, 1e13) | st.sampled_from([float("nan"), float("inf"), 5.0])

NULL = Kind("null", "null", st.none(), lambda value: value)
LABELS = [
    Kind("string", "bytes", texts, text),
    Kind(logical("string", "uuid"), "bytes", uuids, text),
    Kind(logical("string", "timestamp-millis"), "bytes", texts, text),
    Kind("int", "int", ints, str),
    Kind("long", "long", longs, str),
    Kind(logical("long", "made up"), "long", longs, str),
    Kind(logical("long", "date"), "long", longs, str),
    Kind({"type": {"type": "int"}}, "int", ints, str),
    Kind(ENUM, ENUM, st.sampled_from("ABC"), str),
    Kind("bytes", "bytes", texts, text),
    Kind(logical("bytes", "decimal"), "bytes", texts, text),  # of no precision, so that it is none
    Kind(decimal("bytes", 0), "bytes", decimals, lambda value: str(whole(value))),
    Kind(UUID_ | {"logicalType": "uuid"}, UUID_, st.binary(min_size=16, max_size=16), lambda v: str(UUID(bytes=v))),
]
NUMBERS = [
    Kind("int", "int", ints, seconds),
    Kind("long", "long", longs, seconds),
    Kind("float", "float", floats.map(float32), seconds),
    Kind("double", "double", floats, seconds),
]
TIMES = [
    *NUMBERS,
    Kind("string", "bytes", moments, moment),
    Kind(decimal("bytes", 2), "bytes", decimals, lambda value: seconds(float(fraction(value)))),
    Kind(decimal("bytes", 0), "bytes", decimals, lambda value: seconds(whole(value))),
    Kind(ENUM, ENUM, st.sampled_from("ABC"), never),
    Kind(logical("int", "date"), "int", ints, lambda value: micros(value * 86_400 * 10**6)),
    *(
        Kind(logical("long", f"{local}timestamp-{unit}"), "long", longs, meaning)
        for local in ("", "local-")
        for unit, meaning in (
            ("millis", lambda value: micros(value * 1000)),
            ("micros", micros),
            ("nanos", lambda value: value // 1000),
        )
    ),
]


def amount(value: Any) -> float | None:  # noqa: ANN401
    if value == b"":
        return None
    text = value.decode() if isinstance(value, bytes) else value
    if isinstance(text, str) and not re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", text):
        raise ValueError
    if math.isnan(float(text)):
        raise ValueError
    return float(text)


figures = st.sampled_from([b"12", b"1e400", b"-.5", b"1.", b"007", b"nan", b"1_0", b"\xff", b""]) | texts
AMOUNTS = [
    Kind("int", "int", ints, amount),
    Kind("long", "long", longs, amount),
    Kind("float", "float", floats.map(float32), amount),
    Kind("double", "double", floats | st.sampled_from([-0.0, float("-inf"), 5e-324]), amount),
    Kind("string", "bytes", figures, amount),
    Kind(logical("long", "made up"), "long", longs, amount),
    Kind(decimal("bytes", 2), "bytes", decimals, lambda value: amount(fraction(value).encode())),
    Kind(ENUM, ENUM, st.sampled_from("ABC"), never),
    Kind(decimal(UUID_, 0), UUID_, st.binary(min_size=16, max_size=16), lambda value: float(whole(value))),
]
ROLES = {"user": LABELS, "item": LABELS, "time": TIMES}
WIDE_ROLES = {**ROLES, "amount": AMOUNTS, "group": LABELS}


@st.composite
def columns(draw: st.DrawFn, kinds: list[Kind]) -> tuple[Any, Any, list[Kind]]:
    """A type, or a union of it and null, and how it is stored."""
    kind = draw(st.sampled_from([NULL, *kinds]))
    chosen = draw(st.permutations([kind, *[NULL][: kind is not NULL and draw(st.booleans())]]))
    if len(chosen) == 1 and draw(st.booleans()):
        return kind.schema, kind.stored, chosen
    return [kind.schema for kind in chosen], [kind.stored for kind in chosen], chosen


@st.composite
def files(draw: st.DrawFn, roles: dict[str, list[Kind]]) -> tuple[dict, list[list[bytes]], list[tuple | str]]:
    """A schema, the records of some blocks as they are stored, and what rows they are."""
    found = [draw(columns(kinds)) for kinds in roles.values()]
    names = draw(st.permutations(list(roles)))
    order = [list(roles).index(name) for name in names]
    found = [(_renamed(schema, n), _renamed(stored, n), kinds) for n, (schema, stored, kinds) in enumerate(found)]
    others = [
        (None, None),
        ({"type": "map", "values": "string"}, {"k": "v"}),
        ("boolean", True),
        (["int", "string"], "v"),
    ]
    extra, value = draw(st.sampled_from([*others, (logical("bytes", "decimal"), b"\1")]))
    schema = [{"name": name, "type": found[place][0]} for name, place in zip(names, order, strict=True)]
    stored = [{"name": name, "type": found[place][1]} for name, place in zip(names, order, strict=True)]
    if extra:
        schema, stored = ([*fields, {"name": "z", "type": extra}] for fields in (schema, stored))
    parsed = fastavro.parse_schema({"type": "record", "name": "Row", "fields": stored})
    blocks, rows = [], []
    for _ in range(draw(st.integers(1, 3))):
        block = []
        for _ in range(draw(st.integers(0, 4))):
            chosen = [(kind := draw(st.sampled_from(kinds)), draw(kind.values), stored) for _, stored, kinds in found]
            record = {name: _as_stored(*chosen[place]) for name, place in zip(names, order, strict=True)}
            sink = io.BytesIO()
            fastavro.schemaless_writer(sink, parsed, record | {"z": value})
            block.append(sink.getvalue())
            rows.append(_row([(kind, found) for kind, found, _ in chosen]))
        blocks.append(block)
    return {"type": "record", "name": "Row", "fields": schema}, blocks, rows


def _renamed(kind: Any, place: int) -> Any:  # noqa: ANN401
    """Types with a name have another in every column."""
    if isinstance(kind, list):
        return [_renamed(branch, place) for branch in kind]
    return kind | {"name": f"{kind['name']}{place}"} if isinstance(kind, dict) and "name" in kind else kind


def _as_stored(kind: Kind, value: Any, stored: Any) -> Any:  # noqa: ANN401
    if not isinstance(stored, list):
        return value
    if not isinstance(kind.stored, dict):
        return kind.stored, value
    own = kind.stored["name"]
    return next(each["name"] for each in stored if isinstance(each, dict) and each["name"].startswith(own)), value


def _row(chosen: list[tuple[Kind, Any]]) -> tuple | str:
    try:
        meant = tuple(None if value is None else kind.meaning(value) for kind, value in chosen)
        if any(isinstance(value, str) and "\0" in value for value in meant):
            raise ValueError
        meant = tuple(None if value == "" else value for value in meant)
    except ValueError:
        return "unreadable"
    if len(meant) == len(WIDE_ROLES) and meant[-1] is None:
        meant = (*meant[:-1], "")  # a row of no group counts among all rows
    return "null" if None in meant else meant


TIMED = Columns(time="time", time_unit="s")
WIDE = Columns(time="time", time_unit="s", value="amount", group="group")


@SLOW
@given(files(WIDE_ROLES), st.sampled_from([1 << 30, 40, 7]))
def test_both_decoders_and_messages_mean_the_same(tmp_path_factory, made: tuple, size: int) -> None:  # noqa: ANN001
    """Both decoders and the messages what the rows are."""
    folder, columns = tmp_path_factory.mktemp("rows"), WIDE
    schema, blocks, rows = made
    expected = [row for row in rows if isinstance(row, tuple)]
    dropped = {reason: rows.count(reason) for reason in ("null", "unreadable") if reason in rows}
    content = container(schema, [(len(block), b"".join(block)) for block in blocks])
    path = write(folder / "rows.avro", content)
    assert read(path, columns, size) == (expected, sum(dropped.values()))
    with patch.object(avro, "plain_types", lambda schema, fields: None):
        assert read(path, columns, size) == (expected, sum(dropped.values()))
    messages = [record for block in blocks for record in block]
    part = AvroPayload(json.dumps(schema)).rows(messages, columns)
    block, reasons = block_of(part, columns)
    assert list(zip(*(column.to_pylist() for column in block.columns), strict=True)) == expected
    assert reasons == dropped


@examples(120)
@given(files(ROLES), st.binary(min_size=1, max_size=9), st.integers(0, 2))
def test_bytes_behind_the_rows_of_a_block_refuse_it(tmp_path_factory, made: tuple, more: bytes, which: int) -> None:  # noqa: ANN001
    """Of every type, by both decoders, whatever the bytes would mean as a row."""
    schema, blocks, _ = made
    packed = [(len(block), b"".join(block)) for block in blocks]
    at = which % len(packed)
    packed[at] = (packed[at][0], packed[at][1] + more)
    path = write(tmp_path_factory.mktemp("rows") / "rows.avro", container(schema, packed))
    for plain in (avro.plain_types, lambda schema, fields: None):
        with patch.object(avro, "plain_types", plain), refused("", "is damaged"):
            read(path, TIMED)


OTHERS = [
    "boolean",
    logical("bytes", "big-decimal"),
    logical("int", "time-millis"),
    logical("long", "time-micros"),
    {"type": "array", "items": "string"},
    {"type": "map", "values": "long"},
    ["null", "string", "boolean"],
    ["null", "long", "string"],
    {"type": "fixed", "name": "F", "size": 16},
    {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"},
    {"type": "fixed", "name": "F", "size": 15, "logicalType": "uuid"},
    {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 0},
    {"type": "record", "name": "R", "fields": [{"name": "x", "type": "string"}]},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_other_types_are_refused_beforehand_for_every_role(tmp_path: Path, other: Any) -> None:  # noqa: ANN401
    for role in ("user", "item", "time"):
        kinds = {"user": "string", "item": "string", "time": "long"} | {role: other}
        schema = {"type": "record", "name": "Row", "fields": [{"name": n, "type": kinds[n]} for n in kinds]}
        path = write(tmp_path / "rows.avro", container(schema, []))
        with pytest.raises(InvalidArgument, match=f"column '{role}' cannot be used: .* must be .*, got "):
            read(path, TIMED)


def test_a_record_that_may_hold_itself_is_refused(tmp_path: Path) -> None:
    """One row of a few megabytes, nested a million deep, would end the process."""
    kinds = {"user": "string", "item": "string", "next": ["null", "Node"]}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    node = {"type": "record", "name": "Node", "namespace": "a.b", "fields": fields}
    with refused("", "may hold themselves, which is not safe to read"):
        read(write(tmp_path / "rows.avro", container(node, [])))
