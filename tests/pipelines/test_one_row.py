"""No user's row changes how the row of another is read: every kind of table and file, with one hostile row in it."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk import Amounts, Laplace, Period, rank
from private_topk.pipelines.sources.columns import Columns, block_of
from private_topk.pipelines.sources.frame import Frame, table_of
from private_topk.transforms.errors import InvalidArgument
from tests.nightly import nightly_but
from tests.pipelines.support import avro_schema, command, to_avro

SECRET = "secret"


class Hostile:
    """A value with a mind of its own."""

    def __eq__(self, other: object) -> bool:
        raise ValueError(SECRET)

    __hash__ = None

    def __str__(self) -> str:
        raise ValueError(SECRET)

    __repr__ = __str__


class Nowhere(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        raise ValueError(SECRET)

    dst = tzname = utcoffset


ANYTHING = {
    "a date": date(2026, 1, 6),
    "a time": datetime(2026, 1, 6, 23, 59),
    "a time of a zone": datetime(2026, 1, 6, 12, tzinfo=timezone(timedelta(hours=5, seconds=17))),
    "a time of no zone": datetime(2026, 1, 6, tzinfo=Nowhere()),
    "a first time": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))),
    "nanoseconds": pd.Timestamp("2026-01-06T00:00:00.000000001"),
    "a time of numpy": np.datetime64("2026-01-06"),
    "a year of numpy": np.datetime64("2026"),
    "no time": pd.NaT,
    "no time of numpy": np.datetime64("NaT"),
    "an hour": time(12),
    "a span": timedelta(1),
    "a span of numpy": np.timedelta64(1, "D"),
    "a truth": True,
    "a float": 1.5,
    "a whole float": 1.0,
    "a small float": np.float32(0.1),
    "not a number": float("nan"),
    "infinity": float("-inf"),
    "none": None,
    "missing": pd.NA,
    "an integer beyond 64 bits": 2**64,
    "an integer beyond all floats": 10**400,
    "an integer beyond all digits": 1 << 20_000,
    "an integer of numpy": np.uint64(2**64 - 1),
    "a fine decimal": Decimal("0.000000000000000001"),
    "a coarse decimal": Decimal("1e30"),
    "no decimal": Decimal("NaN"),
    "a decimal that signals": Decimal("sNaN"),
    "a decimal without end": Decimal("Infinity"),
    "a fraction": Fraction(1, 3),
    "a complex number": 1j,
    "a text": SECRET,
    "half a letter": "\ud800",
    "bytes": b"secret",
    "broken bytes": b"\xff\x00",
    "a dict": {SECRET: 1},
    "a list": [SECRET],
    "an array": np.array([1, 2]),
    "an identifier": uuid.UUID(int=7),
    "an object": Hostile(),
}
HONEST: dict[str, list[Any]] = {
    "user": [1, "2", 3, "four", 2**70],
    "item": ["tea", "tea", "cake", "tea", "cake"],
    "group": [1, "1", 2, 2, "1"],
    "value": [6.5, Decimal("6.5"), 7, "5.5", np.float64(0.5)],
    "time": [
        datetime(2026, 1, 6, 23, 59),
        datetime(2026, 1, 7, 3, tzinfo=timezone(timedelta(hours=4))),
        "2026-01-06T08:00:00",
        date(2026, 1, 7),
        int(datetime(2026, 1, 7, 22, tzinfo=UTC).timestamp()),
    ],
}


def objects(values: list[Any]) -> np.ndarray:
    found = np.empty(len(values), object)
    for place, value in enumerate(values):
        found[place] = value
    return found


def in_pandas(columns: dict[str, list[Any]]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(objects(values), dtype=object) for name, values in columns.items()})


def in_categories(columns: dict[str, list[Any]]) -> pd.DataFrame:
    """By hand, since pandas merges what compares equal, such as 1 and True; as objects what can be no category."""
    frame = in_pandas(columns)
    for name, values in columns.items():
        keys = [(type(value), value) if type(value) in (str, int) else (object, id(value)) for value in values]
        words = dict(zip(keys, values, strict=True))
        codes = [list(words).index(key) for key in keys]
        with suppress(Exception):
            frame[name] = pd.Categorical.from_codes(codes, pd.Index(objects(list(words.values())), dtype=object))
    return frame


def in_polars(columns: dict[str, list[Any]]) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(name, values, dtype=pl.Object) for name, values in columns.items()])


class OfPandas(pd.DataFrame):
    """As other libraries make them."""


HOLDERS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": in_pandas,
    "a kind of pandas": lambda columns: OfPandas(in_pandas(columns)),
    "pandas by category": in_categories,
    "polars": in_polars,
    "polars, lazily": lambda columns: in_polars(columns).lazy(),
}
MINE: dict[str, Any] = {"user": "mallory", "item": "mine", "group": "1", "value": 1, "time": "2026-01-06"}
READ = Columns(time="time", value="value", group="group")
PERIOD = Period.of("2026-01-06", "2026-01-08", "1d")


def among(role: str, hostile: list[Any], first: bool) -> dict[str, list[Any]]:
    """The honest rows, and for every hostile value a row that is whole but for it."""
    mine = {name: hostile if name == role else [MINE[name]] * len(hostile) for name in HONEST}
    return {name: mine[name] + honest if first else honest + mine[name] for name, honest in HONEST.items()}


def read(rows: object) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """The rows as they are counted, and what was left out."""
    [part] = Frame(table_of(rows, READ), READ).rows(PERIOD)
    block, dropped = block_of(part, READ)
    return [tuple(row.values()) for row in block.to_pylist()], dropped


READERS = [
    *product(("pandas", "pandas by category", "polars"), HONEST),
    ("a kind of pandas", "user"),
    ("polars, lazily", "time"),
]
BY_DAY = [*zip(("pandas", "pandas by category", "polars", "pandas", "polars, lazily"), HONEST, strict=True)]
"""Every role once, and every library."""


@pytest.mark.parametrize(("holder", "role"), nightly_but(READERS, *BY_DAY))
def test_any_value_in_a_row_leaves_other_rows_as_without_it(holder: str, role: str) -> None:
    """And the hostile row itself means the same in front of them, behind them, and in every library."""
    make = HOLDERS[holder]
    honest, nothing = read(make(HONEST))
    assert len(honest) == len(HONEST["user"]) and not nothing
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for what, value in ANYTHING.items():
            alone = read(in_pandas({name: [value if name == role else MINE[name]] for name in HONEST}))
            for first in (True, False):
                rows, dropped = read(make(among(role, [value], first)))
                whole = alone[0] + honest if first else honest + alone[0]
                assert (rows, dropped) == (whole, alone[1]), (what, first)


def counted(rows: object, **changes: Any) -> dict[Any, float]:  # noqa: ANN401
    """What each item of others came to, by window and group. The noise is next to nothing."""
    asked: dict[str, Any] = {
        "k": 3,
        "mechanism": Laplace(1e6),
        "publish_counts": 1e6,
        "domain": ["cake", "mine", "tea"],
    }
    found = rank(rows, **(asked | changes))
    return {
        (row["window_start"], row.get("group"), row["item"]): row["noisy_count"]
        for row in found.to_rows()
        if row["item"] != "mine" and row["noisy_count"]
    }


@pytest.mark.parametrize("holder", nightly_but(HOLDERS, "pandas by category", "polars, lazily"))
def test_hostile_rows_change_no_count_of_other_users(holder: str) -> None:
    """Whatever may stand in a row stands in one of each column at once."""
    asked = {"period": PERIOD, "amounts": Amounts(100, 1), "groups": ["1", "2"]}
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (6, 7)]
    expected = {(days[0], "1", "tea"): 12, (days[0], "2", "cake"): 7, (days[1], "2", "tea"): 6}
    parts = [among(role, list(ANYTHING.values()), first=True) for role in HONEST]
    many = len(ANYTHING)
    hostile = {name: [value for part in parts for value in part[name][:many]] + HONEST[name] for name in HONEST}
    assert counted(HOLDERS[holder](hostile), **asked) == expected


FINE = Decimal("0.00001")
USERS = 20
AMOUNTS = [Decimal("6.5")] * USERS
"""Each a tie, which goes to the even 6."""


def bought(amounts: list[Any]) -> dict[str, list[Any]]:
    """The first amounts are of tea, one more of what nobody else has."""
    more = len(amounts) - USERS
    return {"user": [f"u{n}" for n in range(len(amounts))], "item": ["tea"] * USERS + ["mine"] * more, "value": amounts}


def typed(kind: pa.DataType) -> Callable[[list[Any]], pa.Table]:
    return lambda amounts: pa.table(
        bought(amounts), schema=pa.schema({"user": pa.string(), "item": pa.string(), "value": kind})
    )


def in_duckdb(amounts: list[Any]) -> Any:  # noqa: ANN401
    duckdb = pytest.importorskip("duckdb")
    scale = 5 if FINE in amounts else 1
    held = typed(pa.decimal128(12, 5))(amounts)  # noqa: F841 - the query names it
    return duckdb.sql(f"select user, item, value::decimal(12, {scale}) as value from held")


PRICED: dict[str, Callable[[list[Any]], Any]] = {
    "pandas": lambda amounts: in_pandas(bought(amounts)),
    "polars": lambda amounts: pl.DataFrame(bought(amounts)),
    "polars, as objects": lambda amounts: in_polars(bought(amounts)),
    "Arrow": lambda amounts: pa.table(bought(amounts)),
    "Arrow, in categories": lambda amounts: pa.table(
        bought(amounts) | {"value": pa.array(amounts).dictionary_encode()}
    ),
    "Arrow, of 256 bits": typed(pa.decimal256(60, 40)),
    "Arrow, of 64 bits": typed(pa.decimal64(12, 5)),
    "Arrow, of halves": lambda amounts: typed(pa.float16())([np.float16(amount) for amount in amounts]),
    "Arrow, of floats": lambda amounts: typed(pa.float32())([float(amount) for amount in amounts]),
    "Arrow, of doubles": lambda amounts: typed(pa.float64())([float(amount) for amount in amounts]),
    "Arrow, of texts": lambda amounts: typed(pa.string())([f"{amount:f}" for amount in amounts]),
    "DuckDB": in_duckdb,
}


@pytest.mark.parametrize(
    "holder", nightly_but(PRICED, "pandas", "polars", "Arrow", "Arrow, of 256 bits", "Arrow, of halves", "DuckDB")
)
def test_a_finer_amount_changes_no_sum_of_other_users(holder: str) -> None:
    asked: dict[str, Any] = {"amounts": Amounts(10, 1), "domain": ["tea", "mine"], "k": 2}
    expected = {(None, None, "tea"): 6 * USERS}
    assert counted(PRICED[holder]([*AMOUNTS, FINE]), **asked) == expected


def write_rows(folder: Path, amounts: list[Any]) -> list[Path]:
    """The same rows in every format, and Parquet with every type that they may have there."""
    rows = bought(amounts)
    lines = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    folder.mkdir()
    texts = [f"{line['user']},{line['item']},{line['value']:f}\n" for line in lines]
    (folder / "rows.csv").write_text("user,item,value\n" + "".join(texts))
    for name, form in (("numbers", "{:f}"), ("texts", '"{:f}"'), ("powers", "{:e}")):
        shown = [
            f'{{"user":"{line["user"]}","item":"{line["item"]}","value":{form.format(line["value"])}}}\n'
            for line in lines
        ]
        (folder / f"{name}.jsonl").write_text("".join(shown))
    doubles = [line | {"value": float(line["value"])} for line in lines]
    (folder / "rows.avro").write_bytes(to_avro(doubles, avro_schema(user="string", item="string", value="double")))
    for name, kind in (("fine", pa.decimal128(14, 7)), ("wide", pa.decimal256(60, 20)), ("double", pa.float64())):
        values = [float(amount) if name == "double" else amount for amount in amounts]
        pq.write_table(typed(kind)(values), folder / f"{name}.parquet")
    return sorted(folder.iterdir())


def test_an_amount_is_the_same_in_every_format(tmp_path: Path) -> None:
    """Ties of cents, which floats do not hold: 1.015 is 1.01499999... there, and 1.005 and 1.025 lie on other sides."""
    amounts = [Decimal(n) / 1000 for n in range(1005, 1005 + 10 * USERS, 10)]
    cents = [round(Fraction(amount) * 100) for amount in amounts]
    assert not all(round(float(amount) * 100) == units for amount, units in zip(amounts, cents, strict=True))
    (tmp_path / "items.txt").write_text("tea\nmine\n")
    asked = ["--domain", f"{tmp_path}/items.txt", "--mechanism", "laplace", "--epsilon", "1e6", "--k", "2", "--quiet"]
    asked += ["--value-column", "value", "--max-value", "10", "--value-resolution", "0.01", "--publish-counts", "1e6"]
    found = {}
    for path in write_rows(tmp_path / "rows", [*amounts, Decimal("0.0000001")]):
        done = command("run", "--input", str(path), "--output", f"{path}.csv", *asked)
        assert done.status == 0, done
        found[path.name] = {row["item"]: row["noisy_count"] for row in pl.read_csv(f"{path}.csv").to_dicts()}
    assert found == dict.fromkeys(found, {"tea": sum(cents) / 100, "mine": 0.0})


TABLES: dict[str, Callable[[], object]] = {
    "a struct": lambda: pa.table({"user": pa.array([{SECRET: 1}]), "item": ["a"]}),
    "a struct by categories": lambda: pa.table(
        {"user": pa.DictionaryArray.from_arrays([0], pa.array([{SECRET: 1}])), "item": ["a"]}
    ),
    "a struct of polars": lambda: pl.DataFrame({"user": [{SECRET: 1}], "item": ["a"]}),
    "a struct in pandas": lambda: pd.DataFrame(
        {"user": pd.array([{SECRET: 1}], pd.ArrowDtype(pa.struct({SECRET: pa.int64()}))), "item": ["a"]}
    ),
    "a union": lambda: pa.table(
        {"user": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])], [SECRET]), "item": ["a"]}
    ),
    "a map": lambda: pa.table({"user": pa.array([[(SECRET, 1)]], pa.map_(pa.string(), pa.int64())), "item": ["a"]}),
    "a decimal with as many digits as somebody's": lambda: pa.table({"user": [Decimal("1.00007")], "item": ["a"]}),
    "sparse objects": lambda: pd.DataFrame({"user": pd.arrays.SparseArray([{SECRET: 1}] * 100), "item": ["a"] * 100}),
    "a lazy cast": lambda: pl.LazyFrame({"user": [SECRET], "item": ["a"]}).cast({"user": pl.Int64}),
    "a lazy function": lambda: pl.LazyFrame({"user": [SECRET], "item": ["a"]}).with_columns(
        pl.col("user").map_elements(fails, return_dtype=pl.String)
    ),
    "a reader that fails": lambda: pa.RecordBatchReader.from_batches(
        pa.schema({"user": pa.string(), "item": pa.string()}), failing()
    ),
    "a relation that fails": lambda: FailingRelation(),
    "a stream that fails": lambda: FailingStream(),
    "a relation that gives something else": lambda: Giving(),
    "a relation of DuckDB that fails": lambda: pytest.importorskip("duckdb").sql(
        f"select cast(x as integer) as user, 'a' as item from (values ('1'), ('{SECRET}')) t(x)"
    ),
    "a struct of DuckDB": lambda: pytest.importorskip("duckdb").sql(f"select {{'{SECRET}': 1}} as user, 'a' as item"),
}


def fails(*_: object) -> Any:  # noqa: ANN401
    raise ValueError(SECRET)


def failing() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"user": ["u"], "item": ["a"]})
    raise ValueError(SECRET)


class FailingRelation:
    to_arrow = fails


class FailingStream:
    __arrow_c_stream__ = fails


class Giving:
    def to_arrow(self) -> list[str]:
        return [SECRET]


@pytest.mark.parametrize("table", TABLES)
def test_no_message_shows_what_is_in_a_row(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither does what an error carries along, a warning, nor what a library prints."""
    rows = TABLES[table]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidArgument) as caught:
            rank(rows, 1, Laplace(1.0), ["a"])
    error = caught.value
    assert error.field in ("rows", "user") and error.__cause__ is None and error.__context__ is None
    assert not any(hidden in f"{error} {capfd.readouterr()}" for hidden in (SECRET, "(6, 5)"))
