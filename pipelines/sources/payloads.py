"""Messages to blocks. Every message is read by itself: one that is broken is left out, and harms no other's row."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.files import open_file
from private_topk.pipelines.sources.columns import Columns, to_microseconds
from private_topk.transforms.blocks import left_out
from private_topk.transforms.columnar import as_labels
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["AvroPayload", "Decoder", "JsonPayload", "make_payload"]

_CONFLUENT = 5


class Table(NamedTuple):
    """Columns of messages, and the places of the messages they come from."""

    columns: dict[str, pa.Array]
    places: np.ndarray


@dataclass(frozen=True)
class JsonPayload:
    """One JSON object a message, in UTF-8."""

    def table(self, messages: Sequence[bytes], columns: Columns) -> Table:
        """The columns of the messages that can be read, and which those are."""
        lines = b"\n".join(messages)
        if lines.count(b"\n") == len(messages) - 1:
            try:
                return Table(_parsed(lines, len(messages), columns), np.arange(len(messages)))
            except (pl.exceptions.PolarsError, ValueError):
                pass
        single = [_one_line(message) for message in messages]
        readable = [place for place, line in enumerate(single) if _is_readable(line, columns)]
        whole = b"\n".join(single[place] for place in readable)
        return Table(_parsed(whole, len(readable), columns), np.array(readable, np.int64))


@dataclass(frozen=True)
class AvroPayload:
    """One Avro record a message, without a header or with Confluent's of five bytes.

    Args:
        schema: of every message, as JSON text.
    """

    schema: str

    def table(self, messages: Sequence[bytes], columns: Columns) -> Table:
        """The columns of the messages that can be read, and which those are."""
        schema = fastavro.parse_schema(json.loads(self.schema))
        found = [(place, _record(message, schema)) for place, message in enumerate(messages)]
        records = [(place, record) for place, record in found if record is not None]
        table = {name: _column([record.get(name) for _, record in records]) for name in columns.names()}
        return Table(table, np.array([place for place, _ in records], np.int64))


Payload = JsonPayload | AvroPayload


def make_payload(kind: str, schema: str | None, columns: Columns) -> Payload:
    """The payload that the arguments describe. Raises Refusal for a schema that is missing or lacks a column."""
    if kind == "json":
        if schema is not None:
            raise Refusal("payload_schema", "goes with {payload} avro: leave it out")
        return JsonPayload()
    if schema is None:
        raise Refusal("payload", "avro needs {payload_schema}: messages do not hold their schema")
    with open_file(schema) as source:
        text = source.read().decode("utf-8", "replace")
    try:
        parsed: Any = fastavro.parse_schema(json.loads(text))
        fields = {field["name"] for field in parsed["fields"]}
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException):
        raise Refusal("payload_schema", f"{verbatim(schema)} is not an Avro schema of a record") from None
    for name in columns.names():
        if name not in fields:
            known = ", ".join(sorted(fields))
            raise Refusal("payload_schema", verbatim(f"{schema} has no field {name!r}: its fields are {known}"))
    return AvroPayload(text)


class Decoder:
    """Messages to one block, counting what is left out."""

    def __init__(self, payload: Payload, columns: Columns) -> None:
        self._payload, self._columns = payload, columns
        self._null, self._unreadable = left_out("null"), left_out("unreadable")

    def block(self, messages: Sequence[bytes | None], arrived: Sequence[int] | None = None) -> pa.RecordBatch:
        """The rows of the messages, with their times.

        Args:
            arrived: when each message arrived, microseconds since 1970 UTC, where the log's clock decides what is late.
        """
        table, places = self._payload.table([message or b"" for message in messages], self._columns)
        names = self._columns
        assert names.time is not None, "a stream has event times"
        rows = {"user": as_labels(table[names.user]), "item": as_labels(table[names.item])}
        rows["time"] = to_microseconds(table[str(names.time)], names.time_unit)
        if arrived is not None:
            rows["arrived"] = pa.array(np.asarray(arrived, np.int64)[places])
        block = pa.RecordBatch.from_pydict(rows)
        valid = [pc.is_valid(block[name]) for name in ("user", "item", "time")]
        whole = block.filter(pc.and_(pc.and_(valid[0], valid[1]), valid[2]))
        for counter, count in ((self._null, len(block) - len(whole)), (self._unreadable, len(messages) - len(block))):
            if count:
                counter.inc(count)
        return whole


def _parsed(lines: bytes, count: int, columns: Columns) -> dict[str, pa.Array]:
    schema = dict.fromkeys(columns.names(), pl.String)
    frame = pl.read_ndjson(lines, schema=schema) if count else pl.DataFrame(schema=schema)
    if len(frame) != count:
        raise ValueError("a message is no JSON object of one line")
    return {name: frame[name].to_arrow(compat_level=pl.CompatLevel.oldest()) for name in columns.names()}


def _one_line(message: bytes) -> bytes:
    if b"\n" not in message:
        return message
    try:
        return json.dumps(json.loads(message)).encode()
    except (ValueError, RecursionError):
        return b""


def _is_readable(line: bytes, columns: Columns) -> bool:
    try:
        _parsed(line, 1, columns)
    except (pl.exceptions.PolarsError, ValueError):
        return False
    return True


def _record(message: bytes, schema: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a parsed Avro schema
    """The record of a message, if it is exactly one."""
    for start in (0, _CONFLUENT) if message[:1] == b"\0" else (0,):
        stream = io.BytesIO(message[start:])
        try:
            record: Any = fastavro.schemaless_reader(stream, schema, None)
        except Exception:  # whatever a decoder makes of bytes that are none of its own
            continue
        if stream.tell() == len(message) - start:
            return record
    return None


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a union of text and numbers
        return pa.array([None if value is None else str(value) for value in values])
