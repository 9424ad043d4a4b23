"""What a large list of items costs where every worker holds it, and where it is split over the workers.

    python -m benchmarks.split_list --items 1000000,10000000
    python -m benchmarks.split_list --items 10000000 --flink      # and on a standalone Flink cluster

Items are lines such as `title123`; 1,000,000 rows of 50,000 users, most of them of the first items. What a worker
holds is measured in a process of its own, which does nothing else: memory above that of one that has loaded the code.
All rankings must be the same, byte for byte. On Flink a cluster has two task managers with two slots each and a pool of
Python workers, one process for each slot.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.pipeline import Run
from benchmarks.processes import end_well_by_signal
from benchmarks.standing import HEADINGS, standing, taken_on
from private_topk.pipelines.sources.domain import read_domain
from private_topk.pipelines.sources.domain_blocks import read_split_domain
from private_topk.transforms import ReleaseKey, SplitDomain
from private_topk.transforms.join import _JoinDoFn, _ReadDoFn
from private_topk.transforms.layout import Layout

_ROWS = 1_000_000
_AT_ONCE = 1 << 20
_SHARDS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="1000000,10000000", help="several sizes, parted by commas")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "private-topk-bench")
    parser.add_argument("--flink", action="store_true", help="run on a standalone cluster too")
    parser.add_argument("--task-memory", default="1536m", help="of a task manager, as Flink writes it")
    parser.add_argument("--port", type=int, default=28481)
    parser.add_argument("--only-split", action="store_true", help="leave out what holds all of the list")
    arguments = parser.parse_args()
    end_well_by_signal()
    for items in map(int, arguments.items.split(",")):
        files = written(arguments.folder, items)
        print(f"\n{items:,} items\n{'':<44}{'wall s':>8}{'cpu s':>8}{'MiB':>8}")
        alone(keep, files[0])
        for name, work in HELD.items():
            if not arguments.only_split or work is not hold_all:
                show(f"a worker: {name}", alone(work, files[0]))
        runs(files, arguments)


def runs(files: tuple[Path, Path], arguments: argparse.Namespace) -> None:
    """Whole ones, of the list as it is and split."""
    rankings = set()
    flink = standing(arguments.folder, arguments.port, arguments.task_memory) if arguments.flink else None
    with flink or contextlib.nullcontext() as cluster:
        for name, more in {"whole": [], "split": ["--domain-split"]}.items():
            if arguments.only_split and not more:
                continue
            show(f"a run on Direct: {name}", whole_run(*files, more))
            rankings.add(ranking(files[0]))
            if cluster:
                run, largest = taken_on(cluster, [*asked(*files), *more])
                show(f"a run on Flink: {name}", run, f"{HEADINGS}: {largest}")
                rankings.add(ranking(files[0]))
    if len(rankings) > 1:
        raise SystemExit("the rankings differ")


def show(name: str, run: Run, more: str = "") -> None:
    print(f"{name:<44}{run.wall:8.1f}{run.cpu:8.1f}{run.peak:8.0f}{more}", flush=True)


def written(folder: Path, items: int) -> tuple[Path, Path]:
    """The list and the rows; kept if they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    listed, rows = folder / f"list-{items}.txt", folder / f"list-{items}.parquet"
    if not rows.exists():
        with open(listed, "w", encoding="utf-8") as sink:
            for start in range(0, items, _AT_ONCE):
                sink.writelines(f"title{number}\n" for number in range(start, min(start + _AT_ONCE, items)))
        draw = np.random.default_rng(1)
        numbers = pl.Series((items * draw.random(_ROWS) ** 2).astype(np.int64)).cast(pl.String)
        users = draw.integers(0, _ROWS // 20, _ROWS)
        pl.DataFrame({"user": users, "item": "title" + numbers}).write_parquet(rows)
    return listed, rows


def hold_all(listed: Path) -> object:
    return read_domain(str(listed), "item").index()


def launch(listed: Path) -> SplitDomain:
    return read_split_domain(str(listed), "item")


def read_a_chunk(listed: Path) -> object:
    return list(_reader(_domain(listed)).process((0, [0])))


def join_a_part(listed: Path) -> object:
    """The part of one residue, which gets here a chunk after the other, as from workers that have read them."""
    domain = _domain(listed)
    read, first, parts = _reader(domain), Layout.of(domain).groups * domain.residues, []
    for number in range(len(domain.chunks)):
        for place, part in read.process((0, [number])):
            if place == first:
                parts.append((place, part._replace(table=part.table.take(pa.array(np.arange(len(part.table)))))))
    return list(_JoinDoFn(domain, Layout.of(domain), None).process((0, parts)))


HELD: dict[str, Callable[[Path], object]] = {
    "holds all of the list": hold_all,
    "the launch of a list that is split": launch,
    "reads some blocks of it": read_a_chunk,
    "reads all, and joins one part of it": join_a_part,
}


def _domain(listed: Path) -> SplitDomain:
    """As it travels in a job."""
    found = pickle.loads(listed.with_suffix(".pickle").read_bytes())
    assert isinstance(found, SplitDomain)
    return found


def _reader(domain: SplitDomain) -> _ReadDoFn:
    read = _ReadDoFn(domain, ReleaseKey.for_tests(), Layout.of(domain), _SHARDS)
    read.setup()
    return read


def keep(listed: Path) -> None:
    """The list as it travels in a job, beside it."""
    listed.with_suffix(".pickle").write_bytes(pickle.dumps(launch(listed)))


def alone(work: Callable[[Path], object], listed: Path) -> Run:
    """What it takes above a process that has loaded the code."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measured, (work, listed))


def _measured(work: Callable[[Path], object], listed: Path) -> Run:
    import polars  # noqa: F401 - loaded by the first sort otherwise

    before, cpu, start = _peak(), time.process_time(), time.perf_counter()
    held = work(listed)
    found = Run(time.perf_counter() - start, time.process_time() - cpu, _peak() - before)
    del held
    return found


def _peak() -> float:
    """Of this process since it began, in MiB; what getrusage tells begins with the one that started it."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def whole_run(listed: Path, rows: Path, more: list[str]) -> Run:
    """A run in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([*asked(listed, rows), *more])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the run over {listed} failed")
    wall = time.perf_counter() - start
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def asked(listed: Path, rows: Path) -> list[str]:
    key = listed.with_name("list.key")
    key.write_text("a key of the benchmarks, which is no secret\n")
    ranking_of(listed).unlink(missing_ok=True)  # or it would pass for that of a run that failed
    return [
        sys.executable, "-m", "private_topk", "run", "--input", str(rows), "--domain", str(listed), "--mechanism",
        "joint", "--k", "10", "--epsilon", "1", "--release-key", f"file:{key}", "--release-id", listed.stem,
        "--output", str(ranking_of(listed)), "--overwrite", "--quiet",
    ]  # fmt: skip


def ranking_of(listed: Path) -> Path:
    return listed.with_suffix(".jsonl")


def ranking(listed: Path) -> bytes:
    return ranking_of(listed).read_bytes()


if __name__ == "__main__":
    main()
