"""Parquet: whole files, and random columns of every type that is accepted, in every cut, as a table has them."""

from __future__ import annotations

import io
import random
import struct
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from private_topk.pipelines.sources import Columns
from private_topk.pipelines.sources import parquet as source
from private_topk.pipelines.sources.columns import Rows as SourceRows
from private_topk.pipelines.sources.columns import as_bytes, block_of
from private_topk.transforms.errors import InvalidArgument
from tests.examples import examples
from tests.pipelines.sources.contract import FormatContract
from tests.pipelines.support import Rows, read, reasons, write
from tests.refusals import refused


def parquet(table: pa.Table | dict, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), sink, **options)
    return sink.getvalue()


class TestFormat(FormatContract):
    ending = ".parquet"

    def content(self, rows: Rows) -> bytes:
        return parquet(
            pa.Table.from_pylist(rows, pa.schema({"user": pa.string(), "item": pa.string()})), row_group_size=333
        )


def test_foreign_truncated_and_broken_files(tmp_path: Path) -> None:
    good = parquet({"user": [f"user {n}" for n in range(2000)], "item": range(2000)}, row_group_size=300)
    misnamed = good.replace(b"user\x15", b"\xffser\x15").replace(b"\x04user", b"\x04\xffser")
    assert misnamed != good
    for bad in (b"", b"user,item\na,b\n", good[:-7], good[: len(good) // 2], misnamed):
        with refused("", "not a Parquet file, or it is truncated"):
            read(write(tmp_path / "rows.parquet", bad))


@pytest.mark.parametrize(("size", "which"), [(2000, "its row group 0"), (500, "one of its row groups 0 to 3")])
def test_a_row_group_that_cannot_be_decoded(tmp_path: Path, size: int, which: str) -> None:
    columns = {"user": [f"user {n}" for n in range(2000)], "item": range(2000)}
    good = parquet(columns, compression="zstd", row_group_size=size)
    place = pq.ParquetFile(io.BytesIO(good)).metadata.row_group(0).column(0).dictionary_page_offset
    bad = bytearray(good)
    bad[place + 30 : place + 1000] = bytes(970)
    with refused("", f"rows.parquet is damaged: {which}, counted from 0, cannot be decoded. Write or copy"):
        read(write(tmp_path / "rows.parquet", bytes(bad)))


def test_a_long_label_in_every_row_of_a_dictionary(tmp_path: Path) -> None:
    """One user with a label of a megabyte in hundreds of rows, which takes a megabyte in an honest writer's file."""
    label, rows = "x" * (1 << 20), 300
    table = pa.table(
        {
            "user": [*(f"u{n}" for n in range(rows)), "b"],
            "item": pa.DictionaryArray.from_arrays(pa.array([0] * rows + [1], pa.int32()), pa.array([label, "i"])),
        }
    )
    path = write(tmp_path / "rows.parquet", parquet(table, dictionary_pagesize_limit=8 << 20))
    parts = [part.columns for part in source.read(str(path), 0, 1, Columns())]
    users = [user.decode() for part in parts for user in part["user"].cast(pa.large_binary()).to_pylist()]
    assert users == table["user"].to_pylist()
    assert max(part["item"].nbytes for part in parts) < 1 << 20, "its words are looked at once, and it is no label"
    assert read(path) == ([("b", "i")], rows)


DELTAS = ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"]


@pytest.mark.parametrize("encoding", DELTAS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_stored_as_deltas_are_read(tmp_path: Path, encoding: str, kind: pa.DataType) -> None:
    """As Spark, DuckDB and others store them in version 2 of the format; in one column or both, in any row group."""
    users = [f"user {n % 700}" if n % 50 else None for n in range(3000)]
    items = [f"item {n % 9}" for n in range(3000)]
    table = pa.table({"user": pa.array(users, kind), "item": pa.array(items, kind)})
    expected = [pair for pair in zip(users, items, strict=True) if pair[0] is not None]
    for encodings in ({"user": encoding}, {"user": encoding, "item": DELTAS[0]}):
        dictionaries = [name for name in ("user", "item") if name not in encodings]
        options = {"use_dictionary": dictionaries, "column_encoding": encodings, "row_group_size": 700}
        path = write(tmp_path / "rows.parquet", parquet(table, data_page_version="2.0", **options))
        assert read(path) == (expected, 60) and read(path, size=1) == (expected, 60)


def test_a_long_label_in_every_row_of_deltas(tmp_path: Path) -> None:
    """It is stored once, and after it a few bytes a row; no more than 64 MiB and 256 rows of it are written out."""
    label, rows = "x" * (1 << 19), 600
    table = pa.table({"user": [f"u{n}" for n in range(rows)] + ["b"], "item": [label] * rows + ["i"]})
    content = parquet(table, use_dictionary=False, column_encoding=dict.fromkeys(("user", "item"), DELTAS[0]))
    path = write(tmp_path / "rows.parquet", content)
    parts = [part.columns["item"] for part in source.read(str(path), 0, 1, Columns())]
    assert sum(map(len, parts)) == rows + 1 and max(part.nbytes for part in parts) < 200 << 20
    assert read(path) == ([("b", "i")], rows)


def test_a_text_of_gigabytes_is_refused_by_the_footer(tmp_path: Path) -> None:
    """A few kilobytes of pages; in a dictionary, or in a row like any other."""
    long = "x" * (300 << 20)
    for dictionary in (True, False):
        content = parquet({"user": ["a", "b"], "item": ["i", long]}, compression="zstd", use_dictionary=dictionary)
        assert len(content) < 1 << 20
        path = write(tmp_path / "rows.parquet", content)
        with pytest.raises(InvalidArgument) as refusal:
            read(path)
        assert "rows.parquet: column 'item' unpacks to 300 MiB" in refusal.value.rule
        assert "smaller row groups" in refusal.value.remedy
        assert read(path, Columns(item="user", user="user")).rows  # what is not read does not matter


def test_long_texts_behind_a_short_one_are_decoded_few_at_once(tmp_path: Path) -> None:
    """Half a megabyte each, of noise and blanks, so that it unpacks to a hundred times what is stored, and no more."""
    texts = ["i", *(random.Random(n).randbytes(5000).hex() + " " * (500_000) for n in range(1000))]
    table = {"user": [f"u{n}" for n in range(len(texts))], "item": texts}
    path = write(tmp_path / "rows.parquet", parquet(table, compression="zstd", use_dictionary=False))
    parts = [part.columns["item"].nbytes for part in source.read(str(path), 0, 1, Columns())]
    assert sum(parts) > 400 << 20 and max(parts) < 200 << 20
    assert read(path) == ([("u0", "i")], 1000)


SLOW = examples(100)
TIMED = Columns(time="time", time_unit="s")

texts = st.text(max_size=4).map(str.encode) | st.sampled_from([b"\xff", b"a\x80", b"5", b"2026-01-01", b"1e3", b""])
longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**6), 10**6)
LABELS: list[tuple[pa.DataType, st.SearchStrategy]] = [
    (pa.string(), texts),
    (pa.large_string(), texts),
    (pa.int64(), longs),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.null(), st.none()),
]
TIMES = [
    (pa.string(), texts),
    (pa.int64(), longs),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats()),
    (pa.date32(), st.dates()),
    *((pa.timestamp(unit, zone), longs) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")),
]


def stored(kind: pa.DataType, values: list, encoded: bool) -> pa.Array:
    """Texts may be no UTF-8, which Arrow writes as they are where nobody looks."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        base = pa.binary() if pa.types.is_string(kind) else pa.large_binary()
        array = pa.array(values, base).view(kind)
        return array.dictionary_encode() if encoded else array
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    chosen = [draw(st.sampled_from(kinds)) for kinds in (LABELS, LABELS, TIMES)]
    count = draw(st.integers(0, 12))
    columns = [draw(st.lists(values | st.none(), min_size=count, max_size=count)) for _, values in chosen]
    kinds = tuple(kind for kind, _ in chosen)
    arrays = [stored(kind, values, draw(st.booleans())) for kind, values in zip(kinds, columns, strict=True)]
    return pa.table(dict(zip(("user", "item", "time"), arrays, strict=True)))


@SLOW
@given(tables(), st.integers(1, 5), st.sampled_from([1, 1 << 30]), st.sampled_from(["none", "snappy", "zstd", "gzip"]))
def test_rows_are_those_of_the_table(tmp_path_factory, table: pa.Table, group: int, size: int, codec: str) -> None:  # noqa: ANN001
    """Whatever row groups, encodings and codecs they are written in, and whatever pieces they are read in."""
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group, compression=codec)
    path = write(tmp_path_factory.mktemp("rows") / "rows.parquet", sink.getvalue())
    held = {name: as_bytes(table[name].combine_chunks()) for name in table.column_names}
    block, dropped = block_of(SourceRows(held), TIMED)
    rows = list(zip(*(column.to_pylist() for column in block.columns), strict=True))
    assert read(path, TIMED, size) == (rows, len(table) - len(rows))
    assert reasons(path, TIMED) == dropped


def test_old_timestamps_of_96_bits_do_not_wrap_around(tmp_path_factory) -> None:  # noqa: ANN001
    """Counted in nanoseconds, the year 2300 would be one of the windows of the 18th century."""
    moments = [datetime(2300, 1, 1), datetime(2026, 1, 1), datetime(1600, 1, 1)]
    sink = io.BytesIO()
    table = pa.table({"user": ["a", "b", "c"], "item": ["i"] * 3, "time": pa.array(moments, pa.timestamp("us"))})
    pq.write_table(table, sink, use_deprecated_int96_timestamps=True, compression="none")
    path = write(tmp_path_factory.mktemp("rows") / "rows.parquet", sink.getvalue())
    micros = [int(moment.replace(tzinfo=UTC).timestamp()) * 10**6 for moment in moments]
    assert [time for _, _, time in read(path, TIMED).rows] == micros
    # A day whose microseconds wrap around to the second row's, and one whose milliseconds are those of no window.
    day, content = 215_965_024, sink.getvalue()
    stored = struct.pack("<QI", 0, micros[1] // 86_400_000_000 + 2_440_588)
    assert content.count(stored) == 1
    path.write_bytes(content.replace(stored, struct.pack("<QI", 0, day)))
    assert [time for _, _, time in read(path, TIMED).rows] == [micros[0], micros[2]]
