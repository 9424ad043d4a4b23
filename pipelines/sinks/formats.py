"""Ranking rows to the bytes of a file and back. A format is a pair of functions; the table names them by ending."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import fastavro
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from private_topk.pipelines.sinks.rows import Shape, fields_of, schema
from private_topk.transforms.errors import Refusal, verbatim

__all__ = ["AVRO_SCHEMA", "FORMATS", "Format", "avro_schema", "format_of"]

Rows = list[dict[str, Any]]
_MAY_BE_NULL = ("rank", "noisy_count", "noise_stddev", "noise_95")
_PLAIN = Shape()


class _Encode(Protocol):
    def __call__(self, rows: Rows, shape: Shape = ...) -> bytes: ...


class Format(NamedTuple):
    encode: _Encode
    decode: Callable[[bytes], Rows]


def _avro_type(name: str, kind: pa.DataType) -> Any:  # noqa: ANN401 - an Avro schema
    if pa.types.is_timestamp(kind):
        return ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    plain = "string" if pa.types.is_string(kind) else "double" if pa.types.is_floating(kind) else "long"
    return ["null", plain] if name in _MAY_BE_NULL else plain


def avro_schema(shape: Shape = _PLAIN) -> dict[str, Any]:
    """The schema of an Avro file of rankings."""
    columns = fields_of(shape).items()
    return {
        "type": "record",
        "name": "RankedItem",
        "namespace": "private_topk",
        "doc": "One released item of a differentially private top-k ranking.",
        "fields": [{"name": name, "type": _avro_type(name, kind), "doc": doc} for name, (kind, doc) in columns],
    }


AVRO_SCHEMA = avro_schema()
"""Of rankings by the number of users."""


def _to_avro(rows: Rows, shape: Shape = _PLAIN) -> bytes:
    sink = io.BytesIO()
    # A fixed sync marker: the same release gives the same bytes.
    fastavro.writer(sink, avro_schema(shape), rows, codec="deflate", sync_marker=b"private-topk\0\0\0\1")
    return sink.getvalue()


def _from_avro(content: bytes) -> Rows:
    records: Iterable[Any] = fastavro.reader(io.BytesIO(content))
    return list(records)


def _to_json_lines(rows: Rows, shape: Shape = _PLAIN) -> bytes:
    return "".join(json.dumps(row, default=_iso, ensure_ascii=False) + "\n" for row in rows).encode()


def _from_json_lines(content: bytes) -> Rows:
    rows = [json.loads(line) for line in content.decode().split("\n") if line]
    for row in rows:
        for name in ("window_start", "window_end"):
            row[name] = row[name] and datetime.fromisoformat(row[name].replace("Z", "+00:00"))
    return rows


def _to_csv(rows: Rows, shape: Shape = _PLAIN) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(rows, schema(shape))
    for at, name in enumerate(("window_start", "window_end")):
        table = table.set_column(at, name, pa.array([row[name] and _iso(row[name]) for row in rows], pa.string()))
    pa_csv.write_csv(table, sink, pa_csv.WriteOptions(quoting_style="needed"))
    return sink.getvalue().to_pybytes()


def _from_csv(content: bytes) -> Rows:
    numbers = ("noisy_count", "noise_95")  # with a fraction where sums of amounts have one
    types = {name: kind for name, (kind, _) in fields_of(_PLAIN).items()}
    types |= dict.fromkeys((*numbers, "group"), pa.string())
    options = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    rows = pa_csv.read_csv(io.BytesIO(content), parse_options=parse, convert_options=options).to_pylist()
    return [row | {name: _number(row[name]) for name in numbers if name in row} for row in rows]


def _number(text: str) -> int | float | None:
    if not text:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _to_parquet(rows: Rows, shape: Shape = _PLAIN) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema(shape)), sink)
    return sink.getvalue().to_pybytes()


def _from_parquet(content: bytes) -> Rows:
    return pq.read_table(io.BytesIO(content)).to_pylist()


def _iso(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


_JSON_LINES = Format(_to_json_lines, _from_json_lines)

FORMATS = {
    ".avro": Format(_to_avro, _from_avro),
    ".csv": Format(_to_csv, _from_csv),
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".parquet": Format(_to_parquet, _from_parquet),
}


def format_of(path: str) -> Format:
    """The output format by the file's ending. Raises Refusal for an unknown one."""
    for ending, found in FORMATS.items():
        if path.lower().endswith(ending):
            return found
    raise Refusal("output", f"{verbatim(path)} must end with one of {', '.join(FORMATS)}")
