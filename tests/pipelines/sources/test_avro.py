"""Avro: every row once however a file is cut, every type a schema may give, and what is refused."""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import pytest

from private_topk.pipelines.sources import Columns
from private_topk.transforms.errors import Refusal
from tests.pipelines.support import avro_schema, read, to_avro, write

TIMED = Columns(time="time")
ROWS = [{"user": f"u{n}" * (n % 5), "item": None if n % 11 == 0 else f"item {n % 50}"} for n in range(3000)]
EXPECTED = [(row["user"], row["item"]) for row in ROWS if row["item"] is not None]
PLAIN = to_avro(ROWS[:300])


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_every_row_once_for_every_size_of_the_pieces(tmp_path: Path, codec: str) -> None:
    path = write(tmp_path / "rows.avro", to_avro(ROWS, codec=codec, sync_interval=500))
    size = path.stat().st_size
    for piece in [16, 17, 7, 100, 999, size // 3, size, size - 1, size + 1]:
        found = read(path, size=piece)
        assert found.rows == EXPECTED and found.left_out == len(ROWS) - len(EXPECTED)


def test_one_block_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    rows = [{"user": f"{n:09d}" * 5, "item": "x" * 40} for n in range(60_000)]
    path = write(tmp_path / "rows.avro", to_avro(rows, codec="null", sync_interval=1 << 30))
    assert path.stat().st_size > 5 << 20
    assert read(path, size=1 << 20).rows == [(row["user"], row["item"]) for row in rows]


def test_a_marker_inside_the_data_begins_no_block(tmp_path: Path) -> None:
    marker = b"0123456789abcdef"
    rows = [{"user": f"{n}", "item": marker.decode() + "\x02\x04"} for n in range(500)]
    path = write(tmp_path / "rows.avro", to_avro(rows, codec="null", sync_interval=100, sync_marker=marker))
    for piece in (20, 64, 333, 5000):
        assert read(path, size=piece).rows == [(row["user"], row["item"]) for row in rows]


def test_gzip_around_avro(tmp_path: Path) -> None:
    content = to_avro(ROWS, codec="null", sync_interval=500)
    path = write(tmp_path / "rows.avro.gz", gzip.compress(content))
    assert read(path, size=100).rows == EXPECTED
    write(path, gzip.compress(content)[:-2000])
    with pytest.raises(Refusal, match="not a whole gzip file"):
        read(path)


def test_a_file_with_a_header_only(tmp_path: Path) -> None:
    assert read(write(tmp_path / "rows.avro", to_avro([])), size=50) == ([], 0)


def logical(kind: str, base: str = "long") -> dict[str, str]:
    return {"type": base, "logicalType": kind}


def test_times_beyond_reason_are_left_out_and_wrap_nowhere(tmp_path: Path) -> None:
    rows = [{"user": "u", "item": "i", "time": time} for time in (2**62, -(2**63), 2**63 - 1, 5)]
    path = write(tmp_path / "rows.avro", to_avro(rows, avro_schema(user="string", item="string", time="long")))
    assert read(path, TIMED) == ([("u", "i", 5_000_000)], 3)


@pytest.mark.parametrize(
    ("schema", "columns", "message"),
    [
        (avro_schema(user="string"), Columns(), "has no column 'item': its columns are user"),
        (avro_schema(user="bytes", item="string"), Columns(), "column 'user' must be one of .*, got bytes"),
        (avro_schema(user="double", item="string"), Columns(), "got double"),
        (avro_schema(user=logical("date", "int"), item="string"), Columns(), "got date"),
        (avro_schema(user="string", item="string", time="boolean"), TIMED, "got boolean"),
        (avro_schema(user="string", item="string", time=logical("time-millis", "int")), TIMED, "got time-millis"),
    ],
)
def test_columns_are_checked_beforehand(tmp_path: Path, schema: dict, columns: Columns, message: str) -> None:
    with pytest.raises(Refusal, match=rf"rows\.avro.*{message}"):
        read(write(tmp_path / "rows.avro", to_avro([], schema)), columns)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an Avro file, or its header is truncated"),
        (b"user,item\na,b\n" * 100, "not an Avro file"),
        (PLAIN[:-5], "truncated: its last block is not complete"),
        (PLAIN[:300], "truncated"),
        (PLAIN[:100], "header is truncated"),
        (PLAIN.replace(b"\x08null", b"\x08wxyz", 1), "compressed with 'wxyz', which cannot be read here"),
        (to_avro(["a"], "string"), "not an Avro file of records"),
        (to_avro([1, "a"], ["int", "string"]), "not an Avro file of records"),
        (PLAIN.replace(b'"record"', b'"recorx"', 1), "not an Avro file of records"),
    ],
    ids=range(9),  # a file holds random bytes, and a test needs a name that stays
)
def test_foreign_and_truncated_files(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(Refusal, match=rf"rows\.avro .*{message}"):
        read(write(tmp_path / "rows.avro", content))


@pytest.mark.parametrize("codec", ["null", "bzip2"])
def test_broken_bytes_never_raise_anything_else(tmp_path: Path, codec: str) -> None:
    """Bytes changed at random: found, or not to be told from another file; never a crash, never a hang."""
    draw = random.Random(1)
    good = to_avro(ROWS[:1000], codec=codec, sync_interval=2000)
    found, nulls = 0, sum(row["item"] is None for row in ROWS[:1000])
    for _ in range(60):
        bad = bytearray(good)
        bad[draw.randrange(len(bad))] ^= draw.randrange(1, 256)
        try:
            # A text that is no UTF-8 any more is one row's matter.
            found += read(write(tmp_path / "rows.avro", bytes(bad)), size=3000).left_out > nulls
        except Refusal as error:
            found += 1
            assert "item 4" not in str(error)
    assert found > 20 and (codec == "null" or found > 50)


def test_a_header_with_a_broken_length_asks_for_no_memory(tmp_path: Path) -> None:
    content = to_avro(ROWS)
    at = content.index(content[-16:]) + 16  # the first block's row count and size
    huge = io.BytesIO()
    huge.write(content[:at] + b"\x02" + b"\xfe" * 8 + b"\x7e" + content[at:])
    with pytest.raises(Refusal, match="has a block of more than 256 MiB, or is damaged"):
        read(write(tmp_path / "rows.avro", huge.getvalue()))
