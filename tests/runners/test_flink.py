"""Flink itself: the mini cluster of the job server, and a standalone cluster of real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.utils import thread_pool_executor

from benchmarks.servers.flink import Cluster
from private_topk.pipelines.budget import Budget, Ledger
from private_topk.runners.flink_jobs import JobManager
from private_topk.runners.portable import ThreadWorkers, reachable, serve
from private_topk.runners.worker_pool import Workers
from tests.pipelines.support import wait_until
from tests.runners.conftest import Published, Report, published
from tests.runners.servers import free_port, module_serving, running

ROOT = Path(__file__).resolve().parents[2]


def test_the_cluster_says_what_fits_it(cluster: Cluster, refusal_of: Callable[..., str]) -> None:
    on_it = ["flink", f"--flink_master={cluster.address}"]
    assert "must be one of LOOPBACK, EXTERNAL, PROCESS, DOCKER, got none" in refusal_of(*on_it)
    assert "which is 1.19: leave it out" in refusal_of(*on_it, "--flink_version=2.0")
    assert "worker_pool --port" in refusal_of(*on_it, "--environment_type=EXTERNAL")


def test_version_and_parallelism_come_from_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    from apache_beam.options.pipeline_options import FlinkRunnerOptions, JobServerOptions, PortableOptions

    from private_topk.runners import prepare

    (tmp_path / "some.jar").touch()
    on_it = [
        f"--flink_master={cluster.address}",
        "--environment_type=EXTERNAL",
        f"--environment_config={cluster.address}",
    ]
    on_it.append(f"--flink_job_server_jar={tmp_path}/some.jar")
    launch = prepare("FlinkRunner", on_it)
    flink = launch.options.view_as(FlinkRunnerOptions)
    assert (flink.flink_version, flink.parallelism) == ("1.19", 4)
    assert flink.flink_master == f"http://{cluster.address}" and launch.at == f"at {flink.flink_master}, which answers"
    assert launch.options.view_as(PortableOptions).environment_cache_millis == 700
    assert launch.runner.job_options["checkpointing_interval"] == 10_000
    assert launch.runner.job_options["max_bundle_time_mills"] == 200
    assert launch.options.view_as(JobServerOptions).job_server_jvm_properties[0] == "-XX:TieredStopAtLevel=1"
    assert launch.runner.job_options["finish_bundle_before_checkpointing"] is True
    assert launch.runner.job_options["execution_mode_for_batch"] == "BATCH_FORCED"
    assert launch.holding_tasks == 4 and prepare("flink", [*on_it, "--streaming"]).holding_tasks == 0
    settings = Path(launch.runner.job_options["flink_conf_dir"], "config.yaml").read_text()
    assert 'rest.retry.max-attempts: "200"' in settings and "exponential-delay" in settings


@pytest.mark.nightly
def test_up_and_down_leave_nothing_behind(flink_home: Path, tmp_path: Path) -> None:
    port = free_port(neighbours=2)
    command = [sys.executable, "-m", "benchmarks.servers.flink"]
    place = ["--folder", str(tmp_path), "--port", str(port), "--task-managers", "1"]
    try:
        said = subprocess.run([*command, "up", *place], capture_output=True, text=True, timeout=400)
        assert said.returncode == 0 and "starting Flink" in said.stderr, said.stderr
        assert said.stdout.startswith("Flink is ready, until `make flink-down`. ")
        assert f"--flink_master localhost:{port} --environment_type EXTERNAL" in said.stdout
        again = subprocess.run([*command, "up", *place], capture_output=True, text=True, timeout=120)
        assert again.returncode == 1 and "up already" in again.stderr
        ids = json.loads((tmp_path / "processes.json").read_text())
        for lost, kept in (("task-manager-1", "worker-pool"), ("worker-pool", "job-manager")):
            os.kill(ids[lost][0], signal.SIGKILL)
            back = subprocess.run([*command, "up", *place], capture_output=True, text=True, timeout=400)
            assert back.returncode == 0 and f": {lost} (half a minute)" in back.stderr, back.stderr
            now = json.loads((tmp_path / "processes.json").read_text())
            assert now[lost] != ids[lost] and now[kept] == ids[kept]
            ids = now
    finally:
        down = subprocess.run([*command, "down", *place], capture_output=True, text=True, timeout=120)
    assert down.returncode == 0 and "have ended" in down.stdout, down.stderr
    assert not any(reachable(f"localhost:{port + n}", 1) for n in range(3))
    nothing = subprocess.run([*command, "down", *place], capture_output=True, text=True, timeout=120)
    assert nothing.returncode == 1 and "no cluster is up" in nothing.stderr


def test_the_cluster_publishes_the_same(report: Report, direct: Published, workers: list[str]) -> None:
    """On all slots of both task managers, with workers in the command's process; those of a pool are killed below."""
    place = [*workers[:2], "--environment_type", "LOOPBACK"]
    assert report.publish("flink", *place, timeout=300) == direct


def test_a_charged_pipeline_of_ones_own_draws_the_same_there(workers: list[str], tmp_path: Path) -> None:
    """The example, with the workers of a pool: the ledger takes it as the repeat of what direct has published."""
    (tmp_path / "key").write_text("the key of the example's test")
    rows = "".join(f"u{n},{('tea', 'cake', 'tea')[n % 3]},2026-01-05T12:00:00+00:00\n" for n in range(60))
    (tmp_path / "orders.csv").write_text(f"user,dish,time\n{rows}")
    ledger = f"sqlite:///{tmp_path}/budget.db"
    Ledger(ledger).create(Budget.of("orders", 1))
    job = [sys.executable, str(ROOT / "examples" / "charged_ranking.py"), f"--ledger={ledger}"]
    job += [f"--orders={tmp_path}/orders.csv", f"--key={tmp_path}/key"]
    answers = []
    for runner in ("direct", "flink"):
        place = [] if runner == "direct" else workers
        command = [*job, f"--output={tmp_path}/{runner}.jsonl", "--runner", runner, *place]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        answers.append(sorted((tmp_path / f"{runner}.jsonl").read_text().splitlines()))
    assert answers[0] == answers[1] and len(answers[0]) == 7 * 2
    assert [charge.outcome for charge in Ledger(ledger).read().charges] == ["released"]


@pytest.mark.nightly
def test_a_task_manager_killed_in_the_middle_changes_nothing(
    report: Report, direct: Published, cluster: Cluster, workers: list[str], tmp_path: Path
) -> None:
    output = f"{report.folder}/after-kill.avro"
    extra = ["--runner", "flink", "--output", output, *workers]
    command = [sys.executable, "-m", "private_topk", *report.arguments(*extra)]
    rest = JobManager(cluster.address)
    log = tmp_path / "log"
    with running(command, log) as job:
        _until_it_runs(job, rest, log)
        cluster.processes["task-manager-1"].send_signal(signal.SIGKILL)
        assert job.wait(400) == 0, log.read_text()
    assert published(output, "flink") == direct
    wait_until(lambda: cluster.overview()["taskmanagers"] == 1)


@contextmanager
def _pool(kind: str, folder: Path) -> Iterator[str]:
    if kind == "of processes":
        with module_serving("worker pool", folder) as address:
            yield address
    else:
        server, port = serve(ThreadWorkers(), "127.0.0.1:0")
        yield f"127.0.0.1:{port}"
        server.stop(None)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["of processes", "of threads"])
def test_workers_of_two_task_managers_share_a_pool(kind: str, tmp_path: Path) -> None:
    """Task managers number their workers from 1, each on its own: the one's end is not the other's."""
    with _pool(kind, tmp_path) as pool, _control() as control:
        channels = [grpc.insecure_channel(pool, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(2)]
        stubs = [beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel) for channel in channels]
        request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1")
        request.control_endpoint.url = control.address
        for number, stub in enumerate(stubs, 1):
            assert not stub.StartWorker(request, timeout=60).error
            wait_until(lambda number=number: len(control.workers) == number)
        for number, stub in enumerate(stubs):
            stub.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"), timeout=60)
            wait_until(lambda number=number: control.workers[number].is_set())
            assert [worker.is_set() for worker in control.workers] == [True, number == 1]
        for channel in channels:
            channel.close()


@pytest.mark.long
def test_a_worker_killed_on_its_way_is_started_again() -> None:
    """Flink waits for it without end: it asked the pool for a worker, and never heard that one came."""
    workers, port = Workers(), free_port()
    server, pool = serve(workers, "127.0.0.1:0")
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1")
    request.control_endpoint.url = f"127.0.0.1:{port}"  # nobody listens there yet
    try:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(grpc.insecure_channel(f"127.0.0.1:{pool}"))
        assert not stub.StartWorker(request, timeout=60).error
        first = workers.running()
        assert len(first) == 1
        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: workers.running() not in ([], first))
        with _control(port) as control:
            wait_until(lambda: len(control.workers) == 1)
            stub.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"), timeout=60)
            wait_until(control.workers[0].is_set)
        assert workers.running() == []
    finally:
        server.stop(None)
        workers.stop()


class _Control(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """What workers report to: for each in turn, whether it has ended."""

    def __init__(self) -> None:
        self.workers: list[threading.Event] = []
        self.address = ""

    def Control(  # noqa: N802 - the name in the protocol
        self, responses: Iterator[beam_fn_api_pb2.InstructionResponse], context: grpc.ServicerContext
    ) -> Iterator[beam_fn_api_pb2.InstructionRequest]:
        ended = threading.Event()
        context.add_callback(ended.set)
        self.workers.append(ended)
        for _ in responses:
            pass
        yield from ()


@contextmanager
def _control(port: int = 0) -> Iterator[_Control]:
    control, server = _Control(), grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(control, server)
    control.address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    server.start()
    yield control
    server.stop(None)


def _until_it_runs(job: subprocess.Popen, rest: JobManager, log: Path) -> None:
    """Wait for the first task of a job that was just handed over; none of an earlier one is left."""
    wait_until(lambda: job.poll() is not None or any(each["tasks"]["running"] for each in rest.jobs()), 300)
    assert job.poll() is None, log.read_text()
