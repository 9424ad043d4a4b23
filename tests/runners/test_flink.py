"""Flink itself: the mini cluster of the job server, and a standalone cluster of real processes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from private_topk.runners.flink_cluster import Cluster
from private_topk.runners.flink_distribution import distribution
from private_topk.runners.flink_jar import job_server_jar
from private_topk.runners.network import reachable
from tests.runners.conftest import Published, Report, published
from tests.runners.servers import free_port, missing


@pytest.fixture(scope="module")
def flink_home() -> Path:
    if shutil.which("java") is None:
        missing("Flink needs Java 11 or later: install it")
    try:
        return distribution()
    except ValueError as error:
        missing(str(error))
        raise


@pytest.fixture(scope="module")
def cluster(flink_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("cluster"), free_port())
    try:
        running.start(task_managers=2)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def workers(cluster: Cluster) -> list[str]:
    pool = cluster.start_worker_pool(free_port())
    return ["--flink_master", cluster.address, "--environment_type", "EXTERNAL", "--environment_config", pool]


@pytest.fixture(scope="module")
def jar() -> str:
    """Beam's job server. A registry that does not carry it is no fault of this machine, so this skips in CI too."""
    try:
        return job_server_jar("1.20")
    except ValueError as error:
        pytest.skip(str(error))


def test_the_cluster_says_what_fits_it(cluster: Cluster, refusal_of: Callable[..., str]) -> None:
    on_it = ["flink", f"--flink_master={cluster.address}"]
    assert "must be one of LOOPBACK, EXTERNAL, PROCESS, DOCKER, got none" in refusal_of(*on_it)
    assert "which is 1.20: leave it out" in refusal_of(*on_it, "--flink_version=2.0")
    assert "worker_pool --port" in refusal_of(*on_it, "--environment_type=EXTERNAL")


def test_version_and_parallelism_come_from_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    from apache_beam.options.pipeline_options import FlinkRunnerOptions

    from private_topk.runners import prepare
    from private_topk.runners.flink import FlinkJobOptions

    (tmp_path / "some.jar").touch()
    on_it = [f"--flink_master={cluster.address}", "--environment_type=loopback"]
    launch = prepare("FlinkRunner", [*on_it, f"--flink_job_server_jar={tmp_path}/some.jar"])
    flink = launch.options.view_as(FlinkRunnerOptions)
    assert (flink.flink_version, flink.parallelism) == ("1.20", 4)
    assert flink.flink_master == f"http://{cluster.address}"
    job = launch.options.view_as(FlinkJobOptions)
    assert job.checkpointing_interval == 10_000 and job.number_of_execution_retries > 0


def test_a_lost_task_manager_is_noticed_and_replaced(cluster: Cluster) -> None:
    cluster.processes["task-manager-2"].send_signal(signal.SIGKILL)
    _await(lambda: cluster.overview()["taskmanagers"] == 1)
    cluster.start_task_manager(2)
    _await(lambda: cluster.overview()["taskmanagers"] == 2)


def test_up_and_down_leave_nothing_behind(flink_home: Path, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "private_topk.runners.flink_cluster"]
    place = ["--folder", str(tmp_path), "--port", str(port), "--task-managers", "1"]
    said = subprocess.run([*command, "up", *place], capture_output=True, text=True, timeout=120)
    try:
        assert said.returncode == 0, said.stderr
        assert f"--flink_master localhost:{port} --environment_type EXTERNAL" in said.stdout
        again = subprocess.run([*command, "up", *place], capture_output=True, text=True, timeout=60)
        assert again.returncode == 1 and "up already" in again.stderr
    finally:
        down = subprocess.run([*command, "down", *place], capture_output=True, text=True, timeout=60)
    assert down.returncode == 0, down.stderr
    assert not any(reachable(f"localhost:{port + n}", 1) for n in range(3))
    nothing = subprocess.run([*command, "down", *place], capture_output=True, text=True, timeout=60)
    assert nothing.returncode == 1 and "no cluster is up" in nothing.stderr


def test_the_mini_cluster_publishes_the_same(report: Report, direct: Published, jar: str) -> None:
    assert report.publish("flink", "--flink_version=1.20", "--flink_job_server_jar", jar) == direct


def test_the_cluster_publishes_the_same(report: Report, direct: Published, workers: list[str], jar: str) -> None:
    assert report.publish("flink", *workers, "--flink_job_server_jar", jar) == direct


def test_a_task_manager_killed_in_the_middle_changes_nothing(
    report: Report, direct: Published, cluster: Cluster, workers: list[str], jar: str
) -> None:
    output = f"{report.folder}/after-kill.avro"
    extra = ["--runner", "flink", "--output", output, *workers, "--flink_job_server_jar", jar]
    command = [sys.executable, "-m", "private_topk", *report.arguments(*extra)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as job:
        _await(lambda: _tasks(cluster, "RUNNING") > 0)
        cluster.processes["task-manager-1"].send_signal(signal.SIGKILL)
        _, message = job.communicate(timeout=150)
    assert job.returncode == 0, message
    assert published(output, "flink") == direct
    assert cluster.overview()["taskmanagers"] == 1


def _tasks(cluster: Cluster, state: str) -> int:
    with urlopen(f"http://{cluster.address}/jobs/overview", timeout=5) as answer:
        return sum(job["tasks"][state.lower()] for job in json.load(answer)["jobs"])


def _await(condition: Callable[[], bool], patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
