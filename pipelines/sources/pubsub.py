"""A Pub/Sub subscription as blocks. Needs the extra `gcp`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.pipelines.sources.clock import this_moment
from private_topk.pipelines.sources.columns import Columns, Types
from private_topk.pipelines.sources.payloads import Decoder, JsonPayload, Payload
from private_topk.pipelines.sources.source import BlockReader, Source, horizon
from private_topk.transforms.errors import InvalidArgument, crosses, install_extra, verbatim
from private_topk.transforms.windows import Period

_FORMS = {"subscriptions": "pubsub://projects/P/subscriptions/S", "topics": "pubsub://projects/P/topics/T"}
_MESSAGES = 50_000


@dataclass(frozen=True)
class PubSub(Source):
    """A subscription, read while a runner is listening. Its clock is Pub/Sub's time of publication.

    Args:
        uri: pubsub://projects/P/subscriptions/S.
        since: the time of the launch. A subscription delivers every message once, so no other launch reads the same.
    """

    identity_tag: ClassVar[str] = "pub-sub"

    uri: str
    columns: Columns = Columns(time="time")
    payload: Payload = JsonPayload()
    since: str = field(default_factory=this_moment)

    bounded, live = False, True

    def __post_init__(self) -> None:
        resource(self.uri, "subscriptions", "input")

    @property
    def types(self) -> Sequence[Types]:
        return (self.payload.types(),)

    def check(self, period: Period | None) -> None:
        horizon(period)
        check_google(self.uri, "input")
        self.read(period)

    def read(self, period: Period | None) -> BlockReader:
        from apache_beam.io.gcp.pubsub import ReadFromPubSub

        try:
            receive = ReadFromPubSub(subscription=resource(self.uri, "subscriptions", "input"))
        except ValueError as error:  # Beam's own check of the name
            raise InvalidArgument("input", verbatim(error)) from None
        gather = beam.ParDo(GatherMessages(self.columns, self.payload))
        return BlockReader(
            lambda pipeline, _: pipeline | "Receive" >> receive | "Gather messages into blocks" >> gather
        )


def resource(uri: str, kind: str, name: str) -> str:
    """projects/P/KIND/NAME of an address. Raises InvalidArgument of the field `name`."""
    path = uri.removeprefix("pubsub://")
    if not re.fullmatch(rf"projects/[^/]+/{kind}/[^/]+", path):
        raise InvalidArgument(name, f"must be like {_FORMS[kind]}, got {verbatim(uri)}")
    return path


def check_google(uri: str, name: str) -> None:
    """Raise InvalidArgument of the field `name` where Google's clients are missing."""
    try:
        import google.cloud.pubsub_v1  # noqa: F401
    except ImportError:
        scheme = uri.partition("://")[0]
        raise InvalidArgument(name, f"{scheme}:// needs Google's clients", install_extra("gcp")) from None


@crosses
class GatherMessages(beam.DoFn):
    """Single messages (bytes, in the global window) to blocks, as many as a bundle holds.

    A message has arrived at its element's timestamp: that of publication, or of the broker's log.
    """

    def __init__(self, columns: Columns, payload: Payload) -> None:
        self._decoder = Decoder(payload, columns)

    def start_bundle(self) -> None:
        self._messages: list[bytes] = []
        self._arrived: list[int] = []

    def process(self, message: bytes, time: Any = beam.DoFn.TimestampParam) -> Iterator[pa.RecordBatch]:  # noqa: ANN401, B008
        self._messages.append(message)
        self._arrived.append(time.micros)
        if len(self._messages) >= _MESSAGES:
            yield from self._blocks()

    def finish_bundle(self) -> Iterable[WindowedValue]:
        first = Timestamp(micros=min(self._arrived, default=0))
        for block in self._blocks():
            yield WindowedValue(block, first, (GlobalWindow(),))

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        messages, arrived = self._messages, self._arrived
        self._messages, self._arrived = [], []
        if messages:
            block = self._decoder.block(messages, arrived)
            if len(block):
                yield block
