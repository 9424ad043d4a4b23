"""Which reading begins before Beam is loaded, and that nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_topk.pipelines.beginning import begun, columns_of
from private_topk.pipelines.fields import Asked
from private_topk.pipelines.sources import early as module
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.texts import moment
from private_topk.transforms.refusal import Refusal
from tests.pipelines.support import write

FROM = moment("2026-01-05")


def begins(**asked: object) -> Columns | None:
    """By which columns the files are read early; None where nothing begins."""
    with begun(Asked(**asked)):  # type: ignore[typeddict-item]
        return None if module._EARLY is None else module._EARLY._columns


def test_local_files_are_read_by_the_columns_of_the_run(tmp_path: Path) -> None:
    place = str(write(tmp_path / "rows.csv", "user,item\na,apple\n"))
    assert begins(input=place) == Columns()
    assert begins(input=f"file://{place}", user_column="who") == Columns(user="who")
    assert begins(input=place, period_from=FROM, period_to=FROM, time_unit="ms") == Columns(time="time", time_unit="ms")
    assert begins(input=str(tmp_path / "none-*.csv")) == Columns()  # there is nothing, which is for others to say
    assert module._EARLY is None


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"input": "gs://bucket/rows.csv"},
        {"input": "bigquery://p:d.t"},
        {"input": "file://elsewhere/rows.csv"},
        {"input": "rows.csv", "complete_when": "_SUCCESS"},  # it may not be whole yet
        {"input": "rows.csv", "user_column": "item"},
        {"input": "rows.csv", "time_unit": "years"},
    ],
)
def test_nothing_else_begins(asked: dict[str, object]) -> None:
    assert begins(**asked) is None


def test_columns_are_checked() -> None:
    with pytest.raises(Refusal, match="another column"):
        columns_of(Asked(user_column="item"))
