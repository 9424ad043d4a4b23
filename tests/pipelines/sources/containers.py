"""Files of Avro, byte by byte."""

from __future__ import annotations

import io
import json

import fastavro


def number(value: int) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, "long", value)
    return sink.getvalue()


def container(schema: dict, blocks: list[tuple[int, bytes]], codec: str = "null", sync: bytes = b"s" * 16) -> bytes:
    """A file of blocks that are packed already."""
    entries = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    head = b"".join(number(len(part)) + part for pair in entries.items() for part in pair)
    parts = [b"Obj\x01", number(len(entries)), head, b"\0", sync]
    for count, content in blocks:
        parts += [number(count), number(len(content)), content, sync]
    return b"".join(parts)
