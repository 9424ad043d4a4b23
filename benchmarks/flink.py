"""The main job on a standalone Flink cluster, beside the direct runner.

    python -m benchmarks.flink --rows 1000000,10000000 --parallelism 1,2,4

Two task managers of 4 GiB with a slot each and a pool of Python workers, on loopback. Wall time is of the command,
start included; CPU and memory are of all processes: command, job server, cluster and workers. A process that ends
between two looks, half a second apart, is seen up to the last one.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.pipeline import ours
from benchmarks.plays import items, write_plays
from benchmarks.processes import Meter, end_well_by_signal
from benchmarks.servers.flink import Cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000")
    parser.add_argument("--parallelism", default="4")
    parser.add_argument("--patience", type=float, default=600, help="seconds until a case is given up")
    parser.add_argument("--port", type=int, default=28381)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    arguments = parser.parse_args()
    end_well_by_signal()
    with tempfile.TemporaryDirectory() as name:
        cluster = Cluster(Path(name) / "cluster", arguments.port)
        try:
            cluster.start(2)
            cluster.start_worker_pool(arguments.port + 2)
            compare(arguments, cluster)
        finally:
            cluster.stop()


def compare(arguments: argparse.Namespace, cluster: Cluster) -> None:
    print("        rows  case            wall s    cpu s  largest MiB  all MiB")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "domain.txt").write_text("\n".join(items()) + "\n")
    key = arguments.folder / "key"
    key.write_text("a key of the benchmarks, which is no secret\n")
    servers = [process.pid for process in cluster.processes.values()]
    for rows in map(int, arguments.rows.split(",")):
        write_plays(arguments.folder, rows)
        command = [sys.executable, "-m", *ours(arguments.folder / f"plays-{rows}-*.avro"), "--quiet"]
        command += [f"--release-key=file:{key}", f"--release-id={rows}"]
        cases: dict[str, tuple[list[str], list[int]]] = {"direct": ([], [])}
        for parallelism in arguments.parallelism.split(","):
            place = ["--runner", "flink", *cluster.words(), "--parallelism", parallelism]
            cases[f"flink on {parallelism}"] = place, servers
        for case, (place, running) in cases.items():
            said = measure([*command, *place], running, arguments.patience)
            print(f"{rows:>12,}  {case:<12}{said}", flush=True)


def measure(words: list[str], servers: list[int], patience: float) -> str:
    began = time.perf_counter()
    job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True)
    message = ""
    with Meter(lambda: [job.pid, *servers]) as meter:
        try:
            _, message = job.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)  # its own session, started above
            job.communicate()
            return f"not done after {patience:.0f} s"
    if job.returncode:
        return f"failed: {message[-200:]}"
    cpu, largest, together = meter.taken()
    return f"{time.perf_counter() - began:9.1f}{cpu:9.1f}{largest:13.0f}{together:9.0f}"


if __name__ == "__main__":
    main()
