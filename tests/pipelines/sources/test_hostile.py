"""Files made to hurt: each ends in rows or one sentence, in a process that may have little memory."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.sources.test_avro_types import container, number
from tests.pipelines.support import read, to_avro, write

LIMIT = 2 << 30
"""Bytes of memory that the process may map beyond what it has mapped when the libraries are loaded."""

READER = textwrap.dedent("""
    import resource, sys
    from pathlib import Path
    from private_topk.transforms.errors import Refusal
    from tests.pipelines.support import read, to_avro, write
    read(write(Path(sys.argv[2]).parent / "first.avro", to_avro([{"user": "a", "item": "b"}])))
    mapped = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (mapped + int(sys.argv[1]),) * 2)
    for path in sys.argv[2:]:
        try:
            print(len(read(Path(path)).rows), "rows")
        except Refusal as error:
            print(str(error).removeprefix(path))
""")
TEXTS = {"type": "record", "name": "Row", "fields": [{"name": n, "type": "string"} for n in ("user", "item")]}
NOTHING = {"type": "record", "name": "Row", "fields": [{"name": n, "type": "null"} for n in ("user", "item")]}
NULLABLE = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": n, "type": ["null", "string"]} for n in ("user", "item")],
}


def outcomes(*paths: Path) -> list[str]:
    """What reading each file ends in, all in one process. Polars may print where it gave up."""
    done = subprocess.run([sys.executable, "-c", READER, str(LIMIT), *map(str, paths)], capture_output=True, text=True,
                          cwd=Path(__file__).parents[3], timeout=600)  # fmt: skip
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-2000:]
    found = done.stdout.splitlines()
    assert len(found) == len(paths)
    return found


def deflated(size: int) -> bytes:
    """Zeros, which are rows of empty texts, packed a thousandfold."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)  # may stand any number of times
    return packed * (size >> 20) + packer.flush()


@pytest.mark.long
def test_hostile_blocks(tmp_path: Path) -> None:
    """Counts of rows that are not there; many blocks within the bound in one run; a text longer than its block."""
    long = b"\x02u" + number(64 << 20) + bytes(64 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(long) + packer.flush()
    many = (" has a block that claims more rows than it has bytes, or more than 16,777,216: write smaller blocks, or "
            "copy it again")  # fmt: skip
    cut = " is truncated or damaged: a block does not end with the file's sync marker. Write or copy it again"
    damaged = " is damaged: a block cannot be decoded. Write or copy it again"
    cases = [
        (container(TEXTS, [(10**12, b"\0\0")]), many),
        (container(NULLABLE, [(10**12, b"\0" * 100)]), many),
        (container(NULLABLE, [(10**12, deflated(1 << 20))], "deflate"), many),
        (container(NOTHING, [(10**9, b"")]), many),
        (container(NULLABLE, [(10**8, deflated(200 << 20))], "deflate"), many),
        (container(TEXTS, [(2**62, b"")]), many),
        (container(TEXTS, [(-5, b"\0\0")]), cut),
        (container(TEXTS, [(1, packed)] * 8, "deflate"), "0 rows"),
        (container(TEXTS, [(2, b"\x02a\x02b" + b"\xfe\xff\xff\x0fa\x02b")]), damaged),
        (to_avro([{"user": f"u{n}", "item": "i"} for n in range(200_000)], codec="deflate"), "200000 rows"),
    ]
    paths = [write(tmp_path / f"{n}.avro", content) for n, (content, _) in enumerate(cases)]
    assert outcomes(*paths) == [said for _, said in cases]


def test_a_long_label_in_every_row_of_a_dictionary(tmp_path: Path) -> None:
    """One user with a label of a megabyte in thousands of rows, which takes a megabyte in an honest writer's file."""
    label, rows = "x" * (1 << 20), 3000
    sink = io.BytesIO()
    table = pa.table({"user": [*(f"u{n}" for n in range(rows)), "b"], "item": pa.DictionaryArray.from_arrays(
        pa.array([0] * rows + [1], pa.int32()), pa.array([label, "i"]))})  # fmt: skip
    pq.write_table(table, sink, dictionary_pagesize_limit=8 << 20)
    path = write(tmp_path / "rows.parquet", sink.getvalue())
    from private_topk.pipelines.sources import Columns, parquet

    parts = [part.columns for part in parquet.read(str(path), 0, 1, Columns())]
    users = [user.decode() for part in parts for user in part["user"].cast(pa.large_binary()).to_pylist()]
    assert users == table["user"].to_pylist()
    lengths = [[len(item.as_py()) for item in part["item"]] for part in parts]
    assert sum(lengths, []) == [len(label)] * rows + [1] and max(map(sum, lengths)) < 80 << 20
    assert read(path) == ([("b", "i")], rows)
