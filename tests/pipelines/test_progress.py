from __future__ import annotations

import io
import sys
import time

import pytest

from private_topk.pipelines import published
from private_topk.pipelines.live import LiveRun


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, patience: float, shares: list[float]) -> str:
    monkeypatch.setattr(published, "_PATIENCE", patience)
    monkeypatch.setattr(sys, "stderr", stream)
    live = LiveRun()
    with published.progress(live):
        monkeypatch.setattr(sys, "stderr", io.StringIO())  # what Beam says goes elsewhere while it runs
        for number, share in enumerate(shares):
            live.add_read(share)
            if patience == 0 and stream.isatty():
                wait_for(f"{sum(shares[: number + 1]):4.0%}", stream)
        time.sleep(0.3 if patience else 0)
    return stream.getvalue()


def wait_for(text: str, stream: io.StringIO) -> None:
    until = time.monotonic() + 120
    while text not in stream.getvalue():
        assert time.monotonic() < until, f"{text} is not shown"
        time.sleep(0.02)


def test_a_long_run_shows_its_share_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, Terminal(), 0.0, [0.25, 0.25, 0.5])
    assert "reading" in said and " 25%" in said and "counting and ranking" in said
    assert "\n" not in said and said.endswith("\r" + " " * 62 + "\r")


def test_a_short_run_and_a_file_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), 60.0, [0.5]) == ""
    assert shown(monkeypatch, io.StringIO(), 0.0, [0.5]) == ""
