"""What a report costs, as a sum of few terms: fitted on some runs and checked on two that the fit has not seen.

    python -m benchmarks.scale                 # 16 short runs on Direct, about two minutes of CPU

CPU time of whole processes on one core (`--cores 1`), so that other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline import run_of
from private_topk.transforms.plan import Partitioning

_BLOCK = 100_000
_HOURS = 10_000
_START = 1_767_225_600  # 2026-01-01
TERMS = {
    "start": "a run",
    "row": "a row: decoded, encoded, split, sorted",
    "timed": "a row where there are several windows: beside the above",
    "piece": "a piece: what a block of 100,000 rows has for a user shard",
    "part": "a part: what a user shard has counted for an item shard of a group of windows",
    "cell": "a cell: an item of a window in a user shard that somebody there holds",
    "item": "an item of a list",
    "window": "a window: its draw, names and rows of output",
}


class Size(NamedTuple):
    """A report: rows by a twentieth as many users, over a list of items, in so many windows and user shards."""

    rows: int
    items: int = 20_000
    windows: int = 1
    shards: int = 16


FITTED = [
    Size(100_000),
    Size(1_000_000),
    Size(3_000_000),
    Size(1_000_000, 1_000),
    Size(1_000_000, 1_000_000),
    Size(1_000_000, 3_000_000),
    Size(1_000_000, shards=512),
    Size(1_000_000, shards=2048),
    Size(300_000, shards=4096),
    Size(300_000, windows=300),
    Size(300_000, windows=3_000),
    Size(300_000, windows=300, shards=256),
    Size(1_500_000, windows=300),
    Size(1_000_000, 1_000_000, windows=30),
]
CHECKED = [Size(2_000_000, 300_000, 150, 128), Size(1_200_000, 100_000, 60, 512)]


def terms(size: Size) -> np.ndarray:
    """How often each of `TERMS` is in a report."""
    rows, items, windows, shards = size
    blocks = max(rows / _BLOCK, 1)
    pieces = blocks * _some(shards, rows / blocks)
    layout = Partitioning(items, windows)
    parts = shards * layout.window_groups * layout.item_shards
    cells = shards * _some(items * windows, rows / shards)
    return np.array([1, rows, rows if windows > 1 else 0, pieces, min(parts, cells), cells, items, windows])


def _some(boxes: float, balls: float) -> float:
    """How many boxes have a ball, of balls thrown at random."""
    return -boxes * math.expm1(-balls / boxes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found = {size: measured(size, arguments.folder) for size in (*FITTED, *CHECKED)}
    coefficients = fitted(np.array([terms(size) for size in FITTED]), np.array([found[size][0] for size in FITTED]))
    print(f"{'rows':>10}{'items':>10}{'windows':>8}{'shards':>7}{'cpu s':>8}{'model':>8}{'peak MiB':>10}")
    for size, (cpu, peak) in found.items():
        model = float(terms(size) @ coefficients)
        mark = "  not fitted on" if size in CHECKED else ""
        print(
            f"{size.rows:10,}{size.items:10,}{size.windows:8,}{size.shards:7,}{cpu:8.2f}{model:8.2f}{peak:10.0f}{mark}"
        )
    for (name, meaning), value in zip(TERMS.items(), coefficients.tolist(), strict=True):
        print(f"{name:<8}{value * 1e6:14.2f} microseconds of CPU  {meaning}")


def fitted(counts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Non-negative least squares of the relative errors: terms that would be negative are left out, one at a time."""
    weighted, scale = counts / seconds[:, None], counts.max(axis=0)
    kept = list(range(counts.shape[1]))
    while True:
        part = np.linalg.lstsq(weighted[:, kept] / scale[kept], np.ones(len(seconds)), rcond=None)[0] / scale[kept]
        if part.min() >= 0:
            break
        kept.pop(int(np.argmin(part * scale[kept])))
    coefficients = np.zeros(counts.shape[1])
    coefficients[kept] = part
    return coefficients


def measured(size: Size, folder: Path) -> tuple[float, float]:
    """CPU in seconds and peak memory in MiB of a run in a process of its own."""
    writer = multiprocessing.Process(target=_write, args=(size, folder))  # a child's peak begins at its parent's size
    writer.start()
    writer.join()
    place = [f"--input={folder}/scale.parquet", f"--domain={folder}/scale.txt", f"--output={folder}/scale.avro"]
    asked = f"--quiet --overwrite --mechanism joint --k 10 --epsilon 1 --cores 1 --shards {size.shards}".split()
    asked += [f"--from={_moment(0)}", f"--to={_moment(3600 * _HOURS)}"]
    if size.windows > 1:
        asked.append(f"--window={60 * _HOURS // size.windows}m")
    run = run_of([sys.executable, "-m", "private_topk", "run", *place, *asked])
    return run.cpu, run.peak


def _write(size: Size, folder: Path) -> None:
    rng = np.random.default_rng(size.rows)
    (folder / "scale.txt").write_text("".join(f"track-{n:08d}\n" for n in range(size.items)))
    names = pa.array([f"track-{n:08d}" for n in range(size.items)])
    table = pa.table(
        {
            "user": pa.array(rng.integers(0, max(size.rows // 20, 1), size.rows)),
            "item": names.take(pa.array(rng.integers(0, size.items, size.rows))),
            "time": pa.array(_START + rng.integers(0, 3600 * _HOURS, size.rows), pa.timestamp("s")),
        }
    )
    pq.write_table(table, folder / "scale.parquet")


def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(_START + seconds))


if __name__ == "__main__":
    main()
