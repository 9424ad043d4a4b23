"""Tables of BigQuery: the statement, the schema, and the jobs that its own client sends to an endpoint on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from private_topk.pipelines.bigquery import export_query, table_schema
from private_topk.pipelines.sinks.formats import AVRO_SCHEMA, FORMATS
from private_topk.transforms.refusal import Refusal as InputError
from tests.runners.cloud import BUCKET, Cloud, cloud_serving

START, END = (datetime(2026, 1, day, tzinfo=timezone.utc) for day in (5, 12))
ROW = {"window_start": START, "window_end": END, "rank": 1, "item": "tea", "noisy_count": None, "k": 1, "returned": 1,
       "release_id": "weekly"}  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_serving(tmp_path_factory.mktemp("cloud")) as found:
        yield found


@pytest.fixture
def cloud(running: Cloud) -> Cloud:
    running.service.jobs.clear()
    return running


def run(cloud: Cloud, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "private_topk.pipelines.bigquery", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=cloud.environment, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_statement_names_columns_period_and_place() -> None:
    said = export_query("my-project.shop.plays", "gs://b/plays/", ["user", "item", "time"], ("time", START, END))
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
        ("p.d.t` WHERE true; DROP TABLE x --", "gs://b/f", "user"),
        ("d.t", "gs://b/f", "user"),
        ("p.d.t", "gs://b/f', format = 'CSV", "user"),
        ("p.d.t", "/tmp/f", "user"),
        ("p.d.t", "gs://b/f", "user` FROM x; --"),
    ],
)
def test_nothing_given_is_read_as_sql(table: str, folder: str, column: str) -> None:
    with pytest.raises(InputError, match="must be"):
        export_query(table, folder, [column, "item"], None)


def test_the_schema_is_that_of_the_files() -> None:
    fields = {field["name"]: field for field in AVRO_SCHEMA["fields"]}
    assert [field.name for field in table_schema()] == list(fields)
    for field in table_schema():
        kind = str(fields[field.name]["type"])
        assert field.description == fields[field.name]["doc"]
        expected = "TIMESTAMP" if "timestamp" in kind else "STRING" if "string" in kind else "INTEGER"
        assert (field.field_type, field.mode) == (expected, "NULLABLE")


def test_a_table_is_exported_once(cloud: Cloud) -> None:
    words = [
        "export",
        "--table",
        "my-project.shop.plays",
        "--folder",
        f"gs://{BUCKET}/plays/week",
        "--user-column",
        "who",
    ]
    place = f"gs://{BUCKET}/plays/week/rows-*.parquet"
    assert run(cloud, *words) == (0, f"{place}\n", "")
    (job,) = cloud.service.jobs
    assert job["configuration"]["query"]["query"].startswith(f"EXPORT DATA OPTIONS (uri = '{place}'")
    assert "SELECT `who`, `item`\n" in job["configuration"]["query"]["query"]
    cloud.bucket.put("plays/week/rows-000000000000.parquet", b"the snapshot")
    assert run(cloud, *words) == (0, f"{place}\n", "")
    assert len(cloud.service.jobs) == 1


def test_a_ranking_is_loaded_once(cloud: Cloud) -> None:
    place = cloud.bucket.put("rankings/week.avro", FORMATS[".avro"].encode([ROW]))
    words = ["load", "--ranking", place, "--table", "my-project.shop.rankings"]
    for _ in range(2):
        assert run(cloud, *words) == (0, "", "")
    (job,) = cloud.service.jobs
    config = job["configuration"]["load"]
    assert config["sourceUris"] == [place] and config["sourceFormat"] == "AVRO" and config["useAvroLogicalTypes"]
    assert config["writeDisposition"] == "WRITE_APPEND"
    assert config["destinationTable"] == {"projectId": "my-project", "datasetId": "shop", "tableId": "rankings"}
    assert [field["name"] for field in config["schema"]["fields"]] == list(ROW)


def test_a_load_that_failed_is_tried_anew(cloud: Cloud) -> None:
    place = cloud.bucket.put("rankings/week.avro", FORMATS[".avro"].encode([ROW]))
    words = ["load", "--ranking", place, "--table", "my-project.shop.rankings"]
    cloud.service.outcome = {"errorResult": {"reason": "accessDenied", "message": "no"}}
    assert run(cloud, *words)[0] == 1
    cloud.service.outcome = {}
    assert run(cloud, *words) == (0, "", "")
    first, second = (job["jobReference"]["jobId"] for job in cloud.service.jobs)
    assert (first[:-1], first[-1], second[-1]) == (second[:-1], "1", "2")


def test_wrong_arguments_are_explained(cloud: Cloud) -> None:
    export = ["export", "--table", "my-project.shop.plays", "--folder", f"gs://{BUCKET}/x"]
    for words, said in (
        ([*export, "--from", "2026-01-05"], "--time-column, --from and --to go together"),
        (["load", "--ranking", "/tmp/r.avro", "--table", "p.d.t"], "must be an .avro or .parquet file on a bucket"),
        (["load", "--ranking", f"gs://{BUCKET}/none.avro", "--table", "p.d.t"], "does not exist: publish it first"),
    ):
        status, _, message = run(cloud, *words)
        assert status == 2 and said in message and message.count("\n") == 1
    assert not cloud.service.jobs
