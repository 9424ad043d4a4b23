"""Rankings as messages: one JSON object a window, to Kafka or Pub/Sub; or as rows of a BigQuery table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.sinks.rows import FIELDS, ranking_rows
from private_topk.pipelines.sources.kafka import KafkaTopic
from private_topk.transforms.release import Ranking

__all__ = ["WriteBigQuery", "WriteKafka", "WritePubSub", "message_of", "table_schema"]


def message_of(ranking: Ranking, release_id: str) -> bytes:
    """One window as JSON: its bounds in UTC, the items in order of rank (or a set, in public order)."""
    start, end = (at and at.isoformat().replace("+00:00", "Z") for at in (ranking.window.start, ranking.window.end))
    whole = {
        "window_start": start,
        "window_end": end,
        "answer": ranking.answer,
        "items": list(ranking.items),
        "noisy_counts": ranking.noisy_counts and list(ranking.noisy_counts),
        "k": ranking.k,
        "release_id": release_id,
    }
    return json.dumps(whole, ensure_ascii=False).encode()


class WriteKafka(beam.PTransform):
    """One message a window, its label as the key. A repeated bundle sends the same message again.

    Raises KafkaException on the worker, so that the bundle is tried again, unless the broker has taken every message.
    """

    def __init__(self, topic: KafkaTopic, release_id: str) -> None:
        super().__init__()
        self._fn = _SendDoFn(topic, release_id)

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        return rankings | "Send" >> beam.ParDo(self._fn).with_output_types(str)


class _SendDoFn(beam.DoFn):
    def __init__(self, topic: KafkaTopic, release_id: str) -> None:
        self._topic, self._release_id = topic, release_id
        self._producer: Any = None

    def start_bundle(self) -> None:
        self._failed: list[Any] = []

    def process(self, ranking: Ranking) -> Iterator[str]:
        from confluent_kafka import Producer

        if self._producer is None:
            self._producer = Producer(self._topic.client(**{"enable.idempotence": True, "message.timeout.ms": 60_000}))
        label = ranking.window.label()
        self._producer.produce(self._topic.topic, message_of(ranking, self._release_id), label, on_delivery=self._note)
        yield label

    def finish_bundle(self) -> None:
        from confluent_kafka import KafkaException

        if self._producer is not None and self._producer.flush(65):
            raise TimeoutError("the broker did not take a message in time")
        if self._failed:
            raise KafkaException(self._failed[0])

    def _note(self, error: Any, message: Any) -> None:  # noqa: ANN401 - the client's own
        if error is not None:
            self._failed.append(error)


class WritePubSub(beam.PTransform):
    """One message a window, with the attribute `window`. Pub/Sub may deliver a message more than once."""

    def __init__(self, topic: str, release_id: str) -> None:
        super().__init__()
        self._topic, self._release_id = topic, release_id

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        from apache_beam.io.gcp.pubsub import PubsubMessage, WriteToPubSub

        release_id = self._release_id
        messages = rankings | "As messages" >> beam.Map(
            lambda ranking: PubsubMessage(message_of(ranking, release_id), {"window": ranking.window.label()})
        ).with_output_types(PubsubMessage)
        return messages | "Send" >> WriteToPubSub(self._topic, with_attributes=True)


class WriteBigQuery(beam.PTransform):
    """The rows of `FIELDS`, appended by streaming inserts; BigQuery drops what a repeated bundle inserts again within
    a minute. The table is made if it is not there.
    """

    def __init__(self, table: str, release_id: str) -> None:
        super().__init__()
        self._table, self._release_id = table, release_id

    def expand(self, rankings: beam.PCollection) -> Any:  # noqa: ANN401 - Beam's result
        from apache_beam.io.gcp.bigquery import BigQueryDisposition, WriteToBigQuery

        return (
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
