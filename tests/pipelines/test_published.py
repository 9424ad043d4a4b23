"""What stands at the places of a report is told apart, and so is what ends a run that a runner wraps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_topk.pipelines.places import sink_of
from private_topk.pipelines.published import ExistingOutput, existing_outputs, refusal_in
from private_topk.pipelines.sinks.manifest import manifest_path
from private_topk.transforms.errors import Refusal

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
    expected = None if found is None else ExistingOutput(path, *found)
    assert existing_outputs(sink_of(path), None) == [expected]


def test_topics_and_tables_cannot_be_looked_at() -> None:
    assert existing_outputs(sink_of("kafka://localhost:1/topic"), None) is None


def test_a_store_that_cannot_be_reached_is_refused_and_nothing_is_guessed() -> None:
    pytest.importorskip("apache_beam")
    with pytest.raises(Refusal, match=r"^output hdfs://b/x\.csv cannot be looked at: "):
        existing_outputs(sink_of("hdfs://b/x.csv"), None)


def test_a_refusal_is_found_in_a_chain_and_in_the_text_of_a_remote_traceback() -> None:
    try:
        try:
            raise Refusal("input", "rows.avro is damaged: write it again")
        except Refusal as error:
            raise RuntimeError("the runner's own") from error
    except RuntimeError as error:
        assert str(refusal_in(error)) == "input rows.avro is damaged: write it again"
    remote = RuntimeError(
        "Traceback (most recent call last):\n  File ...\nprivate_topk.transforms.errors.Refusal: "
        "rows.avro is damaged: write it again [while running 'Read/Read the pieces']\n\nand more"
    )
    assert str(refusal_in(remote)) == "rows.avro is damaged: write it again"
    assert str(refusal_in(Refusal("", "bad [while running 'x']"))) == "bad"


def test_anything_else_is_no_refusal() -> None:
    assert refusal_in(ValueError("bad")) is None and refusal_in(RuntimeError("NotARefusal: x")) is None
