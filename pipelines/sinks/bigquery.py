"""Rankings as rows of a BigQuery table."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.release.formats import (
    PLAIN,
    RANKING_FORMATS,
    RankingSchema,
    check_fields,
    fields_of,
    ranking_rows,
)
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sinks.files import WindowsTogether, by_window
from private_topk.pipelines.sinks.sink import Sink, refuse_read
from private_topk.pipelines.sources.bigquery import client_of, run_once, table_of
from private_topk.transforms.errors import InvalidArgument, crosses, verbatim
from private_topk.transforms.release import Ranking, Release
from private_topk.transforms.windows import Period


@dataclass(frozen=True)
class ToBigQuery(Sink):
    """Appends the rows of rankings to a table, once however often they are written. A missing table is created.

    Args:
        uri: bigquery://PROJECT:DATASET.TABLE.
    """

    uri: str

    def __post_init__(self) -> None:
        table_of(self.uri, "output")

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        client_of(table_of(self.uri, "output"), "output")
        refuse_read(self.uri, inputs, "table")

    def check_columns(self, manifest: Manifest) -> None:
        from google.api_core.exceptions import Forbidden, NotFound

        table, schema = table_of(self.uri, "output"), RankingSchema.of(manifest)
        check_fields(schema)  # rows are loaded as Avro
        with suppress(Forbidden, NotFound):  # the load job makes it, or may write where nobody may look
            there = {field.name: field.field_type for field in client_of(table, "output").get_table(table).schema}
            fields = fields_of(schema)
            if there and (missing := [name for name in fields if name not in there]):
                raise InvalidArgument(
                    "output",
                    f"{verbatim(self.uri)} has no column {', '.join(missing)}",
                    "give another table, or add to this one",
                )
            for name in schema.item:
                kinds = there.get(name), _kind(fields[name][0])
                if set(kinds) == {"STRING", "INTEGER"}:
                    rule = f"{verbatim(self.uri)} has items of type {kinds[0]}, and these are of type {kinds[1]}"
                    raise InvalidArgument("output", rule, "give another table")

    def write(
        self, manifest: Manifest, release: Release, live: RunState | None = None, period: Period | None = None
    ) -> beam.PTransform:
        schema = RankingSchema.of(manifest)
        return _WriteBigQuery(_LoadDoFn(table_of(self.uri, "output"), release.id, schema, live), schema.grouped, period)


class _WriteBigQuery(beam.PTransform):
    """One load job for all windows of a bounded input, and one for each window of a stream."""

    def __init__(self, fn: _LoadDoFn, grouped: bool, period: Period | None) -> None:
        super().__init__()
        self._fn, self._grouped, self._period = fn, grouped, period

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        whole = WindowsTogether(self._period)
        together = rankings | whole if rankings.is_bounded else by_window(rankings, self._grouped)
        # [Ranking]  ->  their labels
        return together | "Load" >> beam.ParDo(self._fn).with_output_types(str)


@crosses
class _LoadDoFn(beam.DoFn):
    def __init__(self, table: str, release_id: str, schema: RankingSchema, live: RunState | None) -> None:
        self._table, self._release_id, self._schema, self._live = table, release_id, schema, live

    def process(self, rankings: Iterable[Ranking]) -> Iterator[str]:
        released = list(rankings)
        rows = RANKING_FORMATS[".avro"].encode(ranking_rows(released, self._release_id, self._schema), self._schema)
        with nullcontext() if self._live is None else self._live.publishing():
            load(self._table, rows, table_schema(self._schema)["fields"])
        yield from dict.fromkeys(ranking.label() for ranking in released)


def load(table: str, rows: bytes, schema: Sequence[dict[str, Any]]) -> None:
    """Append an Avro file to a table, created if it is missing; once, however often this is called."""
    from google.cloud.bigquery import LoadJobConfig, SchemaField

    client = client_of(table, "output")
    # No field is REQUIRED: a Parquet or Avro file need not declare that a column has no nulls.
    fields = [SchemaField(column["name"], column["type"], description=column["description"]) for column in schema]
    config = LoadJobConfig(
        source_format="AVRO",
        schema=fields,
        write_disposition="WRITE_APPEND",
        create_disposition="CREATE_IF_NEEDED",
        use_avro_logical_types=True,
    )

    def start(job: str, attempt: int) -> Any:  # noqa: ANN401
        return client.load_table_from_file(io.BytesIO(rows), table, size=len(rows), job_id=job, job_config=config)

    run_once(client, hashlib.sha256(table.encode() + b"\0" + rows).hexdigest(), start, lambda attempt: True)


def table_schema(schema: RankingSchema = PLAIN) -> dict[str, Any]:
    """The table of rankings, as BigQuery's JSON."""
    return {
        "fields": [
            {"name": name, "type": _kind(kind), "mode": "NULLABLE", "description": doc}
            for name, (kind, doc) in fields_of(schema).items()
        ]
    }


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    return "STRING" if pa.types.is_string(kind) else "FLOAT" if pa.types.is_floating(kind) else "INTEGER"
