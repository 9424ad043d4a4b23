"""Addresses become sources and sinks by their scheme; an option that does not apply to one is refused by its name."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.places import sink_of, source_of
from private_topk.pipelines.sources import Columns
from private_topk.pipelines.sources.files import Files
from private_topk.transforms.refusal import Refusal

TIMED = Columns(time="time")


def test_a_path_is_an_address(tmp_path: Path) -> None:
    assert source_of(tmp_path / "rows.csv", Columns()) == Files(f"{tmp_path}/rows.csv", Columns())
    assert sink_of(tmp_path / "ranking.csv").place == f"{tmp_path}/ranking.csv"


@pytest.mark.parametrize("place", [None, "", " ", 3, b"rows.csv", ["rows.csv"]])
def test_what_is_no_address(place: Any) -> None:  # noqa: ANN401
    with pytest.raises(Refusal, match="^input must be a path or an address, got "):
        source_of(place, Columns())
    with pytest.raises(Refusal, match="^output must be a path or an address, got "):
        sink_of(place)


@pytest.mark.parametrize(
    ("place", "watch", "options", "field"),
    [
        ("rows.csv", False, {"kafka_readers": 2}, "kafka_readers"),
        ("rows.csv", False, {"clock": "log"}, "clock"),
        ("rows.csv", False, {"snapshot": "gs://b/s"}, "snapshot"),
        ("in/*.csv", True, {"kafka_start": "latest"}, "kafka_start"),
        ("in/*.csv", True, {"poll": timedelta(0)}, "poll"),
        ("in/*.csv", True, {"clock": "wall"}, "clock"),
        ("kafka://h:1/t", False, {}, "input"),
        ("kafka://h", True, {}, "input"),
        ("kafka://h:1/t", True, {"kafka_readers": 0}, "kafka_readers"),
        ("kafka://h:1/t", True, {"kafka_start": "soon"}, "kafka_start"),
        ("kafka://h:1/t", True, {"poll": timedelta(1)}, "poll"),
        ("pubsub://projects/p/subscriptions/s", True, {"clock": "event"}, "clock"),
        ("pubsub://projects/p/topics/t", True, {}, "input"),
        ("bigquery://p:d.t", False, {}, "snapshot"),
        ("bigquery://p:d.t", True, {"snapshot": "gs://b/s"}, "input"),
    ],
)
def test_sources_refuse_by_the_field(place: str, watch: bool, options: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        source_of(place, TIMED, watch, **options)
    assert caught.value.field == field and (caught.value.remedy or caught.value.rule)


@pytest.mark.parametrize(
    ("place", "options", "field"),
    [
        ("x.txt", {}, "output"),
        ("x", {}, "output"),
        ("x/", {"format": "xls"}, "output_format"),
        ("x.csv", {"format": "csv"}, "output_format"),
        ("kafka://h:1", {}, "output"),
        ("kafka://h:1/t", {"format": "csv"}, "output_format"),
        ("pubsub://projects/p/subscriptions/s", {}, "output"),
        ("bigquery://t", {}, "output"),
        ("file://elsewhere/x.csv", {}, "output"),
    ],
)
def test_sinks_refuse_by_the_field(place: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        sink_of(place, **options)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"user": ""}, "user_column"),
        ({"item": 3}, "item_column"),
        ({"user": None}, "user_column"),
        ({"time": ""}, "time_column"),
        ({"time_unit": "ns"}, "time_unit"),
    ],
)
def test_columns_refuse_by_the_field(columns: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        Columns(**columns)
    assert caught.value.field == field
