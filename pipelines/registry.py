"""Sources and sinks from addresses: by their scheme, and only with the options that apply to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from private_topk.pipelines.files import as_path, is_local
from private_topk.pipelines.release.formats import RANKING_FORMATS
from private_topk.pipelines.sinks.bigquery import ToBigQuery
from private_topk.pipelines.sinks.files import ToFile, ToFolder
from private_topk.pipelines.sinks.messages import ToKafka, ToPubSub
from private_topk.pipelines.sinks.sink import Sink
from private_topk.pipelines.sources.bigquery import BigQuery
from private_topk.pipelines.sources.clock import this_moment
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files
from private_topk.pipelines.sources.folder import Folder
from private_topk.pipelines.sources.kafka import Kafka, KafkaTopic
from private_topk.pipelines.sources.payloads import JsonPayload, Payload
from private_topk.pipelines.sources.pubsub import PubSub
from private_topk.pipelines.sources.source import Source
from private_topk.transforms.errors import InvalidArgument, verbatim


class SourceOptions(TypedDict, total=False):
    """What some sources take beside their address and columns."""

    payload: Payload
    clock: str
    poll: timedelta
    kafka_readers: int
    kafka_start: str
    kafka_config: Sequence[tuple[str, str]]
    snapshot: str


def source_of(
    uri: str | os.PathLike[str], columns: Columns, watch: bool = False, **given: Unpack[SourceOptions]
) -> Source:
    """The source at an address. Does not access it: `Source.check` does.

    Args:
        watch: rows are read as they come, window by window, instead of those that exist now.

    Raises InvalidArgument of `input`, or of an option that is wrong or does not
    apply.
    """
    options: dict[str, Any] = dict(given)
    uri = _place(uri, "input")
    scheme = uri.partition("://")[0] if "://" in uri else ""
    if options.get("clock", "log") not in ("log", "event"):
        raise InvalidArgument("clock", f"must be one of log, event, got {verbatim(options['clock'])}")
    if scheme in ("kafka", "pubsub"):
        if not watch:
            raise InvalidArgument(
                "input",
                f"{verbatim(uri)} is a stream, which does not end by itself",
                "`private-topk stream` takes it with the same arguments",
            )
        return _kafka(uri, columns, options) if scheme == "kafka" else _pubsub(uri, columns, options)
    if scheme == "bigquery":
        return _bigquery(uri, columns, watch, options)
    if not watch:
        _only(options, uri)
        return Files(as_path(uri, "input"), columns)
    _only(options, uri, "clock", "poll")
    return Folder(as_path(uri, "input"), columns, **options)


def sink_of(
    uri: str | os.PathLike[str],
    format: str | None = None,
    overwrite: bool = False,
    batch: bool = True,
    *,
    kafka_config: Sequence[tuple[str, str]] = (),
) -> Sink:
    """The sink at an address. Only looks whether a path is a folder: `Sink.check` does the rest.

    Args:
        format: of the files in a folder; None for avro.
        batch: a path that ends like a file is one file; otherwise every path is a folder.

    Raises InvalidArgument of `output` or of an option that does not apply.
    """
    uri = _place(uri, "output")
    scheme = uri.partition("://")[0] if "://" in uri else ""
    if scheme in ("kafka", "pubsub", "bigquery"):
        _only({"output_format": format} if format else {}, uri)
        if scheme == "kafka":
            return ToKafka(KafkaTopic.of(uri, kafka_config, "output"))
        return ToPubSub(uri) if scheme == "pubsub" else ToBigQuery(uri)
    uri = as_path(uri, "output")
    if batch and uri.lower().endswith(tuple(RANKING_FORMATS)):
        _only({"output_format": format} if format else {}, uri)
        return ToFile(uri, overwrite)
    if batch and not (uri.endswith("/") or (is_local(uri) and os.path.isdir(uri))):
        raise InvalidArgument(
            "output",
            f"{verbatim(uri)} must end with one of {', '.join(RANKING_FORMATS)}; or with / for a "
            "folder, where every window gets a file of its own",
        )
    return ToFolder(uri, format or "avro", overwrite)


def _place(uri: object, field: str) -> str:
    """An address as a text; paths are ones too."""
    address = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(address, str) or not address.strip():
        raise InvalidArgument(field, f"must be a path or an address, got {verbatim(repr(uri))}")
    return address


def _kafka(uri: str, columns: Columns, options: dict[str, Any]) -> Source:
    topic = KafkaTopic.of(uri, tuple(options.pop("kafka_config", ())), "input")
    payload, start = options.pop("payload", JsonPayload()), options.pop("kafka_start", "earliest")
    start = this_moment() if start == "latest" else start
    _only(options, uri, "clock", "kafka_readers")
    return Kafka(topic, columns, payload, options.get("clock", "log"), start, options.get("kafka_readers", 1))


def _pubsub(uri: str, columns: Columns, options: dict[str, Any]) -> Source:
    if options.pop("clock", "log") == "event":
        raise InvalidArgument("clock", "event does not apply to pubsub://: its clock is that of publication")
    _only(options, uri, "payload")
    return PubSub(uri, columns, options.get("payload", JsonPayload()))


def _bigquery(uri: str, columns: Columns, watch: bool, options: dict[str, Any]) -> Source:
    if watch:
        raise InvalidArgument(
            "input",
            f"{verbatim(uri)} is a table, which is all there",
            "`private-topk run` takes it with the same arguments",
        )
    _only(options, uri, "snapshot")
    if "snapshot" not in options:
        raise InvalidArgument(
            "snapshot",
            "must be given with bigquery://: a folder gs://BUCKET/FOLDER for the table's rows, "
            "so that a repeated report reads the same",
        )
    return BigQuery(uri, options["snapshot"], columns)


def _only(options: dict[str, Any], uri: str, *names: str) -> None:
    for name in options:
        if name not in names:
            raise InvalidArgument(name, f"does not apply to {verbatim(uri)}: leave it out")
