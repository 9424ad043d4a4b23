"""Kills at random moments: what a report publishes must stay the same, every window once and in one version.

    python -m benchmarks.flink_kills --kind task-manager --job stream --times 20

A standalone cluster (job manager, two task managers with two slots each, a pool of Python workers) and, for streams, a
Kafka broker, all on loopback. Each run hands over a job, kills one process at a random moment of its life with SIGKILL,
replaces it after a second where the kind says so, and compares what is published with the direct runner's batch.

kinds: task-manager (replaced), task-manager-lost (not replaced), worker-pool (with its workers, replaced), worker (a
Python worker; nobody replaces it but Flink), job-manager (replaced, high availability), broker (replaced; streams
only).
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

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.flink_jobs import PARTITIONS, Report, Versions, await_, busy, session
from private_topk.runners.flink_cluster import Cluster
from private_topk.runners.flink_rest import Rest
from private_topk.runners.kafka_broker import Broker

KINDS = ("task-manager", "task-manager-lost", "worker-pool", "worker", "job-manager", "broker")


class Bench:
    """The servers of all runs of one kind."""

    def __init__(self, folder: Path, kind: str, port: int, job: str) -> None:
        self.folder, self.kind, self.job = folder, kind, job
        self.report = Report(folder / "report", rows=7_000 if job == "stream" else 400_000)
        self.cluster = Cluster(folder / "cluster", port, high_availability=kind == "job-manager")
        self.broker = Broker(folder / "kafka", port + 10)
        self.rest = Rest(self.cluster.address)
        self.pool = ""

    def start(self) -> None:
        self.cluster.start(2)
        self.pool = self.cluster.start_worker_pool(self.cluster.port + 2)
        if self.job == "stream":
            self.broker.start()

    def stop(self) -> None:
        self.cluster.stop()
        self.broker.stop()

    def heal(self) -> None:
        """Bring back what the last run has lost, and end what it has left."""
        for job in self.rest.jobs():
            if job["state"] not in ("FINISHED", "FAILED", "CANCELED"):
                self.rest.get(f"jobs/{job['jid']}/yarn-cancel")
        for number in (1, 2):
            if self.cluster.processes[f"task-manager-{number}"].poll() is not None:
                self.cluster.start_task_manager(number)
        await_(lambda: self.cluster.overview().get("slots-available") == 4, 180, "the slots are not free again")

    def kill(self) -> str:
        """Kill one process of the kind, and replace it a second later where that is asked for; what was killed."""
        if self.kind == "broker":
            assert self.broker.process is not None
            self.broker.process.kill()
            self.broker.process.wait()
            time.sleep(1)
            self.broker.start()
        elif self.kind == "worker":
            workers = self._workers()
            if not workers:
                return "no worker was up"
            os.kill(workers[-1], signal.SIGKILL)
        else:
            name = self.kind.removesuffix("-lost") + ("-1" if self.kind.startswith("task") else "")
            workers = self._workers() if self.kind == "worker-pool" else []
            self.cluster.processes[name].kill()
            for each in workers:
                os.kill(each, signal.SIGKILL)
            time.sleep(1)
            self._replace()
        return self.kind

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

    def run(self, number: int, moment: float, extra: list[str]) -> str:
        """One job with one kill, a share `moment` of the way through its life; what came of it."""
        output, log = self.folder / f"out-{number}", self.folder / f"log-{number}"
        place = ["--runner", "flink", "--flink_master", self.cluster.address, "--environment_type", "EXTERNAL"]
        place += ["--environment_config", self.pool, *extra]
        versions = Versions(output)
        if self.job == "batch":
            output.mkdir()
            command = self.report.batch_command(output / "all.jsonl", *place)
        else:
            topic = f"rows-{number}"
            admin = AdminClient({"bootstrap.servers": self.broker.address})
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
            source = f"kafka://{self.broker.address}/{topic}"
            command = self.report.stream_command(output, "--checkpointing_interval", "2000", *place, source=source)
            threading.Thread(target=self.report.send, args=(self.broker.address, topic, 30), daemon=True).start()
        began = time.monotonic()
        with session(command, log) as process:
            await_(lambda: process.poll() is not None or self._running(), 300, "the job does not start")
            time.sleep(moment * (12 if self.job == "batch" else 30))
            ended = process.poll() is not None
            victim = self.kill()
            killed = time.monotonic()
            while process.poll() is None and time.monotonic() - killed < 400:
                versions.look()
                time.sleep(0.2)
            status = process.poll()
        took = f"{time.monotonic() - began:.0f} s, {'after its end' if ended else f'{moment:.2f} of the way'}, {victim}"
        if status != 0:
            return f"status {status}, {took}: {log.read_text()[-600:]}"
        if self.job == "batch":
            same = (output / "all.jsonl").read_bytes() == self.report.expected
            return f"{'equal' if same else 'other rankings'}, {took}"
        found = versions.verdict(self.report.expected)
        shutil.rmtree(output)
        return f"{found}, {took}, restarts said: {log.read_text().count('restarted')}"

    def _running(self) -> bool:
        return any(job["state"] == "RUNNING" and job["tasks"]["running"] for job in self.rest.jobs())


def _children(parents: list[int]) -> list[int]:
    if not parents:
        return []
    words = ["ps", "-o", "pid=", "--ppid", ",".join(map(str, parents))]
    return [int(word) for word in subprocess.run(words, capture_output=True, text=True).stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--job", choices=("batch", "stream"), default="stream")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", type=int, default=0, help="cores kept busy meanwhile")
    parser.add_argument("--port", type=int, default=28081)
    parser.add_argument("--folder", type=Path, help="keep logs here")
    arguments, extra = parser.parse_known_args()
    moments = np.random.Generator(np.random.PCG64(arguments.seed)).random(arguments.times)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="flink-kills-"))
    shutil.rmtree(folder, ignore_errors=True)
    bench = Bench(folder, arguments.kind, arguments.port, arguments.job)
    good = 0
    try:
        bench.start()
        with busy(arguments.load):
            for number, moment in enumerate(moments.tolist()):
                try:
                    said = bench.run(number, moment, extra)
                    good += said.startswith("equal")
                    print(f"{arguments.kind}, {arguments.job}, {number + 1}: {said}", flush=True)
                except TimeoutError as error:
                    print(f"{arguments.kind}, {arguments.job}, {number + 1}: {error}", flush=True)
                bench.heal()
    finally:
        bench.stop()
    print(f"{arguments.kind}, {arguments.job}: {good} of {arguments.times} equal", flush=True)


if __name__ == "__main__":
    main()
