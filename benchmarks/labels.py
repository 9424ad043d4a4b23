"""An unknown domain with as many different items as rows: nothing repeats, so nothing gets smaller on its way.

    python -m benchmarks.labels --rows 1000000,10000000
    python -m benchmarks.labels --rows 10000000 --max-items-per-user 10

One user for every 20 rows; labels of 13 digits. Beside them 20 labels that 500, 1,000, ..., 10,000 rows of random users
have, so that there is a ranking. Whole processes, from Parquet files to that ranking, which must hold planted labels
only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.pipeline import Run, run_of

_AT_ONCE = 5_000_000
_PLANTED, _STEP = 20, 500


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
    """Files of up to five million rows, and one of the labels that many have; kept if they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    users = max(rows // 20, 1)
    for start in range(0, rows, _AT_ONCE):
        numbers = np.arange(start, min(start + _AT_ONCE, rows), dtype=np.uint64)
        # Multiplying by an odd number permutes 40 bits, so every label is another one, in no order.
        labels = pl.Series(numbers * np.uint64(0x9E3779B97F) % np.uint64(1 << 40)).cast(pl.String).str.zfill(13)
        _write(folder / f"labels-{rows}-{start // _AT_ONCE:03d}.parquet", labels, users, start)
    planted = pl.Series([f"planted {number:05d}" for number in range(_PLANTED)])
    many = np.repeat(np.arange(_PLANTED), _STEP * np.arange(_PLANTED, 0, -1))
    _write(folder / f"labels-{rows}-planted.parquet", planted.gather(many), users, rows)


def _write(path: Path, labels: pl.Series, users: int, seed: int) -> None:
    if not path.exists():
        drawn = np.random.default_rng(seed).integers(0, users, len(labels))
        unfinished = path.with_suffix(".incomplete")
        pl.DataFrame({"user": drawn, "item": labels}).write_parquet(unfinished)
        unfinished.rename(path)


def measure(rows: int, arguments: argparse.Namespace) -> Run:
    """A run in a process of its own, whose ranking is looked at."""
    output = arguments.folder / "labels.jsonl"
    output.unlink(missing_ok=True)  # of another size, it would pass for what a run that failed has published
    place = [f"--input={arguments.folder}/labels-{rows}-*.parquet", f"--output={output}"]
    asked = "--unknown-domain --mechanism limit-domain --k 10 --epsilon 1 --delta 1e-6 --overwrite --quiet".split()
    if arguments.max_items_per_user is not None:
        asked.append(f"--max-items-per-user={arguments.max_items_per_user}")
    run = run_of([sys.executable, "-m", "private_topk", "run", *place, *asked])
    items = [json.loads(line)["item"] for line in output.read_text().splitlines()]
    if not items or not all(str(item).startswith("planted") for item in items):
        raise SystemExit(f"of {rows:,} rows, got {items}")
    return run


if __name__ == "__main__":
    main()
