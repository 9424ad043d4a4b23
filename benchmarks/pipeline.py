"""The main job against its baselines: whole processes, from files to a ranking.

    python -m benchmarks.pipeline --rows 10000000            # ours and the floor
    python -m benchmarks.pipeline --rows 1000000 --all       # also plain Beam and PipelineDP (pip install pipeline-dp)
    python -m benchmarks.pipeline --rows 10000000 --format parquet,csv
    python -m benchmarks.pipeline --rows 10000000 --cores 1,2 --only-ours    # as if there were so many, by affinity

floor: polars reads, deduplicates and counts the same files, in one process, with no privacy; Parquet and CSV by its
streaming engine.
beam: ReadFromAvro, Distinct, Count.PerElement, one element a row. pipelinedp: PRIVACY_ID_COUNT on Beam.
"""

from __future__ import annotations

import argparse
import glob
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.plays import FORMATS, items, write_plays


class Run(NamedTuple):
    wall: float
    cpu: float
    peak: float


class Case(NamedTuple):
    """What is run, and on how many cores; on all that there are where these are no number."""

    name: str
    cores: str

    def __str__(self) -> str:
        return f"{self.name} on {self.cores}" if self.cores else self.name

    def confine(self) -> None:
        """Keep this process to so many of its cores."""
        if self.cores:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(self.cores)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--format", default="avro", help=f"some of {', '.join(FORMATS)}")
    parser.add_argument("--cores", default="", help="numbers of cores to run on, such as 1,2; default: all")
    parser.add_argument("--all", action="store_true", help="also plain Beam and PipelineDP")
    parser.add_argument("--only-ours", action="store_true", help="for sizes that the floor does not fit")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        CASES[arguments.case](_pattern(arguments.folder, arguments.rows, arguments.format))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "domain.txt").write_text("\n".join(items()) + "\n")
    names = ["ours"] if arguments.only_ours else ["floor", "ours"] + (["beam", "pipelinedp"] if arguments.all else [])
    for form in arguments.format.split(","):
        write_plays(arguments.folder, arguments.rows, arguments.files, form)
        compare(form, [Case(name, cores) for cores in arguments.cores.split(",") for name in names], arguments)


def compare(form: str, cases: list[Case], arguments: argparse.Namespace) -> None:
    """Every case in turn, several times over, so that a drift of the machine meets all of them; medians and ratios."""
    runs: dict[Case, list[Run]] = {case: [] for case in cases}
    for _ in range(arguments.runs):
        for case in cases:
            runs[case].append(measure(case, form, arguments))
    first = cases[0]
    print(f"{arguments.rows:,} rows in {arguments.files} {form} files, median of {arguments.runs} runs")
    print(f"{'case':<16}{'wall s':>9}{'cpu s':>9}{'peak MiB':>10}{f'wall / {first}':>18}{f'cpu / {first}':>18}")
    for name in cases:
        median = Run(*(statistics.median(values) for values in zip(*runs[name], strict=True)))
        pairs = list(zip(runs[name], runs[first], strict=True))
        wall = statistics.median(run.wall / base.wall for run, base in pairs)
        cpu = statistics.median(run.cpu / base.cpu for run, base in pairs)
        print(f"{name!s:<16}{median.wall:9.2f}{median.cpu:9.2f}{median.peak:10.0f}{wall:18.2f}{cpu:18.2f}")


def measure(case: Case, form: str, arguments: argparse.Namespace) -> Run:
    rows, folder = arguments.rows, arguments.folder
    words = ["benchmarks.pipeline", f"--case={case.name}", f"--rows={rows}", f"--folder={folder}", f"--format={form}"]
    if case.name == "ours":
        words = ours(_pattern(folder, rows, form))
    command = [sys.executable, "-m", *words]
    return run_of(command, case.confine)


def run_of(command: Sequence[str], confine: Callable[[], None] | None = None) -> Run:
    """What a process of its own takes; it must end well, and what it prints is thrown away.

    Args:
        confine: called in it before it begins.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=confine)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return Run(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _pattern(folder: Path, rows: int, form: str) -> Path:
    return folder / f"plays-{rows}-*.{form}"


def _floor(pattern: Path) -> None:
    import polars as pl

    if pattern.suffix == ".avro":
        rows = pl.concat([pl.read_avro(path) for path in sorted(glob.glob(str(pattern)))])
        counts = rows.unique().group_by("item").len()
    else:
        scanned = pl.scan_parquet(pattern) if pattern.suffix == ".parquet" else pl.scan_csv(pattern)
        counts = scanned.unique().group_by("item").len().collect(engine="streaming")
    print(counts.sort("len", descending=True).head(10))


def ours(pattern: Path) -> list[str]:
    """The command as it is called: nothing of the benchmark is loaded with it."""
    folder, asked = pattern.parent, "--mechanism joint --k 10 --epsilon 1 --overwrite".split()
    place = [f"--input={pattern}", f"--domain={folder}/domain.txt", f"--output={folder}/ranking.avro"]
    return ["private_topk", "run", *place, *asked]


def _beam(pattern: Path) -> None:
    import apache_beam as beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        (
            pipeline
            | beam.io.ReadFromAvro(str(pattern))
            | beam.Map(lambda row: (row["user"], row["item"]))
            | beam.Distinct()
            | beam.Values()
            | beam.combiners.Count.PerElement()
            | beam.combiners.Top.Of(10, key=lambda pair: pair[1])
            | beam.Map(print)
        )


def _pipelinedp(pattern: Path) -> None:
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
        read = pipeline | beam.io.ReadFromAvro(str(pattern))
        counts = engine.aggregate(read, parameters, extractors, public_partitions=items())
        accountant.compute_budgets()
        counts | beam.combiners.Top.Of(10, key=lambda pair: pair[1].privacy_id_count) | beam.Map(print)


CASES = {"floor": _floor, "beam": _beam, "pipelinedp": _pipelinedp}


if __name__ == "__main__":
    main()
