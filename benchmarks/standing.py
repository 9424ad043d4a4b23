"""A run on a standalone Flink cluster of two task managers with two slots each, and what each kind of process takes."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.pipeline import Run
from benchmarks.processes import Meter
from benchmarks.servers.flink import Cluster

HEADINGS = "  largest worker, task manager; all, MiB"


class Largest(NamedTuple):
    """Memory in MiB, at two looks a second: of the largest Python worker and task manager, and of all processes."""

    worker: float
    task_manager: float
    together: float

    def __str__(self) -> str:
        return "".join(f"{each:9.0f}" for each in self)


@contextmanager
def standing(folder: Path, port: int, task_memory: str) -> Iterator[Cluster]:
    """A cluster and its pool of Python workers, one process for each slot."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        cluster = Cluster(Path(name) / "cluster", port, slots=2, task_memory=task_memory)
        try:
            cluster.start(2)
            cluster.start_worker_pool(port + 2)
            yield cluster
        finally:
            cluster.stop()


def taken_on(cluster: Cluster, command: Sequence[str]) -> tuple[Run, Largest]:
    """A run of the command line there: CPU is that of all processes, peak memory that of the largest."""
    servers = {name: process.pid for name, process in cluster.processes.items()}
    managers = [pid for name, pid in servers.items() if name.startswith("task-manager")]
    there = ["--runner", "flink", *cluster.words()]
    start = time.perf_counter()
    process = subprocess.Popen([*command, *there])
    with (
        Meter(lambda: [servers["worker-pool"]]) as workers,
        Meter(lambda: managers) as tasks,
        Meter(lambda: [process.pid, *servers.values()]) as everything,
    ):
        status = process.wait()
    if status:
        raise SystemExit(f"the run failed: see {cluster.folder}")
    taken = everything.taken()
    largest = Largest(workers.taken().largest, tasks.taken().largest, taken.together)
    return Run(time.perf_counter() - start, taken.cpu, taken.largest), largest
