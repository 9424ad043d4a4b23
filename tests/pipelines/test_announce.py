"""What is said of a stream while it runs."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from private_topk.pipelines import announce
from private_topk.pipelines.announce import Announcer, announced
from private_topk.transforms.windows import Period

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
PERIOD = Period(START, START + timedelta(hours=8), timedelta(hours=1), timedelta(minutes=5))
LABELS = [window.label() for window in PERIOD.windows()]
FIRST_CLOSES = START.timestamp() + 3900


def test_each_window_is_told_once_with_its_lag_and_what_is_next() -> None:
    said: list[str] = []
    announcer = Announcer(PERIOD, "out", True, said.append)
    announcer.look({})
    announcer.look({LABELS[0]: FIRST_CLOSES + 2.25, "no window": 1.0})
    announcer.look({LABELS[0]: FIRST_CLOSES + 2.25})
    assert said == [
        "published 20260101T000000Z--20260101T010000Z to out, 2.2 s after it closed",
        "7 of 8 windows are left; the next closes at 2026-01-01T02:05:00+00:00",
    ]
    announcer.look({label: FIRST_CLOSES + 9e4 for label in LABELS[1:]})
    assert said[2:] == [f"published 7 windows, {LABELS[1]} to {LABELS[7]}, to out"]


def test_a_lag_is_told_only_where_the_clock_is_the_present() -> None:
    said: list[str] = []
    announcer = Announcer(PERIOD, "out", False, said.append)
    announcer.look({LABELS[0]: time.time()})
    assert said == [f"published {LABELS[0]} to out",
                    "7 of 8 windows are left; the next closes at 2026-01-01T02:05:00+00:00 by the clock of the source",
                    ]  # fmt: skip


def test_what_was_there_before_is_told_only_if_it_is_published_again() -> None:
    said: list[str] = []
    announcer = Announcer(PERIOD, "out", False, said.append)
    announcer.start_after({LABELS[0]: 5.0, LABELS[1]: 5.0})
    announcer.look({LABELS[0]: 5.0, LABELS[1]: 6.0})
    assert said[0] == f"published {LABELS[1]} to out" and "6 of 8" in said[1]


def test_a_folder_is_looked_at_while_the_report_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(announce.Announcer.__init__, "__defaults__", (said.append,))
    folder = tmp_path / "out"
    with announced(PERIOD, str(folder), ".jsonl", live=False):
        folder.mkdir()
        (folder / f"{LABELS[0]}.jsonl.tmp").write_text("half")
        (folder / f"{LABELS[0]}.manifest.json").write_text("{}")
        time.sleep(1.5)
        assert said == []
        os.replace(folder / f"{LABELS[0]}.jsonl.tmp", folder / f"{LABELS[0]}.jsonl")
        time.sleep(2.5)
        assert said[0] == f"published {LABELS[0]} to {folder}"
        (folder / f"{LABELS[1]}.jsonl").write_text("whole")
    assert said[2] == f"published {LABELS[1]} to {folder}"
