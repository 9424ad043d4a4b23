"""The main job on a standalone Flink cluster, beside the direct runner and beside plain Beam on the same cluster.

    python -m benchmarks.flink --rows 1000000,10000000 --parallelism 1,2,4 --windows 1,24,476
    python -m benchmarks.flink --rows 1000000 --cases flink,beam        # plain Beam takes one element a row

Two task managers of 4 GiB with a slot each and a pool of Python workers, on loopback. Wall time is of the command,
start included; CPU and memory are of all processes: command, job server, cluster and workers. A process that ends
between two looks, half a second apart, is seen up to the last one. With --results every case that is done is kept as a
line, and the same command goes on where it was ended.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.plays import ITEMS, items, write_plays
from benchmarks.processes import Meter, end_well_by_signal
from benchmarks.results import Results
from benchmarks.servers.flink import Cluster

START, END = "2026-01-05", "2026-02-02"
LENGTHS = {1: 2_419_200, 24: 100_800, 476: 5_083, 3_000: 807, 10_000: 242}
"""The length of a window in seconds that cuts four weeks into so many."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000")
    parser.add_argument("--parallelism", default="4")
    parser.add_argument("--windows", default="1", help=f"of {', '.join(map(str, LENGTHS))}")
    parser.add_argument("--cases", default="direct,flink")
    parser.add_argument("--patience", type=float, default=600, help="seconds until a case is given up")
    parser.add_argument("--port", type=int, default=28381)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    parser.add_argument("--results", type=Path, help="where finished cases are kept, and gone on from")
    parser.add_argument("--plain", metavar="PATTERN", help=argparse.SUPPRESS)
    arguments, beam_arguments = parser.parse_known_args()
    if arguments.plain:
        plain(arguments.plain, int(arguments.windows), beam_arguments)
        return
    end_well_by_signal()
    with tempfile.TemporaryDirectory() as name:
        cluster = Cluster(Path(name) / "cluster", arguments.port)
        try:
            alone = arguments.cases == "direct"  # then nothing needs the cluster
            if not alone:
                cluster.start(2)
                cluster.start_worker_pool(arguments.port + 2)
            compare(arguments, cluster)
        finally:
            cluster.stop()


def compare(arguments: argparse.Namespace, cluster: Cluster) -> None:
    numbers = [
        [int(word) for word in each.split(",")] for each in (arguments.rows, arguments.windows, arguments.parallelism)
    ]
    results = Results(arguments.results)
    print("        rows  windows  par. case       wall s    cpu s  largest MiB  all MiB")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "domain.txt").write_text("\n".join(items()) + "\n")
    for rows, windows, parallelism in itertools.product(*numbers):
        (write_plays if windows == 1 else write_timed)(arguments.folder, rows, 4)
        place = [*cluster.words(), "--parallelism", str(parallelism)]
        for case in arguments.cases.split(","):
            facts = {"rows": rows, "windows": windows, "parallelism": parallelism, "case": case}
            if (case == "direct" and parallelism != numbers[2][0]) or results.count(**facts):
                continue
            servers = [] if case == "direct" else [process.pid for process in cluster.processes.values()]
            said = measure(command(case, arguments.folder, rows, windows, place), servers, arguments.patience)
            results.add(**facts, said=said)
            print(f"{rows:>12,}{windows:>9,}{parallelism:>6} {case:<8}{said}", flush=True)


def command(case: str, folder: Path, rows: int, windows: int, place: list[str]) -> list[str]:
    pattern = str(folder / (f"plays-{rows}-*.avro" if windows == 1 else f"timed-{rows}-*.parquet"))
    if case == "beam":
        return [sys.executable, "-m", "benchmarks.flink", "--plain", pattern, "--windows", str(windows), *place]
    runner = ["--runner", "flink", *place] if case == "flink" else []
    key = folder / "key"
    key.write_text("a key of the benchmarks, which is no secret\n")
    window = ["--window", f"{LENGTHS[windows]}s", "--from", START, "--to", END] if windows > 1 else []
    return [
        sys.executable,
        "-m",
        "private_topk",
        "run",
        "--quiet",
        "--input",
        pattern,
        "--domain",
        str(folder / "domain.txt"),
        "--mechanism",
        "joint",
        "--k",
        "10",
        "--epsilon",
        "1",
        "--release-key",
        f"file:{key}",
        "--release-id",
        f"{rows} in {windows}",
        "--output",
        str(folder / "ranking.avro"),
        "--overwrite",
        *window,
        *runner,
    ]


def write_timed(folder: Path, rows: int, files: int = 4) -> None:
    """The same kind of plays with times over four weeks, as Parquet."""
    weights = np.cumsum(1.0 / (np.arange(ITEMS) + 20))
    for number in range(files):
        path, size = folder / f"timed-{rows}-{number}.parquet", rows // files
        if not path.exists():
            state = np.random.default_rng(number)
            first = pl.Series([START]).str.to_datetime(time_zone="UTC").to_physical()[0]
            frame = pl.DataFrame(
                {
                    "user": state.integers(0, rows // 20, size),
                    "item": np.searchsorted(weights, state.random(size) * weights[-1]),
                    "time": first + state.integers(0, 28 * 86_400_000_000, size),
                }
            )
            frame.select(
                pl.format("u{}", "user").alias("user"),
                pl.format("track-{}", pl.col("item").cast(pl.String).str.zfill(6)).alias("item"),
                pl.col("time").cast(pl.Datetime("us", "UTC")),
            ).write_parquet(path)


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


def plain(pattern: str, windows: int, beam_arguments: list[str]) -> None:
    """The same question without privacy, in Beam's own words: one element a row, and Beam's own windows."""
    import apache_beam as beam
    from apache_beam.transforms.window import FixedWindows, TimestampedValue

    from private_topk.runners import prepare

    launch = prepare("flink", beam_arguments)
    pipeline = beam.Pipeline(runner=launch.runner, options=launch.options)
    rows = pipeline | (beam.io.ReadFromAvro if windows == 1 else beam.io.ReadFromParquet)(pattern)
    pairs = rows | beam.Map(lambda row: (row["user"], row["item"]))
    if windows > 1:
        first, length = datetime.fromisoformat(f"{START}T00:00:00+00:00").timestamp(), LENGTHS[windows]
        pairs = (
            rows
            | beam.Map(lambda row: TimestampedValue((row["user"], row["item"]), row["time"].timestamp()))
            | beam.WindowInto(FixedWindows(length, first % length))
        )
    _ = (
        pairs
        | beam.Distinct()
        | beam.Values()
        | beam.combiners.Count.PerElement()
        | beam.combiners.Top.Of(10, key=lambda pair: pair[1]).without_defaults()
    )
    pipeline.run().wait_until_finish()


if __name__ == "__main__":
    main()
