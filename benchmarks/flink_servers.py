"""A standalone Flink cluster, a job server and a Kafka broker whose processes are killed, for `flink_kills`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.flink_jobs import await_, served
from benchmarks.servers.flink import Cluster
from benchmarks.servers.kafka import Broker

KINDS = ("task-manager", "task-manager-lost", "worker-pool", "worker", "job-manager", "broker", "job-manager-forgets")
FAIL_A_JOB = ("task-manager", "task-manager-lost", "worker-pool", "worker")
OVER = ("FINISHED", "FAILED", "CANCELED")
_SLOTS, _TASK_MANAGERS = 4, 2
_SETTINGS = {
    # One job takes many kills here, and what is set otherwise gives up after eight in a row.
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 1_000_000,
    "restart-strategy.fixed-delay.delay": "1 s",
    # For two jobs in four slots: 1.5 GiB are enough for two slots otherwise.
    "taskmanager.memory.network.fraction": 0.25,
    "taskmanager.network.sort-shuffle.min-buffers": 128,
    # So that every job has tasks in both task managers.
    "cluster.evenly-spread-out-slots": "true",
}


class Servers:
    """What the jobs of a bench run on, two task managers of four slots each.

    Args:
        high_availability: of the job manager.
        port: the first of twelve.
    """

    def __init__(self, folder: Path, high_availability: bool, port: int) -> None:
        self.folder = folder
        self.cluster = Cluster(
            folder / "cluster", port, _SLOTS, "1536m", high_availability=high_availability, settings=_SETTINGS
        )
        self.rest = self.cluster.rest
        self.broker = Broker(folder / "kafka", port + 10, patience=300)
        self._random = np.random.default_rng()
        self._place: list[str] = []
        self._running = ExitStack()

    def __enter__(self) -> Servers:
        with ExitStack() as running:  # what is up by then is ended if this is
            running.callback(self._stop)
            self._start(running)
            self._running = running.pop_all()
        return self

    def _start(self, running: ExitStack) -> None:
        self.cluster.start(_TASK_MANAGERS)
        self.cluster.start_worker_pool(self.cluster.port + 2)
        self.broker.start()
        server = running.enter_context(served(self.cluster, self.folder))
        self._place = ["--runner", "flink", *self.cluster.words(server)]

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _stop(self) -> None:
        self.cluster.stop()
        self.broker.stop()

    def words(self, name: str, parallelism: int) -> list[str]:
        """The arguments that put a job here."""
        return [*self._place, "--job_name", name, "--parallelism", str(parallelism)]

    def job(self, name: str) -> dict[str, Any] | None:
        """What the job manager says of a job, if it knows it."""
        return next((job for job in self.rest.jobs() if job["name"].startswith(f"{name}-")), None)

    def checkpoint(self, job: str) -> int:
        """The number of a job's last checkpoint that is whole, -1 if it has none of its own yet."""
        return self.rest.last_checkpoint(job) or -1

    def kill(self, kind: str) -> int:
        """Kill with SIGKILL, and a second later replace what the kind says; how many processes were there and died."""
        if kind == "broker":
            assert self.broker.process is not None
            killed = _killed(self.broker.process)
            time.sleep(1)
            self.broker.start()
        elif kind == "worker":
            workers = self._at_work(self._workers())
            killed = self._end(self._random.permutation(workers)[: -(-len(workers) // 2)].tolist())
        else:
            name = kind.removesuffix("-lost").removesuffix("-forgets")
            name += f"-{self._busiest()}" if kind.startswith("task") else ""
            workers = self._workers() if name == "worker-pool" else []
            killed = _killed(self.cluster.processes[name]) + self._end(workers)
            time.sleep(1)
            if not kind.endswith("-lost"):
                self.replace(300)
        return killed

    def replace(self, patience: float) -> None:
        """Start again whatever has ended, and wait until the cluster knows it. Raises TimeoutError."""
        ended = [name for name, process in self.cluster.processes.items() if process.poll() is not None]
        for name in ended:
            if name.startswith("task-manager"):
                self.cluster.start_task_manager(int(name.rpartition("-")[2]))
            elif name == "worker-pool":
                self.cluster.start_worker_pool(self.cluster.port + 2)
            else:
                self.cluster.start_job_manager()
        await_(lambda: self.cluster.overview().get("taskmanagers") == _TASK_MANAGERS, patience, "not all is up again")

    def clear(self) -> None:
        """End jobs that an early end has left."""
        for job in self.rest.jobs():
            if job["state"] not in OVER:
                self.rest.get(f"jobs/{job['jid']}/yarn-cancel")
        whole = _SLOTS * _TASK_MANAGERS
        await_(lambda: self.cluster.overview().get("slots-available") == whole, 300, "the slots are not free again")

    def _busiest(self) -> int:
        """The number of the task manager with the most slots in use: after a restart a job may be in one alone."""
        known = (self.rest.get("taskmanagers") or {}).get("taskmanagers", [])

        def free(number: int) -> int:
            said = (self.folder / "cluster" / f"task-manager-{number}.out").read_text("utf-8", "replace")
            return min((each["freeSlots"] for each in known if each["id"] in said), default=_SLOTS)

        return min(range(1, _TASK_MANAGERS + 1), key=free)

    def _workers(self) -> list[int]:
        """The ids of the pool's workers: the children of the process that copies itself."""
        return _children(_children(_children([self.cluster.processes["worker-pool"].pid])))

    def _at_work(self, workers: list[int]) -> list[int]:
        """Those that have something to do: nobody misses at once one that has not."""
        before = {each: _ticks(each) for each in workers}
        time.sleep(0.5)
        return [each for each in workers if _ticks(each) > before[each]] or workers

    def _end(self, workers: list[int]) -> int:
        killed = 0
        for each in workers:
            try:
                os.kill(each, signal.SIGKILL)  # looked up a moment ago; one that ends meanwhile is not there any more
                killed += 1
            except ProcessLookupError:
                pass
        return killed


def _killed(process: subprocess.Popen) -> int:
    """Kill a process; 1 if it was there, and died of it."""
    there = process.poll() is None
    process.kill()
    return int(process.wait() == -signal.SIGKILL and there)


def _ticks(process: int) -> int:
    """How long a process has worked, in ticks of the system's clock; 0 where it has ended."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(words[11]) + int(words[12])


def _children(parents: list[int]) -> list[int]:
    if not parents:
        return []
    words = ["ps", "-o", "pid=", "--ppid", ",".join(map(str, parents))]
    return [int(word) for word in subprocess.run(words, capture_output=True, text=True).stdout.split()]
