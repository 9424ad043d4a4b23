"""Risers through every door: whole commands, report files, a ledger, Python, and what is refused."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import polars as pl
import pytest
from apache_beam.transforms.window import TimestampedValue

from private_topk import Laplace, Period, Release, ReleaseKey, rank
from private_topk.transforms import Risers
from private_topk.transforms.beam_yaml import RankRows
from tests.pipelines.support import command, options, write
from tests.transforms.pipelines import outcome

ITEMS, DAYS = "abcde", 4
QUESTION = {
    "input": "rows*.csv", "domain": "items.txt", "mechanism": "laplace", "k": 5, "epsilon": 1e6,
    "release_key": "file:key", "release_id": "r", "against": "previous", "window": "1d", "from_": "2026-01-06",
    "to": "2026-01-09", "output": "out.jsonl", "overwrite": True, "quiet": True,
}  # fmt: skip
Row = dict[str, Any]


def plays() -> list[Row]:
    """Users of items a to d on days 5 to 8, so that no two items rise alike, at weights 1 and 1/2; nobody has e."""
    held = {"a": (20, 23, 21, 30), "b": (5, 12, 25, 31), "c": (40, 38, 30, 35), "d": (9, 8, 3, 2)}
    rows = [{"user": f"{item}{n}", "item": item, "time": f"2026-01-{5 + day:02}T{n % 24:02}:00:00"}
            for item, users in held.items() for day, number in enumerate(users) for n in range(number)]  # fmt: skip
    return random.Random(4).sample(rows, len(rows))


def expected(weight: float = 1.0) -> list[list[str]]:
    held = Counter((int(row["time"][8:10]) - 5, row["item"]) for row in plays())
    scores = [{item: held[day, item] - weight * held[day - 1, item] for item in ITEMS} for day in range(1, DAYS)]
    assert all(len(set(score.values())) == len(ITEMS) for score in scores), "no two of them rise alike"
    return [sorted(ITEMS, key=lambda item: -score[item]) for score in scores]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.txt").write_text("\n".join(ITEMS) + "\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    for number in range(3):
        write(tmp_path / f"rows{number}.csv", plays()[number::3])
    return tmp_path


def published(folder: Path, output: str = "out.jsonl", **others: object) -> list[list[str]]:
    done = command("run", *options(**{**QUESTION, "output": output, **others}))
    assert done.status == 0, done.err
    return listed(folder / output)


def listed(path: Path) -> list[list[str]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    starts = sorted({row["window_start"] for row in rows})
    return [[row["item"] for row in rows if row["window_start"] == start] for start in starts]


@pytest.mark.parametrize("weight", [1, 0.5])
def test_rankings_are_by_rise_whatever_files_and_shards_there_are(folder: Path, weight: float) -> None:
    found = published(folder, against_weight=weight)
    assert found == expected(weight) and len(found) == 3
    manifest = json.loads((folder / "out.manifest.json").read_text())
    assert manifest["against"] == {"window": "previous", "weight": weight}
    privacy = manifest["privacy"]
    assert privacy["unit"] == "one user's rows within one window and the one before it"
    assert privacy["epsilon"] == 1e6 and manifest["parameters"]["epsilon"] == pytest.approx(1e6 / 3)
    assert manifest["parameters"]["cap"] == (2 if weight == 1 else 3) and len(manifest["windows"]) == 3
    for number in range(3):
        (folder / f"rows{number}.csv").unlink()
    write(folder / "rows.csv", sorted(plays(), key=str))
    noisy = [published(folder, f"out{shards}.jsonl", against_weight=weight, shards=shards, epsilon=1)
             for shards in (1, 16)]  # fmt: skip
    assert noisy[0] == noisy[1] != found


@pytest.mark.long
def test_in_python_and_beam_yaml_it_is_the_same(folder: Path) -> None:
    period = Period.of("2026-01-06", "2026-01-09", "1d")
    release = Release(ReleaseKey.parse("file:key"), "r")
    found = rank(
        pl.DataFrame(plays()), 5, Laplace(1.0), list(ITEMS), period=period, release=release, risers=Risers(0.5)
    )
    assert [list(its.items) for its in found] == published(folder, epsilon=1, against_weight=0.5)
    page = found.html()
    assert "Items are ranked by their rise: how many different people have them, less 0.5 of that" in page
    assert "within one window and the one before it have been missing" not in page
    assert "rows within one window and the one before it been missing" in page
    rows = [TimestampedValue(beam.Row(user=row["user"], item=row["item"]), pl.Series([row["time"]]).str.to_datetime(
        time_zone="UTC").dt.epoch("s")[0]) for row in plays()]  # fmt: skip
    ranked = RankRows(5, "laplace", 1e6, list(ITEMS), against_weight=1,
                      period={"from": "2026-01-08", "to": "2026-01-09"})  # fmt: skip
    told = outcome(lambda p: p | beam.Create(rows) | ranked | beam.Map(lambda row: [row.rank, row.item]))
    assert [item for _, (_, item) in sorted(told, key=lambda row: row[1])] == expected()[2]


REPORT = """\
report: rising
source:
  input: rows*.csv
against:
  window: previous
domain:
  file: items.txt
window:
  every: day
  first: 2026-01-06
mechanism:
  name: laplace
  k: 5
budget:
  epsilon: 1000
release_key: file:key
sink:
  output: out/{report}-{start}.jsonl
ledger:
  url: sqlite:///b.db
  dataset: d
"""


def test_a_report_reads_the_period_before_and_a_ledger_knows(folder: Path) -> None:
    """Three reports of a day each: of the rows of two days three rankings tell, of a user's all."""
    assert command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=2999").status == 0
    write(folder / "rising.yaml", REPORT)
    for day, ranking in zip((7, 8), expected(), strict=False):
        done = command("report", "rising.yaml", "--window-end", f"2026-01-{day:02}")
        assert done.status == 0, done.err
        assert listed(folder / "out" / f"rising-2026-01-{day - 1:02}.jsonl") == [ranking]
    shown = command("budget", "history", "--ledger=sqlite:///b.db").out
    assert "2026-01-05 to 2026-01-07" in shown and "2026-01-06 to 2026-01-08" in shown, shown
    third = command("report", "rising.yaml", "--window-end", "2026-01-09")
    assert third.status == 2 and "does not suffice" in third.err, "the rows of the 6th and 7th are in all three"
    write(folder / "rising.yaml", REPORT.replace("rows*.csv", "rows-{start}.csv"))
    done = command("report", "rising.yaml", "--check")
    assert done.status == 2 and "rising.yaml:3: source.input must hold the rows of the period before too" in done.err


def test_a_run_is_charged_as_windows_of_twice_the_length(folder: Path) -> None:
    for unit in ("user", "user-window"):
        words = options(ledger="sqlite:///b.db", dataset="d", epsilon=4, privacy_unit=unit)
        assert command("budget", "create", *words).status == 0
    books = {"ledger": "sqlite:///b.db", "dataset": "d", "epsilon": 1}
    done = command("run", *options(**{**QUESTION, **books, "privacy_unit": "user"}))
    assert done.status == 0 and "25.0%" in done.err, done.err
    shown = command("budget", "show", "--ledger=sqlite:///b.db").out
    assert shown.count("25.0% used by 1 charge") == 2, shown  # all three rankings share a window with the middle one
    checked = command("run", *options(**{**QUESTION, **books, "privacy_unit": "user", "check": True, "quiet": None}))
    assert "each less 1 of the one before it, whose rows are read too" in checked.out, checked


@pytest.mark.parametrize(
    ("verb", "change", "message"),
    [
        ("run", {"against": "last"}, "--against must be one of previous"),
        ("run", {"against": None, "against_weight": 0.5}, "--against-weight needs --against previous"),
        ("run", {"against_weight": 2}, "--against-weight must be a number from 0 to 1, got 2"),
        ("run", {"window": None, "from_": None, "to": None}, "--against needs a declared period"),
        ("run", {"window": "2d", "every": "1d"}, "--every does not go with --against"),
        ("run", {"publish_counts": 1}, "--publish-counts does not go with --against"),
        ("run", {"privacy_unit": "user", "max_windows_per_user": 1}, "--max-windows-per-user does not go"),
        ("run", {"domain": None, "unknown_domain": True, "mechanism": "limit-domain", "delta": 1e-6},
         "--against needs a public domain"),
        ("run", {"like": "sample"}, "--like is of the counts of a window"),
        ("stream", {"output": "out", "quiet": None}, "--against needs a window and the one before at once"),
    ],
)  # fmt: skip
def test_what_is_refused(folder: Path, verb: str, change: Row, message: str) -> None:
    if verb == "stream":
        change = {**change, "input": "./rows*.csv"}
    done = command(verb, *options(**{**QUESTION, **change}))
    assert done.status == 2 and message in done.err and not (folder / "out.jsonl").exists(), done.err
