"""Kafka's source and sink held to the contracts of all, against a real broker."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from confluent_kafka import TopicPartition

from benchmarks.servers.kafka import main
from private_topk.pipelines.sinks.messages import ToKafka
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka import Kafka
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.pipelines.sources.payloads import AvroPayload
from private_topk.runners import Launch
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.sinks.contract import RELEASE, SinkContract
from tests.pipelines.sources.contract import KEY, PERIOD, ROWS, SourceContract
from tests.pipelines.streaming.replay import Topics

COLUMNS = Columns(time="time")
PARTITIONS = 2
SCHEMA = AvroPayload('{"type": "record", "name": "Row", "fields": []}')


def state_of(broker: Topics, name: str) -> object:
    observer = KafkaTopic(broker.address, name).observer()
    try:
        return [observer.get_watermark_offsets(TopicPartition(name, part), timeout=10) for part in range(PARTITIONS)]
    finally:
        observer.close()


class TestKafka(SourceContract):
    @pytest.fixture
    def source(self, broker: Topics) -> Kafka:
        self.broker, self.name = broker, f"contract-{time.time_ns()}"
        broker.create(self.name, PARTITIONS, **{"message.timestamp.type": "LogAppendTime"})
        broker.send(self.name, PARTITIONS, [(row["user"], json.dumps(row).encode()) for row in ROWS])
        after = {"user": None, "item": None, "time": (PERIOD.end + timedelta(days=1)).isoformat()}
        broker.end(self.name, PARTITIONS, json.dumps(after).encode())
        return Kafka(KafkaTopic(broker.address, self.name), COLUMNS)

    @pytest.fixture
    def missing(self, broker: Topics) -> Kafka:
        return Kafka(KafkaTopic(broker.address, "nowhere"), COLUMNS)

    def changes(self) -> dict[str, Any]:
        self.broker.create("another", 1)
        return {
            "topic": KafkaTopic(self.broker.address, "another"),
            "columns": Columns("item", "user", "time"),
            "payload": SCHEMA,
            "clock": "event",
            "start": "2026-01-01",
        }

    def state(self) -> object:
        return state_of(self.broker, self.name)

    def test_a_password_is_neither_shown_nor_part_of_the_name(self, source: Kafka) -> None:
        secret = replace(source, topic=replace(source.topic, options=(("sasl.password", "hunter2"),)))
        assert "hunter2" not in repr(secret) and "hunter2" not in secret.uri
        assert secret.identity(KEY, PERIOD) == source.identity(KEY, PERIOD)


class TestToKafka(SinkContract):
    keeps = False

    @pytest.fixture
    def sink(self, broker: Topics) -> ToKafka:
        self.broker, self.name = broker, f"to-{time.time_ns()}"
        broker.create(self.name, PARTITIONS)
        return ToKafka(KafkaTopic(broker.address, self.name))

    def state(self) -> object:
        """What a compacted topic would keep: a message for each key."""
        if not any(high for _, high in state_of(self.broker, self.name)):
            return {}
        return dict(self.broker.messages(self.name, 2))

    def test_a_topic_that_is_not_there(self, broker: Topics) -> None:
        with pytest.raises(InvalidArgument, match="has no topic") as refusal:
            ToKafka(KafkaTopic(broker.address, "nowhere")).check(PERIOD, [], RELEASE)
        assert refusal.value.field == "output"


def test_the_readers_of_a_runner_that_follows_the_last_of_them(broker: Topics) -> None:
    source = Kafka(KafkaTopic(broker.address, "any"), COLUMNS, readers=2)
    facts = Launch("prism", FnApiRunner(), PipelineOptions([]), follows_slowest_reader=False)
    with pytest.raises(InvalidArgument, match="must be 1 on prism") as refusal:
        source.check_runner(facts)
    assert refusal.value.field == "kafka_readers"
    source.check_runner(Launch("flink", FnApiRunner(), PipelineOptions([])))


def test_a_broker_for_trying_is_sent_rows(broker: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'{"user": "u", "item": "a"}\n{"user": "v", "item": "a"}\n')
    place = ["--port", broker.address.partition(":")[2], "--topic", "tried"]
    broker.create("tried", 1)
    main([*place, "--send", f"{tmp_path}/rows.jsonl"])
    assert "2 messages sent to kafka://127.0.0.1:" in capsys.readouterr().out and broker.messages("tried", 2)
    with pytest.raises(SystemExit, match="is taken: give another --port"):
        main([*place, "--folder", str(tmp_path)])
