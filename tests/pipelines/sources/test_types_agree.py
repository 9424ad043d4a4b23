"""The table of types: one outcome for a column, whoever wrote it and whoever reads it; and documents that say the same.

A column of one meaning is written as Parquet (by Arrow and by polars), as Avro (by fastavro), held in frames of Arrow,
polars and pandas, and declared in a pipeline. Where it is read, it is read to the same texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import apache_beam as beam
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk import Joint, PrivateTopK, Release, ReleaseKey, rank
from private_topk.pipelines.sources import Columns
from private_topk.pipelines.sources.columns import block_of
from private_topk.pipelines.sources.frame import Frame, table_of
from private_topk.pipelines.sources.payloads import AvroPayload, JsonPayload
from private_topk.transforms.elements import ElementSchema
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.metric import Amounts
from private_topk.transforms.types import KINDS, kind_of, kind_of_class
from private_topk.transforms.windows import Period
from tests.pipelines.support import avro_message, avro_schema, command, options, read, to_avro, write
from tests.refusals import refused
from tests.transforms.pipelines import create, outcome

DOCS = Path(__file__).resolve().parents[3] / "docs" / "formats.md"
ONE, TWO = UUID("6b1f7e7c-0d6c-4c5e-9a56-0f0f9f1f2f30"), UUID(int=5)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Column(NamedTuple):
    """A column of users.

    Args:
        values: as Python has them.
        arrow, avro: its types; None where that system has none.
        read: the texts of those that are read; None where the type is refused.
        stored: what Avro stores.
        loose: whether Python's own class says less than the type, so that only values are refused.
    """

    values: list[Any]
    arrow: pa.DataType | None
    avro: Any
    read: list[str] | None
    stored: Callable[[Any], Any] = lambda value: value
    loose: bool = False


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


FIXED = {"type": "fixed", "name": "F", "size": 16}
COLUMNS = {
    "texts": Column(["ana", "é 🎵", None], pa.string(), "string", ["ana", "é 🎵"]),
    "wide texts": Column(["ana", "007"], pa.large_string(), "string", ["ana", "007"]),
    "views of texts": Column(["ana", "bo"], pa.string_view(), "string", ["ana", "bo"]),
    "words": Column(["ana", "bo", "ana"], pa.dictionary(pa.int8(), pa.string()), "string", ["ana", "bo", "ana"]),
    "bytes": Column([b"ana", b"\xff", None, "é".encode()], pa.binary(), "bytes", ["ana", "é"]),
    "views of bytes": Column([b"ana", b"\xff"], pa.binary_view(), "bytes", ["ana"]),
    "uuids": Column([ONE, None, TWO], pa.uuid(), FIXED | {"logicalType": "uuid"}, [str(ONE), str(TWO)]),
    "whole numbers": Column([5, -7, None], pa.int32(), "int", ["5", "-7"]),
    "long numbers": Column([2**63 - 1, -(2**63)], pa.int64(), "long", [str(2**63 - 1), str(-(2**63))]),
    "longer numbers": Column([2**64 - 1, 0], pa.uint64(), decimal(20, 0), [str(2**64 - 1), "0"], Decimal),
    "whole decimals": Column([Decimal(5), None, Decimal(-7)], pa.decimal128(4, 0), decimal(4, 0), ["5", "-7"]),
    "ids of 38 digits": Column([Decimal(10**37), Decimal(0)], pa.decimal128(38, 0), decimal(38, 0), [f"{10**37}", "0"]),
    "decimals": Column([Decimal("1.50"), Decimal("5.00")], pa.decimal128(4, 2), decimal(4, 2), None, loose=True),
    "floats": Column([5.0, 1.5], pa.float64(), "double", None),
    "narrow floats": Column([np.float32(5)], pa.float32(), "float", None, float),
    "truths": Column([True], pa.bool_(), "boolean", None),
    "days": Column([date(2026, 1, 5)], pa.date32(), {"type": "int", "logicalType": "date"}, None),
    "moments": Column([NOON], pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}, None),
    "lists": Column([["ana"]], pa.list_(pa.string()), {"type": "array", "items": "string"}, None),
}


def table(column: Column) -> pa.Table:
    values = [value.bytes if isinstance(value, UUID) else value for value in column.values]
    kind = column.arrow
    if kind is not None and pa.types.is_dictionary(kind):
        return pa.table({"user": pa.array(values).dictionary_encode(), "item": ["i"] * len(values)})
    return pa.table({"user": pa.array(values, kind), "item": ["i"] * len(values)})


def parquet(column: Column, folder: Path) -> list[str]:
    pq.write_table(table(column), folder / "rows.parquet")
    return users(folder / "rows.parquet")


def deltas(column: Column, folder: Path) -> list[str]:
    """Of version 2, without the schema that Arrow adds to its own files, and so as other writers leave them."""
    kinds = ("string", "large_string", "binary", "large_binary")
    encodings = {"user": "DELTA_BYTE_ARRAY"} if str(column.arrow) in kinds else None
    pq.write_table(
        table(column),
        folder / "rows.parquet",
        use_dictionary=False,
        column_encoding=encodings,
        store_schema=False,
        data_page_version="2.0",
    )
    return users(folder / "rows.parquet")


def polars_parquet(column: Column, folder: Path) -> list[str]:
    if column.arrow == pa.uuid():
        pytest.skip("polars has no UUIDs")
    frame = pl.from_arrow(table(column))
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(folder / "rows.parquet")
    return users(folder / "rows.parquet")


def avro(column: Column, folder: Path) -> list[str]:
    fields = avro_schema(user=["null", column.avro], item="string")
    values = [value.bytes if isinstance(value, UUID) else value for value in column.values]
    rows = [{"user": None if value is None else column.stored(value), "item": "i"} for value in values]
    return users(write(folder / "rows.avro", to_avro(rows, fields)))


def users(path: Path) -> list[str]:
    return [user for user, _ in read(path).rows]


def framed(rows: Any) -> list[str]:  # noqa: ANN401
    frame = Frame(table_of(rows, Columns()), Columns())
    blocks = [block_of(part, Columns())[0] for part in frame.rows(None)]
    return [user for block in blocks for user in block["user"].to_pylist()]


def arrow_frame(column: Column, folder: Path) -> list[str]:
    return framed(table(column))


def polars_frame(column: Column, folder: Path) -> list[str]:
    if column.arrow == pa.uuid():
        pytest.skip("polars has no UUIDs")
    return framed(pl.from_arrow(table(column)))


def objects(column: Column, folder: Path) -> list[str]:
    """Each value by itself, but a column whose objects can all be no labels is refused."""
    found = framed(pd.DataFrame({"user": pd.Series(column.values, dtype=object), "item": "i"}))
    if column.read is None and not found:
        raise InvalidArgument("", "dropped, each by itself")
    return found


def elements(column: Column, folder: Path) -> list[str]:
    kinds = {type(value) for value in column.values if value is not None}
    ElementSchema().check(beam.typehints.Tuple[kinds.pop(), str])
    found = [ElementSchema().values((value, "i")) for value in column.values]
    if column.loose and set(found) == {"unreadable"}:
        raise InvalidArgument("", "dropped, each by itself")
    return [row[0] for row in found if isinstance(row, tuple)]


READERS = [parquet, deltas, polars_parquet, avro, arrow_frame, polars_frame, objects, elements]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_has_one_outcome(name: str, reader: Callable[[Column, Path], list[str]], tmp_path: Path) -> None:
    column = COLUMNS[name]
    if column.read is None:
        with pytest.raises(InvalidArgument):
            reader(column, tmp_path)
    else:
        assert reader(column, tmp_path) == column.read


def test_the_same_rows_yield_the_same_ranking_by_every_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users are UUIDs, items are whole decimals: in files, in frames and declared in a pipeline."""
    monkeypatch.chdir(tmp_path)
    rows = [(UUID(int=n), Decimal([10**20, 7, 8][n % 3 if n % 2 else 0])) for n in range(90)]
    ids = [str(10**20), "7", "8", "9"]
    held = pa.table(
        {
            "user": pa.array([user.bytes for user, _ in rows], pa.uuid()),
            "item": pa.array([item for _, item in rows], pa.decimal128(38, 0)),
        }
    )
    pq.write_table(held, "rows.parquet")
    schema = avro_schema(user=FIXED | {"logicalType": "uuid"}, item=decimal(38, 0))
    write(Path("rows.avro"), to_avro([{"user": user.bytes, "item": item} for user, item in rows], schema))
    write(Path("items.txt"), "\n".join(ids)), write(Path("key"), "a key of enough bytes")
    asked = {
        "domain": "items.txt",
        "mechanism": "joint",
        "k": 3,
        "epsilon": 1,
        "release_key": "file:key",
        "release_id": "one",
    }
    found = {}
    for name in ("rows.parquet", "rows.avro"):
        done = command("run", *options(**asked, input=name, output=f"{name}.jsonl", quiet=True))
        assert done.status == 0, done.err
        found[name] = [row["item"] for row in pl.read_ndjson(f"{name}.jsonl").iter_rows(named=True)]
    release = Release(ReleaseKey.parse("file:key"), "one")
    frames = {"arrow": held, "pandas": pd.DataFrame(rows, columns=["user", "item"], dtype=object)}
    for name, frame in frames.items():
        found[name] = list(rank(frame, 3, Joint(1), ids, release=release).items)
    declared = beam.Map(lambda row: row).with_output_types(beam.typehints.Tuple[UUID, Decimal])
    ranked = PrivateTopK(3, Joint(1), ids, release=release)
    answers = outcome(lambda p: p | create(rows) | declared | ranked | beam.Map(lambda each: each.items))
    found["pipeline"] = list(answers[0][1])
    assert all(list(map(str, items)) == list(map(str, found["arrow"])) for items in found.values()), found


@pytest.mark.parametrize("rows", [[("tea", 5)], [{"user": "tea", "item": np.int64(5)}], [("tea", Decimal(5))]])
def test_counts_in_place_of_items_are_refused_by_their_type(rows: list[Any]) -> None:
    """(item, count) is the shape of a pair of user and item: a list of names says that it is none."""
    kinds = beam.typehints.Tuple[str, type(rows[0][1])] if isinstance(rows[0], tuple) else beam.Row
    pairs = beam.Pipeline() | create(rows if isinstance(rows[0], tuple) else [beam.Row(**rows[0])])
    pairs = pairs | beam.Map(lambda row: row).with_output_types(kinds) if isinstance(rows[0], tuple) else pairs
    with refused("domain", "has no whole number, and by their type the rows have nothing else"):
        pairs | PrivateTopK(1, Joint(1), ["tea", "milk"])


def test_the_order_of_tuples_is_told_where_they_may_hold_an_amount_before_the_group() -> None:
    rows = beam.Pipeline() | create([("ann", "tea", 5, "FR")])
    asked: dict[str, Any] = {"groups": ["FR"], "amounts": Amounts(max_value=9)}
    with refused("groups", "has no whole number", "tuples are (user, item, group, value)"):
        rows | PrivateTopK(1, Joint(1), ["tea"], **asked)
    named = beam.Pipeline() | create([beam.Row(user="ann", item="tea", price=1, country=5)])
    with refused("groups", "has no whole number") as caught:
        named | PrivateTopK(1, Joint(1), ["tea"], **asked, group="country", value="price")
    assert "tuples" not in str(caught.value)


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.float64(), pa.decimal128(38, 0), pa.decimal128(30, 2), pa.string()], ids=str
)
def test_a_time_is_one_moment_in_every_unit_and_type(unit: str, kind: pa.DataType, tmp_path: Path) -> None:
    """Down to the second, which floats hold in nanoseconds too; and before 1970."""
    seconds = [1_767_600_000, -86_401]
    ticks = [second * UNITS[unit] for second in seconds]
    times = (
        pa.array([Decimal(tick) for tick in ticks], kind)
        if pa.types.is_decimal(kind)
        else pa.array(list(map(str, ticks)), kind)
        if kind == pa.string()
        else pa.array(ticks, pa.int64()).cast(kind, safe=False)
    )
    rows = pa.table({"user": ["a", "b"], "item": ["i", "i"], "time": times})
    pq.write_table(rows, tmp_path / "rows.parquet")
    found = [time for _, _, time in read(tmp_path / "rows.parquet", Columns(time="time", time_unit=unit)).rows]
    assert found == [second * 10**6 for second in seconds]


MIDNIGHTS = [1_767_571_200, -86_400]


@pytest.mark.parametrize(
    "kind",
    [*(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "Asia/Tokyo")), pa.date32(), pa.date64()],
    ids=str,
)
def test_a_timestamp_is_one_moment_in_every_unit_and_a_date_its_midnight(kind: pa.DataType, tmp_path: Path) -> None:
    """In a file and in a frame. Without a zone in UTC; and before 1970."""
    micros, zone = [second * 10**6 for second in MIDNIGHTS], getattr(kind, "tz", None) and "UTC"
    times = pa.array(micros, pa.timestamp("us", zone)).cast(kind)
    rows, columns = pa.table({"user": ["a", "b"], "item": ["i", "i"], "time": times}), Columns(time="time")
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert [time for _, _, time in read(tmp_path / "rows.parquet", columns).rows] == micros
    parts = Frame(table_of(rows, columns), columns).rows(Period.of("2026-01-05", "2026-01-06", "1d"))
    assert [time for part in parts for time in block_of(part, columns)[0]["time"].to_pylist()] == micros


def test_nanoseconds_are_rounded_down_to_microseconds(tmp_path: Path) -> None:
    ticks = [1_767_600_000_123_456_789, -1, -1000, 2**63 - 1]
    micros = [tick // 1000 for tick in ticks]
    write(tmp_path / "rows.csv", "user,item,time\n" + "".join(f"u,i,{tick}\n" for tick in ticks))
    pq.write_table(pa.table({"user": ["u"] * 4, "item": ["i"] * 4, "time": ticks}), tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        rows = read(tmp_path / name, Columns(time="time", time_unit="ns")).rows
        assert [time for _, _, time in rows] == micros


EXPORTED = {
    "2026-01-05 10:30:00 UTC": 0,
    "2026-01-05 10:30:00.25 UTC": 250_000,
    "2026-01-05 02:30:00 -0800": 0,
    "2026-01-05 11:30:00.123456789 +01:00": 123_456,
    "2026-01-05 10:30:00.000 Z": 0,
    "2026-01-05 10:30:00+00": 0,
}
"""Times as BigQuery, Snowflake and PostgreSQL write them, and the microseconds after half past ten."""


@pytest.mark.parametrize(
    "door", ["csv", "jsonl", "avro", "parquet", "frame", "objects", "json message", "avro message"]
)
def test_times_as_warehouses_export_them_are_read_at_every_door(door: str, tmp_path: Path) -> None:
    rows = [{"user": "u", "item": "i", "time": text} for text in EXPORTED]
    columns, schema = Columns(time="time"), avro_schema(user="string", item="string", time="string")
    if door in ("csv", "jsonl", "avro", "parquet"):
        content = to_avro(rows, schema) if door == "avro" else rows
        found = [time for _, _, time in read(write(tmp_path / f"rows.{door}", content), columns).rows]
    else:
        if door in ("frame", "objects"):
            frame = pl.DataFrame(rows) if door == "frame" else pd.DataFrame(rows).astype(object)
            parts = list(Frame(table_of(frame, columns), columns).rows(Period.of("2026-01-01", "2026-02-01", "1d")))
        elif door == "json message":
            parts = [JsonPayload().rows([json.dumps(row).encode() for row in rows], columns)]
        else:
            parts = [AvroPayload(json.dumps(schema)).rows([avro_message(schema, row) for row in rows], columns)]
        found = [time for part in parts for time in block_of(part, columns)[0]["time"].to_pylist()]
    half_past_ten = int(datetime(2026, 1, 5, 10, 30, tzinfo=UTC).timestamp()) * 10**6
    assert found == [half_past_ten + more for more in EXPORTED.values()]


@pytest.mark.parametrize(
    "times",
    [pa.array([5]), pa.array([5.0]), pa.array([Decimal(5)]), pa.array([Decimal("5.0")])],
    ids=lambda times: str(times.type),
)
def test_numbers_need_a_unit_where_a_schema_says_that_they_are_numbers(times: pa.Array, tmp_path: Path) -> None:
    rows = pa.table({"user": ["u"], "item": ["i"], "time": times})
    pq.write_table(rows, tmp_path / "rows.parquet")
    write(tmp_path / "items.txt", "i\nj\n")
    asked = {
        "domain": tmp_path / "items.txt",
        "mechanism": "joint",
        "k": 1,
        "epsilon": 1,
        "from_": "1970-01-01",
        "to": "1970-01-02",
        "output": tmp_path / "out.csv",
        "overwrite": True,
    }
    done = command("run", *options(**asked, input=tmp_path / "rows.parquet"))
    assert done.status == 2 and "--time-unit must be given: column 'time' has numbers, of type " in done.err
    assert command("run", *options(**asked, input=tmp_path / "rows.parquet", time_unit="s", dry_run=True)).status == 0
    write(tmp_path / "rows.csv", "user,item,time\nu,i,5\n")
    assert command("run", *options(**asked, input=tmp_path / "rows.csv", dry_run=True)).status == 0
    with refused("time_unit", "must be given: column 'time' has numbers, of type"):
        table_of(rows, Columns(time="time"))


def test_the_documents_show_the_table() -> None:
    """Every row of it, and no other."""
    _, meanings, names = re.split(r"^\| type \|.*\n[|-]+\n", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert meanings.partition("\n\n")[0].splitlines() == [
        f"| {kind.name} | {' | '.join(each or 'refused' for each in (kind.label, kind.time, kind.amount))} |"
        for kind in KINDS
    ]
    assert names.partition("\n\n")[0].splitlines() == [
        f"| {kind.name} | {kind.arrow} | {kind.avro} | {kind.python} |" for kind in KINDS
    ]


def test_a_class_means_what_its_column_means() -> None:
    """What pandas, polars and Arrow make of a class of Python, the table says of the class."""
    classes = {str: "a", bytes: b"a", int: 5, float: 1.5, datetime: NOON, date: NOON.date(), bool: True}
    for cls, value in classes.items():
        assert kind_of_class(cls) == kind_of(pa.array([value]).type), cls
    assert kind_of_class(UUID) == kind_of(pa.uuid()) and kind_of_class(np.timedelta64) is None
    assert kind_of(pa.duration("us")) is kind_of(pa.binary(16)) is kind_of(pa.bool_()) is None
