"""The transform under its Beam YAML name, and the example as it stands."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from private_topk.transforms.beam_yaml import RankRows

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "top_tracks.yaml"
ROWS = [("ana", "tea"), ("ana", "cake"), ("bo", "tea"), (None, "cake")]


def test_rows_in_rows_out() -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(who=user, what=item) for user, item in ROWS])
        domain = ["cake", "tea"]
        ranked = rows | RankRows(k=1, mechanism="joint", epsilon=1000.0, domain=domain, user="who", item="what")
        assert_that(ranked | beam.Map(tuple), equal_to([("all", 1, "tea")]))


def test_unknown_domain_takes_other_parameters() -> None:
    RankRows(k=1, mechanism="limit-domain", epsilon=1.0, parameters={"delta": 1e-6})
    with pytest.raises(ValueError, match="joint needs a public domain"):
        RankRows(k=1, mechanism="joint", epsilon=1.0)


def test_a_domain_of_consecutive_integers() -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(user=n, item=7) for n in range(3)])
        ranked = rows | RankRows(k=1, mechanism="joint", epsilon=1000.0, domain_range="5:4294967296")
        assert_that(ranked | beam.Map(tuple), equal_to([("all", 1, "7")]))
    with pytest.raises(ValueError, match="give domain or domain_range: one of the two"):
        RankRows(k=1, mechanism="joint", epsilon=1.0, domain=["a"], domain_range="0:9")
    with pytest.raises(ValueError, match="domain_range must be a text START:STOP, got 330"):
        RankRows(k=1, mechanism="joint", epsilon=1.0, domain_range=330)  # type: ignore[arg-type]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="mechanism must be one of joint, .*got 'best'"):
        RankRows(k=1, mechanism="best", epsilon=1.0, domain=["a"])
    with pytest.raises(ValueError, match="release_id needs release_key"):
        RankRows(k=1, mechanism="joint", epsilon=1.0, domain=["a"], release_id="weekly")


def test_the_example_runs(caplog: pytest.LogCaptureFixture) -> None:
    yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform", reason="needs apache-beam[yaml]")
    caplog.set_level("INFO")
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        yaml_transform.expand_pipeline(pipeline, EXAMPLE.read_text())
    assert any('"item": "tea"' in record.getMessage() for record in caplog.records)
