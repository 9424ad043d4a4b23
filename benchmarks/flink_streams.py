"""The same stream again and again on Flink while the machine is busy: each must publish what the batch publishes.

    python -m benchmarks.flink_streams --times 100 --parallelism 1,2,4 --cluster mini,standalone
    python -m benchmarks.flink_streams --times 10 --cluster mini --unfinished-bundles

24 windows of a time-ordered file in a watched folder, a checkpoint every half second, and a process that keeps a core
busy beside it. Every kind of cluster and every parallelism has a chain of streams, one after another by one job server;
the chains run side by side.

With --unfinished-bundles Flink is told not to finish bundles before a checkpoint, which the command refuses. Then it
loses counts, and what is to be seen is that the guard speaks: no window is published that is not the batch's.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import multiprocessing
import shutil
import tempfile
import time
from multiprocessing import Queue
from pathlib import Path
from typing import Any

from benchmarks.flink_jobs import Report, Versions, busy, looked_at
from private_topk.runners.flink_cluster import Cluster
from private_topk.runners.network import reachable
from private_topk.transforms.guard import LostPartError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--parallelism", default="1,2,4")
    parser.add_argument("--cluster", default="mini,standalone")
    parser.add_argument("--interval", type=int, default=500, help="milliseconds between checkpoints")
    parser.add_argument("--load", type=int, default=1, help="cores kept busy meanwhile")
    parser.add_argument("--unfinished-bundles", action="store_true", help="show that the guard speaks")
    parser.add_argument("--together", type=int, default=3, help="how many chains run side by side")
    parser.add_argument("--port", type=int, default=28181)
    arguments, extra = parser.parse_known_args()
    folder = Path(tempfile.mkdtemp(prefix="flink-streams-"))
    report = Report(folder / "report", rows=2_400)
    kinds = arguments.cluster.split(",")
    turns = list(itertools.product(kinds, arguments.parallelism.split(",")))
    cluster = Cluster(folder / "cluster", arguments.port, slots=4) if "standalone" in kinds else None
    said: Queue[tuple[str, str]] = multiprocessing.get_context("spawn").Queue()
    try:
        place = start(cluster) if cluster else []
        with busy(arguments.load):
            chains = []
            for number, (kind, parallelism) in enumerate(turns):
                times = len(range(number, arguments.times, len(turns)))
                words = ["--parallelism", parallelism, *(place if kind == "standalone" else []), *extra]
                words += ["--checkpointing_interval", str(arguments.interval), "--streaming"]
                words += ["--number_of_execution_retries", "0"] if arguments.unfinished_bundles else []
                name = f"{kind}, parallelism {parallelism}"
                chain = multiprocessing.get_context("spawn").Process(
                    target=run_chain,
                    args=(report, folder / f"chain-{number}", name, words, times, arguments.unfinished_bundles, said),
                )
                chains.append((chain, times))
            good, guarded, done = collect(chains, arguments.together, said)
    finally:
        if cluster:
            cluster.stop()
    spoke = f", {guarded} stopped by the guard" if arguments.unfinished_bundles else ""
    print(f"{good} of {done} equal{spoke}", flush=True)


def collect(chains: list[tuple[Any, int]], together: int, said: Queue[tuple[str, str]]) -> tuple[int, int, int]:
    """Run so many chains at a time; how many streams were right, were stopped by the guard, and how many there were."""
    good = guarded = done = 0
    waiting, running = list(chains), []  # type: tuple[list[Any], list[Process]]
    while waiting or running:
        while waiting and len(running) < together:
            process = waiting.pop(0)[0]
            process.start()
            running.append(process)
        running = [process for process in running if process.is_alive()]
        while not said.empty():
            name, verdict = said.get()
            done, good = done + 1, good + verdict.startswith("equal")
            guarded += verdict.startswith("the guard spoke, nothing")
            print(f"{done}: {name}: {verdict}", flush=True)
        time.sleep(0.5)
    return good, guarded, done


def start(cluster: Cluster) -> list[str]:
    """Start it; the options that hand a job to it."""
    cluster.start(2)
    pool = cluster.start_worker_pool(cluster.port + 2)
    return ["--flink_master", cluster.address, "--environment_type", "EXTERNAL", "--environment_config", pool]


def run_chain(
    report: Report,
    folder: Path,
    name: str,
    words: list[str],
    times: int,
    unfinished: bool,
    said: Queue[tuple[str, str]],
) -> None:
    """Streams one after another, handed over by one job server."""
    from private_topk.pipelines.commands.arguments import asked_of
    from private_topk.pipelines.commands.stream import parser
    from private_topk.pipelines.fields import Asked
    from private_topk.pipelines.report import report_of
    from private_topk.pipelines.run import run
    from private_topk.runners import prepare

    logging.disable(logging.WARNING)
    launch = prepare("flink", words)
    if unfinished:
        launch.runner.job_options = {**launch.runner.job_options, "finish_bundle_before_checkpointing": False}
    for number in range(times):
        output, began = folder / f"out-{number}", time.monotonic()
        arguments, _ = parser().read(report.stream_words(output)[1:])
        asked: Asked = asked_of(arguments)
        try:
            with looked_at(Versions(output)) as versions:
                run(report_of(asked, watch=True), launch)
            verdict = versions.verdict(report.expected)
        except Exception as error:
            verdict = f"{type(error).__name__}: {str(error)[:300]} {str(error.__cause__)[:300]}"
            if isinstance(error.__cause__, LostPartError):
                right = all(path.read_bytes() in report.expected for path in output.glob("*.jsonl"))
                verdict = f"the guard spoke, {'nothing' if right else 'SOMETHING'} wrong is published"
        said.put((name, f"{verdict}, {time.monotonic() - began:.0f} s"))
        while "--flink_master" not in words and reachable(launch.runner.rest, 1):
            time.sleep(0.2)  # the mini cluster of the next one takes the same port
        shutil.rmtree(output, ignore_errors=True)
    time.sleep(1)  # for the queue's own thread


if __name__ == "__main__":
    main()
