"""A real broker: what is streamed equals the batch of the same windows under the same key and id."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.pipelines.streaming.replay import (
    HORIZON,
    Commits,
    Topics,
    as_json,
    closing,
    finished,
    kill,
    published,
    streaming,
    wait_for,
)  # fmt: skip
from tests.pipelines.support import command

PARTITIONS = 3


def messages(commits: Commits) -> list[tuple[str, bytes]]:
    return [(row[0], as_json(row)) for row in commits.rows]


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
        ("--window", "28d", "--every", "14d", *HORIZON, "--max-items-per-user", "3", "--neighbours", "swap"),
    ],
    ids=["calendar", "sliding"],
)
def test_a_topic_on_the_direct_runner_gives_the_batch(
    whole_topic: str, commits: Commits, rankings: Path, tmp_path: Path, window: tuple[str, ...]
) -> None:
    question = commits.question(*window)
    done = command("stream", "--input", whole_topic, "--clock", "event", "--output", rankings,
                   "--output-format", "jsonl", *question)  # fmt: skip
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
    arguments = ["--input", place, "--clock", "event", "--output", str(rankings), "--output-format", "jsonl",
                 "--runner", prism_runner, *commits.question()]  # fmt: skip
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


def test_rankings_of_groups_go_from_a_topic_to_a_topic(broker: Topics, tmp_path: Path) -> None:
    """A message for each group of each window, empty or not: the batch's. Who is in every group counts in one."""
    lands = ["fr", "d|e", "nowhere"]
    (tmp_path / "lands.txt").write_text("\n".join(lands) + "\n")
    rows = [{"user": f"u{n % 40}", "item": f"item {min(n % 7, n % 11)}", "land": lands[n % 40 % 2],
             "time": _iso(1_767_225_600 + 3600 * (n % 72))} for n in range(600)]  # fmt: skip
    rows += [{**row, "user": "everywhere", "land": land} for row in rows[::9] for land in [*lands[:2], "mars"]]
    commits = Commits(tmp_path, [(row["user"], row["item"], row["time"]) for row in rows])
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = commits.question("--window", "1d", "--from", "2026-01-01", "--to", "2026-01-04", "--group-column", "land",
                             "--groups", f"{tmp_path}/lands.txt", "--publish-counts", "1")  # fmt: skip
    source, output = broker.create("grouped", PARTITIONS), broker.create("rankings-of-groups", 1)
    broker.send("grouped", PARTITIONS, [(row["user"], json.dumps(row).encode()) for row in rows])
    broker.end("grouped", PARTITIONS, json.dumps({**rows[0], "time": "2026-01-06T00:00:00Z"}).encode())
    done = command("stream", "--input", source, "--clock", "event", "--output", output, *asked)
    assert done.status == 0 and "3 windows published" in done.out, done
    expected: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for line in commits.batch(tmp_path / "batch.jsonl", *asked).splitlines():
        row = json.loads(line)
        expected.setdefault((row["window_start"], row["group"]), []).append((row["item"], row["noisy_count"]))
    found = [(key.decode(), json.loads(value)) for key, value in broker.messages("rankings-of-groups", 9)]
    assert len(found) == 9 and len({key for key, _ in found}) == 9
    for key, message in found:
        counted = list(zip(message["items"], message["noisy_counts"], strict=True))
        assert counted == expected[message["window_start"], message["group"]]
        assert key.partition("|")[2] == message["group"]


def test_the_logs_clock_publishes_live_and_late_rows_are_left_out(
    broker: Topics, prism_runner: str, rankings: Path, tmp_path: Path
) -> None:
    """Rows as they happen, in windows of five seconds; what the log stamps after a window's end is late for it."""
    place, log = broker.create("live", 2, **{"message.timestamp.type": "LogAppendTime"}), tmp_path / "log"
    start = int(time.time()) + 4
    window = ("--window", "5s", "--from", _iso(start), "--to", _iso(start + 15))
    rows = [(f"u{n % 40}", f"item {min(n % 7, n % 11)}", _iso(start + n // 40)) for n in range(40 * 12)]
    commits = Commits(tmp_path, rows)
    late = [(f"late {n}", "item 6", _iso(start + 1)) for n in range(300)]
    arguments = ["--input", place, "--output", str(rankings), "--output-format", "jsonl", "--slack", "3s",
                 "--runner", prism_runner, *commits.question(*window)]  # fmt: skip
    with streaming(arguments, log) as process:
        for second in range(12):
            time.sleep(max(0.0, start + second + 0.1 - time.time()))
            broker.send("live", 2, [(row[0], as_json(row)) for row in rows[40 * second : 40 * second + 40]])
        broker.send("live", 2, [(row[0], as_json(row)) for row in late])
        assert "3 windows published" in finished(process, log)
    question = commits.question(*window)
    expected = commits.batch(tmp_path / "batch.jsonl", *question)
    assert b"".join(published(rankings).values()) == expected
    assert Commits(tmp_path, rows + late).batch(tmp_path / "with late.jsonl", *question) != expected


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def test_what_is_wrong_with_kafka_is_said(broker: Topics, commits: Commits, rankings: Path) -> None:
    def refused(**change: str) -> str:
        places = {"input": f"kafka://{broker.address}/none", "output": str(rankings), **change}
        words = [word for name, value in places.items() for word in (f"--{name.replace('_', '-')}", value)]
        done = command("stream", *words, *commits.question())
        assert done.status == 2 and done.err.count("\n") == 1, done.err
        return done.err

    assert "has no topic none: create it first" in refused()
    assert "kafka://HOST:PORT/TOPIC" in refused(input="kafka://localhost/x")
    assert "NAME=VALUE" in refused(kafka_option="secret")
    assert "cannot be reached" in refused(input="kafka://127.0.0.1:1/x")


def test_a_start_within_the_horizon_is_told(
    broker: Topics, commits: Commits, rankings: Path, capfd: pytest.CaptureFixture
) -> None:
    place = broker.create("entered", 1, **{"message.timestamp.type": "LogAppendTime"})
    words = ["stream", "--input", place, "--output", rankings, "--check", *commits.question(), "--kafka-start"]
    assert [command(*words, start).status for start in ("2024-08-01", "2025-01-01")] == [0, 0]
    said = "--kafka-start 2025-01-01: windows that began before it are published without the rows before it"
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if not line.startswith("%")] == [said], "% begins what clients of other tests log"
