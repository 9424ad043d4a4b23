"""What windows cost: the same rows in 1 to 10,000 declared windows, whole processes, each beside one window.

python -m benchmarks.windows                              # 1e6 rows, Direct
python -m benchmarks.windows --runner prism --runs 1
python -m benchmarks.windows --unknown                    # an unknown domain
python -m benchmarks.windows --rows 10000000 --windows 50 400 --to-date   # each also as windows to date
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline import Run, run_of
from benchmarks.plays import ITEMS, items

WINDOWS = (1, 24, 480, 1_000, 10_000)  # parts of the period, whole minutes each
_MINUTES = 600_000
_START = 1_767_225_600  # 2026-01-01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--windows", type=int, nargs="+", default=WINDOWS)
    parser.add_argument("--runner", default="direct")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--unknown", action="store_true", help="an unknown domain instead of a list of 20,000 items")
    kinds.add_argument(
        "--to-date", action="store_true", help="20 items of every user, and windows to date beside plain ones"
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    arguments = parser.parse_args()
    write_rows(arguments.folder, arguments.rows)
    ways = [(windows, False) for windows in dict.fromkeys([1, *arguments.windows])]
    ways += [(windows, True) for windows in arguments.windows if arguments.to_date]
    runs: dict[tuple[int, bool], list[Run]] = {way: [] for way in ways}
    for _ in range(arguments.runs):
        for (windows, to_date), found in runs.items():
            found.append(measure(windows, to_date, arguments))
    print(f"{arguments.rows:,} rows on {arguments.runner}, median of {arguments.runs} runs")
    print(f"{'windows':<16}{'wall s':>9}{'cpu s':>9}{'peak MiB':>10}{'wall / one':>12}{'cpu / one':>12}")
    for (windows, to_date), found in runs.items():
        median = Run(*(statistics.median(values) for values in zip(*found, strict=True)))
        pairs = list(zip(found, runs[1, False], strict=True))
        wall = statistics.median(run.wall / one.wall for run, one in pairs)
        cpu = statistics.median(run.cpu / one.cpu for run, one in pairs)
        name = f"{windows:,}{' to date' if to_date else ''}"
        print(f"{name:<16}{median.wall:9.2f}{median.cpu:9.2f}{median.peak:10.0f}{wall:12.2f}{cpu:12.2f}")


def write_rows(folder: Path, rows: int) -> None:
    """Rows of one user for every 20, over 20,000 items of unequal weight and 10,000 hours; kept if they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "domain.txt").write_text("\n".join(items()) + "\n")
    path = _input(folder, rows)
    if path.exists():
        return
    rng, names = np.random.default_rng(1), pa.array(items())
    weights = np.cumsum(1.0 / (np.arange(ITEMS) + 20))
    codes = np.searchsorted(weights, rng.random(rows) * weights[-1])
    table = pa.table(
        {
            "user": pa.array(rng.integers(0, max(rows // 20, 1), rows)),
            "item": names.take(pa.array(codes)),
            "time": pa.array(_START + rng.integers(0, 60 * _MINUTES, rows), pa.timestamp("s")),
        }
    )
    unfinished = path.with_suffix(".incomplete")
    pq.write_table(table, unfinished)
    unfinished.rename(path)


def _input(folder: Path, rows: int) -> Path:
    return folder / f"timed-{rows}.parquet"


def measure(windows: int, to_date: bool, arguments: argparse.Namespace) -> Run:
    """One run in a process of its own; the CPU time is that of Python, which holds all of our work."""
    folder = arguments.folder
    command = [
        sys.executable,
        "-m",
        "private_topk",
        "run",
        "--input",
        str(_input(folder, arguments.rows)),
        "--k",
        "10",
        "--epsilon",
        "1",
        "--output",
        str(folder / "ranking.avro"),
        "--overwrite",
        "--from",
        _moment(0),
        "--to",
        _moment(60 * _MINUTES),
        "--runner",
        arguments.runner,
    ]
    unknown = ["--unknown-domain", "--mechanism", "limit-domain", "--delta", "1e-6"]
    command += unknown if arguments.unknown else ["--domain", str(folder / "domain.txt")]
    if arguments.to_date:
        command += ["--delta", "1e-6", "--max-items-per-user", "20", *(["--to-date"] if to_date else [])]
    elif not arguments.unknown:
        command += ["--mechanism", "joint"]
    if windows > 1:
        command += ["--window", f"{_MINUTES // windows}m"]
    return run_of(command)


def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(_START + seconds))


if __name__ == "__main__":
    main()
