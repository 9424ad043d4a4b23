"""Messages to rows: every message by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.payloads import AvroPayload, Decoder, JsonPayload, make_payload
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import avro_message

COLUMNS = Columns(time="time")
SCHEMA = {
    "type": "record",
    "name": "Play",
    "fields": [
        {"name": "user", "type": ["null", "long"]},
        {"name": "item", "type": "string"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
DAY = 1_767_225_600_000_000  # 2026-01-01


def rows(
    payload: JsonPayload | AvroPayload, messages: list[bytes | None], arrived: list[int] | None = None
) -> list[tuple]:
    block = Decoder(payload, COLUMNS).block(messages, arrived)
    return [tuple(row.values()) for row in block.to_pylist()]


def avro(**row: object) -> bytes:
    return avro_message(SCHEMA, row)


GOOD = [
    b'{"user": "a", "item": "x", "time": "2026-01-01"}',
    b'{"time": 1767225601, "user": 5, "item": "y", "more": [1]}',
    b'{"user": "e", "item": "z", "time": "2026-01-01T00:00:02Z"}',
]
READ = [("a", "x", DAY), ("5", "y", DAY + 1_000_000), ("e", "z", DAY + 2_000_000)]


def test_json_objects_are_rows() -> None:
    assert rows(JsonPayload(), GOOD) == READ
    assert rows(JsonPayload(), []) == []
    assert rows(JsonPayload(), [b"\xef\xbb\xbf" + message for message in GOOD]) == READ
    assert rows(JsonPayload(), [json.dumps(json.loads(message), indent=2).encode() for message in GOOD]) == READ
    assert rows(JsonPayload(), [m[:-1] + b', "z": ' + b"[" * 100 + b"]" * 100 + b"}" for m in GOOD]) == READ


@pytest.mark.parametrize(
    "broken",
    [
        *(b"", None, b"{", b"[1]", b"null", b'"text"', b"\xff\xfe", b'{"user": "a"', b"\n\n", b"{" * 5000),
        *(b'{"user": "a"}\n{"user": "b"}', GOOD[0][:-1] + b', "more": ' + b"[" * 101 + b"]" * 101 + b"}"),
    ],
)
def test_a_broken_message_harms_no_other(broken: bytes | None) -> None:
    for place in range(len(GOOD) + 1):
        messages = [*GOOD[:place], broken, *GOOD[place:]]
        assert rows(JsonPayload(), messages) == READ
        arrived = [1, 2, 3]
        arrived.insert(place, 9)
        assert [row[3] for row in rows(JsonPayload(), messages, arrived)] == [1, 2, 3]


def test_a_message_between_two_others_of_one_user_is_read() -> None:
    """Joined to one text, the three would be three objects, of which none is the message in the middle."""
    messages = [b'{"user": "m", "item": "x", "time": 1, "y":', GOOD[0], b"} {} {}"]
    assert rows(JsonPayload(), messages) == READ[:1]


@pytest.mark.parametrize("field", ["time", "user"])
def test_a_number_beyond_64_bits_harms_no_other_message(field: str) -> None:
    """Avro's numbers have no end of their own: a long of eleven bytes is one row's matter."""
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": n, "type": "long"} for n in ("user", "item", "time")],
    }
    long = b"\xfe" * 10 + b"\x01"
    good, bad = b"\x02\x04\x06", b"".join(long if n == field else b"\x02" for n in ("user", "item", "time"))
    found = rows(AvroPayload(json.dumps(schema)), [good, bad, good])
    assert [found[0], found[-1]] == [("1", "2", 3_000_000)] * 2 and len(found) <= 3


def test_a_message_that_lacks_a_value_is_dropped() -> None:
    lacking = [
        b'{"user": "a", "item": "x"}',
        b'{"user": null, "item": "x", "time": 1}',
        b'{"item": "x", "time": 1}',
        b'{"user": "a", "item": "x", "time": "soon"}',
    ]
    assert rows(JsonPayload(), [*lacking, *GOOD], list(range(7))) == [(*row, 4 + n) for n, row in enumerate(READ)]


def test_avro_records_with_and_without_a_header() -> None:
    plain = [
        avro(user=1, item="x", time=DAY),
        avro(user=None, item="x", time=DAY),
        avro(user=2, item="y", time=DAY + 1),
    ]
    expected = [("1", "x", DAY), ("2", "y", DAY + 1)]
    payload = AvroPayload(json.dumps(SCHEMA))
    assert rows(payload, plain) == expected
    assert rows(payload, [b"\0\0\0\0\7" + message for message in plain]) == expected
    assert rows(payload, []) == []
    for broken in (b"", b"\0", b"\0\0\0\0\7", plain[0][:-1], plain[0] + b"\0", b"\xff" * 30):
        assert rows(payload, [plain[0], broken, plain[2]]) == expected


def test_an_invalid_schema_is_refused_with_the_reason(tmp_path: Path) -> None:
    def refused(schema: object, columns: Columns = COLUMNS) -> str:
        path = tmp_path / "play.avsc"
        path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
        with pytest.raises(InvalidArgument) as caught:
            make_payload("avro", str(path), columns)
        return str(caught.value)

    assert "not an Avro schema of a record" in refused("{")
    assert "not an Avro schema of a record" in refused('"string"')
    assert "user_column 'who' is no column of" in refused(SCHEMA, Columns("who"))
    assert "play.avsc: it has item, time, user: give user_column from these names" in refused(SCHEMA, Columns("who"))
    with pytest.raises(InvalidArgument, match="payload avro needs payload_schema"):
        make_payload("avro", None, COLUMNS)
    with pytest.raises(InvalidArgument, match=r"^payload_schema \S+none.avsc cannot be read"):
        make_payload("avro", f"{tmp_path}/none.avsc", COLUMNS)
    with pytest.raises(InvalidArgument, match="payload_schema goes with payload avro"):
        make_payload("json", "x.avsc", COLUMNS)
    (tmp_path / "play.avsc").write_text(json.dumps(SCHEMA))
    assert isinstance(make_payload("avro", str(tmp_path / "play.avsc"), COLUMNS), AvroPayload)


@pytest.mark.parametrize("days", [2**31, -(2**31) - 1, 2**40, 2**63 - 1, -(2**63)])
def test_a_date_beyond_all_calendars_harms_no_other(days: int) -> None:
    """Avro writes every whole number in the same way, so a sender can give a date more bits than its type has."""
    fields = [{"name": "user", "type": "string"}, {"name": "item", "type": "string"}]
    declared = {**SCHEMA, "fields": [*fields, {"name": "time", "type": {"type": "int", "logicalType": "date"}}]}
    sent = {**SCHEMA, "fields": [*fields, {"name": "time", "type": "long"}]}
    times = {"a": 20_454, "m": days, "b": 20_455}
    messages = [avro_message(sent, {"user": user, "item": "x", "time": time}) for user, time in times.items()]
    assert [(row[0], row[2] - DAY) for row in rows(AvroPayload(json.dumps(declared)), messages)] == [
        ("a", 0),
        ("b", 86_400_000_000),
    ]
