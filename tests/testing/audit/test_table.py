"""The audits of all mechanisms, one after the other: each is done once, and told in one row."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import audits


def line(of: str, counts: bool, neighbours: str, releases: int, plain: float, beam: float | None) -> dict[str, Any]:
    return {"of": of, "counts": counts, "neighbours": neighbours, "releases": releases, "plain": plain, "beam": beam,
            "holds": plain < 2}  # fmt: skip


LINES = [
    {"apart": 0.0, "holds": True},
    line("users", False, "add-remove", 1, 0.5, 0.25),
    line("users", False, "add-remove", 2, 0.75, None),
    line("users", False, "swap", 1, 1.0, 0.0),
    line("groups", False, "swap", 1, 2.5, None),
]


def test_what_is_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    done: list[str] = []

    def audited(name: str, *how: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        done.append(name)
        if name == "joint" and done.count("joint") == 1:
            raise KeyboardInterrupt
        return LINES

    monkeypatch.setattr(audits, "audited", audited)
    words = ["audits", "--folder", str(tmp_path / "found"), "--mechanism", "laplace", "--mechanism", "joint"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(KeyboardInterrupt):
        audits.main()
    audits.main()
    assert done == ["laplace", "joint", "joint"]
    assert json.loads((tmp_path / "found" / "laplace.json").read_text())["lines"] == LINES
    out = capsys.readouterr().out
    assert "| laplace | 0.50 / 0.25, 1.00 / 0.00, 0.75 | - | - | - | 2.50 | 0.00 |" in out
    assert "10 checks, 2 that do not hold" in out
