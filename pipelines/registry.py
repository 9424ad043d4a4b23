"""Sources and sinks from addresses: by their scheme, and only with the options that apply to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

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
from private_topk.pipelines.sources.kafka import Kafka
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.pipelines.sources.pubsub import PubSub
from private_topk.pipelines.sources.source import Source
from private_topk.transforms.errors import InvalidArgument, verbatim

_TAKES = {
    "kafka": ("clock", "payload", "kafka_readers", "kafka_start", "kafka_config"),
    "pubsub": ("clock", "payload"),
    "bigquery": ("snapshot",),
}
"""The options that sources take beside their address and columns, by scheme."""


def source_of(
    uri: str | os.PathLike[str],
    columns: Columns,
    watch: bool = False,
    **options: Any,  # noqa: ANN401 - of each its own
) -> Source:
    """The source at an address. Does not access it: `Source.check` does.

    Args:
        watch: rows are read as they come, window by window, instead of those that exist now.

    Raises InvalidArgument of `input`, or of an option that is wrong or does not
    apply.
    """
    uri, scheme = _place(uri, "input")
    if options.get("clock", "log") not in ("log", "event"):
        raise InvalidArgument("clock", f"must be one of log, event, got {verbatim(options['clock'])}")
    if watch != (scheme in ("kafka", "pubsub")) and scheme in _TAKES:
        what = "a table, which is all there" if watch else "a stream, which does not end by itself"
        remedy = f"`private-topk {'run' if watch else 'stream'}` takes it with the same arguments"
        raise InvalidArgument("input", f"{verbatim(uri)} is {what}", remedy)
    _only(options, uri, *_TAKES.get(scheme, ("clock", "poll") if watch else ()))
    if columns.constants and (watch or scheme in _TAKES):
        raise InvalidArgument("constants", f"does not apply to {verbatim(uri)}, but to files that are all there")
    if scheme == "kafka":
        topic = KafkaTopic.of(uri, tuple(options.pop("kafka_config", ())), "input")
        if options.get("kafka_start") == "latest":
            options["kafka_start"] = this_moment()
        return Kafka(topic, columns, **{name.removeprefix("kafka_"): value for name, value in options.items()})
    if scheme == "pubsub":
        if options.pop("clock", "log") == "event":
            raise InvalidArgument("clock", "event does not apply to pubsub://: its clock is that of publication")
        return PubSub(uri, columns, **options)
    if scheme == "bigquery":
        if "snapshot" not in options:
            raise InvalidArgument(
                "snapshot",
                "must be given with bigquery://: a folder gs://BUCKET/FOLDER for the table's rows, "
                "so that a repeated report reads the same",
            )
        return BigQuery(uri, columns=columns, **options)
    return Folder(uri, columns, **options) if watch else Files(uri, columns)


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
    uri, scheme = _place(uri, "output")
    is_file = batch and uri.lower().endswith(tuple(RANKING_FORMATS))
    if format and (scheme in _TAKES or is_file):
        _only({"output_format": format}, uri)
    if scheme == "kafka":
        return ToKafka(KafkaTopic.of(uri, kafka_config, "output"))
    if scheme in _TAKES:
        return ToPubSub(uri) if scheme == "pubsub" else ToBigQuery(uri)
    if is_file:
        return ToFile(uri, overwrite)
    if batch and not (uri.endswith("/") or (is_local(uri) and os.path.isdir(uri))):
        raise InvalidArgument(
            "output",
            f"{verbatim(uri)} must end with one of {', '.join(RANKING_FORMATS)}; or with / for a "
            "folder, where every window gets a file of its own",
        )
    return ToFolder(uri, format or "avro", overwrite)


def _place(uri: object, field: str) -> tuple[str, str]:
    """An address as a text, and its scheme; paths are ones too, and have none."""
    address = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(address, str) or not address.strip():
        raise InvalidArgument(field, f"must be a path or an address, got {verbatim(repr(uri))}")
    scheme, separator, _ = address.partition("://")
    return as_path(address, field), scheme if separator else ""


def _only(options: dict[str, Any], uri: str, *names: str) -> None:
    for name in options:
        if name not in names:
            raise InvalidArgument(name, f"does not apply to {verbatim(uri)}: leave it out")
