"""An unknown domain with as many different items as rows: nothing repeats, so nothing gets smaller on its way.

    python -m benchmarks.labels --rows 1000000,10000000
    python -m benchmarks.labels --rows 10000000 --max-items-per-user 10

One user for every 20 rows; labels of 13 digits. Whole processes, from Parquet files to an empty ranking: of items that
one user holds none is published.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.pipeline import Run

_AT_ONCE = 5_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,5000000", help="several sizes, parted by commas")
    parser.add_argument("--max-items-per-user", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    arguments = parser.parse_args()
    print(f"{'rows':>13}{'wall s':>9}{'cpu s':>9}{'peak MiB':>10}{'cpu µs a row':>14}{'bytes a row':>13}")
    for rows in map(int, arguments.rows.split(",")):
        write_rows(arguments.folder, rows)
        run = measure(rows, arguments)
        each = run.cpu / rows * 1e6, run.peak * (1 << 20) / rows
        print(f"{rows:13,}{run.wall:9.1f}{run.cpu:9.1f}{run.peak:10.0f}{each[0]:14.2f}{each[1]:13.0f}", flush=True)


def write_rows(folder: Path, rows: int) -> None:
    """Files of up to five million rows; kept if they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, rows, _AT_ONCE):
        path = folder / f"labels-{rows}-{start // _AT_ONCE:03d}.parquet"
        if path.exists():
            continue
        numbers = np.arange(start, min(start + _AT_ONCE, rows), dtype=np.uint64)
        # Multiplying by an odd number permutes 40 bits, so every label is another one, in no order.
        labels = pl.Series(numbers * np.uint64(0x9E3779B97F) % np.uint64(1 << 40)).cast(pl.String).str.zfill(13)
        users = np.random.default_rng(start).integers(0, max(rows // 20, 1), len(numbers))
        unfinished = path.with_suffix(".incomplete")
        pl.DataFrame({"user": users, "item": labels}).write_parquet(unfinished)
        unfinished.rename(path)


def measure(rows: int, arguments: argparse.Namespace) -> Run:
    """One run in a process of its own."""
    folder = arguments.folder
    command = [
        sys.executable, "-m", "private_topk", "run", "--input", str(folder / f"labels-{rows}-*.parquet"),
        "--unknown-domain", "--mechanism", "limit-domain", "--k", "10", "--epsilon", "1", "--delta", "1e-6",
        "--output", str(folder / "labels.avro"), "--overwrite", "--quiet",
    ]  # fmt: skip
    if arguments.max_items_per_user is not None:
        command += ["--max-items-per-user", str(arguments.max_items_per_user)]
    start = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{rows:,} rows failed")
    return Run(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
