"""Benchmarks that nobody runs die silently: all of them start, and kills on Flink are kills."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import benchmarks
from benchmarks.flink_jobs import PARTITIONS, Report, await_
from benchmarks.flink_servers import Servers
from benchmarks.servers.kafka import create_topic
from tests.runners.servers import free_port, running

FOLDER = Path(benchmarks.__path__[0])
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text("utf-8"))
KINDS = ("task-manager", "worker", "worker-pool")


@pytest.mark.nightly
@pytest.mark.parametrize("module", MODULES)
def test_every_benchmark_starts(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", f"benchmarks.{module}", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("usage: "), done.stderr


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.usefixtures("flink_home")
def test_kills_of_every_kind_hit_a_stream_and_change_nothing(tmp_path: Path) -> None:
    """Processes were there and died, and Flink told of a failure of the job afterwards."""
    results = tmp_path / "kills.jsonl"
    words = ["--kind", ",".join(KINDS), "--job", "stream", "--times", "1", "--kills", "4", "--rows", "6000,20000"]
    words += ["--port", str(free_port(neighbours=12)), "--folder", str(tmp_path / "kills"), "--results", str(results)]
    with running([sys.executable, "-m", "benchmarks.flink_kills", *words], tmp_path / "log") as bench:
        assert bench.wait(900) == 0, (tmp_path / "log").read_text()
    kills = [json.loads(line) for line in results.read_text().splitlines()]
    assert {kill["verdict"] for kill in kills} == {"equal"}, kills
    hit = {kill["kind"] for kill in kills if kill["hit"] and kill["killed"] > 0}
    assert hit == set(KINDS), kills


@pytest.fixture
def servers(flink_home: Path, tmp_path: Path) -> Iterator[Servers]:
    """A cluster that starts a job again a million times, a second after each failure."""
    with Servers(tmp_path / "servers", False, free_port(neighbours=12)) as servers:
        yield servers


@pytest.mark.nightly
@pytest.mark.long
def test_a_job_that_is_started_again_in_vain_is_ended(servers: Servers, tmp_path: Path) -> None:
    """Its pool of workers is lost, and nobody brings it back: each start fails."""
    report, rankings, log = Report(tmp_path / "report", 6000), tmp_path / "rankings", tmp_path / "log"
    words = report.stream_words(rankings, *servers.words("doomed", 2), source=topic_of(servers, report))
    with running([sys.executable, "-m", "private_topk", *words], log) as job:
        await_(lambda: job.poll() is not None or any(rankings.glob("*.jsonl")), 200, "nothing is published")
        assert servers.kill("worker-pool-lost") > 1, log.read_text()
        await_(lambda: job.poll() is not None, 200, "it is started again for ever")
    said = log.read_text()
    assert job.returncode == 1 and "the job on Flink failed 12 times in a row and came no further" in said, said
    assert 12 <= said.count("Flink: the job restarted, ") <= 30, said


def topic_of(servers: Servers, report: Report) -> str:
    """A topic with the first half of the rows."""
    create_topic(servers.broker.address, "doomed", PARTITIONS)
    report.send(servers.broker.address, "doomed", range(len(report.rows) // 2))
    return f"kafka://{servers.broker.address}/doomed"
