"""A real broker: what is streamed equals the batch of the same windows under the same key and id."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from benchmarks.servers.kafka import send
from private_topk.pipelines.sources import kafka
from private_topk.pipelines.sources.kafka_topic import KafkaTopic
from private_topk.transforms.errors import InvalidArgument, Unreachable
from tests.nightly import nightly
from tests.pipelines.streaming.replay import (
    HORIZON,
    Commits,
    Topics,
    as_json,
    closing,
    finished,
    published,
    streaming,
    wait_for,
)
from tests.pipelines.support import command
from tests.runners.servers import kill

PARTITIONS = 3


def messages(commits: Commits) -> list[tuple[str, bytes]]:
    return [(row[0], as_json(row)) for row in commits.rows]


def asked(place: str, rankings: Path, *more: str) -> list[str]:
    """The words of a stream by event times into a folder."""
    return ["--input", place, "--clock", "event", "--output", str(rankings), "--output-format", "jsonl", *more]


@pytest.fixture(scope="module")
def whole_topic(broker: Topics, commits: Commits) -> str:
    """All commits, in order within each partition, and the row that closes the horizon."""
    place = broker.create("whole", PARTITIONS)
    broker.send("whole", PARTITIONS, messages(commits))
    broker.end("whole", PARTITIONS, closing())
    return place


@pytest.mark.parametrize(
    "window",
    [
        ("--window", "month", "--time-zone", "Europe/Berlin", *HORIZON),
        nightly(
            ("--window", "28d", "--slide", "14d", *HORIZON, "--max-items-per-user", "3", "--neighbours", "replace-one")
        ),
    ],
    ids=["calendar", "sliding"],
)
def test_a_topic_on_the_direct_runner_gives_the_batch(
    whole_topic: str, commits: Commits, rankings: Path, tmp_path: Path, window: tuple[str, ...]
) -> None:
    question = commits.question(*window)
    done = command("stream", *asked(whole_topic, rankings, *question))
    assert done.status == 0, done.err
    assert b"".join(published(rankings).values()) == commits.batch(tmp_path / "batch.jsonl", *question)
    assert len(list(rankings.glob("*.manifest.json"))) == len(published(rankings))
    assert not [path.name for path in rankings.iterdir() if set(path.name) & set(" []:()")]


def test_windows_are_published_while_the_producer_is_still_sending_and_a_killed_job_starts_again(
    broker: Topics, commits: Commits, prism_runner: str, rankings: Path, tmp_path: Path
) -> None:
    """Killed in the middle and started anew, the job repeats what it had published, byte for byte, and goes on."""
    expected = commits.batch(tmp_path / "batch.jsonl")
    place, log = broker.create("killed", PARTITIONS), tmp_path / "log"
    arguments = asked(place, rankings, "--runner", prism_runner, *commits.question())
    rows = messages(commits)
    half = len(rows) // 2
    broker.send("killed", PARTITIONS, rows[:half])
    with streaming(arguments, log) as process:
        wait_for(lambda: len(published(rankings)) >= 3, process, log)
        kill(process)
    before = published(rankings)
    assert 3 <= len(before) < 24
    sender = threading.Thread(target=broker.send, args=("killed", PARTITIONS, rows[half:]))
    sender.start()
    with streaming(arguments, log) as process:
        sender.join()
        broker.end("killed", PARTITIONS, closing())
        assert "24 windows published" in finished(process, log)
    after = published(rankings)
    assert b"".join(after.values()) == expected
    assert {name: after[name] for name in before} == before
    another = ["another" if word == "streams" else word for word in arguments]
    assert command("stream", *another).err.count("exists and is kept") == 1


DAYS = ("--window", "1d", "--from", "2026-01-01", "--to", "2026-01-13")


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Commits:
    """Twelve windows in the order of time."""
    rows = [
        (f"u{n * 7 % 311}", f"item {min(n % 7, n % 11)}", f"2026-01-{1 + n // 100:02}T{n % 100 // 5:02}:00:00Z")
        for n in range(1200)
    ]
    return Commits(tmp_path_factory.mktemp("made-up"), rows)


def books(tmp_path: Path) -> list[str]:
    made = command("budget", "create", f"--ledger=sqlite:///{tmp_path}/b.db", "--dataset=d", "--epsilon=99")
    assert made.status == 0, made.err
    return [f"--ledger=sqlite:///{tmp_path}/b.db", "--dataset=d"]


@pytest.mark.parametrize("charged", [True, nightly(False)])
def test_a_topic_that_is_created_anew_after_a_kill_is_no_input_to_go_on_with(
    broker: Topics, made_up: Commits, prism_runner: str, rankings: Path, tmp_path: Path, charged: bool
) -> None:
    """Its first rows are lost, and of those windows that are not out yet there would be another answer."""
    topic, log = f"anew-{charged}", tmp_path / "log"
    place, rows = broker.create(topic, PARTITIONS), messages(made_up)
    ledger = books(tmp_path) if charged else []
    arguments = asked(place, rankings, "--runner", prism_runner, *made_up.question(*DAYS), *ledger)
    broker.send(topic, PARTITIONS, rows[:450])
    with streaming(arguments, log) as process:
        wait_for(lambda: len(published(rankings)) == 4, process, log)
        kill(process)
    before = published(rankings)
    broker.recreate(topic, PARTITIONS)
    broker.send(topic, PARTITIONS, rows[450:])
    broker.end(topic, PARTITIONS, closing())
    for more in (["--dry-run"], []):
        done = command("stream", *arguments, *more)
        assert done.status == 2, done
        assert f"--input {place} was deleted and created again since this release began" in done.err
    shutil.rmtree(rankings / ".private-topk-input")
    done = command("stream", *arguments)
    assert done.status == 2 and "has 4 of the 12 windows of streams, and " in done.err, done
    assert "the record of what it had read, is gone" in done.err
    assert published(rankings) == before


@pytest.mark.parametrize("rows", [600, nightly(0)], ids=["other rows", "no rows"])
def test_without_ids_a_topic_that_is_created_anew_is_told_by_its_first_messages(
    broker: Topics, made_up: Commits, rankings: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """As of brokers before Kafka 2.8."""
    topic, whole = f"no-ids-{rows}", messages(made_up)
    arguments = ["stream", *asked(broker.create(topic, PARTITIONS), rankings, *made_up.question(*DAYS))]
    broker.send(topic, PARTITIONS, whole)
    broker.end(topic, PARTITIONS, closing())
    with monkeypatch.context() as patch:
        patch.setattr(KafkaTopic, "id", lambda self: "")
        assert command(*arguments).status == 0
        next(rankings.glob("20260105*.jsonl")).unlink()
        before = published(rankings)
        assert command(*arguments, "--dry-run").status == 0
    broker.recreate(topic, PARTITIONS)
    broker.send(topic, PARTITIONS, whole[:rows])
    with monkeypatch.context() as patch:
        patch.setattr(KafkaTopic, "id", lambda self: "")
        done = command(*arguments)
    assert done.status in (1, 2) and "was deleted and created again since this release began" in done.err, done
    assert published(rankings) == before


def test_a_topic_that_is_created_anew_while_it_is_read_ends_the_report(
    broker: Topics, made_up: Commits, prism_runner: str, rankings: Path, tmp_path: Path
) -> None:
    """Also where it has more messages than were read of the old one, so that reading could go on behind them."""
    topic, log, rows = "anew-live", tmp_path / "log", messages(made_up)
    place = broker.create(topic, PARTITIONS)
    arguments = asked(place, rankings, "--runner", prism_runner, *made_up.question(*DAYS))
    broker.send(topic, PARTITIONS, rows[:450])
    with streaming(arguments, log) as process:
        wait_for(lambda: len(published(rankings)) == 4, process, log)
        before = published(rankings)
        broker.recreate(topic, PARTITIONS)
        broker.send(topic, PARTITIONS, rows)
        broker.end(topic, PARTITIONS, closing())
        status = process.wait(120)
    said = log.read_text()
    assert status != 0 and "Traceback" not in said, said
    assert "was deleted and created again since this release began" in said, said
    assert published(rankings) == before


def test_rankings_of_groups_go_from_a_topic_to_a_topic(broker: Topics, tmp_path: Path) -> None:
    """A message for each group of each window, empty or not: the batch's. Who is in every group counts in one."""
    lands = ["fr", "d|e", "nowhere"]
    (tmp_path / "lands.txt").write_text("\n".join(lands) + "\n")
    rows = [
        {
            "user": f"u{n % 40}",
            "item": f"item {min(n % 7, n % 11)}",
            "land": lands[n % 40 % 2],
            "time": _iso(1_767_225_600 + 3600 * (n % 72)),
        }
        for n in range(600)
    ]
    rows += [{**row, "user": "everywhere", "land": land} for row in rows[::9] for land in [*lands[:2], "mars"]]
    commits = Commits(tmp_path, [(row["user"], row["item"], row["time"]) for row in rows])
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    days = "--window 1d --from 2026-01-01 --to 2026-01-04 --publish-counts 1 --group-column land --groups".split()
    question = commits.question(*days, f"{tmp_path}/lands.txt")
    source, output = broker.create("grouped", PARTITIONS), broker.create("rankings-of-groups", 1)
    broker.send("grouped", PARTITIONS, [(row["user"], json.dumps(row).encode()) for row in rows])
    broker.end("grouped", PARTITIONS, json.dumps({**rows[0], "time": "2026-01-06T00:00:00Z"}).encode())
    done = command("stream", "--input", source, "--clock", "event", "--output", output, *question)
    assert done.status == 0 and "3 windows published" in done.out, done
    expected: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for line in commits.batch(tmp_path / "batch.jsonl", *question).splitlines():
        row = json.loads(line)
        expected.setdefault((row["window_start"], row["group"]), []).append((row["item"], row["noisy_count"]))
    found = [(key.decode(), json.loads(value)) for key, value in broker.messages("rankings-of-groups", 9)]
    assert len(found) == 9 and len({key for key, _ in found}) == 9
    for key, message in found:
        counted = list(zip(message["items"], message["noisy_counts"], strict=True))
        assert counted == expected[message["window_start"], message["group"]]
        assert key.partition("|")[2] == message["group"]


def test_the_logs_clock_publishes_live_and_late_rows_are_dropped(
    broker: Topics, prism_runner: str, rankings: Path, tmp_path: Path
) -> None:
    """Rows as they happen, in windows of five seconds; what the log stamps after a window's end is late for it."""
    place, log = broker.create("live", 2, **{"message.timestamp.type": "LogAppendTime"}), tmp_path / "log"
    start = int(time.time()) + 4
    window = ("--window", "5s", "--from", _iso(start), "--to", _iso(start + 15))
    rows = [(f"u{n % 40}", f"item {min(n % 7, n % 11)}", _iso(start + n // 40)) for n in range(40 * 12)]
    commits = Commits(tmp_path, rows)
    late = [(f"late {n}", "item 6", _iso(start + 1)) for n in range(300)]
    arguments = ["--input", place, "--output", str(rankings), "--output-format", "jsonl", "--allowed-lateness", "3s"]
    arguments += ["--runner", prism_runner, *commits.question(*window)]
    with streaming(arguments, log) as process:
        for second in range(12):
            time.sleep(max(0.0, start + second + 0.1 - time.time()))
            broker.send("live", 2, [(row[0], as_json(row)) for row in rows[40 * second : 40 * second + 40]])
        broker.send("live", 2, [(row[0], as_json(row)) for row in late])
        assert "3 windows published" in finished(process, log)
    question = commits.question(*window)
    look = ["--input", place, "--output", str(tmp_path / "look"), "--show-dropped-rows", "--exact-counters", *question]
    told = command("stream", *look, "--allowed-lateness", "3s", "--dry-run").err
    assert re.search(r"late: 300, .*; still late with --allowed-lateness 10s: \d+, 1m: 0, ", told), told
    expected = commits.batch(tmp_path / "batch.jsonl", *question)
    assert b"".join(published(rankings).values()) == expected
    assert Commits(tmp_path, rows + late).batch(tmp_path / "with late.jsonl", *question) != expected


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_invalid_kafka_options_are_refused_in_one_line(broker: Topics, commits: Commits, rankings: Path) -> None:
    def refused(status: int = 2, **change: str) -> str:
        places = {"input": f"kafka://{broker.address}/none", "output": str(rankings), **change}
        words = [word for name, value in places.items() for word in (f"--{name.replace('_', '-')}", value)]
        done = command("stream", *words, *commits.question())
        assert done.status == status and done.err.count("\n") == 1, done.err
        return done.err

    assert "has no topic none: create it first" in refused()
    assert "kafka://HOST:PORT/TOPIC" in refused(input="kafka://localhost/x")
    assert "NAME=VALUE" in refused(kafka_config="secret")
    away = refused(Unreachable.status, input="kafka://127.0.0.1:1/x")  # a service tries again
    assert "cannot be reached: 127.0.0.1:1/bootstrap: Connect" in away
    assert "failed: Connection refused" in away  # with a client's own words behind it, if it has tried twice
    assert ": check the address, and in --kafka-config security.protocol" in away
    assert "sasl.password is env:NOT_SET, which is not set: set it" in refused(kafka_config="sasl.password=env:NOT_SET")
    for wrong in ("grup.id=x", "stats_cb=x"):
        assert f"--kafka-config is refused by the client of kafka://{broker.address}" in refused(kafka_config=wrong)


def test_a_password_is_read_where_the_client_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2")
    topic = KafkaTopic.of("kafka://h:1/t", [("sasl.password", "env:PASSWORD")], "input")
    assert topic.client()["sasl.password"] == "hunter2" and b"hunter2" not in pickle.dumps(topic)


def test_a_topic_that_a_client_may_not_see_is_said_to_be_there() -> None:
    class Hidden(KafkaTopic):
        def _described(self, consumer: object) -> SimpleNamespace:
            return SimpleNamespace(error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), partitions={})

    with pytest.raises(InvalidArgument, match="does not let this client see the topic t: it needs the rights Describe"):
        Hidden("127.0.0.1:1", "t").facts("input")


def test_the_messages_of_a_topic_can_be_looked_at_before_the_charge(
    broker: Topics, made_up: Commits, rankings: Path, capfd: pytest.CaptureFixture
) -> None:
    """A partition without any ends the look too; a message without a value is unreadable."""
    place = broker.create("looked-at", 2, **{"message.timestamp.type": "LogAppendTime"})
    rows = [as_json(("u", item, f"2026-01-0{day}")) for day, item in [(1, "item 1"), (2, "item 1"), (2, "no item")]]
    send(broker.address, "looked-at", ((row, 1) for row in [*rows, rows[0][1:], b"", rows[0].replace(b"user", b"who")]))
    words = ["stream", "--input", place, "--output", rankings, "--dry-run", "--show-dropped-rows", "--exact-counters"]
    words += made_up.question("--window", "1d", "--from", "2026-01-02", "--to", "2026-01-04")
    done = command(*words)
    assert done.status == 0 and "  late: 2; still late with --allowed-lateness 10s: 2, 1m: 2, " in done.err, done
    done = command(*words, "--allowed-lateness", "9999d")
    assert done.status == 0, done
    outside = "outside the period: 1; before it: 1, after it: 0"
    for line in ("in the input: 6", "null: 1", "unreadable: 2", outside, "late: 0", "not in domain: 1"):
        assert f"  {line}\n" in done.err
    said = "the horizon has passed: only rows that the broker had stamped by then are on time"
    assert said in capfd.readouterr().err
    stream = [word for word in words if word not in ("--dry-run", "--show-dropped-rows", "--exact-counters")]
    assert command(*stream).status == 0 and said in capfd.readouterr().err
    broker.recreate("looked-at", 1)  # its input may have gone by then, and is not asked
    again = command(*stream)
    assert again.status == 0 and not again.err, again.err
    assert capfd.readouterr().err == f"all 2 windows are published in {rankings}: nothing is left to do\n"


def test_a_look_ends_though_messages_keep_coming(
    broker: Topics, made_up: Commits, rankings: Path, tmp_path: Path
) -> None:
    """It reads what was there at its start, and of a partition that is still written to no more."""
    place, log, over = broker.create("busy", 2, **{"message.timestamp.type": "LogAppendTime"}), tmp_path / "log", []
    broker.send("busy", 2, messages(made_up)[:200])

    def go_on() -> None:
        while not over:
            send(broker.address, "busy", [(as_json(made_up.rows[0]), 1)])

    sender = threading.Thread(target=go_on)
    sender.start()
    words = ["--input", place, "--output", str(rankings), *made_up.question(*DAYS), "--dry-run", "--show-dropped-rows"]
    try:
        with streaming([*words, "--exact-counters"], log) as process:
            said = finished(process, log, patience=60)
    finally:
        over.append(True)
        sender.join()
    there = re.search(r"in the input: ([\d,]+)\n", said)
    assert there and int(there[1].replace(",", "")) >= 200 and "ready: nothing was drawn" in said, said


def test_a_look_that_takes_long_tells_how_far_it_is(
    broker: Topics, made_up: Commits, rankings: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(kafka, "_SLOW", 0.0)
    place = broker.create("long", 1, **{"message.timestamp.type": "LogAppendTime"})
    broker.send("long", 1, messages(made_up))
    words = ["--output", rankings, *made_up.question(*DAYS), "--dry-run", "--show-dropped-rows"]
    assert command("stream", "--input", place, *words).status == 0
    assert f"reading the messages of {place} that were there at the start: " in capfd.readouterr().err


def test_a_start_within_the_horizon_is_told(
    broker: Topics, commits: Commits, rankings: Path, capfd: pytest.CaptureFixture
) -> None:
    place = broker.create("entered", 1, **{"message.timestamp.type": "LogAppendTime"})
    words = ["stream", "--input", place, "--output", rankings, "--dry-run", *commits.question(), "--kafka-start"]
    assert [command(*words, start).status for start in ("2024-08-01", "2025-01-01")] == [0, 0]
    said = "--kafka-start 2025-01-01: windows that began before it are published without the rows before it"
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("--kafka-start")] == [said]
