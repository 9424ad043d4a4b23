"""The arguments of a streaming report beyond those it shares with `run`. Nothing here imports Beam."""

from __future__ import annotations

import argparse
from datetime import timedelta

from private_topk.pipelines.options import add_column_arguments, add_question_arguments, duration

__all__ = ["add_stream_arguments"]


def add_stream_arguments(parser: argparse.ArgumentParser) -> None:
    """All arguments of a streaming report. Whether required ones are there is checked later."""
    rows = parser.add_argument_group("input")
    rows.add_argument("--input", metavar="PLACE", help="kafka://HOST:PORT[,HOST:PORT]/TOPIC, pubsub://projects/P/"
                      "subscriptions/S, or a glob of files that arrive, as in 'incoming/*.avro'")  # fmt: skip
    rows.add_argument(
        "--payload", choices=("json", "avro"), default="json", help="what a message holds (default: json)"
    )
    rows.add_argument("--payload-schema", metavar="FILE", help="with --payload avro: the schema, an .avsc file")
    add_column_arguments(rows)
    _add_clock(parser)
    _add_kafka(parser)
    add_question_arguments(parser)
    running = parser.add_argument_group("running")
    running.add_argument("--output", metavar="PLACE", help="a folder, for one file and manifest per window; or kafka://"
                         "HOST:PORT/TOPIC, pubsub://projects/P/topics/T, bigquery://PROJECT:DATASET.TABLE")  # fmt: skip
    running.add_argument("--output-format", choices=("avro", "jsonl", "csv", "parquet"), default="avro",
                         help="of the files in an output folder (default: avro)")  # fmt: skip
    running.add_argument("--overwrite", action="store_true", help="replace files of the same windows")
    running.add_argument("--runner", default="direct", metavar="NAME", help="direct (default) for trials with sources "
                         "that end, prism, flink, dataflow, or portable")  # fmt: skip
    running.add_argument("--shards", type=int, default=16, metavar="N",
                         help="user shards, a power of two; any gives the same ranking (default: 16)")  # fmt: skip


def _add_clock(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("when a window is published (docs/streaming.md)")
    group.add_argument("--clock", choices=("log", "event"), default="log", help="log (default): when the source's own "
                       "clock, of arrivals, has passed the window's end; event: when the rows' times have, for "
                       "replaying logs that are in order")  # fmt: skip
    group.add_argument("--slack", type=duration, default=timedelta(0), metavar="LENGTH", help="wait so much longer, "
                       "for rows that come late (default: none); later ones are dropped")  # fmt: skip
    group.add_argument("--poll", type=duration, default=timedelta(seconds=10), metavar="LENGTH",
                       help="files: how often to look for new ones (default: 10s)")  # fmt: skip


def _add_kafka(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Kafka")
    group.add_argument("--kafka-reader", choices=("native", "beam"), default="native", help="native (default): "
                       "librdkafka, on every runner; beam: Beam's cross-language transform, needs Java")  # fmt: skip
    group.add_argument("--kafka-readers", type=int, default=1, metavar="N", help="with the native reader: how many "
                       "workers share the partitions (default: 1)")  # fmt: skip
    group.add_argument("--kafka-start", choices=("earliest", "latest"), default="earliest",
                       help="where a topic is entered (default: earliest)")  # fmt: skip
    group.add_argument("--kafka-option", action="append", default=[], metavar="NAME=VALUE",
                       help="of the client, such as security.protocol=SASL_SSL; may be given again")  # fmt: skip
    group.add_argument("--expansion-service", metavar="HOST:PORT", help="with --kafka-reader beam: one that is up")
