"""CSV and JSON lines: our readers against the libraries that parse the same file, in the same run, in one process.

    python -m benchmarks.readers --rows 1000000

ours: the whole of `read` and `block_of`, so labels that are proved to be row by row. pyarrow, polars: the file to
columns of text, with no question asked about any row. MB of text a second of wall time and of processor time, medians.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from private_topk.pipelines.sources import Columns, reader_of
from private_topk.pipelines.sources.columns import block_of

_NAMES = ["user", "item"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'file':<24}{'reader':<10}{'MB/s wall':>11}{'MB/s cpu':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in files(Path(folder), arguments.rows):
            size = path.stat().st_size / 1e6
            for reader, (wall, cpu) in compared(readers(path), arguments.runs).items():
                print(f"{name:<24}{reader:<10}{size / wall:11.0f}{size / cpu:10.0f}")


def files(folder: Path, rows: int) -> Iterator[tuple[str, Path]]:
    """The same made-up plays as a writer of CSV or JSON would have them; one file at a time."""
    draw = np.random.default_rng(1)
    users, items = draw.integers(0, rows // 20 + 1, rows).tolist(), draw.zipf(1.3, rows) % 20_000
    plays = [(f"u{user:09d}", f"track-{item:06d}", "DE") for user, item in zip(users, items.tolist(), strict=True)]
    for name, quoting in (("csv", csv.QUOTE_MINIMAL), ("csv, quoted", csv.QUOTE_ALL)):
        with (folder / "plays.csv").open("w", newline="") as sink:
            csv.writer(sink, quoting=quoting).writerows([(*_NAMES, "country"), *plays])  # type: ignore[arg-type]
        yield name, folder / "plays.csv"
    for name, change in (("json", lambda row: row), ("json, integer users", lambda row: (int(row[0][1:]), *row[1:]))):
        with (folder / "plays.jsonl").open("w") as sink:
            for row in plays:
                sink.write(json.dumps(dict(zip((*_NAMES, "country"), change(row), strict=True))) + "\n")
        yield name, folder / "plays.jsonl"


def readers(path: Path) -> dict[str, Callable[[], object]]:
    """Every reader of a format, to be called for the whole file."""
    text = dict.fromkeys(_NAMES, pl.String)
    if path.suffix == ".csv":
        convert = pa_csv.ConvertOptions(column_types=dict.fromkeys(_NAMES, pa.string()), include_columns=_NAMES)
        return {
            "ours": lambda: _ours(path),
            "pyarrow": lambda: pa_csv.read_csv(path, convert_options=convert),
            "polars": lambda: pl.read_csv(path, columns=_NAMES, schema_overrides=text),
        }
    parse = pa_json.ParseOptions(unexpected_field_behavior="ignore", newlines_in_values=False)
    return {
        "ours": lambda: _ours(path),
        "pyarrow": lambda: pa_json.read_json(path, parse_options=parse),
        "polars": lambda: pl.read_ndjson(path, schema=text),
    }


def compared(some: dict[str, Callable[[], object]], runs: int) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of each, in turn, so that a drift of the machine meets all of them; medians."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in some}
    for _ in range(runs):
        for name, read in some.items():
            wall, cpu = time.perf_counter(), time.process_time()
            read()
            taken[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: (statistics.median(w for w, _ in pairs), statistics.median(c for _, c in pairs))
        for name, pairs in taken.items()
    }


def _ours(path: Path) -> int:
    columns = Columns()
    return sum(len(block_of(rows, columns)[0]) for rows in reader_of(path.name).read(str(path), 0, 0, columns))


if __name__ == "__main__":
    main()
