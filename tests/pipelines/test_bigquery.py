"""Tables of BigQuery as input and output of `run`: the jobs that its own client sends to an endpoint on loopback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.release.formats import RANKING_FORMATS, avro_schema
from private_topk.pipelines.sinks.bigquery import ToBigQuery, load, table_schema
from private_topk.pipelines.sources.bigquery import BigQuery, export_query, exported, table_of
from private_topk.pipelines.sources.columns import Columns
from tests.pipelines.sinks.contract import SinkContract
from tests.pipelines.sources.contract import ROWS as CONTRACT
from tests.pipelines.sources.contract import SourceContract
from tests.pipelines.support import command, to_parquet, write
from tests.refusals import refused
from tests.runners.cloud import BUCKET, Cloud, cloud_serving

START, END = (datetime(2026, 1, day, tzinfo=UTC) for day in (5, 12))
ROWS = [{"who": f"u{n}", "item": f"i{n % 7}", "time": datetime(2026, 1, 5 + n % 7, tzinfo=UTC)} for n in range(70)]
PLAYS, RANKINGS = "bigquery://my-project:shop.plays", "bigquery://my-project:shop.rankings"
SNAPSHOT = f"gs://{BUCKET}/snapshots"
RANKED = {
    "window_start": START,
    "window_end": END,
    "rank": 1,
    "item": "tea",
    "noisy_count": None,
    "noise_stddev": None,
    "noise_95": None,
    "k": 1,
    "returned": 1,
    "release_id": "weekly",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_serving(tmp_path_factory.mktemp("cloud")) as found:
        yield found


@pytest.fixture
def cloud(running: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    service = running.service
    service.jobs.clear(), service.loaded.clear(), service.outcome.clear()
    kinds = {"who": "STRING", "item": "STRING", "time": "TIMESTAMP", "day": "DATE"}
    fields = [{"name": name, "type": kind, "mode": "NULLABLE"} for name, kind in kinds.items()]
    reference = {"projectId": "my-project", "datasetId": "shop", "tableId": "plays"}
    service.tables = {"plays": {"tableReference": reference, "schema": {"fields": fields}, "numBytes": "7000"}}

    service.on_query = partial(_export, running, ROWS)
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    return running


def _export(cloud: Cloud, rows: list[dict[str, Any]], statement: str) -> None:
    place = re.search(rf"uri = 'gs://{BUCKET}/(.*?)\\*\.parquet'", statement)
    assert place is not None, statement
    cloud.bucket.put(f"{place[1]}000000000000.parquet", to_parquet(rows))


@pytest.fixture
def report(tmp_path: Path) -> list[str]:
    write(tmp_path / "items.txt", "\n".join(f"i{n}" for n in range(7)))
    write(tmp_path / "key", "a key of the tests, which is no secret")
    return (
        f"run --quiet --domain {tmp_path}/items.txt --mechanism joint --k 3 --epsilon 1 --user-column who --window "
        f"7d --from 2026-01-05 --to 2026-01-12 --release-key file:{tmp_path}/key --release-id week"
    ).split()


def test_the_statement_names_columns_period_and_place() -> None:
    said = export_query("my-project.shop.plays", "gs://b/plays", ["user", "item", "time"], ("time", START, END))
    assert said == (
        "EXPORT DATA OPTIONS (uri = 'gs://b/plays/rows-*.parquet', format = 'PARQUET') AS\n"
        "SELECT `user`, `item`, `time`\n"
        "FROM `my-project.shop.plays`\n"
        "WHERE `time` >= TIMESTAMP '2026-01-05T00:00:00+00:00' AND `time` < TIMESTAMP '2026-01-12T00:00:00+00:00'"
    )
    assert "WHERE" not in export_query("p.d.t", "gs://b/f", ["user", "item"], None)


@pytest.mark.parametrize(
    ("table", "folder", "column"),
    [
        ("p:d.t` WHERE true; DROP TABLE x --", "gs://b/f", "user"),
        ("d.t", "gs://b/f", "user"),
        ("p:d.t", "gs://b/f', format = 'CSV", "user"),
        ("p:d.t", "/tmp/f", "user"),
        ("p:d.t", "gs://b/f", "user` FROM x; --"),
    ],
)
def test_nothing_given_is_read_as_sql(table: str, folder: str, column: str) -> None:
    with refused(None, "must be"):
        export_query(table_of(f"bigquery://{table}", "input"), folder, [column, "item"], None)


def test_the_schema_is_that_of_the_files() -> None:
    fields = {field["name"]: field for field in avro_schema()["fields"]}
    assert [field["name"] for field in table_schema()["fields"]] == list(fields)
    for field in table_schema()["fields"]:
        kind = str(fields[field["name"]]["type"])
        assert field["description"] == fields[field["name"]]["doc"]
        expected = (
            "TIMESTAMP"
            if "timestamp" in kind
            else "STRING"
            if "string" in kind
            else "FLOAT"
            if "double" in kind
            else "INTEGER"
        )
        assert (field["type"], field["mode"]) == (expected, "NULLABLE")


def test_from_a_table_into_a_table_once(cloud: Cloud, report: list[str], tmp_path: Path) -> None:
    """A repetition exports nothing and loads nothing; the ranking is that of the same rows in a file."""
    words = [*report, "--input", PLAYS, "--snapshot", SNAPSHOT, "--output", RANKINGS]
    for _ in range(2):
        done = command(*words)
        assert done.status == 0, done.err
    query, loading = cloud.service.jobs
    said = query["configuration"]["query"]["query"]
    assert "SELECT `who`, `item`, `time`\nFROM `my-project.shop.plays`\nWHERE" in said
    config = loading["configuration"]["load"]
    assert config["sourceFormat"] == "AVRO" and config["useAvroLogicalTypes"]
    assert config["writeDisposition"] == "WRITE_APPEND"
    assert config["destinationTable"] == {"projectId": "my-project", "datasetId": "shop", "tableId": "rankings"}
    assert [field["name"] for field in config["schema"]["fields"]] == list(RANKED)
    write(tmp_path / "rows.parquet", ROWS)
    assert command(*report, "--input", f"{tmp_path}/rows.parquet", "--output", f"{tmp_path}/r.avro").status == 0
    (loaded,) = cloud.service.loaded
    assert RANKING_FORMATS[".avro"].decode(loaded) == RANKING_FORMATS[".avro"].decode(
        (tmp_path / "r.avro").read_bytes()
    )


@pytest.mark.parametrize("kind", ["FLOAT", "NUMERIC"])
def test_amounts_that_may_have_decimals_need_a_resolution(cloud: Cloud, report: list[str], kind: str) -> None:
    """By the table's schema, before anything starts."""
    cloud.service.tables["plays"]["schema"]["fields"].append({"name": "paid", "type": kind})
    place = "--input bigquery://my-project:shop.plays --snapshot gs://bucket/plays --output r.avro"
    done = command(*report, *place.split(), "--value-column", "paid", "--max-value", "5")
    assert done.status == 2 and "--value-resolution must be given: column 'paid' of bigquery://" in done.err


def test_ids_stay_integers_in_a_table_that_does_not_hold_texts(cloud: Cloud, report: list[str], tmp_path: Path) -> None:
    """A table with items of the other type is refused before anything starts."""
    write(tmp_path / "items.txt", "\n".join(map(str, range(7))))
    cloud.service.tables["plays"]["schema"]["fields"][1]["type"] = "INTEGER"
    there = {
        name: {
            **cloud.service.tables["plays"],
            "schema": {"fields": [{"name": column, "type": kind} for column in RANKED]},
        }
        for name, kind in (("ids", "INTEGER"), ("texts", "STRING"))
    }
    cloud.service.tables |= there
    cloud.service.on_query = partial(_export, cloud, [{**row, "item": int(row["item"][1:])} for row in ROWS])
    folder = f"{SNAPSHOT}/ids"
    words = [*report, "--input", PLAYS, "--snapshot", folder, "--output"]
    done = command(*words, "bigquery://my-project:shop.texts")
    assert done.status == 2 and "shop.texts has items of type STRING, and these are of type INTEGER" in done.err
    without = [column for column in there["ids"]["schema"]["fields"] if column["name"] != "noise_95"]
    cloud.service.tables["narrow"] = {**there["ids"], "schema": {"fields": without}}
    done = command(*words, "bigquery://my-project:shop.narrow")
    assert done.status == 2 and "shop.narrow has no column noise_95: give another" in done.err
    assert not cloud.service.jobs
    for table in ("new", "ids"):
        done = command(*words, f"bigquery://my-project:shop.{table}")
        assert done.status == 0, done.err
    kinds = {
        field["name"]: field["type"] for field in cloud.service.jobs[-1]["configuration"]["load"]["schema"]["fields"]
    }
    assert kinds["item"] == "INTEGER" and len(cloud.service.loaded) == 2
    assert {row["item"] for row in RANKING_FORMATS[".avro"].decode(cloud.service.loaded[0])} < set(range(7))
    write(tmp_path / "rows.csv", [{"who": "u", "item": "1", "time": "2026-01-05"}])
    done = command(*report, "--input", f"{tmp_path}/rows.csv", "--output", "bigquery://my-project:shop.ids")
    assert done.status == 2 and "shop.ids has items of type INTEGER, and these are of type STRING" in done.err


def test_another_question_has_a_snapshot_of_its_own(cloud: Cloud) -> None:
    def of(columns: list[str], within: Any = None) -> str:  # noqa: ANN401
        return exported("my-project.shop.plays", f"{SNAPSHOT}/others/", columns, within)

    places = {of(["who", "item"]), of(["item", "who"]), of(["who", "item"], ("time", START, END))}
    assert len(places) == 3 and of(["who", "item"]) in places and len(cloud.service.jobs) == 3


def test_files_of_a_failed_export_are_not_read(cloud: Cloud) -> None:
    place = f"{SNAPSHOT}/failing"
    cloud.service.outcome.update({"errorResult": {"reason": "accessDenied", "message": "no"}})
    with pytest.raises(Exception, match="no"):
        exported("my-project.shop.plays", place, ["who", "item"], None)
    cloud.service.outcome.clear()
    found = exported("my-project.shop.plays", place, ["who", "item"], None)
    first, second = (job["jobReference"]["jobId"] for job in cloud.service.jobs)
    assert (first[:-1], first[-1], second[-1]) == (second[:-1], "1", "2") and found.endswith("/2/rows-*.parquet")
    assert exported("my-project.shop.plays", place, ["who", "item"], None) == found and len(cloud.service.jobs) == 2


def test_a_load_that_failed_is_tried_anew(cloud: Cloud) -> None:
    rows = RANKING_FORMATS[".avro"].encode([RANKED])
    cloud.service.outcome.update({"errorResult": {"reason": "accessDenied", "message": "no"}})
    with pytest.raises(Exception, match="no"):
        load("my-project.shop.rankings", rows, table_schema()["fields"])
    cloud.service.outcome.clear()
    for _ in range(2):
        load("my-project.shop.rankings", rows, table_schema()["fields"])
    assert cloud.service.loaded == [rows] and len(cloud.service.jobs) == 2


def test_invalid_bigquery_options_are_refused_in_one_line(cloud: Cloud, report: list[str]) -> None:
    table = ["--input", PLAYS, "--output", RANKINGS]
    there = [*table, "--snapshot", SNAPSHOT]
    for words, said in (
        (table, "--snapshot must be given with bigquery://"),
        ([*table, "--snapshot", "/tmp/x"], "--snapshot must be gs://BUCKET/FOLDER"),
        (["--input", f"{PLAYS}2", *there[2:]], f"--input {PLAYS}2 is not there"),
        ([*there, "--item-column", "track"], "--item-column 'track' is no column of bigquery://"),
        ([*there, "--time-column", "day"], "--time-column must be of BigQuery's type TIMESTAMP, got DATE"),
        ([*there[:2], "--output", PLAYS, *there[4:]], "--output bigquery://my-project:shop.plays is read"),
        (["--input", "rows.avro", "--output", RANKINGS, "--snapshot", SNAPSHOT], "--snapshot does not apply to"),
    ):
        done = command(*report, *words)
        assert done.status == 2 and said in done.err and done.err.count("\n") == 1, (words, done.err)
    stream = [word for word in report[2:] if word != "run"]
    done = command("stream", *stream, *there[:2], "--output", "out")
    assert done.status == 2 and "`private-topk run` takes it" in done.err
    assert not cloud.service.jobs


class TestSource(SourceContract):
    @pytest.fixture
    def source(self, cloud: Cloud) -> BigQuery:
        self.cloud = cloud
        fields = [
            {"name": name, "type": kind, "mode": "NULLABLE"}
            for name, kind in {"user": "STRING", "item": "STRING", "time": "TIMESTAMP"}.items()
        ]
        for name in ("plays", "more"):
            reference = {"projectId": "p", "datasetId": "d", "tableId": name}
            cloud.service.tables[name] = {"tableReference": reference, "schema": {"fields": fields}, "numBytes": "9"}

        def export(statement: str) -> None:
            place = re.search(rf"uri = 'gs://{BUCKET}/(.*?)\*\.parquet'", statement)
            assert place is not None
            rows = CONTRACT if ".plays`" in statement else CONTRACT[:9]
            cloud.bucket.put(f"{place[1]}000000000000.parquet", to_parquet(rows))

        cloud.service.on_query = export
        return BigQuery("bigquery://p:d.plays", f"{SNAPSHOT}/contract", Columns(time="time"))

    @pytest.fixture
    def missing(self, cloud: Cloud) -> BigQuery:
        return BigQuery("bigquery://p:d.none", SNAPSHOT)

    def changes(self) -> dict[str, Any]:
        return {"uri": "bigquery://p:d.more", "columns": Columns("item", "user", "time")}

    def state(self) -> object:
        return self.cloud.bucket.names(), len(self.cloud.service.jobs)


class TestSink(SinkContract):
    keeps = False

    @pytest.fixture
    def sink(self, cloud: Cloud) -> ToBigQuery:
        self.cloud = cloud
        return ToBigQuery(RANKINGS)

    def state(self) -> object:
        return list(self.cloud.service.loaded)
