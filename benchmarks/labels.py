"""An unknown domain with as many different items as rows: nothing repeats, so nothing gets smaller on its way.

    python -m benchmarks.labels --rows 1000000,10000000
    python -m benchmarks.labels --rows 10000000 --max-items-per-user 10
    python -m benchmarks.labels --rows 20000000 --cases direct,flink

One user for every 20 rows; labels of 13 digits. Beside them 20 labels that 500, 1,000, ..., 10,000 rows of random users
have, so that there is a ranking. Whole processes, from Parquet files to that ranking, which must be the same in all
cases, byte for byte, and hold planted labels only. On Flink a standalone cluster of two task managers with two slots
each, a pool of Python workers, one process for each slot: a worker and a task manager are the largest ones.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.pipeline import Run, run_of
from benchmarks.processes import end_well_by_signal
from benchmarks.servers.flink import Cluster
from benchmarks.standing import HEADINGS, Largest, standing, taken_on

_AT_ONCE = 5_000_000
_PLANTED, _STEP = 20, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,5000000", help="several sizes, parted by commas")
    parser.add_argument("--cases", default="direct", help="direct, flink or both, parted by commas")
    parser.add_argument("--max-items-per-user", type=int, default=None)
    parser.add_argument("--task-memory", default="1536m", help="of a task manager, as Flink writes it")
    parser.add_argument("--port", type=int, default=28481)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    arguments = parser.parse_args()
    end_well_by_signal()
    flink = "flink" in arguments.cases.split(",")
    with standing(arguments.folder, arguments.port, arguments.task_memory) if flink else nullcontext() as cluster:
        print(
            f"{'rows':>13} case  {'wall s':>9}{'cpu s':>9}{'peak MiB':>10}{'cpu µs a row':>14}{'bytes a row':>13}"
            + (HEADINGS if cluster else "")
        )
        for rows in map(int, arguments.rows.split(",")):
            write_rows(arguments.folder, rows)
            rankings = set()
            for case in arguments.cases.split(","):
                (run, more), ranking = measure(rows, case, arguments, cluster)
                each = run.cpu / rows * 1e6, run.peak * (1 << 20) / rows
                print(
                    f"{rows:13,} {case:<6}{run.wall:9.1f}{run.cpu:9.1f}{run.peak:10.0f}{each[0]:14.2f}{each[1]:13.0f}"
                    f"{more}",
                    flush=True,
                )
                rankings.add(ranking)
            if len(rankings) > 1:
                raise SystemExit("the rankings differ")


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


def measure(
    rows: int, case: str, arguments: argparse.Namespace, cluster: Cluster | None
) -> tuple[tuple[Run, Largest | str], bytes]:
    """One run in a process of its own: what it took, and its ranking."""
    output, key = arguments.folder / f"labels-{case}.jsonl", arguments.folder / "labels.key"
    key.write_text("a key of the benchmarks, which is no secret\n")
    output.unlink(missing_ok=True)  # of another size, it would pass for what a run that failed has published
    command = [
        sys.executable,
        "-m",
        "private_topk",
        "run",
        "--input",
        str(arguments.folder / f"labels-{rows}-*.parquet"),
        "--unknown-domain",
        "--mechanism",
        "limit-domain",
        "--k",
        "10",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--release-key",
        f"file:{key}",
        "--release-id",
        f"labels {rows}",
        "--output",
        str(output),
        "--overwrite",
        "--quiet",
    ]
    if arguments.max_items_per_user is not None:
        command += ["--max-items-per-user", str(arguments.max_items_per_user)]
    found = taken_on(cluster, command) if case == "flink" and cluster else (run_of(command), "")
    ranking = output.read_bytes()
    items = [json.loads(line)["item"] for line in ranking.splitlines()]
    if not items or not all(str(item).startswith("planted") for item in items):
        raise SystemExit(f"of {rows:,} rows, got {items}")
    return found, ranking


if __name__ == "__main__":
    main()
