"""Files of rows: our readers against a library that reads the same file, each in a process of its own.

    python -m benchmarks.readers --rows 2000000           # all formats
    python -m benchmarks.readers --format avro            # at the size that its row below has

ours: the whole of `read` and `block_of`, piece by piece, so labels that are proved to be row by row. polars, pyarrow:
the file to columns, with no question asked about any row. Processor time of the process in nanoseconds a row (user and
system), as a multiple of the fastest library's, and the most memory that the process has held, imports and all.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from private_topk.pipelines.files import FileInfo
from private_topk.pipelines.sources import Columns, reader_of
from private_topk.pipelines.sources.columns import block_of

NAMES = ["user", "item"]
SIZES = {"avro": 10_000_000, "parquet": 50_000_000, "csv": 10_000_000, "jsonl": 5_000_000}
KINDS = {
    "avro": ("null", "deflate", "of a map"),
    "parquet": ("words", "plain"),
    "csv": ("bare", "quoted"),
    "jsonl": ("texts", "integer users"),
}
_PIECE = 8 << 20
_BATCH = 500_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help=", ".join(f"{ending} {rows:,}" for ending, rows in SIZES.items()))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--format", choices=list(SIZES), help="only this")
    arguments = parser.parse_args()
    print(f"{'file':<24}{'rows':>12} {'reader':<9}{'CPU ns/row':>11}{'ratio':>7}{'peak MiB':>10}", flush=True)
    for ending, rows in SIZES.items():
        rows = arguments.rows or rows
        for kind in KINDS[ending] if arguments.format in (None, ending) else ():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, f"plays.{ending}")
                apart(write, path, kind, rows)
                found = compared(path, arguments.runs)
            least = min(cpu for reader, (cpu, _) in found.items() if reader != "ours")
            for reader, (cpu, peak) in found.items():
                shown = f"{1e9 * cpu / rows:11.0f}{cpu / least:7.2f}{peak:10.0f}"
                print(f"{f'{ending}, {kind}':<24}{rows:>12,} {reader:<9}{shown}", flush=True)


def apart(work: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - of any function
    """What a function returns, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def plays(rows: int) -> Iterator[list[dict[str, Any]]]:
    """The same made-up plays whatever they are written as, some at a time."""
    draw = np.random.default_rng(1)
    for start in range(0, rows, _BATCH):
        count = min(_BATCH, rows - start)
        users = draw.integers(0, rows // 20 + 1, count).tolist()
        items = (draw.zipf(1.3, count) % 20_000).tolist()
        yield [
            {"user": f"u{user:09d}", "item": f"track-{item:06d}", "country": "DE"}
            for user, item in zip(users, items, strict=True)
        ]


def write(path: Path, kind: str, rows: int) -> None:
    """A file as usual writers make it."""
    if path.suffix == ".avro":
        fields: list[dict[str, Any]] = [{"name": name, "type": "string"} for name in (*NAMES, "country")]
        if kind == "of a map":
            fields.append({"name": "more", "type": {"type": "map", "values": "long"}, "default": {}})
        schema = fastavro.parse_schema({"type": "record", "name": "Play", "fields": fields})
        codec = "deflate" if kind == "of a map" else kind
        records = (row for some in plays(rows) for row in some)
        with path.open("wb") as sink:
            fastavro.writer(sink, schema, records, codec=codec, sync_interval=1 << 20)
    elif path.suffix == ".parquet":
        schema = pa.schema(dict.fromkeys((*NAMES, "country"), pa.string()))
        with pq.ParquetWriter(path, schema, use_dictionary=kind == "words") as sink:
            for some in plays(rows):
                sink.write_table(pa.Table.from_pylist(some, schema))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as sink:
            writer = csv.writer(sink, quoting=csv.QUOTE_ALL if kind == "quoted" else csv.QUOTE_MINIMAL)
            writer.writerow((*NAMES, "country"))
            for some in plays(rows):
                writer.writerows(map(dict.values, some))
    else:
        with path.open("w") as sink:
            for some in plays(rows):
                for row in some:
                    row["user"] = int(row["user"][1:]) if kind == "integer users" else row["user"]
                    sink.write(json.dumps(row) + "\n")


def readers(path: Path) -> dict[str, Callable[[], object]]:
    """Every reader of a format, to be called for the whole file."""
    ours: dict[str, Callable[[], object]] = {"ours": lambda: _ours(path)}
    text = dict.fromkeys(NAMES, pl.String)
    if path.suffix == ".avro":
        return ours | {"polars": lambda: pl.read_avro(path, columns=NAMES), "fastavro": lambda: _by_fastavro(path)}
    if path.suffix == ".parquet":
        return ours | {
            "polars": lambda: pl.read_parquet(path, columns=NAMES),
            "pyarrow": lambda: sum(len(batch) for batch in pq.ParquetFile(path).iter_batches(100_000, columns=NAMES)),
        }
    if path.suffix == ".csv":
        convert = pa_csv.ConvertOptions(column_types=dict.fromkeys(NAMES, pa.string()), include_columns=NAMES)
        return ours | {
            "polars": lambda: pl.read_csv(path, columns=NAMES, schema_overrides=text),
            "pyarrow": lambda: pa_csv.read_csv(path, convert_options=convert),
        }
    parse = pa_json.ParseOptions(unexpected_field_behavior="ignore", newlines_in_values=False)
    return ours | {
        "polars": lambda: pl.read_ndjson(path, schema=text),
        "pyarrow": lambda: pa_json.read_json(path, parse_options=parse),
    }


def compared(path: Path, runs: int) -> dict[str, tuple[float, float]]:
    """Processor seconds and MiB of each reader that reads the file, in turn, so that a drift of the machine meets all
    of them; medians.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in readers(path)}
    for _ in range(runs):
        for name, some in taken.items():
            if (found := apart(measured, path, name)) is not None:
                some.append(found)
    return {
        name: (statistics.median(cpu for cpu, _ in pairs), statistics.median(peak for _, peak in pairs))
        for name, pairs in taken.items()
        if pairs
    }


def measured(path: Path, name: str) -> tuple[float, float] | None:
    """Processor seconds of this process for one file, and its peak in MiB; None if a library does not read it."""
    read = readers(path)[name]
    before = time.process_time()
    try:
        read()
    except (Exception, pl.exceptions.PanicException):  # codecs and types that it does not know
        if name == "ours":
            raise
        return None
    return time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _ours(path: Path) -> int:
    columns, reader = Columns(), reader_of(path.name)
    pieces = reader.pieces(FileInfo(str(path), path.stat().st_size), _PIECE)
    parts = (rows for start, stop in pieces for rows in reader.read(str(path), start, stop, columns))
    return sum(len(block_of(rows, columns)[0]) for rows in parts)


def _by_fastavro(path: Path) -> int:
    with path.open("rb") as source:
        return sum(1 for _ in fastavro.reader(source))


if __name__ == "__main__":
    main()
