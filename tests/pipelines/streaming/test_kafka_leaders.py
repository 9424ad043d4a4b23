"""Leaders that change, lag and disagree about the time: a broker of recorded answers, in a time of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, TopicPartition

from private_topk.pipelines.sources import kafka_reader, kafka_topic
from private_topk.pipelines.sources.clock import Clock
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka_log import Log, extent_of
from private_topk.pipelines.sources.kafka_reader import GroupReader, ReadPartitionsDoFn
from private_topk.pipelines.sources.payloads import JsonPayload
from tests.pipelines.streaming import turns
from tests.pipelines.streaming.turns import Reading, short_windows
from tests.refusals import refused

START, SKEW, LAG = 1_800_000_000.0, 2.0, 1.5
NO_LEADER = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)


class Broker:
    """Partitions whose leader may change at any time: its clock is off by up to SKEW, and it shows a message when its
    replicas have it, up to LAG later. Both ask for the topic's consumers and are them.
    """

    uri, topic = "kafka://recorded/topic", "topic"

    def __init__(self, seed: int, partitions: int) -> None:
        self.dice, self.now = random.Random(seed), START
        self.logs: list[list[tuple[int, float, bytes]]] = [[] for _ in range(partitions)]
        self.skews = [0.0] * partitions
        self.at: dict[int, int] = {}
        self.silent = 0.0

    def consumer(self) -> Broker:
        return self

    observer = consumer

    def close(self) -> None:
        pass

    def settings_of(self, *_: object) -> dict[str, str]:
        return {}

    def produce(self, user: str, late: float = 0.0) -> None:
        part = self.dice.randrange(len(self.logs))
        if self.dice.random() < 0.05:
            self.skews[part] = self.dice.uniform(-SKEW, SKEW)
        row = json.dumps({"user": user, "item": "x", "time": int((self.now - late) * 1000)}).encode()
        shown = max(self.now + self.dice.uniform(0, LAG), self.logs[part][-1][1] if self.logs[part] else 0)
        self.logs[part].append((int((self.now + self.skews[part]) * 1000), shown, row))

    def end(self, part: int) -> int:
        return sum(shown <= self.now for _, shown, _ in self.logs[part])

    def assign(self, places: list[TopicPartition]) -> None:
        self.at = {place.partition: place.offset for place in places}

    def consume(self, most: int, wait: float) -> Iterator[Any]:
        for part, offset in list(self.at.items()):
            if self.dice.random() < self.silent:
                yield SimpleNamespace(error=lambda: NO_LEADER)
                continue
            end = min(self.end(part), offset + self.dice.randint(1, 30))
            for place in range(offset, end):
                yield self._message(part, place)
            self.at[part] = end
            if end == self.end(part):
                eof = KafkaError(KafkaError._PARTITION_EOF)
                yield SimpleNamespace(error=lambda e=eof: e, partition=lambda p=part: p, offset=lambda e=end: e)
        self.now += self.dice.uniform(0, wait)

    def _message(self, part: int, place: int) -> Any:  # noqa: ANN401
        stamp, _, row = self.logs[part][place]
        return SimpleNamespace(
            error=lambda: None,
            partition=lambda: part,
            offset=lambda: place,
            value=lambda: row,
            timestamp=lambda: (TIMESTAMP_LOG_APPEND_TIME, stamp),
        )

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.dice.random() < self.silent:
            raise KafkaException(NO_LEADER)
        return 0, self.end(place.partition)

    def list_topics(self, topic: str, timeout: float) -> Any:  # noqa: ANN401
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=self.logs, error=None)})


def reading(broker: Broker, monkeypatch: pytest.MonkeyPatch, behind: float, kind: str = "log", id: str = "") -> Reading:
    def pause(seconds: float) -> None:
        broker.now += seconds

    clock = SimpleNamespace(time=lambda: broker.now, monotonic=lambda: broker.now, sleep=pause)
    for module in (kafka_reader, turns):
        monkeypatch.setattr(module, "time", clock)
    group = tuple(range(len(broker.logs)))
    log = Log(broker, dict.fromkeys(group, 0), behind, id=id)
    period = short_windows(START + 5, 3, 10)
    return Reading(
        ReadPartitionsDoFn(log, Columns(time="time", time_unit="ms"), JsonPayload(), Clock(kind, period)), group
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_live_topic_equals_its_replay_through_leader_changes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the skew and the lag that are waited for no report fails, and none counts other rows when repeated."""
    broker = Broker(seed, partitions=1 + seed % 3)
    live = reading(broker, monkeypatch, SKEW + LAG + 0.1)
    broker.silent = [0.0, 0.2, 0.6][seed % 3]
    number = 0
    while not live.over:
        for _ in range(broker.dice.choice([0, 0, 1, 5])):
            number += 1
            if broker.now < START + 36:
                broker.produce(f"u{number}", broker.dice.choice([0, 0, 1, 4, 9]))
        live.turn()
        if broker.dice.random() < 0.1:
            live._fn.teardown()  # as a worker that is lost
        broker.now += broker.dice.choice([0, 0.01, 0.3, 1.0])
    counted = live.counted()
    broker.now, broker.silent = broker.now + 1000, 0.0
    again = reading(broker, monkeypatch, SKEW + LAG + 0.1)
    assert counted == again.to_the_end(100_000)
    assert len({window for window, _ in counted}) >= 5


@pytest.mark.parametrize("knows_the_end", [False, True])
def test_errors_are_waited_out_for_half_a_minute(knows_the_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the end of the log is known, as to who may describe a topic and not read it."""
    broker = Broker(1, partitions=1)
    broker.produce("u")
    if knows_the_end:
        monkeypatch.setattr(broker, "get_watermark_offsets", lambda place, timeout: (0, 1))
    live = reading(broker, monkeypatch, 1.0)
    broker.silent = 1.0
    with pytest.raises(KafkaException):
        live.until(lambda: live.over, 1000)
    assert 30 < broker.now - START < 60 and live.clock < live._fn._clock.period.closing[0]


def test_a_topic_that_is_away_is_told_once_and_again_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it comes back it answers on and off for some seconds: that is one outage, of its whole length."""
    told: list[Any] = []
    monkeypatch.setattr(kafka_reader, "say", told.append)
    broker = Broker(1, partitions=1)
    live = reading(broker, monkeypatch, 1.0)
    for broker.silent in (0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0):
        live.turn()
        broker.now += 3.0
    first, second = told
    assert first == "kafka://recorded/topic does not answer: windows wait for it"
    assert second.startswith("kafka://recorded/topic answers again, after 2") and 20 < second.facts["seconds"] < 30
    assert second.endswith(" held back for longer than the lateness of 0 s may be late, and dropped")
    assert [line.facts["level"] for line in told] == ["warning", "warning"]


@pytest.mark.parametrize(
    ("kind", "wanted"), [("event", "a row there with a later time"), ("log", "what a transaction there may hold back")]
)
def test_a_partition_that_holds_windows_is_named_once(kind: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other: rows come to partition 0 all the time, and partition 1 is silent, or has an open transaction."""
    told: list[str] = []
    monkeypatch.setattr(kafka_reader, "say", told.append)
    broker = Broker(1, partitions=2)
    hidden = 1 if kind == "log" else 0
    monkeypatch.setattr(
        broker, "get_watermark_offsets", lambda at, timeout: (0, broker.end(at.partition) + hidden * at.partition)
    )
    live = reading(broker, monkeypatch, 1.0, kind)
    for _ in range(60):
        broker.now += 2.0
        row = json.dumps({"user": "u", "item": "x", "time": int(broker.now * 1000)}).encode()
        broker.logs[0].append((int(broker.now * 1000), broker.now, row))
        live.turn()
    said = f"kafka://recorded/topic: for 60 s no message has come from partition 1, and windows wait for {wanted}"
    assert told == [said] and broker.now > START + 120


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created anew"])
def test_a_topic_that_is_deleted_in_a_quiet_hour_is_told(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client hears nothing of it, and by the clock "event" nothing else asks for the topic until a window closes."""
    told: list[Any] = []
    monkeypatch.setattr(kafka_reader, "say", told.append)
    broker = Broker(1, partitions=1)
    broker.id = lambda: "first"
    live = reading(broker, monkeypatch, 1.0, "event", id="first")
    for _ in range(60):
        live.turn()
        broker.now += 2.0
    assert not told
    if again:
        broker.id = lambda: "second"
        with refused("", "was deleted and created again since this release began"):
            for _ in range(60):
                live.turn()
                broker.now += 2.0
        return
    gone = SimpleNamespace(partitions={}, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    monkeypatch.setattr(broker, "list_topics", lambda topic, timeout: SimpleNamespace(topics={"topic": gone}))
    monkeypatch.setattr(broker, "consume", lambda most, wait: [])
    for _ in range(60):
        live.turn()
        broker.now += 2.0
    assert [line.facts["event"] for line in told] == ["away"]


def test_a_partition_without_an_answer_is_not_entered_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error beside an offset is none: taken for "nothing since then", all that is there would be passed over."""
    broker = Broker(1, partitions=1)
    broker.produce("u1")
    broker.now += LAG
    answers = [SimpleNamespace(error=NO_LEADER, offset=-1001), SimpleNamespace(error=None, offset=0)]
    broker.offsets_for_times = lambda places, timeout: [answers.pop(0)]
    monkeypatch.setattr(kafka_topic, "_PAUSE", 0.0)
    assert extent_of(broker, broker, 0, int(START * 1000)).begin == 0 and not answers
    monkeypatch.setattr(kafka_topic, "SETTLED", 0.01)
    broker.silent = 1.0
    with refused("input", "kafka://recorded/topic does not answer:") as refusal:
        extent_of(broker, broker, 0, None)
    assert refusal.value.field == "input"


def test_a_log_that_was_cut_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(1, partitions=1)
    reader = GroupReader(Log(broker, {0: 0}, 0.0), (0,), Clock("log", short_windows(START, 3, 1)))
    lost = KafkaError(KafkaError._AUTO_OFFSET_RESET)
    monkeypatch.setattr(broker, "consume", lambda most, wait: [SimpleNamespace(error=lambda: lost)])
    with refused("", "by a broker that took over with less"):
        reader.read((7,))


def test_a_topic_that_is_gone_before_another_of_its_name_is_there_is_told_as_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever deletes a topic makes it again a moment later: a worker that asks in between must not end with "unknown
    topic", which says nothing about the rows of the release.
    """
    broker = Broker(1, partitions=1)
    reader = GroupReader(Log(broker, {0: 0}, 0.0, id="first"), (0,), Clock("log", short_windows(START, 3, 1)))
    gone, there = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), broker.list_topics("topic", 1)
    none = SimpleNamespace(topics={"topic": SimpleNamespace(partitions={}, error=gone)})
    answers = [none, none, there, there]
    monkeypatch.setattr(broker, "list_topics", lambda topic, timeout: answers.pop(0))
    ids: list[Any] = [KafkaException(gone), "second"]
    monkeypatch.setattr(broker, "id", lambda: given if isinstance(given := ids.pop(0), str) else _raise(given), False)
    monkeypatch.setattr(kafka_topic, "_PAUSE", 0.0)
    with refused("", "was deleted and created again since this release began"):
        reader.check_topic()
    assert not answers and not ids


def _raise(error: Exception) -> str:
    raise error
