"""The main job against its baselines: whole processes, from files to a ranking.

    python -m benchmarks.pipeline --rows 10000000            # ours and the floor
    python -m benchmarks.pipeline --rows 1000000 --all       # also plain Beam and PipelineDP (pip install pipeline-dp)

floor: polars reads, deduplicates and counts the same files, in one process, with no privacy.
beam: ReadFromAvro, Distinct, Count.PerElement, one element a row. pipelinedp: PRIVACY_ID_COUNT on Beam.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.plays import items, write_plays


class Run(NamedTuple):
    wall: float
    cpu: float
    peak: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="also plain Beam and PipelineDP")
    parser.add_argument("--only-ours", action="store_true", help="for sizes that the floor does not fit")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        CASES[arguments.case](arguments.folder, arguments.rows)
        return
    write_plays(arguments.folder, arguments.rows, arguments.files)
    (arguments.folder / "domain.txt").write_text("\n".join(items()) + "\n")
    names = ["ours"] if arguments.only_ours else ["floor", "ours"] + (["beam", "pipelinedp"] if arguments.all else [])
    compare(names, arguments)


def compare(names: list[str], arguments: argparse.Namespace) -> None:
    """Every case in turn, several times over, so that a drift of the machine meets all of them; medians and ratios."""
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for _ in range(arguments.runs):
        for name in names:
            runs[name].append(measure(name, arguments))
    first = names[0]
    print(f"{arguments.rows:,} rows in {arguments.files} Avro files, median of {arguments.runs} runs")
    print(f"{'case':<12}{'wall s':>9}{'cpu s':>9}{'peak MiB':>10}{'wall / ' + first:>14}{'cpu / ' + first:>14}")
    for name in names:
        median = Run(*(statistics.median(values) for values in zip(*runs[name], strict=True)))
        pairs = list(zip(runs[name], runs[first], strict=True))
        wall = statistics.median(run.wall / base.wall for run, base in pairs)
        cpu = statistics.median(run.cpu / base.cpu for run, base in pairs)
        print(f"{name:<12}{median.wall:9.2f}{median.cpu:9.2f}{median.peak:10.0f}{wall:14.2f}{cpu:14.2f}")


def measure(name: str, arguments: argparse.Namespace) -> Run:
    command = [sys.executable, "-m", "benchmarks.pipeline", "--case", name, "--rows", str(arguments.rows),
               "--folder", str(arguments.folder)]  # fmt: skip
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = _wait(process)
    if status:
        raise SystemExit(f"{name} failed")
    return Run(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _wait(process: subprocess.Popen) -> tuple[int, int, resource.struct_rusage]:
    import os

    return os.wait4(process.pid, 0)


def _pattern(folder: Path, rows: int) -> str:
    return str(folder / f"plays-{rows}-*.avro")


def _floor(folder: Path, rows: int) -> None:
    import glob

    import polars as pl

    frame = pl.concat([pl.read_avro(path) for path in sorted(glob.glob(_pattern(folder, rows)))])
    print(frame.unique().group_by("item").len().sort("len", descending=True).head(10))


def _ours(folder: Path, rows: int) -> None:
    from private_topk.pipelines import cli

    output = folder / "ranking.avro"
    sys.exit(cli.main([
        "run", "--input", _pattern(folder, rows), "--domain", str(folder / "domain.txt"), "--mechanism", "joint",
        "--k", "10", "--epsilon", "1", "--output", str(output), "--overwrite",
    ]))  # fmt: skip


def _beam(folder: Path, rows: int) -> None:
    import apache_beam as beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        (
            pipeline
            | beam.io.ReadFromAvro(_pattern(folder, rows))
            | beam.Map(lambda row: (row["user"], row["item"]))
            | beam.Distinct()
            | beam.Values()
            | beam.combiners.Count.PerElement()
            | beam.combiners.Top.Of(10, key=lambda pair: pair[1])
            | beam.Map(print)
        )


def _pipelinedp(folder: Path, rows: int) -> None:
    import apache_beam as beam
    import pipeline_dp
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.BeamBackend())
    parameters = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        max_partitions_contributed=40,
        max_contributions_per_partition=1,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row["user"],
        partition_extractor=lambda row: row["item"],
        value_extractor=lambda row: 1,
    )
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        read = pipeline | beam.io.ReadFromAvro(_pattern(folder, rows))
        counts = engine.aggregate(read, parameters, extractors, public_partitions=items())
        accountant.compute_budgets()
        counts | beam.combiners.Top.Of(10, key=lambda pair: pair[1].privacy_id_count) | beam.Map(print)


CASES = {"floor": _floor, "ours": _ours, "beam": _beam, "pipelinedp": _pipelinedp}


if __name__ == "__main__":
    main()
