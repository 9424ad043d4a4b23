"""Files of rows in every format, the command line in this process, and what came of it."""

from __future__ import annotations

import contextlib
import csv
import gzip
import inspect
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from private_topk.pipelines import cli
from private_topk.pipelines.files import match, unpacked_name
from private_topk.pipelines.question import Question
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.sources import Columns, check_files, reader_of
from private_topk.pipelines.sources.columns import block_of
from private_topk.pipelines.sources.formats import Piece
from private_topk.transforms.spec import TopK

SHARED = Path(os.environ.get("PRIVATE_TOPK_SHARED", Path(__file__).resolve().parents[2].parent / "shared"))
Rows = list[dict[str, Any]]
TEXT = ["null", "string"]
WEEKLY = """\
report: weekly
source:
  input: rows.csv
domain:
  file: items.txt
window:
  every: week
  first: 2026-01-05
mechanism:
  name: joint
  k: 3
budget:
  epsilon: 1
release_key: file:key
sink:
  output: out/{report}-{start}.csv
"""
"""The least that a scheduled report says."""


def avro_schema(**types: Any) -> Any:  # noqa: ANN401 - an Avro schema
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})


def to_avro(rows: Iterable[dict[str, Any]], schema: dict[str, Any] | None = None, **options: Any) -> bytes:  # noqa: ANN401
    sink = io.BytesIO()
    fastavro.writer(sink, schema or avro_schema(user=TEXT, item=TEXT), rows, **options)
    return sink.getvalue()


def avro_message(schema: Any, row: dict[str, Any]) -> bytes:  # noqa: ANN401
    """A row as it is a message: without the schema, which readers have."""
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), row)
    return sink.getvalue()


def to_csv(rows: Rows) -> bytes:
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(rows[0]), quoting=csv.QUOTE_MINIMAL)
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue().encode()


def to_json_lines(rows: Rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def to_parquet(rows: Rows, **options: Any) -> bytes:  # noqa: ANN401
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, **options)
    return sink.getvalue()


WRITERS = {".avro": to_avro, ".csv": to_csv, ".jsonl": to_json_lines, ".parquet": to_parquet}


def packed(content: bytes, ending: str) -> bytes:
    """The content of a file as its ending has it: gzip, zstd, or as it is."""
    if ending.lower().endswith(".gz"):
        return gzip.compress(content, 1)
    return pa.compress(content, "zstd", asbytes=True) if ending.lower().endswith(".zst") else content


def write(path: Path, content: bytes | str | Rows) -> Path:
    """Bytes, text or rows to a file; rows in the format of its ending, and zipped as it says."""
    if isinstance(content, list):
        content = packed(WRITERS[Path(unpacked_name(path.name)).suffix](content), path.name)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder in it, with those of a ledger: a charge would be among their bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


class Read(NamedTuple):
    rows: list[tuple[Any, ...]]
    dropped: int
    """For any reason; `reasons` tells them apart."""


def reasons(path: Path, columns: Columns | None = None) -> dict[str, int]:
    """How many rows reading a file leaves out, by reason."""
    columns, found = columns or Columns(), Counter[str]()
    for file in match(str(path)):
        for start, stop in reader_of(file.path).pieces(file, 1 << 30):
            for part in Piece(file.path, start, stop, 0, columns).rows():
                found.update(block_of(part, columns)[1])
    return dict(found)


def read(path: Path, columns: Columns | None = None, size: int = 1 << 30) -> Read:
    """Check files and read them in pieces of `size`, as the pipeline does. Raises what checking or reading raises."""
    columns = columns or Columns()
    files = match(str(path))
    check_files(files, columns)
    rows, dropped = [], 0
    for file in files:
        for start, stop in reader_of(file.path).pieces(file, size):
            for part in Piece(file.path, start, stop, 0, columns).rows():
                block, missing = block_of(part, columns)
                rows += zip(*(column.to_pylist() for column in block.columns), strict=True)
                dropped += sum(missing.values())
    return Read(rows, dropped)


def settled(words: Iterable[str]) -> list[str]:
    """The words of a command line, with the later of two equal arguments in the place of the earlier one."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word.partition("=")[0]
            found.pop(name, None)
        found.setdefault(name, []).append(word)
    return [word for words in found.values() for word in words]


def wait_until(condition: Callable[[], object], patience: float = 180) -> None:
    """Until it holds; it fails if that takes more seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.1)


class Done(NamedTuple):
    status: int
    out: str
    err: str


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def command(*arguments: object, terminal: bool = False) -> Done:
    """`private-topk ...` in this process.

    Args:
        terminal: its stderr is one.
    """
    out, err = io.StringIO(), Terminal() if terminal else io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main([str(argument) for argument in arguments])
        except SystemExit as exit_:  # argparse's way
            status = exit_.code
    return Done(status, out.getvalue(), err.getvalue())


_KILLED = """
import os, signal, sys
import apache_beam
apache_beam.Pipeline.run = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from private_topk.pipelines import cli
cli.main(sys.argv[1:])
"""


def kill_when_charged(*arguments: object) -> None:
    """`private-topk ...` in a process of its own, which is killed when it is charged and has read nothing yet."""
    words = [sys.executable, "-c", _KILLED, *map(str, arguments)]
    assert subprocess.run(words, stderr=subprocess.DEVNULL).returncode == -signal.SIGKILL


@contextlib.contextmanager
def when_charged(ledger: Path, do: Callable[[], object], after: float = 0.0) -> Iterator[None]:
    """Inside, `do` is called once, so many seconds after the next charge stands in a ledger of SQLite.

    By a thread of this process: a job needs longer from its charge to its first row than the thread to see it.
    """
    over, seen = threading.Event(), threading.Event()

    def charges() -> int:
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(ledger)) as books:
            return int(books.execute("SELECT count(*) FROM private_topk_charges").fetchone()[0])
        return 0

    def watch(before: int) -> None:
        while not over.wait(0.001):
            if charges() > before:
                time.sleep(after)
                do()
                seen.set()
                return

    thread = threading.Thread(target=watch, args=(charges(),))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert seen.is_set(), "nothing was charged"


def question_of(*drawn: Any, **more: Any) -> Question:  # noqa: ANN401
    """The question of what `TopK` takes and all else, side by side."""
    own = {name: more.pop(name) for name in inspect.signature(TopK).parameters.keys() & more.keys()}
    return Question(TopK(*drawn, **own), **more)


def manifest(**facts: object) -> Manifest:
    """A manifest of JSON values: few, but for those that are given."""
    few: dict[str, Any] = {
        "report": "r",
        "key_id": "0123",
        "mechanism": "joint",
        "answer": "sequence",
        "parameters": {},
        "k": 2,
        "max_items_per_user": None,
        "domain": {"kind": "unknown"},
        "privacy": {
            "epsilon": 1.0,
            "delta": 0.0,
            "neighbours": "add-remove",
            "unit": "one user's rows",
            "guarantee": "pure",
        },
    }
    return Manifest.decode(json.dumps({**few, **facts}).encode())


def costing(manifest: bytes | str, factor: Fraction | int) -> str:
    """The text of a manifest, edited by hand to state so many times its costs, without contradicting itself."""
    facts = json.loads(manifest)
    privacy, zcdp, paid = (facts[name] for name in ("privacy", "zcdp_of_a_window", "charge"))
    for costs in filter(None, (privacy, privacy.get("share_of_a_window"))):
        costs["epsilon"] *= float(factor)
    of_rho = factor * min(factor, 1)  # no more than epsilon's, nor than its square
    zcdp["rho"] *= float(of_rho)
    facts["parameters"]["epsilon"] *= float(min(factor, 1))  # or what it is drawn with would cost more
    paid |= {name: str(Fraction(paid[name]) * by) for name, by in (("epsilon", factor), ("rho", of_rho))}
    return json.dumps(facts)


def options(**values: object) -> list[str]:
    """max_items_per_user=3 is --max-items-per-user=3; True gives the bare flag, None leaves it out.

    Beam spells its options with underscores: give them as "direct num_workers".
    """
    words = []
    for name, value in values.items():
        flag = "--" + (name.replace(" ", "_") if " " in name else name.rstrip("_").replace("_", "-"))
        words += [] if value is None else [flag] if value is True else [f"{flag}={value}"]
    return words
