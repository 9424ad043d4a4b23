"""What a period asks for, known before Beam is loaded; and whether its file is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from private_topk.pipelines.scheduled.file import read_report
from private_topk.pipelines.scheduled.periods import Periods
from tests.pipelines.support import WEEKLY


def periods(
    folder: Path, correction: int | None = None, input: str = "rows.csv", output: str = "{start}.csv"
) -> Periods:
    text = WEEKLY.replace("rows.csv", input).replace("out/{report}-{start}.csv", f"'{output}'")
    (folder / "weekly.yaml").write_text(text)
    return Periods(read_report(str(folder / "weekly.yaml")), correction)


def test_a_period_asks_for_its_own_rows_and_place(tmp_path: Path) -> None:
    asked = periods(tmp_path, input="plays/{start}/*.avro").options(1)
    assert asked["input"] == (f"{tmp_path}/plays/2026-01-12/*.avro",)
    assert asked["output"] == f"{tmp_path}/2026-01-12.csv"
    assert asked["release_id"] == "weekly/20260112T000000Z--20260119T000000Z"
    assert (asked["period_from"].day, asked["period_to"].day) == (12, 19)
    assert periods(tmp_path, 1).options(1)["release_id"].endswith("Z/correction-1")


def test_folders_named_by_a_key_are_taken_from_the_files_own_folder(tmp_path: Path) -> None:
    asked = periods(tmp_path, input="country=SE/{start}.csv", output="week={start}/r.csv").options(0)
    assert asked["input"] == (f"{tmp_path}/country=SE/2026-01-05.csv",)
    assert asked["output"] == f"{tmp_path}/week=2026-01-05/r.csv"


@pytest.mark.parametrize(("uri", "watches"), [("kafka://host:1/plays", True), ("pubsub://p/s", True), ("a.csv", False)])
def test_a_topic_is_watched_and_a_file_is_not(tmp_path: Path, uri: str, watches: bool) -> None:
    assert periods(tmp_path, input=uri).watches is watches


def test_periods_load_without_beam() -> None:
    code = "import sys, private_topk.pipelines.scheduled.periods; print('apache_beam' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False"], done.stderr
