"""Addresses of sources and sinks: what is built for them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.arguments import options_of
from private_topk.pipelines.release.formats import avro_schema
from private_topk.pipelines.report import report_of
from private_topk.pipelines.run import build
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sinks.bigquery import table_schema
from private_topk.runners import Launch
from tests.pipelines.streaming.replay import Commits
from tests.pipelines.support import command, settled

PERIOD = ("--window", "1d", "--from", "2026-01-01", "--to", "2026-01-03")
PUBSUB = "pubsub://projects/project-1/subscriptions/rows-1"


@pytest.fixture
def made_up(tmp_path: Path) -> Commits:
    return Commits(tmp_path, [(f"u{n}", f"item {n}", "2026-01-01") for n in range(6)])


@pytest.fixture
def refusal(made_up: Commits, tmp_path: Path) -> Callable[..., str]:
    def refused(*words: str) -> str:
        asked = ["--input", f"{tmp_path}/in/*.avro", "--output", f"{tmp_path}/out", *made_up.question(*PERIOD), *words]
        done = command("stream", *settled(asked))
        assert done.status == 2 and done.err.count("\n") == 1 and not (tmp_path / "out").exists(), done.err
        return done.err

    return refused


@pytest.mark.parametrize(
    ("source", "sink", "expected"),
    [
        (PUBSUB, "pubsub://projects/project-1/topics/rankings", ["ReadFromPubSub", "_PublishDoFn"]),
        (PUBSUB, "bigquery://project-1:data.rankings", ["ReadFromPubSub", "_LoadDoFn"]),
        (PUBSUB, "out", ["ReadFromPubSub", "_PublishDoFn"]),
    ],
)
def test_google_places_make_a_streaming_graph(
    made_up: Commits, tmp_path: Path, source: str, sink: str, expected: list[str]
) -> None:
    pytest.importorskip("google.cloud.pubsub_v1", reason="needs the extra gcp")
    place = sink if "://" in sink else f"{tmp_path}/{sink}"
    arguments, _ = parser_of("stream").read(["--input", source, "--output", place, *made_up.question(*PERIOD)])
    options = PipelineOptions(["--streaming", "--temp_location", "gs://nowhere/temp", "--project", "p"])
    launch = Launch("direct", BundleBasedDirectRunner(), options)
    pipeline = beam.Pipeline(runner=launch.runner, options=options)
    build(pipeline, report_of(options_of(arguments), watch=True), launch, RunState())
    found: set[str] = set()

    class Look(beam.pipeline.PipelineVisitor):
        def enter_composite_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
            self.visit_transform(node)

        def visit_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
            found.update([type(node.transform).__name__, type(getattr(node.transform, "fn", None)).__name__])

    pipeline.visit(Look())
    assert set(expected) <= found


def test_the_table_has_the_fields_of_the_files() -> None:
    fields = table_schema()["fields"]
    assert [field["name"] for field in fields] == [field["name"] for field in avro_schema()["fields"]]
    assert {field["type"] for field in fields} == {"TIMESTAMP", "STRING", "INTEGER", "FLOAT"}


def test_bad_places_are_one_sentence(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert "no known ending" in refusal("--input", f"{tmp_path}/in/*")
    assert "is a folder: name its files, as in '" in refusal("--input", f"{tmp_path}/")
    assert "must be like pubsub://projects/P/subscriptions/S" in refusal("--input", "pubsub://p/s")
    assert "Invalid PubSub project" in refusal("--input", "pubsub://projects/p/subscriptions/s")
    assert "its clock is that of publication" in refusal("--input", PUBSUB, "--clock", "event")
    assert "--slide goes with a --window of a length" in refusal("--window", "day", "--slide", "1d")
    assert "whole weeks of UTC" in refusal("--window", "week")
    assert "IANA" in refusal("--time-zone", "Berlin", "--window", "day")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.avro").write_bytes(b"no Avro")
    assert "is not an Avro file" in refusal()
