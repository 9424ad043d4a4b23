"""Kills at random moments: what a report publishes must stay the same, every window once and in one version.

    python -m benchmarks.flink_kills --times 20 --results kills.jsonl
    python -m benchmarks.flink_kills --job batch --kind task-manager,worker --times 20 --results kills.jsonl

A standalone cluster (job manager, two task managers with four slots each, a pool of Python workers), one job server
and, for streams, a Kafka broker, all on loopback. Several jobs of parallelism 2 run at the same time; when all their
tasks run, one kill with SIGKILL hits them at a random moment in the eight seconds after a random share of the rows has
come. The others are sent when it is done, so that no job can be over before. What was killed is replaced a second
later where the kind says so, and what each job publishes is compared with the direct runner's batch. The kinds take
turns, a kill each. With --results every job that is done is kept as a line, and the same command goes on from there.

A job counts only if it was hit: it was RUNNING with all of its tasks at the kill, not every window was published, and
afterwards Flink tells of a failure of it that it did not tell of before. Of the job manager and the broker, whose loss
is no failure of a job, the first two must do. One that was not hit must publish the same all the more. A job that has
not ended in time after its kill counts as hung.

kinds: task-manager (replaced), task-manager-lost (not replaced), worker-pool (with its workers, replaced), worker (half
of the Python workers; nobody replaces them but Flink), job-manager (replaced, high availability), broker (replaced;
streams only). And job-manager-forgets (replaced, without high availability): the job is lost, and that must be told.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.flink_jobs import PARTITIONS, WINDOWS, Report, Versions, await_, end, looked_at, served, start
from benchmarks.results import Results
from private_topk.runners.flink_cluster import Cluster
from private_topk.runners.kafka_broker import Broker

KINDS = ("task-manager", "task-manager-lost", "worker-pool", "worker", "job-manager", "broker", "job-manager-forgets")
FAIL_A_JOB = ("task-manager", "task-manager-lost", "worker-pool", "worker")
OVER = ("FINISHED", "FAILED", "CANCELED")
PATIENCE = 900.0


class Bench:
    """The servers of all kills on one cluster.

    Args:
        high_availability: for the loss of the job manager, and of nothing else.
    """

    def __init__(self, folder: Path, high_availability: bool, port: int, reports: dict[str, Report]) -> None:
        self.folder, self.reports = folder, reports
        self.job, self.report = next(iter(reports.items()))
        self.cluster = Cluster(folder / "cluster", port, slots=4, high_availability=high_availability)
        self.broker = Broker(folder / "kafka", port + 10)
        self.rest = self.cluster.rest
        self.random = np.random.default_rng()
        self.pool = self.server = ""
        self._servers = ExitStack()

    def begin(self) -> None:
        """Start everything, unless it is up."""
        if not self.server:
            self._servers.callback(self.stop)
            self.cluster.start(2)
            self.pool = self.cluster.start_worker_pool(self.cluster.port + 2)
            if "stream" in self.reports:
                self.broker.start()
            self.server = self._servers.enter_context(served(self.cluster, self.folder))

    def close(self) -> None:
        self._servers.close()

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
        await_(lambda: self.cluster.overview().get("slots-available") == 8, PATIENCE, "the slots are not free again")

    def wave(self, job: str, kind: str, jobs: int) -> list[str]:
        """Some jobs with one kill; what came of each."""
        self.job, self.report = job, self.reports[job]
        mark = f"{job}-{kind}-{time.strftime('%H%M%S')}"
        topic, names = mark, [f"{mark}x{each}" for each in range(jobs)]
        outputs = [self.folder / name for name in names]
        share = int(len(self.report.rows) * (0.2 + 0.6 * self.random.random()))
        if self.job == "stream":
            admin = AdminClient({"bootstrap.servers": self.broker.address})
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        running = [start(self.words(name, output, topic), self.folder / f"{name}.log")
                   for name, output in zip(names, outputs, strict=True)]  # fmt: skip
        versions = [Versions(output) for output in outputs]
        try:
            with looked_at(*versions):
                hit = self.strike(kind, running, names, outputs, topic, share)
                deadline = time.monotonic() + PATIENCE
                for process in running:
                    process.join(max(0.1, deadline - time.monotonic()))
            failed = self.failures(names)
            return [self.verdict(kind, process, name, seen, hit[name], failed.get(name, 0))
                    for process, name, seen in zip(running, names, versions, strict=True)]  # fmt: skip
        finally:
            for process in running:
                end(process)

    def words(self, name: str, output: Path, topic: str) -> list[str]:
        place = ["--runner", "flink", "--flink_master", self.cluster.address, "--job_endpoint", self.server,
                 "--job_name", name, "--parallelism", "2", "--environment_type", "EXTERNAL", "--environment_config",
                 self.pool]  # fmt: skip
        if self.job == "batch":
            output.mkdir()
            return self.report.batch_words(output / "all.jsonl", *place)
        source = f"kafka://{self.broker.address}/{topic}"
        return self.report.stream_words(output, "--checkpointing_interval", "2000", *place, source=source)

    def strike(
        self, kind: str, running: list[ForkServerProcess], names: list[str], outputs: list[Path], topic: str, share: int
    ) -> dict[str, int]:
        """Kill when all jobs run; for each job that was hit, how many failures Flink told of before, else -1."""
        await_(lambda: len(self.alive(names)) == len(names) or not all(map(_runs, running)), PATIENCE,
               "the jobs do not run")  # fmt: skip
        if self.job == "stream":
            self.report.send(self.broker.address, topic, range(share))
        time.sleep(self.random.random() * (8 if self.job == "stream" else 5))
        alive, before = self.alive(names), self.failures(names)
        at_work = {name: name in alive and len(list(output.glob("*.jsonl"))) < WINDOWS
                   for name, output in zip(names, outputs, strict=True)}  # fmt: skip
        if self.job == "batch":
            at_work = {name: name in alive for name in names}
        if kind == "broker":
            rest = threading.Thread(target=self.send_rest, args=(topic, share, 3.0))
            rest.start()
            self.kill(kind)
            rest.join()
        else:
            self.kill(kind)
            if self.job == "stream":
                self.send_rest(topic, share, 2.0)
        return {name: before.get(name, 0) if at_work[name] else -1 for name in names}

    def send_rest(self, topic: str, share: int, seconds: float) -> None:
        self.report.send(self.broker.address, topic, range(share, len(self.report.rows)), seconds)

    def verdict(
        self, kind: str, process: ForkServerProcess, name: str, versions: Versions, before: int, failed: int
    ) -> str:
        log = self.folder / f"{name}.log"
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGUSR1)  # where its threads are, to its log
            return f"hung: see {log}"
        told = process.exitcode == 1 and "published" in log.read_text()
        if kind == "job-manager-forgets" and told:
            return "told"
        if process.exitcode != 0:
            return f"status {process.exitcode}: see {log}"
        hit = before >= 0 and (kind not in FAIL_A_JOB or failed > before)
        if self.job == "stream":
            verdict = versions.verdict(self.report.expected)
        else:
            same = (versions.folder / "all.jsonl").read_bytes() == self.report.expected
            verdict = "equal" if same else "other rankings"
        return verdict if hit or verdict != "equal" else "not hit"

    def jobs(self, names: list[str]) -> dict[str, dict[str, Any]]:
        return {name: job for job in self.rest.jobs() for name in names if job["name"].startswith(f"{name}-")}

    def alive(self, names: list[str]) -> list[str]:
        """The jobs that run: a stream with all of its tasks, a batch, whose stages take turns, with one."""
        return [name for name, job in self.jobs(names).items() if job["state"] == "RUNNING"
                and job["tasks"]["running"] >= (job["tasks"]["total"] if self.job == "stream" else 1)]  # fmt: skip

    def failures(self, names: list[str]) -> dict[str, int]:
        return {name: len(self.rest.failures(job["jid"])) for name, job in self.jobs(names).items()}

    def kill(self, kind: str) -> None:
        """Kill a process of the kind, and replace it a second later where that is asked for."""
        if kind == "broker":
            assert self.broker.process is not None
            self.broker.process.kill()
            self.broker.process.wait()
            time.sleep(1)
            self.broker.start()
        elif kind == "worker":
            workers = self._workers()
            for each in self.random.permutation(workers)[: len(workers) // 2].tolist():
                os.kill(each, signal.SIGKILL)
        else:
            name = kind.removesuffix("-lost").removesuffix("-forgets") + ("-1" if kind.startswith("task") else "")
            workers = self._workers() if kind == "worker-pool" else []
            self.cluster.processes[name].kill()
            for each in workers:
                os.kill(each, signal.SIGKILL)
            time.sleep(1)
            self._replace(kind)

    def _replace(self, kind: str) -> None:
        if kind == "task-manager":
            self.cluster.start_task_manager(1)
        elif kind == "worker-pool":
            self.cluster.start_worker_pool(self.cluster.port + 2)
        elif kind.startswith("job-manager"):
            self.cluster.start_job_manager()

    def _workers(self) -> list[int]:
        """The ids of the pool's workers: the children of the process that copies itself."""
        copiers = _children([self.cluster.processes["worker-pool"].pid])
        return _children(copiers)


def _runs(process: ForkServerProcess) -> bool:
    return process.is_alive()


def _children(parents: list[int]) -> list[int]:
    if not parents:
        return []
    words = ["ps", "-o", "pid=", "--ppid", ",".join(map(str, parents))]
    return [int(word) for word in subprocess.run(words, capture_output=True, text=True).stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--job", default="stream,batch")
    parser.add_argument("--times", type=int, default=20, help="jobs hit of each kind, with those in --results")
    parser.add_argument("--together", type=int, default=3, help="how many jobs run at the same time")
    parser.add_argument("--rows", default="2400,100000", help="of a stream, of a batch")
    parser.add_argument("--port", type=int, default=28081)
    parser.add_argument("--results", type=Path, help="where finished jobs are kept, and counted from")
    parser.add_argument("--folder", type=Path, help="keep logs here")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="flink-kills-"))
    results = Results(arguments.results)
    turns = [(job, kind) for kind in arguments.kind.split(",") for job in arguments.job.split(",")
             if (job, kind) != ("batch", "broker")]  # fmt: skip
    rows = dict(zip(("stream", "batch"), map(int, arguments.rows.split(",")), strict=True))
    reports = {job: Report(folder / f"report-{job}", rows[job]) for job in arguments.job.split(",")}
    with ExitStack() as benches:
        places = {}
        for high in (False, True):
            name = "high availability" if high else "plain"
            port = arguments.port + 20 * high
            places[high] = Bench(folder / name.replace(" ", "-"), high, port, reports)
            benches.callback(places[high].close)
        run(places, turns, arguments, results)
    print(results.table("job", "kind", "verdict"), flush=True)


def run(
    benches: dict[bool, Bench], turns: list[tuple[str, str]], arguments: argparse.Namespace, results: Results
) -> None:
    """A kill of each kind in turn, until so many jobs of each were hit, or twice as many were run."""

    def runs(turn: tuple[str, str]) -> int:
        return results.count(job=turn[0], kind=turn[1])

    def hit(turn: tuple[str, str]) -> int:
        return runs(turn) - results.count(job=turn[0], kind=turn[1], verdict="not hit")

    while left := [turn for turn in turns if hit(turn) < arguments.times and runs(turn) < 2 * arguments.times]:
        job, kind = turn = min(left, key=runs)
        bench, began = benches[kind == "job-manager"], time.monotonic()
        bench.begin()
        jobs = min(arguments.together, arguments.times - hit(turn))
        try:
            said = bench.wave(job, kind, jobs)
        except TimeoutError as error:
            said = [f"not hit: {error}"] * jobs
        for verdict in said:
            results.add(job=job, kind=kind, verdict=verdict, together=jobs)
        print(f"{job}, {kind}: {', '.join(said)} ({time.monotonic() - began:.0f} s)", flush=True)
        bench.heal()


if __name__ == "__main__":
    main()
