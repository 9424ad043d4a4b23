"""A folder with a report file that has a ledger, and the command that publishes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_topk.pipelines.cli import main
from tests.pipelines.support import WEEKLY, Done, command

CHARGED = (
    WEEKLY.replace("window:", "window:\n  horizon: 4")
    + """\
ledger:
  url: sqlite:///budget.db
  dataset: plays
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A report file with four weeks of rows; the process stands elsewhere."""
    place = tmp_path / "reports"
    place.mkdir()
    rows = [f"user {n % 80},item {n * n % 23 % 10},2026-01-{5 + n % 25:02}T10:00:00" for n in range(2000)]
    (place / "rows.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    (place / "items.txt").write_text("".join(f"item {n}\n" for n in range(10)))
    (place / "key").write_text("a key of enough bytes")
    (place / "weekly.yaml").write_text(CHARGED)
    assert (
        main(["budget", "create", "--ledger", f"sqlite:///{place}/budget.db", "--dataset", "plays", "--epsilon", "2"])
        == 0
    )
    return place


def report(folder: Path, *more: str) -> int:
    return main(["report", str(folder / "weekly.yaml"), "--quiet", *more])


def called(folder: Path, *more: str, status: int = 0) -> Done:
    """What a call says, which ends with this status."""
    done = command("report", folder / "weekly.yaml", "--quiet", *more)
    assert done.status == status, (more, done)
    return done


def told(folder: Path, *more: str, status: int = 0) -> str:
    """The same, of both streams."""
    done = called(folder, *more, status=status)
    return done.out + done.err
