"""A log that has lost messages: what was read is on record, and what is read next joins it, or the release ends.

Each stream is run to its end, and a window is taken from its folder, as a kill would leave it. What is drawn then must
be drawn from the same rows, or not at all.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from private_topk.pipelines.release.input_record import InputRecord
from private_topk.pipelines.sources.clock import Clock
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka_log import Log, extent_of
from private_topk.pipelines.sources.kafka_reader import ReadPartitionsDoFn
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.pipelines.sources.payloads import JsonPayload
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.release import Release, ReleaseKey
from private_topk.transforms.windows import Period
from tests.pipelines.streaming.replay import Topics, as_json, published
from tests.pipelines.streaming.turns import Reading, short_windows
from tests.pipelines.support import Done, command, wait_until

DAY = datetime(2026, 1, 5, tzinfo=UTC)
HORIZON = ("--window", "1d", "--from", "2026-01-05", "--to", "2026-01-09")
END = ("nobody", "a", "2026-01-20T00:00:00Z")
LATE = ("late", "a", "2025-12-01T00:00:00Z")
DAYS = Period.of("2026-01-05", "2026-01-09", "1d")
JOINS = "no longer gives the rows that this release has read from it"

Row = tuple[str, str, str]


def rows_of(days: Sequence[int], users: int = 60) -> list[Row]:
    """So many users a day, in the order of time; every user on each day, under the same key."""
    return [
        (f"u{user}", "abc"[user % 3], (DAY + timedelta(days=day, seconds=user)).isoformat())
        for day in days
        for user in range(users)
    ]


def millis(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


class Log1:
    """A topic of one partition, and the stream over it."""

    def __init__(self, broker: Topics, name: str, folder: Path, **settings: str) -> None:
        self.address, self.name, self.output = broker.address, name, folder / "rankings"
        self.place = broker.create(name, 1, **{"retention.ms": "-1", **settings})  # the rows are old
        (folder / "items.txt").write_text("a\nb\nc\nd\n")
        (folder / "key").write_text("a key of the tests, which is no secret\n")
        self.release = Release(ReleaseKey(f"file:{folder}/key"), "r")
        self._asked = ["--domain", folder / "items.txt", "--mechanism", "joint", "--k", 3, "--epsilon", 8, *HORIZON]
        self._asked += ["--release-key", f"file:{folder}/key", "--release-id", "r", "--output-format", "jsonl"]

    def send(self, rows: Sequence[Row], transactional: str = "") -> None:
        """Rows keyed by user, stamped with their own time where the topic leaves that to who sends."""
        more = {"transactional.id": transactional} if transactional else {}
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 20, **more})
        if transactional:
            producer.init_transactions(30)
            producer.begin_transaction()
        for row in rows:
            producer.produce(self.name, as_json(row), key=row[0], partition=0, timestamp=millis(row[2]))
        assert producer.flush(30) == 0
        if transactional:
            producer.commit_transaction(30)

    def stream(self, *more: str, clock: str = "event") -> Done:
        return command("stream", "--input", self.place, "--clock", clock, "--output", self.output, *self._asked, *more)

    def loses(self, day: int) -> bytes:
        """Take the ranking of a day away; what it held."""
        (path,) = self.output.glob(f"202601{5 + day:02}T*--*.jsonl")
        (manifest,) = self.output.glob(f"202601{5 + day:02}T*--*.manifest.json")
        held = path.read_bytes()
        path.unlink()
        manifest.unlink()
        return held

    def delete(self, before: int) -> None:
        place = TopicPartition(self.name, 0, before)
        admin = AdminClient({"bootstrap.servers": self.address})  # kept until the answer has come
        admin.delete_records([place])[place].result(30)

    def set(self, **values: str) -> None:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self.address})  # kept until the answer has come
        admin.incremental_alter_configs([resource])[resource].result(30)

    def compact(self) -> None:
        """Let compaction take what a later message of the same key makes old, and switch it off again."""
        before = self.count()
        self.set(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001")
        time.sleep(0.3)
        self.send([LATE])  # a segment is closed by the next message, and only then compacted
        wait_until(lambda: self.count() < before)
        self.set(cleanup_policy="delete", segment_ms="604800000")
        wait_until(lambda: KafkaTopic(self.address, self.name).facts("input").cleanup == "delete")

    def count(self) -> int:
        consumer = KafkaTopic(self.address, self.name).consumer(**{"auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(self.name, 0, 0)])
        found, ended = 0, False
        while not ended:
            for message in consumer.consume(1000, 1.0):
                found, ended = (found, True) if message.error() else (found + 1, ended)
        consumer.close()
        return found


def test_a_late_message_left_at_the_head_does_not_vouch_for_rows_that_were_deleted_before_it(
    broker: Topics, tmp_path: Path
) -> None:
    """By the times of senders nobody knows what went: a start that the operator names does, and is told."""
    log = Log1(broker, "late-head", tmp_path)
    rows = rows_of(range(4))
    log.send([*rows[:60], LATE, *rows[60:], END])
    log.delete(60)
    made = command("budget", "create", f"--ledger=sqlite:///{tmp_path}/b.db", "--dataset=d", "--epsilon=99")
    assert made.status == 0, made.err
    books = [f"--ledger=sqlite:///{tmp_path}/b.db", "--dataset=d"]
    for more in ([*books, "--dry-run"], books, []):
        done = log.stream(*more)
        assert done.status == 2, done
        assert (
            "has deleted messages which may be of the horizon: its first one left was stamped by who sent" in done.err
        )
    assert not published(log.output)
    history = command("budget", "history", f"--ledger=sqlite:///{tmp_path}/b.db", "--json")
    assert json.loads(history.out)["charges"] == []
    done = log.stream("--kafka-start", "2026-01-06")
    assert done.status == 0 and "4 windows published" in done.out, done


def test_a_start_that_is_named_is_told_where_nothing_proves_it(
    broker: Topics, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    log = Log1(broker, "vouched", tmp_path)
    log.send([LATE, LATE, *rows_of(range(4)), END])
    log.delete(1)
    for start, words in (("2026-01-05", 1), ("2025-11-30", 1)):
        assert log.stream("--kafka-start", start, "--dry-run").status == 0
        said = f"that all are there since {start}T00:00:00.000+00:00 is taken from --kafka-start"
        assert capfd.readouterr().err.count(said) == words
    assert log.stream("--dry-run").status == 2


@pytest.mark.parametrize("days", [1, 2], ids=["published", "to be drawn"])
def test_rows_that_were_read_and_are_deleted_after_a_kill_are_missed(broker: Topics, tmp_path: Path, days: int) -> None:
    """A late message at the head of what is left looks like one of before the horizon."""
    log = Log1(broker, f"deleted-after-{days}", tmp_path)
    rows = rows_of(range(4))
    log.send([LATE, LATE, *rows[: 60 * days], LATE, *rows[60 * days :], END])
    log.delete(1)
    start = ("--kafka-start", "2025-11-30")
    assert log.stream(*start).status == 0
    held = published(log.output)
    log.loses(1)
    left = published(log.output)
    log.delete(60 * days + 2)
    done = log.stream(*start)
    assert done.status in (1, 2) and JOINS in done.err, done
    assert published(log.output) == left != held


def test_compaction_between_a_kill_and_its_repetition_is_noticed(broker: Topics, tmp_path: Path) -> None:
    """Though it is off at both times, and a topic with transactions has gaps of its own."""
    log = Log1(broker, "compacted-between", tmp_path)
    rows = rows_of(range(4))
    log.send(rows[:150], "first half")
    log.send([*rows[150:], END], "second half")
    assert log.stream().status == 0
    once = published(log.output)
    log.loses(2)
    assert log.stream().status == 0 and published(log.output) == once, "gaps of transactions are none"
    log.loses(2)
    left = published(log.output)
    log.compact()
    assert log.stream("--dry-run").status == 0, "what is gone is seen where it is read"
    done = log.stream()
    assert done.status == 1 and JOINS in done.err, done
    assert published(log.output) == left


def test_rows_before_the_horizon_may_go(broker: Topics, tmp_path: Path) -> None:
    """Retention takes them while a stream is down: the windows are the same."""
    log = Log1(broker, "old-rows", tmp_path)
    log.send([*rows_of(range(-2, 4)), END])
    start = ("--kafka-start", "2026-01-04")
    assert log.stream(*start).status == 0
    once = published(log.output)
    log.loses(1)
    log.delete(100)
    assert log.stream(*start).status == 0 and published(log.output) == once


def test_a_release_is_finished_from_the_start_that_it_began_with(broker: Topics, tmp_path: Path) -> None:
    log = Log1(broker, "other-start", tmp_path)
    log.send([*rows_of(range(4)), END])
    assert log.stream("--kafka-start", "2026-01-05").status == 0
    once = published(log.output)
    log.loses(2)
    for start in ((), ("--kafka-start", "2026-01-07"), ("--kafka-start", "latest")):
        for more in ((), ("--dry-run",)):
            done = log.stream(*start, *more)
            assert done.status == 2, done
            assert "--kafka-start must be 2026-01-05T00:00:00.000+00:00, with which this release began" in done.err
    assert log.stream("--kafka-start", "2026-01-05T00:00Z").status == 0
    assert published(log.output) == once


def reading(
    log: Log1,
    period: Period,
    kind: str = "log",
    record: InputRecord | None = None,
    begin: int = 0,
    since: int | None = None,
) -> Reading:
    """The partition by one reader."""
    source = Log(KafkaTopic(log.address, log.name), {0: begin}, 0.5, since)
    fn = ReadPartitionsDoFn(source, Columns(time="time"), JsonPayload(), Clock(kind, period))
    fn.record = record
    return Reading(fn, (0,))


def test_a_log_that_ends_before_what_is_on_record_is_missed(broker: Topics, tmp_path: Path) -> None:
    """By the clock of rows it would hold the windows for ever. Its broker gives no ids, as before Kafka 2.8."""
    log, rows = Log1(broker, "ends-before", tmp_path), rows_of(range(4))
    log.send([*rows, END])
    record = InputRecord(str(tmp_path), log.release)
    assert len(reading(log, DAYS, "event", record).to_the_end()) == len(rows)
    broker.recreate(log.name, 1, **{"retention.ms": "-1"})
    log.send(rows[:180])
    again = reading(log, DAYS, "event", InputRecord(str(tmp_path), log.release))
    with pytest.raises(InvalidArgument, match=JOINS):
        again.until(lambda: again.over, 30)


def test_a_start_that_is_still_to_come_is_the_same_when_it_has(broker: Topics, tmp_path: Path) -> None:
    """A launch that finds no message since then begins at the end of the log, and passes over what is older."""
    log, rows = Log1(broker, "to-come", tmp_path), rows_of(range(4))
    since = millis(rows[60][2])
    assert (
        extent_of(KafkaTopic(log.address, log.name).observer(), KafkaTopic(log.address, log.name), 0, since).begin == 0
    )
    log.send([*rows, LATE, END])
    found = [reading(log, DAYS, "event", begin=begin, since=since).to_the_end() for begin in (0, 60)]
    assert found[0] == found[1] and len(found[0]) == 180


def test_compaction_that_is_switched_on_closes_no_window(broker: Topics, tmp_path: Path) -> None:
    log = Log1(broker, "compacted-live", tmp_path, **{"message.timestamp.type": "LogAppendTime"})
    live = reading(log, short_windows(time.time() - 1, 2, 2))
    live.turn()
    log.set(cleanup_policy="compact")
    with pytest.raises(InvalidArgument, match="is compacted"):
        live.until(lambda: live.over)
    assert live.clock < live._fn._clock.period.closing[0]


def test_by_the_clock_of_the_log_an_idle_log_joins_as_well(broker: Topics, tmp_path: Path) -> None:
    """Its windows close without a message, and in a repetition by one. Rows that are gone are missed."""
    log = Log1(broker, "idle", tmp_path, **{"message.timestamp.type": "LogAppendTime"})

    def read() -> Counter[tuple[int, str]]:
        live = reading(log, period, record=InputRecord(str(tmp_path), log.release))
        try:
            return live.to_the_end()
        finally:
            live._fn.teardown()

    now = time.time()
    period = short_windows(now - 1, 3, 1)
    rows = [(f"u{n % 30}", "a", datetime.fromtimestamp(now + n / 100, UTC).isoformat()) for n in range(60)]
    log.send(rows)
    once = read()
    assert sum(once.values()) == 60
    record = InputRecord(str(tmp_path), log.release).read()
    assert [entry["closing"] for entry in record if "partition" in entry] == period.closing.tolist()
    log.send([LATE])
    assert read() == once
    log.compact()
    with pytest.raises(InvalidArgument, match=JOINS):
        read()


@pytest.mark.parametrize("transactional", ["", "gap"])
def test_offsets_without_a_message_are_told_once(
    broker: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional: str
) -> None:
    """Nobody can tell a transaction's end from a message that compaction took before it was ever read."""
    told: list[Any] = []
    monkeypatch.setattr("private_topk.pipelines.sources.kafka_reader.say", told.append)
    log = Log1(broker, f"gaps{transactional}", tmp_path, **{"message.timestamp.type": "LogAppendTime"})
    for part in range(3):
        log.send(rows_of([part], 5), transactional)
    live = reading(log, short_windows(time.time() - 1, 600, 2))
    live.until(lambda: len(live.rows) == 15)
    live.turn()
    assert [line.facts["event"] for line in told] == (["gap"] if transactional else [])


def test_partitions_that_are_added_after_a_kill_are_read(broker: Topics, tmp_path: Path) -> None:
    """They hold what was sent since, and what was there before joins what is on record."""
    log = Log1(broker, "grown-after", tmp_path)
    log.send([*rows_of(range(4)), END])
    assert log.stream().status == 0
    held = log.loses(3)
    admin = AdminClient({"bootstrap.servers": log.address})
    admin.create_partitions([NewPartitions(log.name, 2)])[log.name].result(30)
    wait_until(lambda: len(KafkaTopic(log.address, log.name).partitions("input")) == 2)
    producer = Producer({"bootstrap.servers": log.address})
    producer.produce(log.name, as_json(END), partition=1)
    assert producer.flush(30) == 0
    assert log.stream().status == 0
    assert held in published(log.output).values()
