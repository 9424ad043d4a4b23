"""Rankings of many groups in many windows on Direct: whole processes, a release of each setting.

    python -m benchmarks.groups                               # 10,000 groups x 52 weeks, 2,000,000 rows
    python -m benchmarks.groups --groups 1000 --weeks 4 --rows 1e7

Nine rows of ten are of their user's own group. Every group of every week is ranked, empty or not, and what is published
is counted: rows of output, and files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline import run_of

_START = 1_767_225_600  # 2026-01-01
_WEEK = 7 * 86_400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--mechanism", default="pnf-peeling")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--more", nargs="*", default=[], help="further words of the command line, such as k=20")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="private-topk-groups-") as folder:
        write_rows(Path(folder), int(arguments.rows), arguments.groups, arguments.weeks, arguments.items)
        wall, cpu, peak = measure(Path(folder), arguments)
        files = sorted((Path(folder) / "out").rglob("*.parquet"))
        published = sum(pq.read_metadata(path).num_rows for path in files)
    rankings = arguments.groups * arguments.weeks
    print(f"{arguments.rows:,.0f} rows, {arguments.groups:,} groups x {arguments.weeks} weeks by {arguments.mechanism}")
    each = f"{1e6 * cpu / rankings:,.0f} microseconds each"
    print(
        f"{rankings:,} rankings: {cpu:.0f} s of CPU, {each}; {wall:.0f} s of wall; "
        f"{peak:,.0f} MiB at most; {published:,} rows in {len(files)} files"
    )


def write_rows(folder: Path, rows: int, groups: int, weeks: int, items: int) -> None:
    """Ten rows a user."""
    rng = np.random.default_rng(1)
    users = rng.integers(0, max(rows // 10, 1), rows)
    home = rng.integers(0, groups, max(rows // 10, 1))
    table = pa.table(
        {
            "user": users,
            "item": (items * rng.random(rows) ** 3).astype(np.int64),
            "store": np.where(rng.random(rows) < 0.9, home[users], rng.integers(0, groups, rows)),
            "time": _START + rng.integers(0, weeks * _WEEK, rows),
        }
    )
    pq.write_table(table, folder / "rows.parquet")
    for name, size in (("items", items), ("stores", groups)):
        (folder / f"{name}.txt").write_text("".join(f"{n}\n" for n in range(size)))


def measure(folder: Path, arguments: argparse.Namespace) -> tuple[float, float, float]:
    """Seconds of wall and of CPU, and MiB at most, of a run in a process of its own."""
    asked = {
        "input": folder / "rows.parquet",
        "domain": folder / "items.txt",
        "group-column": "store",
        "groups": folder / "stores.txt",
        "mechanism": arguments.mechanism,
        "k": 10,
        "epsilon": 1,
        "window": "7d",
        "from": _moment(0),
        "to": _moment(arguments.weeks * _WEEK),
        "output": f"{folder}/out/",
        "output-format": "parquet",
        "cores": arguments.cores,
        **dict(word.split("=", 1) for word in arguments.more),
    }
    words: Sequence[str] = [f"--{name}={value}" for name, value in asked.items()]
    return run_of([sys.executable, "-m", "private_topk", "run", "--quiet", *words])


def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_START + seconds))


if __name__ == "__main__":
    main()
