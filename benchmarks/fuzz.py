"""Broken bytes for every reader: flipped, cut, doubled and put in, from a seed that is printed with what it breaks.

    python -m benchmarks.fuzz --inputs 20000               # all formats, zipped ones included
    python -m benchmarks.fuzz --inputs 5000 --format .avro --seed 7

A reader may give rows or one sentence (InvalidArgument); anything else, and more than ten seconds for one small file,
is told with its seed, and the exit status is 1. In the text formats a file is also broken within one line, and of
messages one is broken: then the others must give the same rows as before. Half of the inputs are read with groups and
amounts. Lists of items, which are read whole or not at all, are fuzzed as `list.txt` and as a column of every format.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from private_topk.pipelines.files import FileInfo
from private_topk.pipelines.sources import Columns, reader_of
from private_topk.pipelines.sources.columns import Rows, block_of
from private_topk.pipelines.sources.domain import read_domain
from private_topk.pipelines.sources.payloads import AvroPayload, JsonPayload
from private_topk.transforms.errors import InvalidArgument

FILES, MESSAGES, LIST = (".avro", ".parquet", ".csv", ".jsonl"), ("avro message", "json message"), "list.txt"
ENDINGS = (*(ending + zipped for ending in (*FILES, LIST) for zipped in ("", ".gz")), *MESSAGES)
"""What `--format` knows, zipped ones apart."""

COLUMNS = Columns(time="time", time_unit="s")
WIDE = Columns(time="time", time_unit="s", value="amount", group="group")
SLOWEST = 10.0
_ROWS: list[dict[str, Any]] = [
    {
        "user": f"user {n}",
        "item": f"it\u00e9m {n % 7}",
        "time": 1_767_225_600 + n,
        "group": "AB"[n % 2],
        "amount": n + 0.5,
    }
    for n in range(60)
]
_FIELDS: list[dict[str, Any]] = [
    {"name": "user", "type": "string"},
    {"name": "item", "type": ["null", "string"]},
    {"name": "time", "type": "long"},
    {"name": "group", "type": ["string", "null"]},
    {"name": "amount", "type": ["double", "null"]},
    {"name": "other", "type": ["null", "string", "int"], "default": None},
]
_SCHEMA = {"type": "record", "name": "Row", "fields": _FIELDS}
_STRANGE = [
    b"\0",
    b"\xff\xff\xff\xff",
    b"\xfe\xff\xff\xff\x0f",
    b'"',
    b"\n",
    b"\r",
    b",",
    b"{",
    b"[" * 40,
    b"\x80",
    b"1e999",
    b"\\ud800",
]


def samples(folder: Path) -> dict[str, list[bytes]]:
    """Good small files by ending, in several codecs and page sizes; zipped ones too."""
    plain = fastavro.parse_schema(_SCHEMA)
    extra = {"name": "more", "type": {"type": "map", "values": "int"}, "default": {}}
    nested = fastavro.parse_schema({"type": "record", "name": "Nested", "fields": [*_FIELDS, extra]})
    found: dict[str, list[bytes]] = {".avro": [], ".parquet": [], ".csv": [], ".jsonl": []}
    path = folder / "sample"
    for schema in (plain, nested):
        for codec in ("null", "deflate", "bzip2", "xz"):
            with path.open("wb") as sink:
                fastavro.writer(
                    sink, schema, [row | {"more": {"a": 1}} for row in _ROWS], codec=codec, sync_interval=500
                )
            found[".avro"].append(path.read_bytes())
    pl.DataFrame(_ROWS).write_avro(path, compression="snappy")
    found[".avro"].append(path.read_bytes())
    for codec in ("none", "snappy", "gzip", "zstd"):
        pq.write_table(
            pa.Table.from_pylist(_ROWS), path, compression=codec, row_group_size=25, use_dictionary=codec != "gzip"
        )
        found[".parquet"].append(path.read_bytes())
    quoted = "".join(
        f'"{row["user"]}","{row["item"]}",{row["time"]},"{row["group"]}",{row["amount"]}\n' for row in _ROWS
    )
    heading = "user,item,time,group,amount\n"
    found[".csv"] = [(heading + quoted).encode(), (heading + quoted).replace('"', "").encode()]
    found[".jsonl"] = [
        "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in _ROWS).encode() for ascii in (True, False)
    ]
    found[LIST] = ["".join(f"{row['item']} {n}\n" for n, row in enumerate(_ROWS)).encode()]
    zipped = {f"{ending}.gz": [gzip.compress(content) for content in some] for ending, some in found.items()}
    return found | zipped


def broken(content: bytes, draw: random.Random) -> bytes:
    """One to four breaks in a file."""
    bad = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(bad)) if bad else 0
        length = draw.choice([1, 1, 2, 4, 16, 64])
        match draw.randrange(5):
            case 0 if bad:
                bad[at] ^= 1 << draw.randrange(8)
            case 1 if bad:
                bad[at] = draw.randrange(256)
            case 2:
                del bad[at : at + length if draw.random() < 0.8 else len(bad)]
            case 3:
                bad[at:at] = bad[at : at + length]
            case _:
                bad[at:at] = draw.choice(_STRANGE)
    return bytes(bad)


def rows_of(path: Path, columns: Columns = COLUMNS) -> list[tuple]:
    """The rows of a file, in pieces of a few hundred bytes where its format can be cut."""
    module, file = reader_of(path.name), FileInfo(str(path), path.stat().st_size)
    module.check(file, columns)
    rows: list[tuple] = []
    for start, stop in module.pieces(file, 400):
        for part in module.read(file.path, start, stop, columns):
            rows += _rows(part, columns)
    return rows


def _rows(part: Rows, columns: Columns) -> list[tuple]:
    block, _ = block_of(part, columns)
    return list(zip(*(column.to_pylist() for column in block.columns), strict=True))


def fuzz(inputs: int, endings: Sequence[str], seed: int) -> Iterator[str]:
    """What goes wrong in so many inputs for each ending, told with its seed."""
    with tempfile.TemporaryDirectory() as folder:
        good = samples(Path(folder))
        for ending in endings:
            for number in range(inputs):
                draw = random.Random(f"{seed} {ending} {number}")
                if ending in MESSAGES:
                    problem = _of_messages(ending, draw)
                else:
                    problem = _of_a_file(Path(folder) / f"rows{ending}", good[ending], draw)
                if problem:
                    yield f"{ending}, seed {seed}, input {number}: {problem}"


def _of_a_file(path: Path, good: list[bytes], draw: random.Random) -> str | None:
    content, columns = draw.choice(good), draw.choice([COLUMNS, WIDE])
    in_a_line = path.suffix in (".csv", ".jsonl") and draw.random() < 0.5
    bad, others = _in_a_line(content, draw) if in_a_line else (broken(content, draw), [])
    path.write_bytes(bad)
    if not others and (LIST in path.name or draw.random() < 0.2):
        return _problem(lambda: read_domain(str(path), ("item",)), [], [])
    return _problem(lambda: rows_of(path, columns), others, _expected(others, columns))


def _of_messages(kind: str, draw: random.Random) -> str | None:
    """Some good messages and a broken one among them, whose own row may be any or none."""
    columns, places = draw.choice([COLUMNS, WIDE]), draw.sample(range(len(_ROWS)), 8)
    payload: AvroPayload | JsonPayload = JsonPayload()
    if kind == "json message":
        messages = [json.dumps(_ROWS[place]).encode() for place in places]
    else:
        payload = AvroPayload(json.dumps(_SCHEMA))
        messages = [_avro(_ROWS[place]) for place in places]
    messages[0] = broken(messages[0], draw)
    return _problem(lambda: _rows(payload.rows(messages, columns), columns), places[1:], _expected(places[1:], columns))


def _avro(row: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(_SCHEMA), row)
    return sink.getvalue()


def _expected(places: list[int], columns: Columns) -> list[tuple]:
    more = ("amount", "group") if columns is WIDE else ()
    return [
        (_ROWS[n]["user"], _ROWS[n]["item"], _ROWS[n]["time"] * 1_000_000, *(_ROWS[n][name] for name in more))
        for n in places
    ]


def _in_a_line(content: bytes, draw: random.Random) -> tuple[bytes, list[int]]:
    """A file with one line broken, and the users of the other lines."""
    head, lines = (content.split(b"\n", 1)[0] + b"\n", content.splitlines(True)[1:])
    if content.startswith(b"{"):
        head, lines = b"", content.splitlines(True)
    place = draw.randrange(len(lines))
    others = [n for n in range(len(lines)) if n != place]
    lines[place] = broken(lines[place][:-1], draw).replace(b"\n", b" ") + b"\n"
    return head + b"".join(lines), others


def _problem(read: Callable[[], Any], others: list[int], expected: list[tuple]) -> str | None:
    started = time.monotonic()
    try:
        rows = read()
    except InvalidArgument:
        return "a row refused the file" if others else None
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if time.monotonic() - started > SLOWEST:
        return f"took {time.monotonic() - started:.0f} s"
    if others and not set(expected) <= set(rows):
        return "a broken line changed another's row"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=2000, help="for each format")
    parser.add_argument("--format", choices=[*FILES, LIST, *MESSAGES], help="only this, and zipped")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    endings = [ending for ending in ENDINGS if ending.startswith(arguments.format or "")]
    started, found = time.monotonic(), 0
    for problem in fuzz(arguments.inputs, endings, arguments.seed):
        found += 1
        print(problem, flush=True)
    print(f"{arguments.inputs * len(endings):,} inputs, {found} problems, {time.monotonic() - started:.0f} s")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
