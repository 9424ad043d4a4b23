"""The same topic on a real Flink cluster with checkpoints, also when a task manager is killed in the middle."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from private_topk.runners.flink_cluster import Cluster
from private_topk.runners.flink_jar import job_server_jar
from tests.pipelines.streaming.replay import (
    Commits,
    Topics,
    as_json,
    closing,
    published,
    streaming,
    wait_for,
)  # fmt: skip
from tests.runners.servers import free_port, missing

PARTITIONS = 4


@pytest.fixture(scope="module")
def jar() -> str:
    """Beam's job server. A registry that does not carry it is no fault of this machine, so this skips in CI too."""
    try:
        return job_server_jar("1.20")
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture
def cluster(jar: str, tmp_path: Path) -> Iterator[Cluster]:
    try:
        running = Cluster(tmp_path / "cluster", free_port())
    except ValueError as error:
        missing(str(error))
        raise
    try:
        running.start(task_managers=2)
        yield running
    finally:
        running.stop()


@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "task manager killed"])
def test_a_topic_on_flink_gives_the_batch(
    killed: bool, broker: Topics, commits: Commits, cluster: Cluster, jar: str, rankings: Path, tmp_path: Path
) -> None:
    topic, log = f"flink-{killed}".lower(), tmp_path / "log"
    arguments = [
        "--input", broker.create(topic, PARTITIONS), "--kafka-readers", "2", "--clock", "event",
        "--output", str(rankings), "--output-format", "jsonl", "--overwrite", *commits.question(),
        "--runner", "flink", "--flink_master", cluster.address, "--flink_job_server_jar", jar,
        "--environment_type", "EXTERNAL", "--environment_config", cluster.start_worker_pool(free_port()),
        "--checkpointing_interval", "2000",
    ]  # fmt: skip
    rows = [(row[0], as_json(row)) for row in commits.rows]
    half = len(rows) // 2
    broker.send(topic, PARTITIONS, rows[:half])
    with streaming(arguments, log) as process:
        wait_for(lambda: len(published(rankings)) >= 3, process, log, patience=120)
        if killed:
            time.sleep(4)  # at least one checkpoint
            cluster.processes["task-manager-1"].send_signal(signal.SIGKILL)
        sender = threading.Thread(target=broker.send, args=(topic, PARTITIONS, rows[half:]))
        sender.start()
        sender.join()
        broker.end(topic, PARTITIONS, closing())
        # Flink keeps a job with checkpoints when its sources have ended: the client waits on, and is ended here.
        wait_for(lambda: len(published(rankings)) == 24, process, log, patience=180)
    assert b"".join(published(rankings).values()) == commits.batch(tmp_path / "batch.jsonl")
