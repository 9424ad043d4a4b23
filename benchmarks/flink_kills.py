"""Kills at random moments: what a report publishes must stay the same, every window once and in one version.

    python -m benchmarks.flink_kills --kind task-manager,worker --job stream --times 20

A standalone cluster (job manager, two task managers with four slots each, a pool of Python workers), one job server
and, for streams, a Kafka broker, all on loopback. Several jobs of parallelism 2 run at the same time; when all their
tasks run, one kill with SIGKILL hits them at a random moment in the eight seconds after a random share of the rows has
come. The others are sent when it is done, so that no job can be over before. What was killed is replaced a second
later where the kind says so, and what each job publishes is compared with the direct runner's batch.

A job counts only if it was hit: it was RUNNING with all of its tasks at the kill, not every window was published, and
afterwards Flink tells of a failure of it that it did not tell of before. Of the job manager and the broker, whose loss
is no failure of a job, the first two must do.

kinds: task-manager (replaced), task-manager-lost (not replaced), worker-pool (with its workers, replaced), worker (half
of the Python workers; nobody replaces them but Flink), job-manager (replaced, high availability), broker (replaced;
streams only).
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.flink_jobs import PARTITIONS, WINDOWS, Report, Versions, await_, end, looked_at, served, start
from private_topk.runners.flink_cluster import Cluster
from private_topk.runners.flink_rest import Rest
from private_topk.runners.kafka_broker import Broker

KINDS = ("task-manager", "task-manager-lost", "worker-pool", "worker", "job-manager", "broker")
OVER = ("FINISHED", "FAILED", "CANCELED")
PATIENCE = 400.0


class Bench:
    """The servers of all waves of one kind."""

    def __init__(self, folder: Path, kind: str, port: int, job: str, report: Report) -> None:
        self.folder, self.kind, self.job, self.report = folder, kind, job, report
        self.cluster = Cluster(folder / "cluster", port, slots=4, high_availability=kind == "job-manager")
        self.broker = Broker(folder / "kafka", port + 10)
        self.rest = Rest(self.cluster.address)
        self.random = np.random.Generator(np.random.PCG64(len(kind)))
        self.pool = ""

    def begin(self) -> None:
        self.cluster.start(2)
        self.pool = self.cluster.start_worker_pool(self.cluster.port + 2)
        if self.job == "stream":
            self.broker.start()

    def stop(self) -> None:
        self.cluster.stop()
        self.broker.stop()

    def heal(self) -> None:
        """Bring back what the last wave has lost, and end what it has left."""
        for job in self.rest.jobs():
            if job["state"] not in OVER:
                self.rest.get(f"jobs/{job['jid']}/yarn-cancel")
        for number in (1, 2):
            if self.cluster.processes[f"task-manager-{number}"].poll() is not None:
                self.cluster.start_task_manager(number)
        await_(lambda: self.cluster.overview().get("slots-available") == 8, 300, "the slots are not free again")

    def wave(self, number: int, jobs: int, server: str) -> list[str]:
        """Some jobs with one kill; what came of each."""
        topic, names = f"rows-{number}", [f"wave{number}x{each}" for each in range(jobs)]
        outputs = [self.folder / name for name in names]
        share = int(len(self.report.rows) * (0.2 + 0.6 * self.random.random()))
        if self.job == "stream":
            admin = AdminClient({"bootstrap.servers": self.broker.address})
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        running = [start(self.words(name, output, topic, server), self.folder / f"{name}.log")
                   for name, output in zip(names, outputs, strict=True)]  # fmt: skip
        versions = [Versions(output) for output in outputs]
        try:
            with looked_at(*versions):
                hit = self.strike(names, outputs, topic, share)
                deadline = time.monotonic() + PATIENCE
                for process in running:
                    process.join(max(0.1, deadline - time.monotonic()))
            failed = self.failures(names)
            return [self.verdict(process.exitcode, name, seen, hit[name], failed.get(name, 0))
                    for process, name, seen in zip(running, names, versions, strict=True)]  # fmt: skip
        finally:
            for process in running:
                end(process)

    def words(self, name: str, output: Path, topic: str, server: str) -> list[str]:
        place = ["--runner", "flink", "--flink_master", self.cluster.address, "--job_endpoint", server, "--job_name",
                 name, "--parallelism", "2", "--environment_type", "EXTERNAL", "--environment_config",
                 self.pool]  # fmt: skip
        if self.job == "batch":
            output.mkdir()
            return self.report.batch_words(output / "all.jsonl", *place)
        source = f"kafka://{self.broker.address}/{topic}"
        return self.report.stream_words(output, "--checkpointing_interval", "2000", *place, source=source)

    def strike(self, names: list[str], outputs: list[Path], topic: str, share: int) -> dict[str, int]:
        """Kill when all jobs run; for each job that was hit, how many failures Flink told of before, else -1."""
        await_(lambda: len(self.alive(names)) == len(names), PATIENCE, "the jobs do not run")
        if self.job == "stream":
            self.report.send(self.broker.address, topic, range(share))
        time.sleep(self.random.random() * (8 if self.job == "stream" else 5))
        alive, before = self.alive(names), self.failures(names)
        at_work = {name: name in alive and len(list(output.glob("*.jsonl"))) < WINDOWS
                   for name, output in zip(names, outputs, strict=True)}  # fmt: skip
        if self.job == "batch":
            at_work = {name: name in alive for name in names}
        if self.kind == "broker":
            rest = threading.Thread(target=self.send_rest, args=(topic, share, 3.0))
            rest.start()
            self.kill()
            rest.join()
        else:
            self.kill()
            if self.job == "stream":
                self.send_rest(topic, share, 2.0)
        return {name: before.get(name, 0) if at_work[name] else -1 for name in names}

    def send_rest(self, topic: str, share: int, seconds: float) -> None:
        self.report.send(self.broker.address, topic, range(share, len(self.report.rows)), seconds)

    def verdict(self, status: int | None, name: str, versions: Versions, before: int, failed: int) -> str:
        log = self.folder / f"{name}.log"
        if status != 0:
            return f"status {status}: {log.read_text()[-600:] if log.exists() else ''}"
        if before < 0 or (self.kind not in ("job-manager", "broker") and failed <= before):
            return "not hit"
        if self.job == "stream":
            return versions.verdict(self.report.expected)
        same = (versions.folder / "all.jsonl").read_bytes() == self.report.expected
        return "equal" if same else "other rankings"

    def jobs(self, names: list[str]) -> dict[str, dict[str, Any]]:
        return {name: job for job in self.rest.jobs() for name in names if job["name"].startswith(f"{name}-")}

    def alive(self, names: list[str]) -> list[str]:
        """The jobs that run: a stream with all of its tasks, a batch, whose stages take turns, with one."""
        return [name for name, job in self.jobs(names).items() if job["state"] == "RUNNING"
                and job["tasks"]["running"] >= (job["tasks"]["total"] if self.job == "stream" else 1)]  # fmt: skip

    def failures(self, names: list[str]) -> dict[str, int]:
        return {name: len(self.rest.failures(job["jid"])) for name, job in self.jobs(names).items()}

    def kill(self) -> None:
        """Kill a process of the kind, and replace it a second later where that is asked for."""
        if self.kind == "broker":
            assert self.broker.process is not None
            self.broker.process.kill()
            self.broker.process.wait()
            time.sleep(1)
            self.broker.start()
        elif self.kind == "worker":
            workers = self._workers()
            for each in self.random.permutation(workers)[: len(workers) // 2].tolist():
                os.kill(each, signal.SIGKILL)
        else:
            name = self.kind.removesuffix("-lost") + ("-1" if self.kind.startswith("task") else "")
            workers = self._workers() if self.kind == "worker-pool" else []
            self.cluster.processes[name].kill()
            for each in workers:
                os.kill(each, signal.SIGKILL)
            time.sleep(1)
            self._replace()

    def _replace(self) -> None:
        if self.kind == "task-manager":
            self.cluster.start_task_manager(1)
        elif self.kind == "worker-pool":
            self.cluster.start_worker_pool(self.cluster.port + 2)
        elif self.kind == "job-manager":
            self.cluster.start_job_manager()

    def _workers(self) -> list[int]:
        """The ids of the pool's workers: the children of the process that copies itself."""
        copiers = _children([self.cluster.processes["worker-pool"].pid])
        return _children(copiers)


def _children(parents: list[int]) -> list[int]:
    if not parents:
        return []
    words = ["ps", "-o", "pid=", "--ppid", ",".join(map(str, parents))]
    return [int(word) for word in subprocess.run(words, capture_output=True, text=True).stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--job", choices=("batch", "stream"), default="stream")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--together", type=int, default=4, help="how many jobs run at the same time")
    parser.add_argument("--port", type=int, default=28081)
    parser.add_argument("--folder", type=Path, help="keep logs here")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="flink-kills-"))
    shutil.rmtree(folder, ignore_errors=True)
    report = Report(folder / "report", rows=2_400 if arguments.job == "stream" else 400_000)
    for place, kind in enumerate(arguments.kind.split(",")):
        run(Bench(folder / kind, kind, arguments.port + 20 * place, arguments.job, report), arguments)


def run(bench: Bench, arguments: argparse.Namespace) -> None:
    """Waves until so many jobs were hit, or twice as many were run."""
    title, hit, good, runs = f"{bench.kind}, {arguments.job}", 0, 0, 0
    try:
        bench.begin()
        with served(bench.cluster, bench.folder) as server:
            while hit < arguments.times and runs < 2 * arguments.times:
                began = time.monotonic()
                try:
                    said = bench.wave(runs, min(arguments.together, arguments.times - hit), server)
                except TimeoutError as error:
                    said = [str(error)] * arguments.together
                runs, hit = runs + len(said), hit + sum(each != "not hit" for each in said)
                good += sum(each == "equal" for each in said)
                print(f"{title}: {', '.join(said)} ({time.monotonic() - began:.0f} s)", flush=True)
                bench.heal()
    finally:
        bench.stop()
        print(f"{title}: {good} of {hit} that were hit are equal", flush=True)


if __name__ == "__main__":
    main()
