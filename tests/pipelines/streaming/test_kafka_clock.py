"""What a topic's clock may rest on, against a real broker: read live under hostile timing and read again, it is one."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from private_topk.pipelines.sources.clock import Clock
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.kafka import Kafka
from private_topk.pipelines.sources.kafka_log import Extent, Log, check_repeatable
from private_topk.pipelines.sources.kafka_reader import GroupReader, Positions, ReadPartitionsDoFn
from private_topk.pipelines.sources.kafka_topic import KafkaTopic, TopicFacts
from private_topk.pipelines.sources.payloads import JsonPayload
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.windows import Period
from tests.pipelines.streaming.replay import Topics
from tests.pipelines.streaming.turns import Reading, in_the_background, short_windows
from tests.pipelines.support import wait_until
from tests.refusals import refused

STAMPED = {"message.timestamp.type": "LogAppendTime"}
COLUMNS = Columns(time="time", time_unit="ms")


def a_row(user: str, moment: float | None = None) -> bytes:
    return json.dumps({"user": user, "item": "x", "time": int((moment or time.time()) * 1000)}).encode()


def source_at(broker: Topics, name: str, **changes: Any) -> Kafka:  # noqa: ANN401
    return Kafka(KafkaTopic(broker.address, name), COLUMNS, **changes)


def reading(broker: Topics, name: str, period: Period, partitions: int = 1, behind: float = 0.5) -> Reading:
    """All partitions by one reader. Broker and reader have one clock here, so an idle log stays little behind."""
    log = Log(KafkaTopic(broker.address, name), dict.fromkeys(range(partitions), 0), behind)
    fn = ReadPartitionsDoFn(log, COLUMNS, JsonPayload(), Clock("log", period))
    return Reading(fn, tuple(range(partitions)))


def transactional(broker: Topics, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name, "linger.ms": 0, "log_level": 0})
    producer.init_transactions(30)
    return producer


def test_an_open_transaction_holds_the_windows(broker: Topics) -> None:
    """Its rows were on time. To a reader of what is committed, the log seems to end before them."""
    broker.create("open", 1, **STAMPED)
    producer = transactional(broker, "open")
    start = time.time()
    period = short_windows(start - 1, 3, 2)
    producer.begin_transaction()
    for user in range(50):
        producer.produce("open", a_row(f"u{user}"))
    producer.flush(10)
    live = reading(broker, "open", period)
    while time.time() < start + 6:  # both windows are over by the wall clock
        live.turn()
    assert live.clock < period.closing[0] and not live.rows
    producer.commit_transaction(30)
    counted = live.to_the_end()
    assert counted == reading(broker, "open", period).to_the_end() and len(counted) == 50


def test_an_aborted_transaction_does_not_hold_the_windows(broker: Topics) -> None:
    broker.create("aborted", 1, **STAMPED)
    producer = transactional(broker, "aborted")
    period = short_windows(time.time() - 1, 2, 2)
    producer.begin_transaction()
    producer.produce("aborted", a_row("nobody"))
    producer.flush(10)
    producer.abort_transaction(30)
    assert not reading(broker, "aborted", period).to_the_end()


def test_an_idle_partition_holds_no_window_while_others_are_busy(broker: Topics) -> None:
    """Its clock moves, also where every look at the topic finds messages of other partitions."""
    broker.create("half-idle", 2, **STAMPED)

    class Busy(GroupReader):
        def read(self, offsets: tuple[int, ...]) -> dict[int, list[Any]]:
            broker.send("half-idle", 1, [("u", a_row("u"))])
            while not (found := super().read(offsets)):
                pass
            return found

    live = reading(broker, "half-idle", short_windows(time.time() - 1, 3, 2), partitions=2)
    live._fn._readers[0, 1] = Busy(live._fn._log, (0, 1), live._fn._clock)
    live.until(lambda: live.over, 30)


@pytest.mark.parametrize("seed", [1])
def test_live_equals_replayed_under_hostile_timing(broker: Topics, seed: int) -> None:
    """On a machine that is too busy for windows that short, so that few rows come in time, they are longer."""
    lengths = iter([0.7, 1.4, 2.8, 5.6, 11.2])
    while not _read_under_hostile_timing(broker, random.Random(seed), next(lengths)):
        pass


def _read_under_hostile_timing(broker: Topics, dice: random.Random, length: float) -> bool:
    """Three partitions; plain producers, and transactions left open across windows, committed or not; rows late by up
    to two windows. The reader is stopped and started anew at its own positions as a runner would.

    Returns whether rows on time and late rows are both there, in several windows.
    """
    name, partitions = f"hostile-{length}", 3
    broker.create(name, partitions, **STAMPED)
    plain = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    slow = [transactional(broker, f"{name}-{number}") for number in range(2)]
    period = short_windows(time.time() + 1, length, 8)

    def send() -> None:
        opened: list[float | None] = [None, None]
        number = 0
        while time.time() * 1e6 < period.closing[-1] + 200_000:
            number += 1
            late = time.time() - dice.choice([0, 0, 0.1, length, 2 * length])
            plain.produce(name, a_row(f"p{number}", late), partition=dice.randrange(partitions))
            for place, producer in enumerate(slow):
                if opened[place] is None:
                    producer.begin_transaction()
                    opened[place] = time.time() + dice.choice([0.05, 0.5, 1.5])
                producer.produce(name, a_row(f"t{place}-{number}", late), partition=dice.randrange(partitions))
                producer.flush(10)
                if time.time() > (opened[place] or 0):
                    (producer.commit_transaction if dice.random() < 0.7 else producer.abort_transaction)(30)
                    opened[place] = None
            plain.flush(10)
            time.sleep(dice.choice([0.001, 0.02, 0.3]))
        for place, producer in enumerate(slow):
            if opened[place] is not None:
                producer.commit_transaction(30)

    sender = in_the_background(send)
    live = reading(broker, name, period, partitions)
    counted = live.to_the_end()
    sender.join()
    assert counted == reading(broker, name, period, partitions).to_the_end()
    late = len({row[0] for row in live.rows}) - len({user for _, user in counted})
    return len(counted) > 30 and late > 5 and len({number for number, _ in counted}) >= 4


@pytest.mark.parametrize("behind", [False, True])
def test_a_topic_without_stamps_of_the_broker_is_refused(broker: Topics, behind: bool) -> None:
    """A single message stamped 2100 would end the horizon for everybody."""
    name = f"sent-{behind}"
    broker.create(name, 1)
    period = short_windows(time.time() - 5, 20, 1)
    producer = Producer({"bootstrap.servers": broker.address})
    far = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
    producer.produce(name, a_row("mallory"), timestamp=far)
    assert producer.flush(10) == 0
    source = source_at(broker, name)
    if not behind:
        with pytest.raises(InvalidArgument, match="LogAppendTime on the topic, or give clock event") as refusal:
            source.check(period)
        assert refusal.value.field == "input"
        return source_at(broker, name, clock="event").check(period)
    # Stamped by the broker from now on: what is there already still is not.
    _set(broker, name, "message.timestamp.type", "LogAppendTime")
    wait_until(lambda: source.topic.facts("input").stamps == "LogAppendTime")
    with pytest.raises(InvalidArgument, match="stamped by who sent them") as refusal:
        source.check(period)
    assert refusal.value.field == "input"
    live = reading(broker, name, period)
    with pytest.raises(InvalidArgument, match="stamped by who sent them"):
        live.until(lambda: live.rows)
    assert live.clock < period.closing[0]
    return None


def test_a_compacted_topic_is_refused(broker: Topics) -> None:
    broker.create("compacted", 1, **STAMPED, **{"cleanup.policy": "compact"})
    for clock in ("log", "event"):
        with pytest.raises(InvalidArgument, match="is compacted") as refusal:
            source_at(broker, "compacted", clock=clock).check(short_windows(time.time(), 1, 1))
        assert refusal.value.field == "input"


def test_messages_deleted_before_they_are_read_fail_the_report(broker: Topics) -> None:
    broker.create("deleted", 1, **STAMPED)
    period = short_windows(time.time() - 1, 600, 1)
    broker.send("deleted", 1, [(f"u{n}", a_row(f"u{n}")) for n in range(10)])
    live = reading(broker, "deleted", period)
    live.until(lambda: len(live.rows) == 10)
    live._fn.teardown()  # what it had fetched ahead would be read all the same
    broker.send("deleted", 1, [(f"v{n}", a_row(f"v{n}")) for n in range(10)])
    _delete(broker, "deleted", 15)
    with pytest.raises(InvalidArgument, match="lost messages before they were read"):
        live.until(lambda: live.over)
    # Another launch is told before it starts, unless it begins after what is gone.
    with pytest.raises(InvalidArgument, match="deleted messages which may be of the horizon"):
        source_at(broker, "deleted").check(period)
    with pytest.raises(InvalidArgument, match="first one left was stamped after kafka_start"):
        source_at(broker, "deleted", start=datetime.fromtimestamp(period.starts[0] / 1e6 + 0.1, UTC).isoformat()).check(
            period
        )
    start = datetime.now(UTC).isoformat()
    source_at(broker, "deleted", start=start).check(period)
    source_at(broker, "deleted").check(short_windows(time.time() + 5, 10, 1))


def test_an_emptied_topic_is_refused_only_for_past_windows(broker: Topics) -> None:
    broker.create("emptied", 1, **STAMPED)
    broker.send("emptied", 1, [("u", a_row("u"))])
    _delete(broker, "emptied", 1)
    source_at(broker, "emptied").check(short_windows(time.time(), 10, 1))
    with pytest.raises(InvalidArgument, match="deleted messages"):
        source_at(broker, "emptied").check(short_windows(time.time() - 3600, 7200, 1))


def test_partitions_that_are_added_fail_the_report_before_a_window_closes_without_them(broker: Topics) -> None:
    broker.create("grown", 1, **STAMPED)
    period = short_windows(time.time(), 4, 2)
    live = reading(broker, "grown", period)
    live.turn()
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions("grown", 2)])["grown"].result(30)
    wait_until(lambda: len(KafkaTopic(broker.address, "grown").partitions("input")) == 2)
    with pytest.raises(InvalidArgument, match="was given more partitions"):
        live.until(lambda: live.over)
    assert live.clock < period.closing[0]


def test_a_start_in_time_is_the_same_wherever_it_is_asked(broker: Topics) -> None:
    """`latest` is the time of the launch: another launch asks for something else, and a ledger is told so."""
    broker.create("entered", 1, **STAMPED)
    broker.send("entered", 1, [("u", a_row("before"))])
    time.sleep(0.05)
    start = datetime.now(UTC).isoformat()
    time.sleep(0.05)
    broker.send("entered", 1, [("u", a_row("after"))])
    period = short_windows(time.time() - 1, 3, 1)
    source = source_at(broker, "entered", start=start)
    fn = source.group_reader(period)
    fn._log = replace(fn._log, behind=0.5)
    assert {user for _, user in Reading(fn, (0,)).to_the_end()} == {"after"}


def _fn(period: Period) -> ReadPartitionsDoFn:
    log = Log(KafkaTopic("127.0.0.1:1", "none"), {0: 0}, 5.0)
    return ReadPartitionsDoFn(log, COLUMNS, JsonPayload(), Clock("log", period))


def _message(offset: int, stamp: int, kind: int = TIMESTAMP_LOG_APPEND_TIME) -> Any:  # noqa: ANN401 - the client's own
    row = a_row(f"u{offset}", stamp / 1000)
    return SimpleNamespace(value=lambda: row, timestamp=lambda: (kind, stamp), offset=lambda: offset)


def test_arrivals_are_in_order_wherever_the_brokers_clock_is_set_and_the_reader_stops() -> None:
    """A leader that takes over may be behind the one before: its messages arrived no earlier than what they follow."""
    dice, period = random.Random(5), short_windows(0, 60, 3)
    stamps = [50_000, 70_000, 40_000, 69_000, 90_000, 20_000, 100_000]
    expected = np.maximum.accumulate(stamps) * 1000
    for _ in range(50):
        fn, found, offset = _fn(period), [], 0
        positions = Positions((0,), (None,), (None,), ((0, 0),))
        while offset < len(stamps):
            some = stamps[offset : offset + dice.randint(1, 4)]
            messages = [_message(offset + place, stamp) for place, stamp in enumerate(some)]
            block, positions, _ = fn._taken(positions, 0, messages, -1)
            found += block["arrived"].to_pylist()
            offset = positions.offsets[0]
        assert found == expected.tolist() and positions.clock() == 100_000_000


def test_a_message_stamped_before_a_closed_window_fails_the_report() -> None:
    """The idle clock was ahead of the broker's: a repetition would count the row, so nothing may go on quietly."""
    period = short_windows(0, 60, 3)
    positions = Positions((0,), (None,), (61_000_000,), ((0, 0),))
    with refused("", "stamped before a window had closed"):
        _fn(period)._taken(positions, 0, [_message(0, 59_999)], 61_000_000)
    _fn(period)._taken(positions, 0, [_message(0, 60_000)], 61_000_000)  # late in both
    with refused("", "stamped by who sent them"):
        _fn(period)._taken(positions, 0, [_message(0, 62_000), _message(1, 62_000, TIMESTAMP_CREATE_TIME)], 61_000_000)


def test_a_broker_that_holds_messages_back_is_waited_for() -> None:
    """A message is stamped by the leader and seen when its replicas have it, or have been given up."""
    facts = TopicFacts((0, 1), 1, "LogAppendTime", "delete", 30.0)

    def behind(found: TopicFacts) -> float:
        class Topic(KafkaTopic):
            def facts(self, name: str) -> TopicFacts:
                return found

            def id(self) -> str:
                return ""

        source = Kafka(Topic("h:1", "t"))
        source.__dict__["_extents"] = {0: Extent(0, 0, 0), 1: Extent(0, 0, 0)}
        return source.group_reader(short_windows(0, 60, 1))._log.behind

    assert behind(facts) == 5.0 and behind(facts._replace(replicas=3)) == 50.0
    check_repeatable(KafkaTopic("h:1", "t"), facts._replace(stamps=""), "log")  # then each message is looked at


def test_a_broker_that_does_not_answer_moves_no_clock(broker: Topics) -> None:
    broker.create("silent", 1, **STAMPED)
    reader = GroupReader(
        Log(KafkaTopic(broker.address, "silent"), {0: 0}, 0.0), (0,), Clock("log", short_windows(0, 60, 1))
    )
    assert not reader.read((0,)) and reader.at_the_end(0, 0)
    reader._observer.close()
    reader._observer = KafkaTopic("127.0.0.1:1", "silent").observer()
    assert not reader.at_the_end(0, 0)
    reader.close()


def _set(broker: Topics, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.address})  # kept until the answer has come
    admin.incremental_alter_configs([resource])[resource].result(30)


def _delete(broker: Topics, topic: str, before: int) -> None:
    place = TopicPartition(topic, 0, before)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_records([place])[place].result(30)
