"""Runs over six weeks of rows, with a ledger."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from private_topk.pipelines.cli import main
from tests.pipelines.support import settled

ITEMS = [f"item {n}" for n in range(20)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with six weeks of rows, a domain and a key, and the process in it."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.csv", 3000)
    (tmp_path / "items.txt").write_text("\n".join(ITEMS) + "\n")
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef")
    return tmp_path


def write_rows(path: Path, rows: int) -> None:
    with open(path, "w", newline="") as sink:
        writer = csv.writer(sink)
        writer.writerow(["user", "item", "time"])
        for n in range(rows):
            day = n * 7919 % 42
            item = ITEMS[n * n % 97 % 20]
            writer.writerow(
                [f"user {n % 300}", item, f"2026-{1 + (day + 4) // 31:02}-{1 + (day + 4) % 31:02}T12:00:00Z"]
            )


def arguments(report: str, *more: str, weeks: int = 1) -> list[str]:
    end = {1: "2026-01-12", 2: "2026-01-19", 6: "2026-02-16"}[weeks]
    return settled(
        [
            *(
                "run --input rows.csv --domain items.txt --mechanism joint --k 3 --quiet --window 7d --from "
                f"2026-01-05 --to {end} --release-key file:key"
            ).split(),
            *("--release-id", report, "--output", f"{report}.csv"),
            *more,
        ]
    )


def with_ledger(url: str, *more: str) -> list[str]:
    return ["--ledger", url, "--dataset", "plays", *more]


def create(url: str, *more: str) -> None:
    assert main(["budget", "create", *with_ledger(url), *more]) == 0
