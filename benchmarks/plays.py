"""Large files of made-up plays, fast: Avro rows of fixed width, laid out by numpy in ordinary 64 KB blocks; from these
Parquet and CSV by polars, as it writes them by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

FORMATS = ("avro", "parquet", "csv")

ITEMS = 20_000
_BLOCK = 2_600
_SYNC = b"sixteen bytes of"
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
        sink.write(_header())
        for block, count in _blocks(np.random.default_rng(seed), rows, users):
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)
            packed = packer.compress(block) + packer.flush()
            sink.write(_long(count) + _long(len(packed)) + packed + _SYNC)
    unfinished.rename(path)


def _blocks(rng: np.random.Generator, rows: int, users: int) -> Iterator[tuple[bytes, int]]:
    weights = np.cumsum(1.0 / (np.arange(ITEMS) + 20))
    for start in range(0, rows, 100 * _BLOCK):
        size = min(100 * _BLOCK, rows - start)
        who = rng.integers(0, users, size)
        what = np.searchsorted(weights, rng.random(size) * weights[-1])
        lines = np.empty((size, 24), np.uint8)
        lines[:, :2] = np.frombuffer(b"\x14u", np.uint8)
        lines[:, 2:11] = _digits(who, 9)
        lines[:, 11:18] = np.frombuffer(b"\x18track-", np.uint8)
        lines[:, 18:] = _digits(what, 6)
        for at in range(0, size, _BLOCK):
            part = lines[at : at + _BLOCK]
            yield part.tobytes(), len(part)


def _digits(numbers: np.ndarray, width: int) -> np.ndarray:
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _header() -> bytes:
    entries = {"avro.schema": json.dumps(_SCHEMA).encode(), "avro.codec": b"deflate"}
    packed = b"".join(_long(len(k)) + k.encode() + _long(len(v)) + v for k, v in entries.items())
    return b"Obj\x01" + _long(len(entries)) + packed + b"\0" + _SYNC


def _long(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
