from __future__ import annotations

import gzip
import io
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk.pipelines.sources import Columns
from private_topk.transforms.errors import Refusal
from tests.pipelines.support import Read, read, write

TIMED = Columns(time="time")
NAIVE = datetime(2026, 1, 1, 12)
NOON = NAIVE.replace(tzinfo=timezone.utc)
MICROS = 1_767_268_800_000_000


def parquet(table: pa.Table | dict, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), sink, **options)
    return sink.getvalue()


def test_every_row_group_once_for_every_size_of_the_pieces(tmp_path: Path) -> None:
    users = [None if n % 9 == 0 else f"user {n}" for n in range(5000)]
    path = write(tmp_path / "rows.parquet", parquet({"user": users, "item": range(5000)}, row_group_size=333))
    expected = Read([(user, str(n)) for n, user in enumerate(users) if user], users.count(None))
    for size in (1, 3000, 20_000, 1 << 30):
        assert read(path, size=size) == expected
    write(tmp_path / "more.parquet.gz", gzip.compress(path.read_bytes()))
    assert read(tmp_path / "more.parquet.gz") == expected


def test_dates_and_times_beyond_reason(tmp_path: Path) -> None:
    dates = pa.array([NOON.date()])
    path = write(tmp_path / "rows.parquet", parquet({"user": ["u"], "item": ["i"], "time": dates}))
    assert read(path, TIMED).rows == [("u", "i", MICROS - 12 * 3600 * 10**6)]
    for times in [pa.array([2**64 - 1], pa.uint64()), pa.array([2**53], pa.timestamp("ms")), pa.array([float("nan")])]:
        path = write(tmp_path / "rows.parquet", parquet({"user": ["u"], "item": ["i"], "time": times}))
        assert read(path, TIMED) == ([], 1)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": ["a"]}, "has no column 'item': its columns are user"),
        ({"user": [1.5], "item": ["a"]}, "column 'user' cannot be used: .* got double"),
        ({"user": [b"secret"], "item": ["a"]}, "got bytes"),
        ({"user": [["secret"]], "item": ["a"]}, "got list"),
    ],
)
def test_columns_are_checked_beforehand(tmp_path: Path, columns: dict, message: str) -> None:
    with pytest.raises(Refusal, match=rf"rows\.parquet.*{message}") as caught:
        read(write(tmp_path / "rows.parquet", parquet(columns)))
    assert "secret" not in str(caught.value)


def test_doubled_columns(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["user", "item", "item"])
    with pytest.raises(Refusal, match="several columns 'item'"):
        read(write(tmp_path / "rows.parquet", parquet(table)))


def test_foreign_truncated_and_broken_files(tmp_path: Path) -> None:
    good = parquet({"user": [f"user {n}" for n in range(2000)], "item": range(2000)}, row_group_size=300)
    misnamed = good.replace(b"user\x15", b"\xffser\x15").replace(b"\x04user", b"\x04\xffser")
    assert misnamed != good
    for bad in (b"", b"user,item\na,b\n", good[:-7], good[: len(good) // 2], misnamed):
        with pytest.raises(Refusal, match="not a Parquet file, or it is truncated"):
            read(write(tmp_path / "rows.parquet", bad))


def test_a_row_group_that_cannot_be_decoded(tmp_path: Path) -> None:
    good = parquet({"user": [f"user {n}" for n in range(2000)], "item": range(2000)}, compression="zstd")
    place = pq.ParquetFile(io.BytesIO(good)).metadata.row_group(0).column(0).dictionary_page_offset
    bad = bytearray(good)
    bad[place + 30 : place + 1000] = bytes(970)
    with pytest.raises(Refusal, match=r"rows\.parquet is damaged: its row groups 0 to 1 cannot be decoded"):
        read(write(tmp_path / "rows.parquet", bytes(bad)))


def test_no_rows(tmp_path: Path) -> None:
    nothing = pa.table({"user": pa.array([], pa.string()), "item": pa.array([], pa.int64())})
    assert read(write(tmp_path / "rows.parquet", parquet(nothing))) == ([], 0)
