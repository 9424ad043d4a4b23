"""What stands at the places of a report is told apart: nothing, half of a pair, a release, something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_topk.pipelines.places import sink_of
from private_topk.pipelines.sinks.manifest import manifest_path
from private_topk.pipelines.standing import Standing, standing_at
from private_topk.transforms.refusal import Refusal

TWO = [{"start": "2026-01-05", "end": "2026-01-12"}, {"start": "2026-01-12", "end": "2026-01-19"}]


@pytest.mark.parametrize(
    ("ranking", "manifest", "found"),
    [
        (False, None, None),
        (True, None, ("", 0)),
        (False, {"report": "a", "windows": TWO}, ("a", 0)),
        (True, {"report": "a", "windows": TWO}, ("a", 2)),
        (True, {"report": "a", "windows": [*TWO, TWO[0]], "groups": {"size": 2}}, ("a", 1)),
        (True, {"report": "a", "windows": [1, 2]}, ("", 0)),
        (True, {"windows": TWO[:1]}, ("", 0)),
        (True, {"report": "a", "windows": 3}, ("", 0)),
        (True, "no JSON", ("", 0)),
        (True, [], ("", 0)),
    ],
)
def test_one_place(tmp_path: Path, ranking: bool, manifest: object, found: tuple[str, int] | None) -> None:
    path = f"{tmp_path}/ranking.csv"
    if ranking:
        Path(path).write_text("item\n")
    if manifest is not None:
        Path(manifest_path(path)).write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    expected = None if found is None else Standing(path, *found)
    assert standing_at(sink_of(path), None) == [expected]


def test_topics_and_tables_cannot_be_looked_at() -> None:
    assert standing_at(sink_of("kafka://localhost:1/topic"), None) is None


def test_a_store_that_cannot_be_reached_is_refused_and_nothing_is_guessed() -> None:
    pytest.importorskip("apache_beam")
    with pytest.raises(Refusal, match=r"^output hdfs://b/x\.csv cannot be looked at: "):
        standing_at(sink_of("hdfs://b/x.csv"), None)
