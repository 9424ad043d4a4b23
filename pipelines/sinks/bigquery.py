"""Rankings as rows of a BigQuery table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.sinks.rows import FIELDS, ranking_rows
from private_topk.pipelines.sources.pubsub import check_google
from private_topk.transforms.keys import Release
from private_topk.transforms.refusal import Refusal, verbatim
from private_topk.transforms.release import Ranking
from private_topk.transforms.windows import Period

__all__ = ["ToBigQuery", "table_schema"]


@dataclass(frozen=True)
class ToBigQuery:
    """The rows of `FIELDS`, appended to a table, which is made if it is not there.

    Args:
        place: bigquery://PROJECT:DATASET.TABLE.
    """

    place: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"bigquery://[^:./]+[:.][^:./]+\.[^:./]+", self.place):
            raise Refusal("output", f"must be like bigquery://PROJECT:DATASET.TABLE, got {verbatim(self.place)}")

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        check_google(self.place, "output")
        if self.place in inputs:
            raise Refusal("output", f"{verbatim(self.place)} is read", "give another table")

    def write(self, facts: dict[str, Any], release: Release) -> beam.PTransform:
        return _WriteBigQuery(self.place.removeprefix("bigquery://"), release.id)

    def local_places(self) -> tuple[str, ...]:
        return ()

    def files(self, period: Period | None) -> list[str] | None:
        return None

    def published(self) -> list[dict[str, Any]] | None:
        return None


class _WriteBigQuery(beam.PTransform):
    """Streaming inserts; BigQuery drops what a repeated bundle inserts again within a minute."""

    def __init__(self, table: str, release_id: str) -> None:
        super().__init__()
        self._table, self._release_id = table, release_id

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        from apache_beam.io.gcp.bigquery import BigQueryDisposition, WriteToBigQuery

        _ = (
            rankings
            | "As rows" >> beam.FlatMap(_table_rows, self._release_id)
            | "Insert" >> WriteToBigQuery(
                self._table,
                schema=table_schema(),
                method=WriteToBigQuery.Method.STREAMING_INSERTS,
                create_disposition=BigQueryDisposition.CREATE_IF_NEEDED,
                write_disposition=BigQueryDisposition.WRITE_APPEND,
            )
        )  # fmt: skip
        return rankings | "Name" >> beam.Map(lambda ranking: ranking.window.label()).with_output_types(str)


def table_schema() -> dict[str, Any]:
    """The table of rankings, as BigQuery's JSON."""
    return {"fields": [{"name": name, "type": _kind(kind), "mode": "NULLABLE", "description": doc}
                       for name, (kind, doc) in FIELDS.items()]}  # fmt: skip


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    return "STRING" if pa.types.is_string(kind) else "INTEGER"


def _table_rows(ranking: Ranking, release_id: str) -> Iterator[dict[str, Any]]:
    for row in ranking_rows([ranking], release_id):
        yield {
            name: value.isoformat() if name.startswith("window_") and value else value for name, value in row.items()
        }
