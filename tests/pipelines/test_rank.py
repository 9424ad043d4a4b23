"""`rank(frame, ...)` is `private-topk run` on the same rows, whoever has them; and what it returns shows itself."""

from __future__ import annotations

import gc
import html
import inspect
import json
import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import apache_beam as beam
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that
from apache_beam.transforms.window import GlobalWindows, TimestampedValue

import private_topk
from private_topk import (
    Amounts,
    CountBudget,
    Groups,
    Joint,
    JointSet,
    LimitDomain,
    Period,
    PrivateTopK,
    Ranking,
    Rankings,
    Release,
    ReleaseKey,
    UnknownDomain,
    dry_run,
    rank,
)
from private_topk.pipelines.budget import Budget, Ledger
from private_topk.pipelines.budget.accounting import NoBudget
from private_topk.pipelines.dropped_rows import DistinctUsers
from private_topk.pipelines.question import Question
from private_topk.pipelines.rank import Picture
from private_topk.pipelines.release.formats import RANKING_FORMATS
from private_topk.pipelines.sources.columns import Columns, block_of
from private_topk.pipelines.sources.frame import Frame, _ReadDoFn, table_of
from private_topk.runners import prepare
from private_topk.transforms.domain import Domain, RangeDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS, parameters_of
from private_topk.transforms.testing import fixed_release
from tests.nightly import nightly_but
from tests.pipelines.support import command, options
from tests.refusals import refused
from tests.transforms.mechanisms.own import OfOneRelation
from tests.transforms.pipelines import create

ITEMS = [f"track {n}" for n in range(12)]
START = datetime(2026, 1, 5, tzinfo=UTC)
ROWS = pl.DataFrame(
    {
        "listener": [f"u{n % 41}" for n in range(600)],
        "track": [f"track {(n * n + n // 7) % 14}" for n in range(600)],
        "time": [START + timedelta(hours=n * n % 700) for n in range(600)],
        "price": [n / 7 for n in range(600)],
        "shop": [f"shop {n % 3}" for n in range(600)],
    }
)
NAMES = {"user": "listener", "item": "track"}
KEY = ReleaseKey.fresh()
PERIOD = Period.of("2026-01-05", "2026-02-02", "7d")


@pytest.fixture
def release(tmp_path: Path) -> Release:
    (tmp_path / "key").write_text("a key of the tests, which is no secret")
    return Release(ReleaseKey.parse(f"file:{tmp_path}/key"), "tests")


WEEKS = {"window": "7d", "from": "2026-01-05", "to": "2026-02-02"}
QUESTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sliding, counted, bounded": (
        {
            "mechanism": Joint(1.0),
            "period": Period.of("2026-01-05", "2026-02-02", "7d", slide="3d"),
            "publish_counts": 0.5,
            "max_items_per_user": 4,
            "privacy_unit": "user",
        },
        {**WEEKS, "slide": "3d", "publish_counts": 0.5, "max_items_per_user": 4, "privacy_unit": "user"},
    ),
    "amounts": (
        {"mechanism": Joint(1.0), "amounts": Amounts(9, 0.5), "value": "price", "publish_counts": 0.5},
        {"value_column": "price", "max_value": 9, "value_resolution": 0.5, "publish_counts": 0.5},
    ),
    "groups": (
        {
            "mechanism": Joint(1.0, neighbours="replace-one"),
            "groups": Groups.of(["shop 2", "shop 0", "shop 9"], 2),
            "group": "shop",
            "period": PERIOD,
            "publish_counts": 0.5,
        },
        {
            **{"group_column": "shop", "groups": "shops.txt", "groups_per_user": 2},
            **{"neighbours": "replace-one", "publish_counts": 0.5, **WEEKS},
        },
    ),
    "a list for each group": (
        {
            "mechanism": Joint(1.0),
            "domain": {"shop 2": [f"track {n}" for n in range(6, 14)], "shop 0": ITEMS[:7]},
            "group": "shop",
        },
        {
            **{"group_column": "shop", "groups": "two.txt"},
            **{"domain": "lists.csv", "domain_column": "track", "domain_group_column": "of"},
        },
    ),
    "a set": ({"mechanism": JointSet(1.0)}, {"mechanism": "joint-set"}),
    "unknown domain": (
        {"mechanism": LimitDomain(2.0, 1e-2, max_items_per_user=3), "domain": UnknownDomain(), "period": PERIOD},
        {
            **{"mechanism": "limit-domain", "epsilon": 2, "delta": 1e-2, "max_items_per_user": 3, **WEEKS},
            **{"domain": None, "unknown_domain": True},
        },
    ),
}


@pytest.mark.parametrize(
    "question", nightly_but(QUESTIONS, "sliding, counted, bounded", "a list for each group", "unknown domain")
)
def test_rank_publishes_the_same_as_the_run_command(
    question: str, tmp_path: Path, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, words = QUESTIONS[question]
    ROWS.write_parquet("rows.parquet")
    Path("items.txt").write_text("\n".join(ITEMS) + "\n")
    Path("shops.txt").write_text("shop 2\nshop 0\nshop 9\n")
    Path("two.txt").write_text("shop 2\nshop 0\n")
    lists = arguments["domain"].items() if isinstance(arguments.get("domain"), dict) else ()
    Path("lists.csv").write_text("track,of\n" + "".join(f"{item},{group}\n" for group, of in lists for item in of))
    asked = {"input": "rows.parquet", "domain": "items.txt", "mechanism": "joint", "k": 5, "epsilon": 1, **words}
    named = {"user_column": "listener", "item_column": "track", "output": "run.avro", "quiet": True}
    keyed = {"release_key": release.key.source, "release_id": release.id}
    done = command("run", *options(**asked, **named, **keyed))
    assert done.status == 0, done
    found = rank(ROWS, 5, **{"domain": ITEMS, **arguments}, **NAMES, release=release)
    found.write("rank.avro")
    assert Path("rank.avro").read_bytes() == Path("run.avro").read_bytes()
    of_run, of_rank = (json.loads(Path(f"{name}.manifest.json").read_text()) for name in ("run", "rank"))
    assert found.to_rows() and of_run | {"output": ""} == of_rank | {"output": ""}


class Relation:
    """What DuckDB hands over, by each of its names for that."""

    def __init__(self, name: str) -> None:
        setattr(self, name, lambda: ROWS.to_arrow())


class Capsule:
    """Anything that speaks Arrow's interface for streams."""

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return ROWS.to_arrow().__arrow_c_stream__(schema)


HOLDERS: dict[str, Callable[[], object]] = {
    "lazy polars": ROWS.lazy,
    "pandas": ROWS.to_pandas,
    "pandas of Arrow": lambda: ROWS.to_pandas(use_pyarrow_extension_array=True),
    "pandas by category": lambda: ROWS.to_pandas().astype({"listener": "category", "track": "category"}),
    "sparse pandas": lambda: ROWS.to_pandas().astype({"track": pd.SparseDtype(object, ROWS["track"][0])}),
    "categories of polars": lambda: ROWS.with_columns(pl.col("listener", "track").cast(pl.Categorical)),
    "an enum of polars": lambda: ROWS.lazy().with_columns(
        pl.col("listener", "track").cast(pl.Enum(sorted({*ROWS["listener"], *ROWS["track"]})))
    ),
    "DuckDB": lambda: of_duckdb(ROWS.to_arrow()),
    "Arrow": ROWS.to_arrow,
    "batches": lambda: ROWS.to_arrow().to_reader(max_chunksize=100),
    "a batch": lambda: ROWS.to_arrow().combine_chunks().to_batches()[0],
    "a stream": Capsule,
    **{name: lambda name=name: Relation(name) for name in ("to_arrow", "fetch_arrow_table", "arrow")},
    "times as text": lambda: ROWS.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ")),
    "times as numbers": lambda: ROWS.with_columns(pl.col("time").dt.epoch("s")),
}


def of_duckdb(held: pa.Table) -> object:
    return pytest.importorskip("duckdb").sql("select * from held")


def read(rows: object) -> list[dict[str, Any]]:
    """The rows as they are counted."""
    columns = Columns(**NAMES, time="time", time_unit="s")
    blocks = [block_of(part, columns)[0] for part in Frame(table_of(rows, columns), columns).rows(PERIOD)]
    return [row for block in blocks for row in block.to_pylist()]


@pytest.mark.parametrize("holder", HOLDERS)
def test_rows_of_every_table_library_are_read_the_same(holder: str) -> None:
    assert read(HOLDERS[holder]()) == read(ROWS) and len(read(ROWS)) == 600


@pytest.mark.parametrize("names", [[0, 1], [("a", "user"), ("a", "item")], [1.5, date(2026, 1, 5)]])
def test_columns_of_pandas_go_by_the_text_of_their_names(names: list[object]) -> None:
    """As `read_csv(header=None)` and `concat` name them, and as a refusal lists them."""
    columns = Columns(*map(str, names))
    held = pd.DataFrame([["ann", "tea"], ["bob", "cake"]]).set_axis(names, axis=1)
    assert table_of(held, columns).to_pydict() == {columns.user: ["ann", "bob"], columns.item: ["tea", "cake"]}


def test_a_large_table_is_read_in_parts() -> None:
    rows = pl.concat([ROWS] * 300)
    frame = Frame(table_of(rows, Columns(**NAMES, time="time")), Columns(**NAMES, time="time"))
    assert [len(part.columns["listener"]) for part in frame.rows(PERIOD)] == [1 << 17, 180_000 - (1 << 17)]
    with refused("runner", "prism cannot see a table in the memory of this process"):
        frame.check_runner(replace(prepare("direct", []), name="prism"))
    assert frame.identity(KEY, PERIOD) == Frame(frame.table, frame.columns).identity(KEY, PERIOD)
    assert frame.identity(KEY, PERIOD) != Frame(frame.table.slice(1), frame.columns).identity(KEY, PERIOD)


def test_the_same_rows_are_one_table_however_they_came_about() -> None:
    """A run that is taken up again with a frame that was made anew is the same one: it is not charged once more."""
    columns = Columns()
    rows = pl.DataFrame({"user": [f"a user with a long name {n}" for n in range(400)], "item": ["a", None] * 200})
    many = rows.sample(200_001, with_replacement=True, seed=1)
    plain = many.to_arrow(compat_level=pl.CompatLevel.oldest())
    exact = pa.schema([pa.field("user", pa.large_string(), nullable=False), pa.field("item", pa.large_string())])
    others = {
        "filtered": pl.concat([many, rows.with_columns(item=pl.lit("left out" * 9))]).filter(
            ~pl.col("item").fill_null("").str.starts_with("left")
        ),
        "in parts": pl.concat([many[:70_000], many[70_000:]], rechunk=False),
        "categories": many.with_columns(pl.col("item").cast(pl.Categorical)),
        "dictionary": plain.set_column(1, "item", plain["item"].dictionary_encode()),
        "short texts": plain.set_column(1, "item", plain["item"].cast(pa.string())),
        "texts of pandas": many.to_pandas().astype({"item": "string"}),
        "views": pa.table(many),
        "with notes": plain.cast(exact).replace_schema_metadata({"made": "by hand"}),
    }
    made = {name: Frame(table_of(table, columns), columns) for name, table in others.items()}
    mine = Frame(table_of(many, columns), columns)
    assert {name: (frame.digest, frame.stored_bytes()) for name, frame in made.items()} == dict.fromkeys(
        made, (mine.digest, mine.stored_bytes())
    )
    names = sum(len(name) for name in many["user"]) + many["item"].null_count()
    assert names < mine.stored_bytes() < names + 17 * len(many) + 10_000
    for place in (0, 200_000):
        changed = many.with_row_index().with_columns(
            item=pl.when(pl.col("index") == place).then(pl.lit("")).otherwise("item")
        )
        assert Frame(table_of(changed.drop("index"), columns), columns).digest != mine.digest


def test_a_shared_table_is_kept_while_any_call_reads_it() -> None:
    """Two calls over the same rows on two threads: the one that ends first takes nothing from the other."""
    columns = Columns(**NAMES, time="time", time_unit="s")
    mine = Frame(table_of(ROWS, columns), columns)
    assert Frame(table_of(ROWS.clone(), columns), columns).table is mine.table
    gc.collect()
    assert sum(map(len, _ReadDoFn(mine.digest, columns).process(b""))) == len(ROWS)


SECRET, _LABELS = "secret", "users, items and groups must be texts, whole numbers or UUIDs"
MISTAKES: dict[str, tuple[object, dict[str, Any], str, str]] = {
    "a path": ("rows.csv", {}, "rows", "must be a table, got str: read the file before"),
    "a list": ([(SECRET, "b")], {}, "rows", "must be a table, got list: give a polars or pandas frame"),
    "a number": (7, {}, "rows", "must be a table, got int"),
    "no such column": (ROWS, {"user": "user"}, "user", "'user' is no column of the table: it has listener"),
    "columns with a comma": (ROWS, {"item": "track,title"}, "item", "several are a list: ['track', 'title']"),
    "all columns in the index": (
        pd.DataFrame({"listener": [SECRET], "track": ["b"]}).set_index(["listener", "track"]),
        {},
        "user",
        "'listener' is no column of the table: it has none: an index of pandas becomes columns by .reset_index()",
    ),
    "one column twice": (
        pa.table([["a"], ["b"], ["c"]], names=["listener", "track", "track"]),
        {},
        "item",
        "it has 2 columns of that name",
    ),
    "user and item alike": (ROWS, {"item": "listener"}, "user", "must be another column than item"),
    "numbers with a point": (ROWS, {"item": "price"}, "item", "cannot be the column 'price': users, items"),
    "objects that are dates": (
        pd.DataFrame({"listener": [SECRET] * 101, "track": pd.Series([None, *[date(2026, 1, 5)] * 100], dtype=object)}),
        {},
        "item",
        "users, items and groups must be texts, whole numbers or UUIDs, got date in 100 rows or more: write it as text",
    ),
    "records": (
        pa.table({"listener": [{"id": SECRET}], "track": ["b"]}),
        {},
        "user",
        "got struct: write its field as a column",
    ),
    "objects that are floats": (
        pd.DataFrame({"listener": pd.Series([None, *[7.0] * 100], dtype=object), "track": "b"}),
        {},
        "user",
        "got float in 100 rows or more: cast it to whole numbers, such as BIGINT or .astype('Int64')",
    ),
    **{
        f"objects of which some {role}s are {type(value).__name__} in {named}": (
            frame({"listener": [SECRET] * 200, "track": ["b"] * 200, column: [7, value] * 100}),
            changes,
            role,
            f"cannot be the column '{column}': {rule}, got {type(value).__name__} in 100 rows or more: {remedy}",
        )
        for named, frame in {
            "pandas": lambda columns: pd.DataFrame(columns, dtype=object),
            "polars": lambda columns: pl.DataFrame(columns, schema_overrides=dict.fromkeys(columns, pl.Object)),
        }.items()
        for column, role, value, changes, rule, remedy in (
            ("listener", "user", 7.5, {}, _LABELS, "cast it to whole numbers"),
            ("listener", "user", Decimal("7.5"), {}, _LABELS, "cast it to whole numbers"),
            ("track", "item", True, {}, _LABELS, "write it as text"),
            ("shop", "group", np.float64(2), {"groups": ["DE"], "group": "shop"}, _LABELS, "cast it to whole numbers"),
            ("value", "value", True, {"max_value": 5}, "amounts must be numbers", "convert it to numbers"),
        )
    },
    **{
        f"categories that are {name}": (
            pd.DataFrame({"listener": SECRET, "track": pd.Series([value] * 100).astype("category")}),
            {},
            "item",
            f"texts, whole numbers or UUIDs, got {told}",
        )
        for name, value, told in (
            ("dates", date(2026, 1, 5), "date in 100 rows or more: write it as text"),
            (
                "tuples",
                ("a", "b"),
                "tuple in 100 rows or more: write a row for each value, and the value by itself, as",
            ),
            ("decimals", Decimal("1.5"), "Decimal in 100 rows or more: cast it to whole numbers"),
        )
    },
    "objects that are no times": (
        pd.DataFrame({"listener": SECRET, "track": "b", "time": pd.Series([time(10)] * 100)}),
        {"period": PERIOD},
        "time",
        "numbers or ISO 8601 texts, got time in 100 rows or more: convert it to timestamps or to ISO 8601 texts",
    ),
    "objects that are no amounts": (
        pd.DataFrame({"listener": SECRET, "track": "b", "value": pd.Series([date(2026, 1, 5)] * 100)}),
        {"max_value": 5},
        "value",
        "amounts must be numbers, got date in 100 rows or more: convert it to numbers",
    ),
    "a number and its text as names": (
        pd.DataFrame([[SECRET, SECRET, "c"]], columns=[0, "0", "track"]),
        {"user": "0"},
        "user",
        "got '0': it has 2 columns of that name",
    ),
    "a lazy frame that fails": (
        pl.LazyFrame({"listener": [SECRET], "track": ["b"]}).cast({"listener": pl.Int64}),
        {},
        "rows",
        "must hand over its columns as Arrow's, and raised InvalidOperationError",
    ),
    "no time": (ROWS, {"period": PERIOD, "time": "played"}, "time", "'played' is no column of the table"),
    "a period as text": (ROWS, {"period": "2026-01-05"}, "period", "must be a Period, got str"),
    "an id alone": (ROWS, {"release": "weekly"}, "release", "must be a Release, got str"),
    "an id with a ledger": (
        ROWS,
        {"release": "weekly", "ledger": "sqlite:///b.db", "dataset": "d"},
        "release",
        "must be a Release, got str",
    ),
    "a time without a period": (ROWS, {"time": "time"}, "time", "needs period"),
    "amounts without a bound": (ROWS, {"value": "price"}, "value", "needs amounts: give Amounts(max"),
    "a group without a list": (
        ROWS,
        {"group": "shop"},
        "group",
        'needs groups: give the public list of groups, such as ["DE", "FR"], too, or leave group out',
    ),
    "the rows as the domain": (
        ROWS.with_columns(track=pl.lit(SECRET)),
        {"domain": pl.Series([SECRET] * 9)},
        "domain",
        "once, got 1 repeated: give a public list, such as a catalogue, with each once: it is not made from the rows",
    ),
    "names for ids": (ROWS.with_columns(track=pl.lit(7)), {}, "domain", "has no whole number, and by their type"),
    "names for codes": (
        ROWS.with_columns(shop=pl.lit(7)).to_pandas(),
        {"groups": Groups(["DE", "FR"], per_user=2), "group": "shop"},
        "groups",
        "no whole number",
    ),
    "an unknown unit": (ROWS, {"time_unit": "h", "period": PERIOD}, "time_unit", "must be one of s, ms, us, ns"),
    "an empty name": (ROWS, {"user": ""}, "user", "must be the name of a column"),
    "a number as a name": (ROWS, {"user": 0}, "user", "must be the name of a column, got 0: give its name as a text"),
    "numbers as names": (ROWS, {"item": [0, 1]}, "item", "column, got list: give its name as a text"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_invalid_input_of_rank_is_refused_by_its_argument(mistake: str) -> None:
    rows, changes, field, message = MISTAKES[mistake]
    with pytest.raises(InvalidArgument) as caught:
        rank(rows, **{"k": 3, "mechanism": Joint(1.0), "domain": ITEMS, **NAMES, **changes})
    assert caught.value.field == field and message in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.parametrize("kind", ["pandas", "polars", "dates", "objects"])
def test_times_of_no_zone_are_refused_where_windows_have_one(kind: str) -> None:
    """They were read as UTC, and rows of the last hours of a week counted in another one."""
    late = pl.DataFrame({"user": ["ann"], "item": ["tea"], "time": [datetime(2026, 1, 11, 23, 30)]})  # noqa: DTZ001
    rows: Any = late.with_columns(pl.col("time").cast(pl.Date)) if kind == "dates" else late
    rows = rows.to_pandas() if kind == "pandas" else rows
    if kind == "objects":  # whose column has no type, so that a hundred rows have to be dates
        rows = pd.DataFrame({"user": "ann", "item": "tea", "time": [None, *[date(2026, 1, 11)] * 99]})
    week: dict[str, Any] = {"start": "2026-01-05", "end": "2026-01-12", "window": "week"}
    asked: dict[str, Any] = {"k": 1, "epsilon": 1.0, "domain": ["tea", "cake"]}
    told = (
        "has no zone in column 'time' and would be read as UTC, but windows are in Europe/Berlin: say the zone: pandas."
    )
    with refused("time", told):
        rank(rows, **asked, period=Period.of(**week, time_zone="Europe/Berlin"))
    if isinstance(rows, pl.DataFrame):
        told_how: Any = rows.with_columns(pl.col("time").cast(pl.Datetime).dt.replace_time_zone("Europe/Berlin"))
    else:
        told_how = rows.assign(time=pd.to_datetime(rows.time).dt.tz_localize("Europe/Berlin"))
    assert rank(told_how, **asked, period=Period.of(**week, time_zone="Europe/Berlin"))
    if kind == "objects":
        assert rank(rows, **asked, period=Period.of(**week))
        mixed = rows.assign(time=["2026-01-11T10Z", *rows.time[1:]])
        assert rank(mixed, **asked, period=Period.of(**week, time_zone="Europe/Berlin"))
    if kind == "polars":
        there = late.with_columns(pl.col("time").dt.replace_time_zone("Europe/Berlin"))
        assert rank(there, **asked, period=Period.of(**week, time_zone="America/New_York"))
        assert rank(late, **asked, period=Period.of(**week))


def test_texts_without_a_zone_are_said_to_be_utc_where_windows_have_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever they are: that some text lacks a zone is private, and each is read by itself."""
    zone, week = "Europe/Berlin", ("2026-01-05", "2026-01-12", "week")
    for time_zone, text in (
        (zone, "2026-01-06 10:00"),
        (zone, "2026-01-06T10:00+01"),
        ("UTC", ""),
        (zone, "2026-01-06"),
    ):
        rows = pl.DataFrame({"user": ["ann"] * 100, "item": ["tea"] * 100, "time": [text] * 100})
        asked: dict[str, Any] = {"k": 1, "mechanism": Joint(1.0), "domain": ["tea"]}
        asked["period"] = Period.of(*week, time_zone=time_zone)
        rank(rows, **asked)
        said = f"times that have no zone are read as UTC, and windows are in {zone}\n"
        told = said in capsys.readouterr().err
        assert told == (time_zone != "UTC")
        dry_run(rows, **asked, show_dropped_rows=True)
        before = capsys.readouterr()
        assert (f"; {said}" in before.out) == told, before.out
        assert ("100 or more times have no zone: they are read as UTC" in before.err) == (told and "+" not in text)


def test_a_few_objects_of_another_type_and_broken_texts_drop_out(capsys: pytest.CaptureFixture[str]) -> None:
    """How many they are is private, and a missing value is none of another type, though a float."""
    for others, said in (
        (["\ud800"] * 150, "most of the unreadable rows are not in UTF-8"),
        ([1.0] * 99 + [float("nan")] * 51, "unreadable: fewer than 100"),
        ([float("nan"), None, pd.NA] * 50, "null: 100 or more"),
    ):
        rows = pd.DataFrame({"user": pd.Series([*range(150), *others], dtype=object), "item": "tea"})
        dry_run(rows, 1, Joint(1.0), ["tea"], show_dropped_rows=True)
        told = capsys.readouterr().err
        assert said in told, told


def test_a_table_of_no_row_is_not_told_of_an_option_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    dry_run(ROWS.head(0), 1, Joint(1.0), ITEMS, **NAMES, show_dropped_rows=True)
    assert "no row is left: this is pure noise\n" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["file:missing.key", "env:NOPE"])
def test_a_key_that_cannot_be_read_is_refused_before_a_job_is_built(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With Beam's traceback and a refusal in base64, `RunFailed` said to run the same report again."""
    release = Release(ReleaseKey.parse(source), "a")
    with refused("release", f"{source} "):
        rank(ROWS, 3, Joint(1.0), ITEMS, **NAMES, release=release)
    with pytest.raises(InvalidArgument, match=f"release.* {source} "), beam.Pipeline() as pipeline:
        _ = pipeline | create([{"user": "ann", "item": "a"}]) | PrivateTopK(1, Joint(1.0), ["a"], release=release)
    assert capsys.readouterr().err == ""


def test_a_frame_of_empty_lists_is_ranked_as_an_empty_one() -> None:
    """Of pandas its columns are of floats, and a refusal of their type would tell that there are no rows."""
    rank(pd.DataFrame({"listener": [], "track": []}), 3, Joint(1.0), ITEMS, **NAMES)


def test_a_refusal_is_short_and_swapped_arguments_are_told_apart() -> None:
    with pytest.raises(InvalidArgument) as caught:
        rank(ROWS, 3, Joint(1.0), [*ITEMS, *ITEMS], **NAMES)
    assert len(caught.traceback) == 2 and caught.value.__context__ is None
    for swapped in (("joint", 10), (5, 1.0)):
        with refused("mechanism", "must be a name such as joint"):
            rank(ROWS, *swapped, ITEMS, **NAMES)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_value": 60, "value_resolution": 1}, None),
        ({"amounts": 60}, "amounts must be Amounts such as Amounts"),
        ({"parameters": "x"}, "parameters must be a mapping of names to values, got str"),
        ({"groups": UnknownDomain()}, "groups must be a list of groups, got UnknownDomain: the list is public"),
        ({"domain_range": "0:9"}, None),
        ({"epsilon": "1"}, "epsilon must be a positive finite number, got '1'"),
        ({"epsilon": Decimal("nan")}, "epsilon must be a positive finite number, got Decimal"),
        ({"delta": "1e-6"}, "delta must lie strictly between 0 and 1, got '1e-6'"),
        ({"max_items_per_user": "3"}, "max_items_per_user must be a whole number of at least 1, got '3'"),
        ({"max_value": 60, "amounts": Amounts(60)}, "max_value must be left out: amounts have their own"),
        ({"value_resolution": 5}, "value_resolution needs max_value"),
        ({"round_counts": 10}, "round_counts needs publish_counts"),
        ({"publish_counts": 1, "publish_counts_delta": 2}, "publish_counts_delta must lie strictly between 0 and 1"),
        (
            {"groups_per_user": 2, "domain": {"DE": ["7"]}},
            "groups_per_user needs groups: the public list of groups: give it, also where domain has a list for each",
        ),
        ({"groups_per_user": 2, "groups": Groups(["DE"])}, "the Groups of groups have it: Groups.*per_user=2"),
        ({"domain": ITEMS, "domain_range": "0:9"}, "give domain or domain_range: one of the two"),
        ({"mechanism": Joint(1.0), "parameters": {"kbar": 9}}, "must be left out: Joint"),
        ({"mechanism": "joint", "parameters": {"kbar": 9}}, "kbar does not apply to joint"),
        ({"mechanism": "joint", "parameters": {"epsilon": 2}}, "must not have epsilon: give epsilon itself, beside"),
        ({"parameters": {"delta": 1e-6}}, "parameters must not have delta: give delta itself"),
        ({"mechanism": LimitDomain(1.0, 1e-2, max_items_per_user=3), "delta": 1e-2}, "delta must be left out"),
        ({"item_column": "title"}, "there is no argument item_column: did you mean item?"),
        ({"release_key": "file:key"}, "there is no argument release_key: did you mean release?"),
        ({"epsilonn": 1}, "there is no argument epsilonn: did you mean epsilon?"),
    ],
)
def test_python_s_doors_take_the_fields_of_the_command_line(given: dict[str, Any], told: str | None) -> None:
    """With the same refusals, in words of arguments."""
    asked = {"k": 1, "epsilon": 1.0, **({} if "domain_range" in given else {"domain": ["7"]}), **given}
    asked = {name: value for name, value in asked.items() if name != "epsilon" or "mechanism" not in given}
    asked |= {"epsilon": 1.0} if given.get("mechanism") == "joint" else {}
    rows = pl.DataFrame({"user": [1], "item": [7], "value": [3.5]})
    for door in (lambda: rank(rows, **asked), lambda: PrivateTopK(**asked)):
        if told is None:
            door()
            continue
        with pytest.raises(InvalidArgument, match=told):
            door()


def test_floats_are_the_decimals_that_they_print() -> None:
    found = rank(PLAYS, 2, Joint(0.1), ["tea", "cake"], publish_counts=0.5)
    assert found.manifest.privacy.epsilon == 0.6 and "≤ e^0.6 ·" in str(found)
    exact = Decimal("0.1")
    for asked in ({"mechanism": Joint(exact)}, {"epsilon": exact}, {"mechanism": "joint", "epsilon": exact}):
        question = Question.of(2, domain=["tea", "cake"], publish_counts=Decimal("0.5"), **asked)
        assert question.asked.mechanism.parameter("epsilon") == Fraction(1, 10)
        assert question.asked.publish_counts == CountBudget(0.5)


IDS = pl.DataFrame({"user": range(300), "item": [7, 8, 9] * 100}, schema_overrides={"item": pl.UInt8})
KINDS: dict[str, tuple[Domain | list[int] | list[str], pl.DataType]] = {
    "a list of ids": ([1, 5000], pl.Int64()),
    "a range": (RangeDomain(0, 27), pl.Int64()),
    "any": (UnknownDomain(), pl.Int64()),
    "an id and a name": (["1", "tea"], pl.String()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_integers_come_back_as_integers(kind: str, tmp_path: Path) -> None:
    domain, expected = KINDS[kind]
    unknown = domain == UnknownDomain()
    mechanism = LimitDomain(2.0, 1e-2, max_items_per_user=3) if unknown else Joint(1.0)
    found = rank(IDS, 2, mechanism, domain, release=fixed_release())
    assert found.to_polars().schema["item"] == expected and found.to_polars()["item"].to_list() == list(found.items)
    named = found.to_pandas().merge(pd.DataFrame({"item": found.items, "name": "its name"}), on="item")
    assert len(named) == len(found.items) == len(found.to_rows())
    found.write(str(tmp_path / "ranking.avro"))
    assert pl.read_avro(tmp_path / "ranking.avro").schema["item"] == expected
    assert "What it promises" in str(found) and str(found.items[0]) in found._repr_html_()

    def listed(ranked: Rankings) -> str:
        return str(ranked).partition("\n\n")[0]

    as_texts = rank(IDS.cast(pl.String), 2, mechanism, domain, release=fixed_release())
    assert as_texts.items == tuple(map(str, found.items)) and listed(as_texts) == listed(found)
    as_texts.write(str(tmp_path / "texts.csv")), found.write(str(tmp_path / "own.csv"))
    assert (tmp_path / "own.csv").read_bytes() == (tmp_path / "texts.csv").read_bytes()


def test_a_list_of_the_longest_ids_is_one_of_integers() -> None:
    ids = [2**63 - 1, -(2**63)]
    found = rank(pl.DataFrame({"user": range(9), "item": ids[:1] * 9}), 1, Joint(9.0), ids, release=fixed_release())
    assert found.items == (2**63 - 1,)


def test_names_complete_and_say_their_kinds() -> None:
    """What an editor offers: every mechanism, and of each the parameters with their types."""
    offered = dir(private_topk)
    for mechanism in MECHANISMS.values():
        assert mechanism.__name__ in offered and getattr(private_topk, mechanism.__name__) is mechanism
        hints = get_type_hints(mechanism)  # of inherited parameters too, by the names that their own class knows
        names = set(inspect.signature(mechanism).parameters)
        settled = {its.name for its in fields(mechanism) if "settled" in its.metadata}  # by the rest of what is asked
        assert {"cap", "with_counts"} <= settled
        assert names - settled == set(parameters_of(mechanism)) and names <= set(hints)
    hints = get_type_hints(rank)
    [fields_asked] = get_args(hints.pop("asked"))  # Unpack[...]: an editor offers each of them
    assert hints.pop("return") is Rankings
    assert hints.keys() | get_type_hints(fields_asked).keys() == set(inspect.signature(rank).parameters)


@pytest.mark.parametrize("frame", [ROWS, ROWS.to_pandas(), ROWS.to_arrow()], ids=["polars", "pandas", "arrow"])
def test_a_frame_of_several_columns_is_no_domain(frame: object) -> None:
    """pandas iterates a frame by the names of its columns, which would be ranked without a word."""
    with refused(
        "domain", "must be one column", 'frame["item"], of a public list, not of the rows; with a list for each'
    ):
        rank(ROWS, 3, Joint(1.0), frame, **NAMES)


@pytest.mark.filterwarnings("error::polars.exceptions.PerformanceWarning")
def test_a_lazy_frame_is_a_domain_as_it_is_rows(release: Release) -> None:
    asked = {"k": 3, "mechanism": Joint(1.0), "release": release, **NAMES}
    listed = pl.LazyFrame({"track": ITEMS, "shop": ["shop 1"] * len(ITEMS)})
    assert rank(ROWS, domain=listed.select("track"), **asked) == rank(ROWS, domain=ITEMS, **asked)
    several = {**asked, "item": ["track", "shop"]}
    assert rank(ROWS, domain=listed, **several) == rank(ROWS, domain=listed.collect(), **several)


def test_a_mechanism_is_an_object_or_a_name(release: Release) -> None:
    by_name = rank(ROWS, 3, "joint", ITEMS, epsilon=1.0, release=release, **NAMES)
    assert by_name == rank(ROWS, 3, Joint(1.0), ITEMS, release=release, **NAMES)
    own = rank(ROWS, 3, "cdp-peeling", ITEMS, epsilon=1.0, delta=1e-6, release=release, **NAMES)
    assert own.manifest.parameters["delta"] == 1e-6
    privacy = rank(ROWS, 3, OfOneRelation(1.0), ITEMS, **NAMES).manifest.privacy
    assert privacy is not None and privacy.neighbours == "add-remove"
    assert "epsilon=1.0" in repr(own.manifest) and "output=None" not in repr(own.manifest)
    assert repr(by_name) == f"Rankings(release={release.id!r}, rankings=1, k=3)"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"epsilon": 1.5}, "--epsilon 1.5 --privacy-unit user-window`"),
        ({"mechanism": Joint(0.5), "publish_counts": 0.25}, "--epsilon 0.75 --privacy-unit user-window --neigh"),
        (
            {"epsilon": 1, "delta": 1e-6, "privacy_unit": "user", "neighbours": "replace-one"},
            "--epsilon 1 --delta 1e-06 --privacy-unit user --neighbours replace-one`",
        ),
    ],
)
def test_without_a_budget_the_command_that_opens_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("a key of enough bytes")
    release = Release(ReleaseKey.parse("file:key"), "weekly")
    books = {"ledger": "sqlite:///b.db", "dataset": "d", "release": release}
    with pytest.raises(NoBudget, match="does not exist") as caught:
        rank(ROWS, 3, domain=ITEMS, **NAMES, **books, **asked)
    assert "`private-topk budget create --ledger sqlite:///b.db --dataset d " in str(caught.value)
    assert told in str(caught.value), caught.value


def test_a_ledger_parts_a_total_as_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an accounting of its own, so that the shares of all windows fit; and the two are one release."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("a key of enough bytes")
    (tmp_path / "items.txt").write_text("tea\ncake\n")
    rows = [(f"u{n}", ["tea", "cake"][n % 3 == 0], f"2026-01-0{5 + n % 2}") for n in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["user,item,time", *map(",".join, rows)]))
    Ledger("sqlite:///b.db").create(Budget.of("d", 1, 1e-6, unit="user"))
    asked = {"k": 1, "privacy_unit": "user", "horizon": 40, "delta": 1e-6, "ledger": "sqlite:///b.db", "dataset": "d"}
    done = command(
        "run",
        *options(**asked),
        *(
            "--epsilon=1 --mechanism=joint --input=rows.csv --domain=items.txt --window=1d --from=2026-01-05 "
            "--to=2026-01-07 --release-key=file:key --release-id=r --output=out.parquet"
        ).split(),
    )
    assert done.status == 0, done.err
    frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    found = rank(
        frame,
        mechanism=Joint(1.0),
        domain=["tea", "cake"],
        time="time",
        period=Period.of("2026-01-05", "2026-01-07", "1d"),
        release=Release(ReleaseKey.parse("file:key"), "s"),
        **asked,
    )
    [one, other] = Ledger("sqlite:///b.db").read("d").charges
    assert one.cost == other.cost and len(found) == 2 and found.manifest.dataset == "d"


HOSTILE = "<script>alert(1)</script>"
PLAYS = pl.DataFrame(
    {"user": [f"u{n}" for n in range(90)], "item": [HOSTILE, "tea", "cake"] * 30, "time": [0, 1, 90_000] * 30}
)


def ranked(periodic: bool = False, counts: float | None = None) -> Rankings:
    period = Period.of("1970-01-01", "1970-01-03", "1d") if periodic else None
    return rank(
        PLAYS,
        2,
        Joint(1.0),
        [HOSTILE, "tea", "cake"],
        period=period,
        time_unit="s" if periodic else None,
        publish_counts=counts,
        release=fixed_release(),
    )


def test_rankings_convert_to_other_table_libraries() -> None:
    found = ranked(periodic=True, counts=0.5)
    frame = found.to_polars()
    assert frame.height == 4 and frame["rank"].to_list() == [1, 2] * 2
    assert (
        found.to_pandas()["item"].tolist() == frame["item"].to_list() == [i for window in found for i in window.items]
    )
    assert len(found) == 2 and found[0] == found.windows[0] and found[:1] == found.windows[:1]
    assert (alone := ranked()).items == alone[0].items
    for ask, said in (
        (lambda: found.items, "items are those of one ranking, and there are 2, of all windows and groups: take one, "),
        (lambda: found["DE"], "rankings are taken by their number"),
    ):
        with refused("", said):
            ask()


@pytest.mark.parametrize("asked", [{}, {"publish_counts": 0.5}, {"groups": ["north", "south"]}])
def test_a_table_and_a_pipeline_have_the_same_rankings(asked: dict[str, Any]) -> None:
    """Of one release over the same rows, the last window empty."""
    release, period = (
        Release(ReleaseKey.held(b"one key for both ways"), "r"),
        Period.of("1970-01-01", "1970-01-04", "1d"),
    )
    rows = PLAYS.with_columns(group=pl.lit("north")).to_dicts()
    same: dict[str, Any] = {"k": 2, "mechanism": Joint(1.0), "domain": [HOSTILE, "tea", "cake"], "period": period}
    same |= {"release": release, **asked}
    found = rank(pl.DataFrame(rows), **same, time_unit="s")
    assert [{**row, "release_id": "r"} for ranking in found for row in ranking.to_rows()] == found.to_rows()
    expected = list(found)

    def check(rankings: list[Ranking]) -> None:
        assert sorted(rankings, key=Ranking.label) == sorted(expected, key=Ranking.label)

    with beam.Pipeline(options=PipelineOptions(["--runner=DirectRunner"])) as pipeline:
        timed = pipeline | create(rows) | beam.Map(lambda row: TimestampedValue(row, row["time"]))
        ranked = timed | PrivateTopK(**same) | beam.WindowInto(GlobalWindows())
        assert_that(ranked, check)


@pytest.mark.parametrize(("mechanism", "counted"), [("weighted-gaussian", True), ("weighted-order", False)])
def test_a_ranking_by_weights_says_so(mechanism: str, counted: bool) -> None:
    """One of people would be told that 120 people come before 100; of which those with many items weigh half."""
    rows = [(f"a{n}", "a") for n in range(100)]
    rows += [(f"b{n}", item) for n in range(120) for item in ["b", *(f"{place} {n % 40}" for place in range(79))]]
    frame = pl.DataFrame(rows, ["user", "item"], orient="row")
    among = {"unknown_domain": True} if counted else {"k": 1, "domain": sorted(set(frame["item"]))}
    ranked = rank(frame, mechanism=mechanism, epsilon=8, delta=1e-5, max_items_per_user=80, **among)
    told = " ".join(str(ranked).split())
    assert ranked[0].items[0] == "a" and "how many different people" not in told + ranked.html()
    assert "a person of whom t items count adds min(1, sqrt(20 / t)) to each" in told
    assert ("with noise whose standard deviation is 2." in told) is counted
    assert "beyond the bounds is in no weight: with all rows weights may" in told
    assert "of each person were counted" in told and "group_columns" not in repr(ranked[0])
    bounded = str(rank(frame, mechanism=mechanism, epsilon=8, delta=1e-5, max_items_per_user=20, **among))
    assert "how many different people" in bounded and "weights" not in bounded, "each of 20 items weighs wholly"


def test_a_notebook_shows_table_guarantee_and_chart() -> None:
    shown = ranked(periodic=True, counts=0.5)._repr_html_()
    assert shown.count("<table") == 2 and shown.count("<svg viewBox") == 1 and "not private" in shown
    assert HOSTILE not in shown and "&lt;script&gt;" in shown
    assert "<svg" not in ranked()._repr_html_()
    by_rank = rank(ROWS, 2, Joint(1.0), ITEMS, **NAMES)._repr_html_()
    assert "How to read it</h2> drawn with noise</summary>" in by_rank and "drawn with noise" not in ranked().html()
    noisy = rank(ROWS, 2, "oneshot", ITEMS, epsilon=1.0, **NAMES)._repr_html_()
    moved = re.search(r"How to read it</h2> about 998 of 1,000 counts change by less than (\S+) users", noisy)
    enough = re.search(r"all noise. As a rule nine of ten are found where the item of place 2 has (\S+) users", noisy)
    assert moved and enough and float(enough[1]) == pytest.approx(2 * float(moved[1]), rel=0.1)


def test_amounts_are_told_as_sums() -> None:
    """Of which column, and how much a person adds at most."""
    amounts = {"amounts": Amounts(9, 0.5), "value": "price", "publish_counts": 0.5, "period": PERIOD}
    sums = rank(ROWS, 3, "oneshot", ITEMS, epsilon=1.0, **amounts, **NAMES)
    for told in (str(sums), sums.html(), sums._repr_html_()):
        said = " ".join(told.split())
        assert "each adds at most 9 to an item." in said and "the sum without noise lies" in said
        assert not re.search("noisy count|counts shown|counts may|count without", said, re.IGNORECASE), said
    assert "What a person has beyond the bounds is in no sum" in told
    one = rank(ROWS, 3, "oneshot", ITEMS, epsilon=1.0, **amounts | {"period": None}, **NAMES).plot()._repr_html_()
    assert "Noisy sums" in one and "the sum without noise" in one
    assert ">Noisy sum<" in told and "<dt>an amount is</dt><dd>a value of the column price</dd>" in told


NOTEBOOK = """
import sys
sys.modules["pandas"] = None
import polars
from private_topk import Joint, rank
rank(polars.DataFrame({"user": ["ana"], "item": ["tea"]}), k=1, mechanism=Joint(epsilon=1.0), domain=["tea", "cake"])
"""


@pytest.mark.long
def test_rank_runs_in_a_notebook_kernel_without_pandas() -> None:
    pytest.importorskip("ipykernel")
    client, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    cell = nbformat.v4.new_code_cell(NOTEBOOK)
    client.NotebookClient(nbformat.v4.new_notebook(cells=[cell]), kernel_name="python3").execute()
    told, shown = cell.outputs
    assert told["name"] == "stderr" and told["text"].startswith("dropped rows (operator only"), told
    assert sorted(shown["data"]) == ["text/html", "text/plain"], shown


def test_dropped_rows_are_shown_in_a_notebook_or_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a notebook's kernel by itself, elsewhere if asked, and never if not; the ranking is the same."""
    release = Release(ReleaseKey.fresh(), "r")

    asked = {"k": 1, "mechanism": Joint(1.0), "domain": ["tea", "cake"], "release": release}

    def told(rows: dict[str, list[str]], show: bool | None = None) -> str:
        assert rank(rows_frame(rows), **asked, show_dropped_rows=show) == of_none
        return capsys.readouterr().err

    def rows_frame(rows: dict[str, list[str]]) -> pa.Table:
        return pa.table(rows, pa.schema({"user": pa.string(), "item": pa.string()}))

    of_none = rank(rows_frame({"user": [], "item": []}), **asked, show_dropped_rows=False)
    others = {"user": [f"u{n}" for n in range(300)], "item": ["coal"] * 300}
    words = "all of them: not in domain 100 or more; no row is left: this is pure noise\n"
    assert told(others) == "" and told(others, True).endswith(words)
    spelt = told({**others, "item": ["Tea"] * 300}, True)
    assert "noise; 100 or more rows have items outside the domain that are in it but for spaces, capital" in spelt
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="one")))
    with monkeypatch.context() as without:
        without.setattr(sys.stderr, "isatty", lambda: True)
        assert told(others, False) == ""
    assert told(others).count(words) == 1 and "u1" not in told(others)
    with refused("show_dropped_rows", "must be True or False, got"):
        told(others, "yes")


MANY = pl.DataFrame({"row": range(10_050), "item": ["tea", "cake", "tea"] * 3_350}).with_columns(
    few=pl.col("row") % 99,
    order=pl.col("row") // 2,
    people=pl.col("row") % 3_000,
    group=pl.lit("DE"),
    time=1_767_600_000 + pl.col("row") % 9 * 86_400,
)
DAYS = Period.of("2026-01-05", "2026-01-15", "1d")
OWN, FEW = (
    "; a user has three rows or fewer on average: a survey or rare visits, or is ",
    "; fewer than 100 users, few for a private ranking: is ",
)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"groups": ["DE", "FR"], "overall": True},
        {"period": DAYS, "max_items_per_user": 1, "time_unit": "s"},
        {"period": DAYS, "privacy_unit": "user", "max_windows_per_user": 1, "time_unit": "s"},
        {"period": Period.of("2026-01-05", "2026-01-15", "4d", slide="2d"), "time_unit": "s"},
    ],
)
def test_a_user_column_that_names_rows_or_few_users_is_asked_about(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """By a run and by a dry run, to the operator alone."""
    asked = {"k": 1, "mechanism": "joint", "epsilon": 1.0, "domain": ["tea", "cake"], **asked}
    for user, told in {"order": OWN, "few": FEW, "people": None}.items():
        found = str(rank(MANY, **asked, user=user, show_dropped_rows=True))
        once, shown = capsys.readouterr().err, dict.fromkeys((OWN, FEW))
        dry_run(MANY, **asked, user=user, show_dropped_rows=True)
        again = capsys.readouterr()
        assert {text for text in shown if text in once} == {told} - {None}, once
        assert {text for text in shown if f"\n  {text[2:]}" in again.err} == {told} - {None}, again.err
        assert not any(text[2:] in found + again.out for text in shown)


def test_a_list_that_is_made_from_the_rows_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    """By a run and by a dry run, to the operator alone; not one that has more or less, nor a short one or a range."""
    rows = MANY.with_columns(item=pl.format("item {}", pl.col("row") % 30), number=pl.col("row") % 30)
    rows = rows.with_columns(other=pl.lit("item"), shop=pl.lit("north"))
    asked = {"k": 1, "mechanism": "joint", "epsilon": 1.0, "user": "people"}
    listed, words = rows["item"].unique(), "these rows have nearly all items of the list, and no other"
    for its, told in (
        ({"domain": listed}, True),
        ({"domain": [*listed, "tea"], "period": DAYS, "time_unit": "s"}, True),
        ({"domain": listed, "group": "shop", "groups": ["north", "south"]}, True),
        ({"domain": {"north": listed, "south": ["item 1"]}, "group": "shop"}, True),
        ({"domain": [*listed, "tea", "cake", "scone"]}, False),
        ({"domain": listed[1:], "period": DAYS, "time_unit": "s"}, False),
        ({"domain": ["tea", "cake"], "item": "other"}, False),
        ({"domain_range": "0:30", "item": "number"}, False),
    ):
        found = str(rank(rows, **asked, **its, show_dropped_rows=True))
        assert (f"; {words}" in capsys.readouterr().err) is told, its
        dry_run(rows, **asked, **its, show_dropped_rows=True)
        again = capsys.readouterr()
        assert (f"\n  {words}" in again.err) is told and words not in found + again.out


PRICED = pl.DataFrame({"user": [f"u{n}" for n in range(400)], "item": ["A", "B"] * 200, "value": [0.6, 0.4] * 200})


def test_amounts_of_a_fractional_type_need_a_resolution(capsys: pytest.CaptureFixture[str]) -> None:
    """Known by the type. Where values are texts, the operator is told of those that lose their decimals."""
    asked = {"k": 1, "epsilon": 1.0, "domain": ["A", "B"], "publish_counts": 1.0, "show_dropped_rows": True}
    for kind in (pl.Float32, pl.Float64, pl.Decimal(9, 2)):
        typed = PRICED.with_columns(pl.col("value").cast(kind))
        for door in (rank, dry_run):
            with refused("value_resolution", "must be given: column 'value' of a table in memory may have decimals"):
                door(typed, **asked, amounts=Amounts(max_value=5))
    for cast in (pl.Int64, pl.Decimal(9, 0)):
        dry_run(PRICED.with_columns(pl.col("value").cast(cast)), **asked, max_value=5)
    dry_run(PRICED.with_columns(pl.col("value").cast(pl.String)), **asked, max_value=5)
    told = capsys.readouterr()
    assert "amount rounds to 0 or less: 100 or more" in told.err and "rows have an amount with decimals" in told.err
    assert re.search(
        r"\ncounts +the published count is within ± [\d,]+ of the one without noise at least 95%", told.out
    )


def test_many_users_are_counted_by_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate's standard deviation is 0.9%: wrong by five of them once in 1,000,000 calls."""
    monkeypatch.setattr("private_topk.pipelines.dropped_rows._MAX_USERS", 1 << 14)
    for repeated, look in ((0, "many"), (6000, "many"), (7000, None)):
        users = DistinctUsers()
        for start in range(0, 200_000, 10_000):
            users.add(pa.array([f"u{n}" for n in range(start, start + 10_000 - repeated)] + ["u"] * repeated))
        assert users.rows == 200_000 and users.look() == look


def test_a_dry_run_of_a_table_says_what_the_ledger_would_and_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same facts as the command, of the same question; and an id that a slip has not used up."""
    monkeypatch.chdir(tmp_path)
    Path("key").write_text("a key of the tests, which is no secret")
    Path("items.txt").write_text("\n".join(ITEMS) + "\n")
    ROWS.write_parquet("rows.parquet")
    ledger = f"sqlite:///{tmp_path}/budget.db"
    Ledger(ledger).create(Budget.of("plays", epsilon=2.0))
    paid = {"release": Release(ReleaseKey.parse("file:key"), "r"), "ledger": ledger, "dataset": "plays"}
    asked = {"k": 3, "epsilon": 1.0, "domain": ITEMS, **NAMES, **paid}
    dry_run(ROWS, **{**asked, "domain": [item.upper() for item in ITEMS]}, show_dropped_rows=True)
    assert "in it but for spaces, capital letters" in capsys.readouterr().err
    dry_run(ROWS, **asked, show_dropped_rows=False)
    told = capsys.readouterr()
    assert told.out.endswith("\nready: nothing was drawn, charged or published\n") and not told.err
    named = {"user_column": "listener", "item_column": "track", "output": "out.avro", "domain": "items.txt"}
    named |= {"release_key": "file:key", "release_id": "r", "ledger": ledger, "dataset": "plays"}
    words = options(**named, input="rows.parquet", k=3, epsilon=1, dry_run=True)
    facts = {line for line in command("run", *words).out.splitlines() if line.split()[0] not in ("input", "output")}
    assert {line for line in facts if not line.startswith("recall")} <= {*told.out.splitlines()}, (facts, told.out)
    assert "50.0% of the user-window budget would be used" in told.out and not Ledger(ledger).read("plays").charges
    rank(ROWS, **asked)
    dry_run(ROWS, **asked)
    assert "so it costs nothing" in capsys.readouterr().out
    with refused("domain", "must "):
        dry_run(ROWS, **{**asked, "domain": 7})


def test_blanks_around_what_is_listed_are_told_before_the_draw(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    rows = pl.DataFrame({"user": ["ann"], "item": ["tea"], "group": ["DE"]})
    listed: dict[str, Any] = {"domain": ["cake", "tea\n"], "groups": [" DE"], "epsilon": 1, "mechanism": "joint"}
    rank(rows, 1, show_dropped_rows=True, **listed)
    PrivateTopK(1, **listed)
    for told in (capsys.readouterr().err.partition("dropped rows")[0], caplog.text):
        for said in ("domain: 1 of 2", r"such as 'tea\n'", "groups: 1 of 1", "such as ' DE'"):
            assert said in told


def test_what_is_advised_of_a_table_names_arguments_and_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["Müll", *ITEMS]
    rows = {"user": [f"u{n}" for n in range(200)], "time": [1_767_700_000_000] * 200, "item": ["MÃ¼ll"] * 200}
    for unit, said in (("s", '(time_unit="ms")'), ("ms", "UTF-8 read as latin-1")):
        period = Period.of("2026-01-05", "2026-01-12", "7d")
        rank(pl.DataFrame(rows), 1, Joint(1.0), names, period=period, time_unit=unit, show_dropped_rows=True)
        told = capsys.readouterr().err
        assert said in told and "--" not in told, told


def test_rank_hides_the_notebook_from_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its part for notebooks needs an old pandas, and has the notebook load scripts from elsewhere."""
    shell: Any = SimpleNamespace(get_ipython=lambda: "a shell")
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "apache_beam.runners.interactive", None)
    assert ranked().items and sys.modules["IPython"] is shell


def test_two_pictures_of_a_notebook_have_identifiers_of_their_own() -> None:
    first, second = (ranked(periodic=periodic, counts=0.5)._repr_html_() for periodic in (False, True))
    assert "<svg" in first
    assert {part.split('"')[0] for part in first.split('id="')[1:]}.isdisjoint(
        {part.split('"')[0] for part in second.split('id="')[1:]}
    )


@pytest.mark.long
def test_a_picture_is_a_file_of_its_own(tmp_path: Path) -> None:
    counted, plain = ranked(counts=0.5), ranked()
    picture = counted.plot()
    assert isinstance(picture, Picture) and isinstance(ranked(periodic=True).plot(), Picture)
    picture.save(str(tmp_path / "new folder" / "counts.svg"))
    written = (tmp_path / "new folder" / "counts.svg").read_text()
    assert written == picture.svg and written.startswith("<svg") and HOSTILE not in written
    with refused("path", "must end with .svg", "save it as .svg, of which cairosvg or rsvg-convert makes a .png"):
        picture.save("x.png")
    for keep in (picture.save, plain.write):
        with refused("path", "must be a path, got int"):
            keep(5)
    of_groups = rank(ROWS, 2, Joint(1.0), ITEMS, groups=["shop 1", "shop 2"], group="shop", publish_counts=0.5, **NAMES)
    with refused("group", "must be one of shop 1, shop 2"):
        of_groups.plot()
    with refused("group", "must be left out: this ranking has no groups"):
        counted.plot("shop 1")
    assert "Noisy counts" in of_groups.plot("shop 2").svg
    assert str(of_groups).startswith("shop 1, All rows\n  1  track ")
    assert str(plain).startswith("All rows\n  1  ") and "What it promises" in str(plain)


def test_one_window_without_counts_is_drawn_as_its_list() -> None:
    found = ranked()
    drawn = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", found.plot().svg)]
    assert drawn == [f"{place} {item}" for place, item in enumerate(found.items, 1)]
    with_counts = re.findall(r"<text[^>]*>(.*?)</text>", ranked(counts=0.5).plot().svg)
    assert [text[:2] for text in with_counts[::2]] == ["1 ", "2 "] and with_counts[1].startswith("about ")


def test_what_has_no_picture_says_why() -> None:
    sets = rank(ROWS, 2, "canonical", ITEMS, epsilon=1.0, period=PERIOD, **NAMES)
    with pytest.raises(InvalidArgument, match="plot has nothing to draw: sets have no places"):
        sets.plot()
    nothing = rank(ROWS[:1], 2, epsilon=1.0, delta=1e-9, unknown_domain=True, period=PERIOD, **NAMES)
    with pytest.raises(InvalidArgument, match="plot has nothing to draw: no item was released"):
        nothing.plot()


def test_a_published_ranking_is_read_back(tmp_path: Path) -> None:
    """As it was, from every format; and of a folder the series, also of groups in files of their own."""
    grouped = {"groups": ["shop 1", "shop 2"], "group": "shop"}
    found = rank(ROWS, 2, Joint(1.0), ITEMS, period=PERIOD, publish_counts=0.5, **grouped, **NAMES)
    for ending in RANKING_FORMATS:
        found.write(tmp_path / f"of{ending[1:]}{ending}")
        read = Rankings.read(tmp_path / f"of{ending[1:]}{ending}")
        assert read == found and list(read) == list(found) and str(read) == str(found)
        assert read.plot("shop 2").svg == found.plot("shop 2").svg
        read.write(tmp_path / f"again{ending[1:]}{ending}")
    rows = [json.loads(line) for line in (tmp_path / "ofjsonl.jsonl").read_text().splitlines()]
    folder = tmp_path / "weeks"
    for number, week in enumerate(PERIOD.windows()):
        alone = Period(week.start, week.end)
        rank(ROWS, 2, Joint(1.0), ITEMS, period=alone, **grouped, **NAMES).write(folder / f"{9 - number}.csv")
    series = Rankings.read(folder)
    assert len(rows) == 16 and [(its.window.start, its.group) for its in series] == [
        (its.window.start, its.group) for its in found
    ]
    assert series.to_pandas().shape[0] == 16 and "over 4 windows" in series.plot("shop 1").svg
    with refused("", "are of several releases, each with a manifest of its own: copy their files"):
        series.write(tmp_path / "all.csv")
    (folder / "9.manifest.json").unlink()
    with refused("path", "has a ranking without its manifest"):
        Rankings.read(folder / "9.csv")
    with refused("", "nope.csv does not exist: check the path") as told:
        Rankings.read("nope.csv")
    assert len(told.traceback) == 3 and told.value.__context__ is None
    numbers = rank(pl.DataFrame({"user": ["u"], "item": [7]}), 1, Joint(9.0), [7, 8])
    numbers.write(tmp_path / "numbers.csv")
    assert Rankings.read(tmp_path / "numbers.csv") == numbers


def test_files_are_those_of_a_run(tmp_path: Path) -> None:
    found, path = ranked(), str(tmp_path / "ranking.csv")
    found.write(path)
    assert RANKING_FORMATS[".csv"].decode(Path(path).read_bytes()) == found.to_rows()
    found.write(Path(path))  # the same again is no overwriting
    with refused("release_id", "is taken"):  # the answer of the same release to another question
        ranked(counts=0.5).write(path, overwrite=True)
    with refused(
        "path", "must end with one of .avro, .csv, .jsonl, .ndjson, .parquet: other kinds of", "for Excel, take"
    ):
        found.write(tmp_path / "ranking.xlsx")
    with refused("path", "is kept: it holds another draw, and each costs, overwritten or not: give another path, or"):
        rank(PLAYS, 2, Joint(1.0), ["tea", "cake"]).write(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranking.csv", "ranking.manifest.json"]


def test_a_path_may_begin_in_the_home_folder(tmp_path: Path, release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell has it; it was a folder of the name ~."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "menu.txt").write_text("\n".join(ITEMS))
    found = rank(ROWS, 3, Joint(1.0), "~/menu.txt", release=release, **NAMES)
    found.write("~/top.csv")
    assert (tmp_path / "top.csv").exists() and found == rank(ROWS, 3, Joint(1.0), ITEMS, release=release, **NAMES)
