"""What is published: the same rows from every format, a manifest without anything private."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk.pipelines.question import Question
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.formats import (
    FIELDS,
    RANKING_FORMATS,
    RankingSchema,
    arrow_schema,
    avro_schema,
    fields_of,
    format_of,
    ranking_rows,
)
from private_topk.pipelines.release.place import manifest_path
from private_topk.pipelines.show.page import page
from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.show.words import in_text
from private_topk.pipelines.sinks.messages import attributes_of, message_of
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.mechanisms import Joint, LimitDomain, WeightedGaussian
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.release import NoiseSize, Ranking, Release, ReleaseKey
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import WindowBounds
from tests.refusals import refused

START = datetime(2026, 1, 1, tzinfo=UTC)
ODD = ("a,b", 'quo"te', "line\nbreak", "carriage\r\nreturn", "é🎵", "\x01", " ", "null", "7", "\u2028", "\x85", "\t")
RANKINGS = [
    Ranking(WindowBounds(START + timedelta(days=2), START + timedelta(days=3, milliseconds=1)), ODD, 12, "sequence"),
    Ranking(WindowBounds(START, START + timedelta(days=2)), ("x", "y"), 12, "sequence"),
]
SET = [Ranking(WindowBounds(), ("x", "y"), 2, "set")]
COUNTED = [Ranking(WindowBounds(), ("x", "y"), 2, "sequence", (0, -7), NoiseSize(3.14159, 6))]


def test_rows_are_in_order_of_window_and_rank() -> None:
    rows = ranking_rows(RANKINGS, "id")
    assert [row["item"] for row in rows] == ["x", "y", *ODD]
    assert [row["rank"] for row in rows] == [1, 2, *range(1, 13)]
    first = {
        "window_start": START,
        "window_end": START + timedelta(days=2),
        "rank": 1,
        "item": "x",
        "k": 12,
        "returned": 2,
        "release_id": "id",
    }
    assert {name: rows[0][name] for name in first} == first and list(rows[0]) == list(FIELDS)


def test_a_set_has_no_ranks_and_no_windows_are_null() -> None:
    for row in ranking_rows(SET, "id"):
        assert row["rank"] is row["window_start"] is row["window_end"] is None


@pytest.mark.parametrize("ending", RANKING_FORMATS)
@pytest.mark.parametrize("rankings", [RANKINGS, SET, COUNTED, []], ids=["sequence", "set", "counted", "nothing"])
def test_rankings_read_back_equal_in_every_format(ending: str, rankings: list[Ranking]) -> None:
    rows = ranking_rows(rankings, "id 1")
    form = format_of(f"some/ranking{ending.upper()}")
    content = form.encode(rows)
    assert form.decode(content) == rows
    assert form.encode(rows) == content, "a repeated release must give the same bytes"


@pytest.mark.parametrize("ending", RANKING_FORMATS)
def test_sums_with_a_fraction_of_groups_read_back_equal(ending: str) -> None:
    found = Ranking(WindowBounds(), ("x", "y"), 2, "sequence", (0.5, -7.25), NoiseSize(3.25, 6.75), "7")
    schema = RankingSchema(fractional=True, grouped=True)
    rows = ranking_rows([found], "id", schema)
    assert RANKING_FORMATS[ending].decode(RANKING_FORMATS[ending].encode(rows, schema)) == rows


@pytest.mark.parametrize("grouped", [False, True])
def test_rankings_of_groups_have_no_rows_without_a_group_and_the_reverse(grouped: bool) -> None:
    """Left out, two groups would be one list with every rank twice."""
    with refused("schema", "must be RankingSchema(grouped=True) for rankings of groups, and only for those"):
        ranking_rows([replace(RANKINGS[1], group=None if grouped else "FR")], "id", RankingSchema(grouped=grouped))


def test_sums_with_fractions_are_not_cut_to_whole_numbers() -> None:
    """As Parquet's writer does, without a word."""
    sums = replace(COUNTED[0], noisy_counts=tuple(count + 0.75 for count in COUNTED[0].noisy_counts or ()))
    with refused("schema", "must be RankingSchema(fractional=True) for noisy sums that have fractions"):
        ranking_rows([sums], "id")
    schema = RankingSchema(fractional=True)
    assert [row["noisy_count"] for row in ranking_rows([sums], "id", schema)] == list(sums.noisy_counts or ())


def test_other_libraries_read_every_format() -> None:
    rows = ranking_rows(RANKINGS, "id")
    items = [row["item"] for row in rows]
    parquet = pq.read_table(io.BytesIO(RANKING_FORMATS[".parquet"].encode(rows)))
    assert parquet.schema.remove_metadata() == arrow_schema() and parquet.schema.field("rank").type == pa.int64()
    reader = fastavro.reader(io.BytesIO(RANKING_FORMATS[".avro"].encode(rows)))
    assert [row["item"] for row in reader] == items
    assert all(field["doc"] for field in reader.writer_schema["fields"]) and avro_schema()["doc"]
    lines = RANKING_FORMATS[".jsonl"].encode(rows).decode().rstrip("\n").split("\n")
    assert [json.loads(line)["item"] for line in lines] == items
    assert json.loads(lines[0])["window_start"] == "2026-01-01T00:00:00Z"
    table = list(csv.DictReader(io.StringIO(RANKING_FORMATS[".csv"].encode(rows).decode(), newline="")))
    assert [row["item"] for row in table] == items and list(table[0]) == list(FIELDS)
    assert table[-1]["window_end"].startswith("2026-01-04T00:00:00.001")


@pytest.mark.parametrize("ending", RANKING_FORMATS)
def test_counts_say_how_far_they_are_off(ending: str) -> None:
    rows = RANKING_FORMATS[ending].decode(RANKING_FORMATS[ending].encode(ranking_rows(COUNTED, "id")))
    assert [(row["noisy_count"], row["noise_stddev"], row["noise_95"]) for row in rows] == [
        (0, 3.14159, 6),
        (-7, 3.14159, 6),
    ]
    assert all(row[name] is None for row in ranking_rows(SET, "id") for name in ("noise_stddev", "noise_95"))


def test_manifest_and_messages_state_the_noise_of_counts() -> None:
    budget = CountBudget(1.0, 1e-6, 5)
    spec = TopK(2, Joint(epsilon=0.5), PublicDomain.of(["x", "y"]), None, budget)
    found = manifest(spec, Release(ReleaseKey.fresh(), "r"), COUNTED)
    assert found["windows"] == [{"start": None, "end": None, "returned": 2, "noise_stddev": 3.14159, "noise_95": 6}]
    assert found["counts_rounded_to"] == 5 and found["privacy"]["noisy_counts"] == {"epsilon": 1.0, "delta": 1e-6}
    message = json.loads(message_of(COUNTED[0], "r"))
    assert (message["noisy_counts"], message["noise_stddev"], message["noise_95"]) == ([0, -7], 3.14159, 6)


@pytest.mark.parametrize("ending", RANKING_FORMATS)
def test_weights_have_a_column_that_calls_them_so(ending: str) -> None:
    """In place of no count; in the manifest, in messages and on the terminal too."""
    mechanism = WeightedGaussian(1.0, 1e-6, 10, 3)
    spec = TopK(2, mechanism, UnknownDomain(), 10)
    ranking = replace(COUNTED[0], noisy_counts=None, noise=None, noisy_weights=(1812.5, -3.25))
    facts = manifest_of(Question(spec))
    assert facts.weights is not None and facts.weights.of_a_user_with_t_items == "min(1, sqrt(3 / t))"
    assert facts.weights.noise_stddev == pytest.approx(float(mechanism.scale()) / 2**16, rel=1e-5)
    schema = RankingSchema.of(facts)
    assert list(fields_of(schema))[3:6] == ["item", "noisy_weight", "noisy_count"]
    rows = RANKING_FORMATS[ending].decode(RANKING_FORMATS[ending].encode(ranking_rows([ranking], "r"), schema))
    assert [row["noisy_weight"] for row in rows] == [1812.5, -3.25]
    assert {row["noisy_count"] for row in rows} | {row["noise_95"] for row in rows} == {None}
    assert json.loads(message_of(ranking, "r"))["noisy_weights"] == [1812.5, -3.25]
    told = PublishedReport(rows, facts)
    assert "weighs about 1,812.50" in "\n".join(in_text(told)) and "Noisy weight" in page(told)


def test_a_message_names_its_group() -> None:
    plain, grouped = COUNTED[0], replace(COUNTED[0], group="é|ü")
    assert "group" not in json.loads(message_of(plain, "r")) and json.loads(message_of(grouped, "r"))["group"] == "é|ü"
    assert attributes_of(plain) == {"window": "all"} and attributes_of(grouped) == {"window": "all", "group": "é|ü"}
    assert attributes_of(replace(grouped, group="é" * 513)) == {"window": "all"}, "Pub/Sub takes no longer ones"
    assert (plain.label(), grouped.label()) == ("all", "all|é|ü")


def test_an_unknown_file_ending_is_refused() -> None:
    with refused("output", "must end with one of .avro, .csv, .jsonl, .ndjson, .parquet"):
        format_of("ranking.xlsx")


def manifest(spec: TopK, release: Release, rankings: list[Ranking]) -> dict[str, Any]:
    answered = manifest_of(Question(spec, release=release)).with_answer(rankings)
    return json.loads(answered.at("a/b/r.avro", b"rows").encode())


def test_the_manifest_has_all_parameters_and_nothing_private() -> None:
    release = Release(ReleaseKey.fresh(), "weekly é")
    spec = TopK(12, Joint(epsilon=0.5, skew=0.6, neighbours="replace-one"), PublicDomain.of(["x", "y", *ODD]), 7)
    found = manifest(spec, release, RANKINGS)
    versions = found.pop("versions")
    assert {"python", "private-topk", "apache-beam", "numpy", "python-flint"} <= set(versions)
    assert all(version[0].isdigit() for version in versions.values())
    assert abs(date.fromisoformat(found.pop("released")) - datetime.now(UTC).date()) <= timedelta(1)
    privacy, key = found.pop("privacy"), found.pop("key_id")
    assert (privacy["epsilon"], privacy["delta"]) == (0.5, 0) and privacy["guarantee"] == "pure"
    assert privacy["neighbours"] == "replace-one" and privacy["unit"] == "one user's rows within one window"
    assert key in (None, release.key.key_id()), "filled in where the key is read"
    assert found == {
        "report": "weekly é",
        "mechanism": "joint",
        "answer": "sequence",
        "parameters": {"epsilon": 0.5, "skew": "3/5", "noise": "gumbel", "neighbours": "replace-one"},
        "k": 12,
        "max_items_per_user": 7,
        "delta_of_a_shared_hash": 2.0**-63,
        "zcdp_of_a_window": {"rho": 0.03125, "delta": 0.0},
        "charge": {
            "unit": "user-window",
            "windows": f"[{-(1 << 61)}, {1 << 61}, {1 << 62}, {1 << 62}, 1]",
            "bounded": True,
            "epsilon": "1/2",
            "delta": "0",
            "rho": "1/32",
            "zcdp_delta": "0",
        },
        "domain": {"kind": "public", "size": 14, "sha256": spec.domain.digest},
        "output": "r.avro",
        "ranking_sha256": hashlib.sha256(b"rows").hexdigest(),
        "windows": [
            {"start": "2026-01-01T00:00:00Z", "end": "2026-01-03T00:00:00Z", "returned": 2},
            {"start": "2026-01-03T00:00:00Z", "end": "2026-01-04T00:00:00.001000Z", "returned": 12},
        ],
    }


def test_the_manifest_of_an_unknown_domain_and_one_window() -> None:
    found = manifest(TopK(2, LimitDomain(1.0, 1e-6), UnknownDomain()), Release.fresh(), SET)
    assert found["domain"] == {"kind": "unknown"} and found["max_items_per_user"] is None
    assert found["windows"] == [{"start": None, "end": None, "returned": 2}]


def test_the_manifest_path_stands_beside_the_ranking() -> None:
    assert manifest_path("a.b/ranking.avro") == "a.b/ranking.manifest.json"
    assert manifest_path("gs://bucket/x.csv") == "gs://bucket/x.manifest.json"
