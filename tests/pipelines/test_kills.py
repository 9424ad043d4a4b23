"""Whole runs and reports that are ended at any moment; `python -m tests.pipelines.kills 50` ends more of them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.pipelines.kills import kill_one, prepare


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "sent", "after", "twice"),
    [("run", signal.SIGKILL, 0.4, True), ("run", signal.SIGTERM, 0.8, False), ("report", signal.SIGKILL, 1.5, False)],
)
def test_what_was_ended_is_begun_again_and_ends_in_the_same(
    name: str, sent: signal.Signals, after: float, twice: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    assert kill_one(name, sent, after, twice).startswith(f"{name}, {sent.name}")
