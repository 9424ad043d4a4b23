"""Streams on real Flink, with frequent checkpoints, on a busy machine, and when processes are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.servers.flink import Cluster
from private_topk.runners.portable import reachable
from tests.pipelines.streaming.replay import (
    Commits,
    Topics,
    as_json,
    closing,
    finished,
    published,
    streaming,
    told,
    wait_for,
)
from tests.pipelines.support import wait_until
from tests.runners.servers import drawing_differently, free_port

PARTITIONS = 4
WINDOW = ("--window", "1d", "--from", "2026-01-01", "--to", "2026-01-25")
BUSY = "import time\nend = time.time() + 300\nwhile time.time() < end: pass"


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Commits:
    """24 windows, in the order of time, and more windows than a bundle closes at once."""
    rows = [
        (f"u{n * 7 % 311}", f"item {min(n % 7, n % 11)}", f"2026-01-{1 + n // 250:02}T{n // 11 % 23:02}:00:00Z")
        for n in range(24 * 250)
    ]
    return Commits(tmp_path_factory.mktemp("made-up"), sorted(rows, key=lambda row: row[2]))


@pytest.fixture
def busy() -> Iterator[None]:
    """A core of the machine is kept busy meanwhile, for five minutes at most."""
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        yield
        process.kill()


@pytest.mark.nightly
def test_frequent_checkpoints_on_a_busy_machine_change_nothing(
    made_up: Commits, workers: list[str], busy: None, rankings: Path, tmp_path: Path
) -> None:
    """What is put out during a checkpoint must not come after the watermark. The job ends by itself."""
    incoming, log = tmp_path / "incoming", tmp_path / "log"
    incoming.mkdir()
    lines = [*map(as_json, made_up.rows), closing()]
    (incoming / "rows.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    question = made_up.question(*WINDOW)
    arguments = [
        *(
            f"--input {incoming}/*.jsonl --clock event --output {rankings} --output-format jsonl --runner flink "
            "--checkpointing_interval 500"
        ).split(),
        *workers,
        *question,
    ]
    with streaming(arguments, log) as process:
        assert "24 windows published" in finished(process, log, patience=400)
    assert b"".join(published(rankings).values()) == made_up.batch(tmp_path / "batch.jsonl", *question)


def last_checkpoint(cluster: Cluster) -> int:
    """The number of the last completed checkpoint of the job that runs."""
    return max((cluster.rest.last_checkpoint(job["jid"]) for job in cluster.rest.not_over()), default=0)


def kill(cluster: Cluster, kind: str) -> None:
    """Kill what a stream needs. A pool is started again, a task manager is not, and Flink replaces workers."""
    if kind == "workers":
        found = [cluster.processes["worker-pool"].pid]
        for _ in range(3):  # who ends the pool with this process, the pool, and what its workers are copies of
            asked = ["ps", "-o", "pid=", "--ppid", ",".join(map(str, found))]
            found = [int(word) for word in subprocess.run(asked, capture_output=True, text=True).stdout.split()]
        for worker in found:
            os.kill(worker, signal.SIGKILL)
        assert found
    else:
        cluster.processes[kind].kill()
    if kind == "worker-pool":
        _, _, port = cluster.worker_pool.rpartition(":")
        wait_until(lambda: not reachable(cluster.worker_pool, 1))
        cluster.start_worker_pool(int(port))


NIGHTLY = [pytest.param(kind, marks=pytest.mark.nightly) for kind in ("workers", "worker-pool")]


@pytest.mark.parametrize("kind", ["task-manager-1", *NIGHTLY])
def test_a_topic_on_flink_gives_the_batch_though_processes_are_killed(
    kind: str, broker: Topics, made_up: Commits, cluster: Cluster, workers: list[str], rankings: Path, tmp_path: Path
) -> None:
    """The stream goes on from a checkpoint, with two slots fewer, and every window is published, and told, once."""
    topic, log = f"flink-{kind}", tmp_path / "log"
    question = made_up.question(*WINDOW)
    arguments = [
        "--input",
        broker.create(topic, PARTITIONS),
        *f"--kafka-readers 2 --clock event --output {rankings} --output-format jsonl --overwrite".split(),
        *question,
        "--runner",
        "flink",
        *workers,
        *"--checkpointing_interval 2000 --log-format json".split(),
    ]
    rows = [(row[0], as_json(row)) for row in made_up.rows]
    half = len(rows) // 2
    broker.send(topic, PARTITIONS, rows[:half])
    with streaming(arguments, log) as process:
        wait_for(lambda: len(published(rankings)) >= 10, process, log, patience=300)
        before, first = published(rankings), last_checkpoint(cluster)
        wait_for(lambda: last_checkpoint(cluster) >= first + 2, process, log, patience=120)
        kill(cluster, kind)
        broker.send(topic, PARTITIONS, rows[half:])
        broker.end(topic, PARTITIONS, closing())
        said = finished(process, log, patience=400)
    assert "24 windows published" in said and "the job restarted" in said
    after = published(rankings)
    assert sorted(line["window"] for line in told(said, "published")) == [Path(name).stem for name in after]
    assert told(said, "waiting")[0]["of"] == 24 and told(said, "restarted")[0]["restarts"] >= 1
    assert b"".join(after.values()) == made_up.batch(tmp_path / "batch.jsonl", *question)
    assert {name: after[name] for name in before} == before


@pytest.mark.nightly
@pytest.mark.long
def test_a_job_that_is_started_again_in_vain_is_ended(
    flink_home: Path, broker: Topics, made_up: Commits, rankings: Path, tmp_path: Path
) -> None:
    """Its pool of workers is lost, nobody brings it back, and its cluster would start it again a million times."""
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1_000_000,
        "restart-strategy.fixed-delay.delay": "1 s",
    }
    cluster, log = Cluster(tmp_path / "cluster", free_port(2), 2, "1536m", settings=settings), tmp_path / "log"
    try:
        cluster.start()
        cluster.start_worker_pool(cluster.port + 2)
        place = f"--input {broker.create('doomed', PARTITIONS)} --clock event --output {rankings} --output-format jsonl"
        arguments = [*place.split(), *made_up.question(*WINDOW), "--runner", "flink", *cluster.words()]
        rows = [(row[0], as_json(row)) for row in made_up.rows]
        broker.send("doomed", PARTITIONS, rows[: len(rows) // 2])
        with streaming(arguments, log) as process:
            wait_for(lambda: published(rankings), process, log, patience=200)
            cluster.processes["worker-pool"].kill()
            assert process.wait(200) == 1, log.read_text()
    finally:
        cluster.stop()
    said = log.read_text()
    assert "the job on Flink failed 12 times in a row and came no further" in said, said
    assert 12 <= said.count("Flink: the job restarted, ") <= 30, said


@pytest.mark.nightly
@pytest.mark.long
def test_workers_of_another_version_end_a_job_that_runs(
    flink_home: Path,
    broker: Topics,
    made_up: Commits,
    rankings: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The launcher says why, though the first that their runner asks of them is to go on from a checkpoint."""
    cluster, log = Cluster(tmp_path / "cluster", free_port(2), 2, "1536m"), tmp_path / "log"
    try:
        cluster.start()
        cluster.start_worker_pool(cluster.port + 2)
        place = f"--input {broker.create('upgraded', PARTITIONS)} --output {rankings} --output-format jsonl"
        arguments = [*place.split(), *"--clock event --checkpointing_interval 2000 --runner flink".split()]
        rows = [(row[0], as_json(row)) for row in made_up.rows]
        broker.send("upgraded", PARTITIONS, rows[: len(rows) // 2])
        with streaming([*arguments, *made_up.question(*WINDOW), *cluster.words()], log) as process:
            wait_for(lambda: published(rankings) and last_checkpoint(cluster) > 2, process, log, patience=200)
            cluster.processes["worker-pool"].kill()
            wait_until(lambda: not reachable(cluster.worker_pool, 1))
            monkeypatch.setenv("PYTHONPATH", str(drawing_differently(tmp_path / "other")))
            cluster.start_worker_pool(cluster.port + 2)
            assert process.wait(100) == 1, log.read_text()
    finally:
        cluster.stop()
    said = log.read_text()
    assert " (release 0), and the launcher private-topk " in said and "install the same version" in said, said


def test_a_stream_that_is_told_to_end_leaves_no_job(
    made_up: Commits, cluster: Cluster, workers: list[str], rankings: Path, tmp_path: Path
) -> None:
    """It would publish on, and keep the slots from the next. Until then log and health file say which job it is."""
    today = datetime.now(UTC)
    days = (f"--from={today:%Y-%m-%d}", f"--to={today + timedelta(days=4):%Y-%m-%d}")
    log, asked = tmp_path / "log", made_up.question("--window", "1d", *days)
    place = f"--input {made_up.folder}/rows.jsonl --output {rankings} --health-file {tmp_path}/health --runner flink"
    with streaming([*place.split(), *workers, *asked], log) as process:
        wait_for(lambda: last_checkpoint(cluster), process, log, patience=200)
        [job], health = cluster.rest.not_over(), json.loads((tmp_path / "health").read_bytes())
        assert job["name"].startswith("private-topk-streams-") and health["job"] == job["jid"]
        before, _, after = log.read_text().partition(f"Flink: preparing the job {job['name']}\n")
        assert "Flink: the job is" not in before and f"Flink: the job is {job['name']} ({job['jid']})" in after
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143, log.read_text()
    assert {job["state"] for job in cluster.rest.jobs()} <= {"FINISHED", "CANCELED"}
    assert log.read_text().splitlines()[-1].startswith("private-topk: terminated; "), log.read_text()
