"""The rows of a published ranking, one schema for all formats, and their encoding in files.

A format is a pair of functions; the table `RANKING_FORMATS` names them by ending.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

import fastavro
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from private_topk.pipelines.release.manifest import Manifest, in_order
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.release import NoiseSize, Ranking
from private_topk.transforms.windows import WindowBounds, utc_text

_TIME = pa.timestamp("us", "UTC")

FIELDS: dict[str, tuple[pa.DataType, str]] = {
    "window_start": (_TIME, "start of the window of event time, included; null where the rows are not cut by time"),
    "window_end": (_TIME, "end of the window, excluded; null where the rows are not cut by time"),
    "rank": (pa.int64(), "1 for the best; null where the mechanism answers with a set, which has no order"),
    "item": (pa.string(), "the item"),
    "noisy_count": (
        pa.int64(),
        "users who hold the item, or the sum of amounts, with noise, where such counts are published; else null",
    ),
    "noise_stddev": (pa.float64(), "standard deviation of that noise; null without a noisy count"),
    "noise_95": (pa.int64(), "at least 95% of the time noise and rounding put the count off by no more; else null"),
    "k": (pa.int64(), "how many items were asked for; as many as were returned, where all above a threshold were"),
    "returned": (pa.int64(), "how many were returned; fewer than k only in the unknown domain, by its guarantee"),
    "release_id": (pa.string(), "the release this row belongs to"),
}
_COUNTS = ("noisy_count", "noise_95")
"""The columns that have a fraction where scores do."""
_OF_OTHERS = {*FIELDS, "noisy_weight"} - {"item"}
"""The columns that hold neither items nor groups."""


class RankingSchema(NamedTuple):
    """The properties of a release that decide its columns.

    Args:
        fractional: noisy counts may have a fraction.
        grouped: every group has a ranking.
        weighed: sums of weights are published, and no counts.
        integers: items are integers of 64 bits.
        item, group: the names of the columns that are an item, or a group, together.
    """

    fractional: bool = False
    grouped: bool = False
    weighed: bool = False
    integers: bool = False
    item: tuple[str, ...] = ("item",)
    group: tuple[str, ...] = ("group",)

    @classmethod
    def of(cls, manifest: Manifest) -> RankingSchema:
        """The schema of the release that a manifest describes."""
        return cls(
            fractional=manifest.score.unit.denominator > 1,
            grouped=manifest.groups is not None,
            weighed=manifest.weights is not None and manifest.weights.noise_stddev is not None,
            integers=manifest.item_type == "int64",
            item=manifest.names("item"),
            group=manifest.names("group"),
        )


def fields_of(schema: RankingSchema) -> dict[str, tuple[pa.DataType, str]]:
    """The columns with their types and descriptions."""
    fields: dict[str, tuple[pa.DataType, str]] = {}
    for name, column in FIELDS.items():
        if name == "rank" and schema.grouped:
            fields |= _named(schema.group, (pa.string(), "of which group of the rows the ranking is"))
        fields |= _named(schema.item, column) if name == "item" else {name: column}
        if name == "item" and schema.weighed:
            fields["noisy_weight"] = (
                pa.float64(),
                "sum of the weights of the users who hold the item, with the noise that decided its rank; no count",
            )
    if schema.integers:
        fields["item"] = pa.int64(), fields["item"][1]
    if schema.fractional:
        fields |= {name: (pa.float64(), fields[name][1]) for name in _COUNTS if name in fields}
    return fields


def _named(names: tuple[str, ...], column: tuple[pa.DataType, str]) -> dict[str, tuple[pa.DataType, str]]:
    """A column by its name, or as many as have its place."""
    if len(names) == 1:
        return {names[0]: column}
    kind, doc = column
    return {name: (kind, f"{doc}: its {name}") for name in names}


PLAIN = RankingSchema()


def arrow_schema(schema: RankingSchema = PLAIN) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, (kind, _) in fields_of(schema).items()])


def ranking_rows(rankings: Iterable[Ranking], release_id: str, schema: RankingSchema = PLAIN) -> list[dict[str, Any]]:
    """One row per released item, in order of windows, of groups as listed, and of ranks, or of the domain for a set.

    Raises InvalidArgument for rankings of groups where the schema has none, and the reverse, and for fractions.
    """
    ordered, rule = in_order(rankings), ""
    if any((ranking.group is not None) != schema.grouped for ranking in ordered):
        rule = "must be RankingSchema(grouped=True) for rankings of groups, and only for those"
    if not schema.fractional and any(count % 1 for ranking in ordered for count in ranking.noisy_counts or ()):
        rule = "must be RankingSchema(fractional=True) for noisy sums that have fractions"
    if rule:
        raise InvalidArgument("schema", rule, "give ranking_rows(...) and the schema of the file the same one")
    rows = (row for ranking in ordered for row in ranking.to_rows())
    typed = ({**row, "item": int(row["item"])} if schema.integers else row for row in rows)
    return [{**row, "release_id": release_id} for row in typed]


def rankings_in(rows: Iterable[Mapping[str, Any]], manifest: Manifest) -> list[Ranking]:
    """The rankings that published rows are of: one for each window and group of their manifest, empty or not."""
    left, item, group = iter(rows), manifest.names("item"), manifest.names("group")
    counted = manifest.privacy is not None and manifest.privacy.publishes_counts
    weighed = RankingSchema.of(manifest).weighed
    rankings = []
    for window in manifest.windows:
        its = list(islice(left, window.returned))
        deviation, within = window.noise_stddev, window.noise_95
        ranking = Ranking(
            window=WindowBounds(window.start, window.end),
            items=tuple(label_in(row, item) for row in its),
            k=window.returned if manifest.k is None else manifest.k,
            answer=manifest.answer,
            noisy_counts=tuple(row["noisy_count"] for row in its) if counted else None,
            noise=None if deviation is None or within is None else NoiseSize(deviation, within),
            group=window.group,
            noisy_weights=tuple(row["noisy_weight"] for row in its) if weighed else None,
            group_number=window.group_number,
            item_columns=item,
            group_columns=group,
        )
        rankings.append(ranking)
    return rankings


def columns_in(row: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a published row that hold its group and its item: all that hold nothing else, those of the group
    before the rank.
    """
    names = list(row)
    labels = {name for name in names if name not in _OF_OTHERS}
    if labels <= {"group", "item"}:  # in whatever order
        return tuple({"group"} & labels), tuple({"item"} & labels)
    rank = names.index("rank") if "rank" in names else len(names)
    group, item = (tuple(name for name in some if name in labels) for some in (names[:rank], names[rank:]))
    return group, item


def group_of(row: Mapping[str, Any]) -> str | None:
    """The group of a published row, for people; None where there are no groups."""
    names = columns_in(row)[0]
    return as_text(label_in(row, names)) if names else None


def item_of(row: Mapping[str, Any]) -> str:
    """The item of a published row, for people."""
    return as_text(label_in(row, columns_in(row)[1]))


def label_in(row: Mapping[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401 - as the file has it
    """The label in the columns of a row: a tuple where there are several, None where there is no column."""
    parts = tuple(row[name] for name in names)
    return parts if len(parts) > 1 else next(iter(parts), None)


def as_text(label: object) -> str:
    """A published label for people: of several columns its parts as a line of CSV has them, so that different ones look
    different.
    """
    if not isinstance(label, tuple):
        return str(label)
    return ", ".join('"' + part.replace('"', '""') + '"' if set(part) & set(',"') else part for part in label)


Rows = list[dict[str, Any]]
_MAY_BE_NULL = ("rank", "noisy_count", "noise_stddev", "noise_95")


class _Encode(Protocol):
    def __call__(self, rows: Rows, schema: RankingSchema = ...) -> bytes: ...


class Format(NamedTuple):
    encode: _Encode
    decode: Callable[[bytes], Rows]


def _avro_type(name: str, kind: pa.DataType) -> Any:  # noqa: ANN401 - an Avro schema
    if pa.types.is_timestamp(kind):
        return ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    plain = "string" if pa.types.is_string(kind) else "double" if pa.types.is_floating(kind) else "long"
    return ["null", plain] if name in _MAY_BE_NULL else plain


def avro_schema(schema: RankingSchema = PLAIN) -> dict[str, Any]:
    """The schema of an Avro file of rankings."""
    columns = fields_of(schema).items()
    return {
        "type": "record",
        "name": "RankedItem",
        "namespace": "private_topk",
        "doc": "One released item of a differentially private top-k ranking.",
        "fields": [{"name": name, "type": _avro_type(name, kind), "doc": doc} for name, (kind, doc) in columns],
    }


def _to_avro(rows: Rows, schema: RankingSchema = PLAIN) -> bytes:
    sink = io.BytesIO()
    # A fixed sync marker: the same release gives the same bytes.
    fastavro.writer(sink, avro_schema(schema), rows, codec="deflate", sync_marker=b"private-topk\0\0\0\1")
    return sink.getvalue()


def _from_avro(content: bytes) -> Rows:
    records: Iterable[Any] = fastavro.reader(io.BytesIO(content))
    return list(records)


def _to_json_lines(rows: Rows, schema: RankingSchema = PLAIN) -> bytes:
    return "".join(json.dumps(row, default=utc_text, ensure_ascii=False) + "\n" for row in rows).encode()


def _from_json_lines(content: bytes) -> Rows:
    rows = [json.loads(line) for line in content.decode().split("\n") if line]
    for row in rows:
        for name in ("window_start", "window_end"):
            row[name] = row[name] and datetime.fromisoformat(row[name])
    return rows


def _to_csv(rows: Rows, schema: RankingSchema = PLAIN) -> bytes:
    sink = pa.BufferOutputStream()
    if schema.integers:
        rows = [{**row, "item": str(row["item"])} for row in rows]  # quoted like others: CSV has no types
    table = pa.Table.from_pylist(rows, arrow_schema(schema._replace(integers=False)))
    for at, name in enumerate(("window_start", "window_end")):
        table = table.set_column(at, name, pa.array([row[name] and utc_text(row[name]) for row in rows], pa.string()))
    pa_csv.write_csv(table, sink, pa_csv.WriteOptions(quoting_style="needed"))
    return sink.getvalue().to_pybytes()


def _from_csv(content: bytes) -> Rows:
    types = {name: kind for name, (kind, _) in fields_of(PLAIN).items()}
    header = next(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")), [])
    types |= dict.fromkeys((*_COUNTS, *(name for name in header if name not in _OF_OTHERS)), pa.string())
    options = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    rows = pa_csv.read_csv(io.BytesIO(content), parse_options=parse, convert_options=options).to_pylist()
    return [row | {name: _number(row[name]) for name in _COUNTS if name in row} for row in rows]


def _number(text: str) -> int | float | None:
    if not text:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _to_parquet(rows: Rows, schema: RankingSchema = PLAIN) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema(schema)), sink)
    return sink.getvalue().to_pybytes()


_JSON_LINES = Format(_to_json_lines, _from_json_lines)

RANKING_FORMATS = {
    ".avro": Format(_to_avro, _from_avro),
    ".csv": Format(_to_csv, _from_csv),
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".parquet": Format(_to_parquet, lambda content: pq.read_table(io.BytesIO(content)).to_pylist()),
}


def check_fields(schema: RankingSchema) -> None:
    """Raise InvalidArgument for the name of a published column that is none of a field of Avro."""
    for field, names in (("item_column", schema.item), ("group_column", schema.group)):
        for name in names:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                rule = f"has a column {verbatim(repr(name))}, and names in Avro are of letters A to Z, digits and _"
                raise InvalidArgument(field, rule, "rename it, or give another format of {output}")


def format_of(path: str) -> Format:
    """The output format by the file's ending. Raises InvalidArgument for an unknown one."""
    for ending, codec in RANKING_FORMATS.items():
        if path.lower().endswith(ending):
            return codec
    raise InvalidArgument("output", f"{verbatim(path)} must end with one of {', '.join(RANKING_FORMATS)}")
