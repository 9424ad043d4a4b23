"""Where a stream comes from and where its rankings go: addresses to transforms."""

from __future__ import annotations

import argparse
import re
from typing import Any

import apache_beam as beam

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.sinks.messages import WriteBigQuery, WriteKafka, WritePubSub
from private_topk.pipelines.sinks.windows import WriteWindows, window_path
from private_topk.pipelines.sources import format_of
from private_topk.pipelines.sources.clock import Clock
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.folder import WatchFolder, arrived
from private_topk.pipelines.sources.kafka import KafkaTopic, ReadKafka
from private_topk.pipelines.sources.kafka_java import ReadKafkaByBeam
from private_topk.pipelines.sources.payloads import make_payload
from private_topk.pipelines.sources.pubsub import ReadPubSub
from private_topk.transforms.keys import Release
from private_topk.transforms.windows import Period

__all__ = ["make_sink", "make_source"]

_SERVERS = re.compile(r"kafka://([\w.\-\[\]:]+:\d+(?:,[\w.\-\[\]:]+:\d+)*)/([\w.\-]{1,249})")


def make_source(arguments: argparse.Namespace, columns: Columns, period: Period) -> beam.PTransform:
    """The transform that gives blocks with times. Raises InputError if the place is not there."""
    place, clock = arguments.input, Clock.of(arguments.clock, period)
    if place.startswith("kafka://"):
        topic, payload = (
            _topic("--input", arguments),
            make_payload(arguments.payload, arguments.payload_schema, columns),
        )
        if arguments.kafka_reader == "native":
            _check_readers(arguments)
            return ReadKafka(topic, columns, payload, clock, arguments.kafka_start, arguments.kafka_readers)
        if clock.by_rows:
            raise InputError("--kafka-reader beam knows the log's clock only: give --clock log, or the native reader")
        return ReadKafkaByBeam(topic, columns, payload, arguments.kafka_start, arguments.expansion_service)
    if place.startswith("pubsub://"):
        if clock.by_rows:
            raise InputError("--clock event does not apply to pubsub://: its clock is that of publication")
        subscription = _resource("--input", place, r"projects/[^/]+/subscriptions/[^/]+")
        return ReadPubSub(subscription, columns, make_payload(arguments.payload, arguments.payload_schema, columns))
    format_of(place)
    for file, _ in arrived(place):
        format_of(file.path).check(file, columns)
    return WatchFolder(place, columns, clock, arguments.poll.total_seconds())


def make_sink(
    arguments: argparse.Namespace, period: Period, release: Release, facts: dict[str, Any]
) -> beam.PTransform:
    """The transform that publishes rankings. Raises InputError if the place cannot take them."""
    place = arguments.output
    if place.startswith("kafka://"):
        topic = _topic("--output", arguments)
        topic.partitions()
        return WriteKafka(topic, release.id)
    if place.startswith("pubsub://"):
        _needs_google(place)
        return WritePubSub(_resource("--output", place, r"projects/[^/]+/topics/[^/]+"), release.id)
    if place.startswith("bigquery://"):
        _needs_google(place)
        return WriteBigQuery(_resource("--output", place, r"[^:./]+[:.][^:./]+\.[^:./]+"), release.id)
    ending = f".{arguments.output_format}"
    _check_folder(place, ending, period, arguments.overwrite)
    return WriteWindows(place, ending, facts, release.key)


def _check_readers(arguments: argparse.Namespace) -> None:
    if arguments.kafka_readers < 1:
        raise InputError(f"--kafka-readers must be at least 1, got {arguments.kafka_readers}")
    if arguments.kafka_readers > 1 and arguments.runner.lower().startswith("prism"):
        raise InputError("--kafka-readers must be 1 on Prism, which follows the clock of whichever reader reported "
                         "last instead of the slowest, and would close windows too early")  # fmt: skip


def _topic(name: str, arguments: argparse.Namespace) -> KafkaTopic:
    place = arguments.input if name == "--input" else arguments.output
    found = _SERVERS.fullmatch(place)
    if not found:
        raise InputError(f"{name} {place} must be kafka://HOST:PORT/TOPIC, with more servers after commas")
    options = []
    for option in arguments.kafka_option:
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise InputError("--kafka-option must be NAME=VALUE, such as security.protocol=SASL_SSL")
        options.append((key, value))
    return KafkaTopic(found[1], found[2], tuple(options))


def _resource(name: str, place: str, form: str) -> str:
    resource = place.partition("://")[2]
    if not re.fullmatch(form, resource):
        examples = {
            "p": "pubsub://projects/P/subscriptions/S or pubsub://projects/P/topics/T",
            "b": "bigquery://PROJECT:DATASET.TABLE",
        }
        raise InputError(f"{name} {place} must be like {examples[place[0]]}")
    return resource


def _needs_google(place: str) -> None:
    try:
        import google.cloud.pubsub_v1  # noqa: F401
    except ImportError:
        raise InputError(
            f"{place.partition('://')[0]}:// needs Google's clients: pip install 'private-topk[gcp]'"
        ) from None


def _check_folder(folder: str, ending: str, period: Period, overwrite: bool) -> None:
    from apache_beam.io.filesystems import FileSystems

    try:
        there = {
            entry.path.rpartition("/")[2] for entry in FileSystems.match([f"{folder.rstrip('/')}/*"])[0].metadata_list
        }
    except Exception as error:  # every file system raises its own kind
        raise InputError(f"--output {folder} cannot be read: {type(error).__name__}") from None
    for window in [] if overwrite or not there else period.windows():
        path = window_path(folder, ending, window)
        if path.rpartition("/")[2] in there:
            raise InputError(f"--output: {path} exists and is kept: give another folder, or --overwrite")
