"""Files that come late to a watched folder, in real time; test_hostile_folder.py has schedules in a time of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from private_topk.pipelines.sources.arrivals import NOTES
from private_topk.pipelines.sources.clock import Clock
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.folder import _WatchDoFn
from private_topk.transforms.errors import Refusal
from private_topk.transforms.windows import Period
from tests.pipelines.streaming.turns import Reading, short_windows
from tests.pipelines.support import to_json_lines

COLUMNS = Columns(time="time", time_unit="ms")


def reading(folder: Path, period: Period) -> Reading:
    return Reading(_WatchDoFn(COLUMNS, Clock("log", period), 0.05), f"{folder}/*.jsonl")


def rows(name: str, count: int, moment: float) -> bytes:
    return to_json_lines([{"user": f"{name} {n}", "item": "x", "time": int(moment * 1000)} for n in range(count)])


def test_files_that_are_there_have_arrived_when_they_were_written(tmp_path: Path) -> None:
    period = short_windows(1_000_000, 100, 3)
    for name, written in (("on time", 1_000_050), ("late", 1_000_150)):
        (tmp_path / f"{name}.jsonl").write_bytes(rows(name, 5, 1_000_010))
        os.utime(tmp_path / f"{name}.jsonl", (written, written))
    found = reading(tmp_path, period).to_the_end()
    assert {user for _, user in found} == {f"on time {n}" for n in range(5)}
    assert not (tmp_path / NOTES).exists()


def test_where_lateness_cannot_be_noted_the_report_fails(tmp_path: Path) -> None:
    period = short_windows(time.time(), 0.5, 4)
    live = reading(tmp_path, period)
    live.until(lambda: live.clock > period.closing[0])
    (tmp_path / NOTES).write_bytes(b"a file where a folder should be")
    (tmp_path / "late.jsonl").write_bytes(rows("late", 5, time.time() - 1))
    os.utime(tmp_path / "late.jsonl", (1, 1))
    with pytest.raises(Refusal, match="takes no note of that"):
        live.to_the_end()


def test_two_streams_over_one_folder_contradict_each_other_aloud(tmp_path: Path) -> None:
    period = short_windows(time.time(), 0.5, 4)
    live = reading(tmp_path, period)
    live.until(lambda: live.clock > period.closing[0])
    path = tmp_path / "late.jsonl"
    path.write_bytes(rows("late", 5, time.time() - 1))
    os.utime(path, (1, 1))
    live.until(lambda: live.rows)
    (note,) = (tmp_path / NOTES).iterdir()
    note.write_bytes(b"5\n")
    again = reading(tmp_path, period)
    again.estimator.set_watermark(live.estimator.current_watermark())
    with pytest.raises(Refusal, match="another stream over this folder"):
        again.turn()
