"""Messages to blocks. Every message is read by itself: a broken one is dropped, and affects no other row."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from private_topk.pipelines.files import open_file
from private_topk.pipelines.sources import json_lines
from private_topk.pipelines.sources.avro_schema import (
    Unreadable,
    bare,
    branches_of,
    check_columns,
    rows_of,
    types_of,
)
from private_topk.pipelines.sources.columns import Columns, Rows, Types, block_of
from private_topk.pipelines.sources.source import DroppedRowsByReason
from private_topk.transforms.errors import InvalidArgument, of_field, verbatim

_CONFLUENT = 5


@dataclass(frozen=True)
class JsonPayload:
    """One JSON object a message, in UTF-8."""

    identity_tag: ClassVar[str] = "json-payload"

    def types(self) -> Types:
        return {}

    def rows(self, messages: Sequence[bytes], columns: Columns) -> Rows:
        """The rows of the messages, one each, read like the lines of a JSON lines file."""
        return json_lines.rows_of([message.removeprefix(codecs.BOM_UTF8) for message in messages], columns)


@dataclass(frozen=True)
class AvroPayload:
    """One Avro record a message, without a header or with Confluent's of five bytes.

    Args:
        schema: of every message, as JSON text.
    """

    identity_tag: ClassVar[str] = "avro-payload"

    schema: str

    def types(self) -> Types:
        return types_of(branches_of(json.loads(self.schema)))

    def rows(self, messages: Sequence[bytes], columns: Columns) -> Rows:
        """The rows of the messages, one each, read like the rows of an Avro file."""
        written = json.loads(self.schema)
        fields = branches_of(written)
        schema = fastavro.parse_schema(bare(written))
        found: dict[str, list[Any]] = {name: [] for name in columns.names()}
        is_broken = []
        for message in messages:
            record = _record(message, schema, columns)
            is_broken.append(record is None)
            for name, values in found.items():
                values.append(record and record[name])
        return rows_of(found, fields)._replace(unreadable=pa.array(is_broken, pa.bool_()))


Payload = JsonPayload | AvroPayload


def make_payload(kind: str, schema: str | None, columns: Columns) -> Payload:
    """The payload that the arguments describe.

    Raises InvalidArgument for a schema that is missing or lacks a column.
    """
    if kind == "json":
        if schema is not None:
            raise InvalidArgument("payload_schema", "goes with {payload} avro: leave it out")
        json_lines.decoder_of(columns)
        return JsonPayload()
    if schema is None:
        raise InvalidArgument("payload", "avro needs {payload_schema}: messages do not hold their schema")
    with of_field("payload_schema"), open_file(schema) as source:
        text = source.read().decode("utf-8", "replace")
    try:
        written = json.loads(text)
        fastavro.parse_schema(written)
        fields = branches_of(written)
    except Unreadable as error:
        raise InvalidArgument("payload_schema", f"{verbatim(schema)} has {error}", "send the rows without") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SchemaParseException, UnknownType):
        raise InvalidArgument("payload_schema", f"{verbatim(schema)} is not an Avro schema of a record") from None
    with of_field("payload_schema"):
        check_columns(schema, fields, columns)
    return AvroPayload(text)


class Decoder:
    """Messages to one block, counting what is dropped."""

    def __init__(self, payload: Payload, columns: Columns) -> None:
        self._payload, self._columns = payload, columns
        self._dropped = DroppedRowsByReason()

    def block(self, messages: Sequence[bytes | None], arrived: Sequence[int] | None = None) -> pa.RecordBatch:
        """The rows of the messages, with their times. A message without a value is unreadable.

        Args:
            arrived: when each message arrived, microseconds since 1970 UTC, where the log's clock decides what is late.
        """
        assert self._columns.time is not None, "a stream has event times"
        rows = self._payload.rows([message or b"" for message in messages], self._columns)
        block, missing = block_of(rows, self._columns, arrived)
        self._dropped.add(missing)
        return block


def _record(message: bytes, schema: Any, columns: Columns) -> dict[str, Any] | None:  # noqa: ANN401 - a parsed schema
    """The record of a message, or None unless it is exactly one, with integers of at most 64 bits."""
    for start in (0, _CONFLUENT) if message[:1] == b"\0" else (0,):
        stream = io.BytesIO(message[start:])
        try:
            record: Any = fastavro.schemaless_reader(stream, schema, None, handle_unicode_errors="surrogateescape")
        except Exception:  # a decoder may raise anything for bytes that are not Avro
            continue
        if stream.tell() == len(message) - start:
            return record if all(_is_of_64_bits(record[name]) for name in columns.names()) else None
    return None


def _is_of_64_bits(value: Any) -> bool:  # noqa: ANN401 - a decoded value
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 63
