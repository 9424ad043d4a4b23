"""Large files of made-up plays: Avro in blocks of 64 KB; from these Parquet and CSV by polars, as it writes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import fastavro
import numpy as np

FORMATS = ("avro", "parquet", "csv")

ITEMS = 20_000
_AT_ONCE = 260_000
_SCHEMA = {
    "type": "record",
    "name": "Play",
    "fields": [{"name": "user", "type": "string"}, {"name": "item", "type": "string"}],
}


def items() -> list[str]:
    """The public domain of the plays."""
    return [f"track-{n:06d}" for n in range(ITEMS)]


def write_plays(folder: Path, rows: int, files: int = 4, form: str = "avro") -> list[Path]:
    """`files` files with `rows` rows in all, one user for every 20 rows, Avro deflated; kept if they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"plays-{rows}-{n}.{form}" for n in range(files)]
    missing = [(path, n, rows // files, rows // 20) for n, path in enumerate(paths) if not path.exists()]
    if missing and form != "avro":
        write_plays(folder, rows, files)
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_write if form == "avro" else _convert, missing))
    return paths


def _convert(job: tuple[Path, int, int, int]) -> None:
    path = job[0]
    unfinished = path.with_suffix(".incomplete")
    code = (
        "import sys, polars as pl; rows = pl.read_avro(sys.argv[1]); getattr(rows, 'write_' + sys.argv[2])(sys.argv[3])"
    )
    # polars has threads, which a forked process must not use.
    subprocess.run([sys.executable, "-c", code, path.with_suffix(".avro"), path.suffix[1:], unfinished], check=True)
    unfinished.rename(path)


def _write(job: tuple[Path, int, int, int]) -> None:
    path, seed, rows, users = job
    unfinished = path.with_suffix(".incomplete")
    with unfinished.open("wb") as sink:
        records = _records(np.random.default_rng(seed), rows, users)
        fastavro.writer(sink, _SCHEMA, records, codec="deflate", sync_interval=1 << 16)
    unfinished.rename(path)


def _records(rng: np.random.Generator, rows: int, users: int) -> Iterator[dict[str, str]]:
    weights = np.cumsum(1.0 / (np.arange(ITEMS) + 20))
    for start in range(0, rows, _AT_ONCE):
        size = min(_AT_ONCE, rows - start)
        who = rng.integers(0, users, size).tolist()
        what = np.searchsorted(weights, rng.random(size) * weights[-1]).tolist()
        for user, item in zip(who, what, strict=True):
            yield {"user": f"u{user:09d}", "item": f"track-{item:06d}"}
