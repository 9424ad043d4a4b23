"""The same stream again and again on Flink while the machine is busy: each must publish what the batch publishes.

    python -m benchmarks.flink_streams --times 100 --parallelism 1,2,4 --cluster mini,standalone

24 windows of a time-ordered file in a watched folder, a checkpoint every half second, and a process that keeps a core
busy beside it. Clusters and parallelisms take turns.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.flink_jobs import Report, Versions, busy, session
from private_topk.runners.flink_cluster import Cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--parallelism", default="1,2,4")
    parser.add_argument("--cluster", default="mini,standalone")
    parser.add_argument("--interval", type=int, default=500, help="milliseconds between checkpoints")
    parser.add_argument("--load", type=int, default=1, help="cores kept busy meanwhile")
    parser.add_argument("--port", type=int, default=28181)
    arguments, extra = parser.parse_known_args()
    folder = Path(tempfile.mkdtemp(prefix="flink-streams-"))
    report = Report(folder / "report")
    clusters = arguments.cluster.split(",")
    cluster = Cluster(folder / "cluster", arguments.port) if "standalone" in clusters else None
    good = 0
    turns = itertools.cycle(itertools.product(clusters, arguments.parallelism.split(",")))
    try:
        place = start(cluster) if cluster else []
        with busy(arguments.load):
            for number, (kind, parallelism) in zip(range(arguments.times), turns, strict=False):
                words = ["--runner", "flink", "--parallelism", parallelism, *(place if kind == "standalone" else [])]
                words += ["--checkpointing_interval", str(arguments.interval), *extra]
                said = run(report, folder, words)
                good += said.startswith("equal")
                print(f"{number + 1}: {kind}, parallelism {parallelism}: {said}", flush=True)
    finally:
        if cluster:
            cluster.stop()
    print(f"{good} of {arguments.times} equal", flush=True)


def start(cluster: Cluster) -> list[str]:
    """Start it; the options that hand a job to it."""
    cluster.start(2)
    pool = cluster.start_worker_pool(cluster.port + 2)
    return ["--flink_master", cluster.address, "--environment_type", "EXTERNAL", "--environment_config", pool]


def run(report: Report, folder: Path, words: list[str]) -> str:
    """One stream to its end; what came of it."""
    output, log, began = folder / "out", folder / "log", time.monotonic()
    shutil.rmtree(output, ignore_errors=True)
    versions = Versions(output)
    with session(report.stream_command(output, *words), log) as process:
        while process.poll() is None and time.monotonic() - began < 400:
            versions.look()
            time.sleep(0.2)
        status = process.poll()
    if status != 0:
        return f"status {status}: {log.read_text()[-600:]}"
    return f"{versions.verdict(report.expected)}, {time.monotonic() - began:.0f} s"


if __name__ == "__main__":
    main()
