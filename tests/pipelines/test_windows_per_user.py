"""A bound on the windows of a user through every door: whole commands, a ledger, planning, and what is refused."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from private_topk import Laplace, Period
from private_topk.transforms import ReleaseKey
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.user_shards import Choices, WindowsOfUsers
from tests.pipelines.support import command, options, resolved, write
from tests.transforms.test_windows_of_users import reference

ITEMS, DAYS = "abcd", 4
QUESTION = {
    "input": "rows*.csv", "domain": "items.txt", "mechanism": "laplace", "k": 4, "epsilon": 1e6,
    "publish_counts": 1e6, "release_key": "file:key", "release_id": "r", "privacy_unit": "user",
    "max_windows_per_user": 2, "window": "1d", "from_": "2026-01-05", "to": "2026-01-09", "output": "out.jsonl",
    "overwrite": True, "quiet": True,
}  # fmt: skip
BUDGET = {"ledger": "sqlite:///b.db", "dataset": "d", "epsilon": 1, "publish_counts": None}
Row = dict[str, Any]
Scores = dict[tuple[int, str], int]


def plays() -> list[Row]:
    """Four days of 40 users, some of them active in all; and one in every item of every day, again and again."""
    draw = random.Random(5)
    rows = [(f"u{draw.randrange(40)}", draw.choice(ITEMS), draw.randrange(DAYS)) for _ in range(400)]
    rows += [("everywhere", item, day) for item in ITEMS for day in range(DAYS) for _ in range(3)]
    draw.shuffle(rows)
    return [{"user": user, "item": item, "time": f"2026-01-0{5 + day}T{draw.randrange(24):02}:00:00"}
            for user, item, day in rows]  # fmt: skip


def expected(rows: list[Row], most: int, overlap: int = 1) -> Scores:
    """By dictionaries: of windows that start every day and last `overlap` days."""
    held: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        day = int(row["time"][8:10]) - 5
        for window in range(max(day - overlap + 1, 0), min(day, DAYS - overlap) + 1):
            held[row["user"]][window].add(row["item"])
    key = ReleaseKey.parse("file:key")
    hashes = hash_labels(pa.array(list(held)), key.derive("user hash"))
    words = dict(zip(held, Choices(key).words("windows", hashes).tolist(), strict=True))
    chosen = reference({words[user]: set(windows) for user, windows in held.items()}, most)
    found: Counter[tuple[int, str]] = Counter()
    for user, windows in held.items():
        found.update((window, item) for window in chosen[words[user]] for item in windows[window])
    return dict(found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.txt").write_text("\n".join(ITEMS) + "\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    spread(tmp_path, plays(), 3)
    return tmp_path


def spread(folder: Path, rows: list[Row], files: int) -> None:
    for old in folder.glob("rows*.csv"):
        old.unlink()
    for number in range(files):
        write(folder / f"rows{number}.csv", rows[number::files])


def published(folder: Path, **others: object) -> Scores:
    done = command("run", *options(**{**QUESTION, **others}))
    assert done.status == 0, done.err
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    return {(int(row["window_start"][8:10]) - 5, row["item"]): row["noisy_count"] for row in rows if row["noisy_count"]}


@pytest.mark.parametrize(("overlap", "change"), [(1, {}), (2, {"window": "2d", "every": "1d"})])
def test_counts_are_those_of_plain_dictionaries(folder: Path, overlap: int, change: Row) -> None:
    """Whatever the order, the files and the shards are; a user more, who is everywhere, is in two windows more."""
    rows = plays()
    found = published(folder, **change)
    assert found == expected(rows, 2, overlap)
    spread(folder, sorted(rows, key=str), 1)
    assert published(folder, shards=1, **change) == found
    write(folder / "rows9.csv", [{**row, "user": "one more"} for row in rows if row["user"] == "everywhere"])
    more = published(folder, shards=64, **change)
    steps = {place: more[place] - found.get(place, 0) for place in more if more[place] != found.get(place, 0)}
    assert set(steps.values()) == {1} and len({window for window, _ in steps}) == 2


def test_a_defect_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowsOfUsers, "count", lambda self, users, windows: np.ones(len(users), bool))
    assert published(folder) == expected(plays(), DAYS) != expected(plays(), 2)


def test_a_ledger_is_charged_for_the_windows_that_a_user_counts_in(folder: Path) -> None:
    """Of four windows two: 1 of 4, where all four would have had to share; of one window's rows two windows change."""
    for unit in ("user", "user-window"):
        words = options(ledger="sqlite:///b.db", dataset="d", epsilon=4, privacy_unit=unit)
        assert command("budget", "create", *words).status == 0
    asked = {**QUESTION, **BUDGET}
    done = command("run", *options(**asked))
    assert done.status == 0 and "25.0%" in done.err, done.err
    manifest = json.loads((folder / "out.manifest.json").read_text())
    privacy = manifest["privacy"]
    assert (privacy["epsilon"], privacy["windows"], privacy["windows_of_a_user"]) == (1, 4, 2)
    assert manifest["parameters"]["epsilon"] == 0.5 and manifest["max_windows_per_user"] == 2
    assert manifest["delta_of_a_shared_hash"] == 2**-64
    again = command("run", *options(**asked))
    assert again.status == 0 and "was released before" in again.err
    shown = command("budget", "show", "--ledger=sqlite:///b.db").out
    assert shown.count("25.0% used by 1 charge") == 2, (
        shown
    )  # 2 of 0.5 each, for the user and for the rows of one window
    one = command("run", *options(**{**asked, "max_windows_per_user": 1, "release_id": "s"}))
    assert one.status == 0 and "50.0%" in one.err, one.err  # of the user; of one window's rows 2 of 1 more: 75%
    more = command("run", *options(**{**asked, "max_windows_per_user": 1, "release_id": "t"}))
    assert more.status == 2 and "user-window budget of dataset d does not suffice" in more.err, more.err


def test_a_damaged_charge_is_named(folder: Path) -> None:
    import sqlite3

    assert command("budget", "create", *options(**BUDGET, privacy_unit="user")).status == 0
    assert command("run", *options(**{**QUESTION, **BUDGET})).status == 0
    for reach in ("0", "5", "-1", "true", "1.5", '"2"'):
        with sqlite3.connect("b.db") as books:
            (text,) = books.execute("select parameters from private_topk_charges").fetchone()
            changed = {**json.loads(text), "windows of a user": json.loads(reach)}
            books.execute("update private_topk_charges set parameters = ?", (json.dumps(changed),))
        done = command("budget", "show", "--ledger=sqlite:///b.db")
        assert done.status == 2 and "charge 1 of dataset d cannot be read" in done.err, (reach, done)


@pytest.mark.parametrize(
    ("relation", "most", "share"),
    [("add-remove", 1, 1), ("add-remove", 4, 0.25), ("add-remove", 99, 0.25), ("swap", 1, 1), ("swap", 2, 0.5)],
)
def test_the_share_of_a_window(relation: str, most: int, share: float) -> None:
    """A bound that bounds nothing costs what none costs."""
    period = Period.of("2026-01-05", "2026-01-09", "1d")
    asked = {"period": period, "privacy_unit": "user", "max_windows_per_user": most}
    spec = resolved(2, Laplace(1.0, neighbours=relation), list(ITEMS), **asked)
    assert spec.top_k.mechanism.epsilon == share
    described = spec.privacy.describe({"epsilon": 0, "delta": 0, "ranking": 0, "noisy_counts": 0, "neighbours": ""})
    assert (described["windows"], described["windows_of_a_user"]) == (4, round(1 / share))


@pytest.mark.parametrize(
    ("verb", "change", "message"),
    [
        ("run", {"privacy_unit": None}, "--max-windows-per-user needs --privacy-unit user"),
        ("run", {"max_windows_per_user": 0}, "--max-windows-per-user must be a whole number of at least 1, got 0"),
        ("run", {"window": None, "from_": None, "to": None}, "--max-windows-per-user needs a declared period"),
        ("run", {"horizon": 8}, "--horizon 8 does not go with --max-windows-per-user in a run of 4 windows"),
        ("stream", {"output": "out", "quiet": None}, "--max-windows-per-user needs all windows at once"),
    ],
)
def test_what_is_refused(folder: Path, verb: str, change: Row, message: str) -> None:
    if verb == "stream":
        change = {**change, "input": "./rows*.csv"}
    done = command(verb, *options(**{**QUESTION, **change}))
    assert done.status == 2 and message in done.err and not (folder / "out.jsonl").exists(), done.err


REPORT = """\
report: weekly
source:
  input: rows0.csv
domain:
  file: items.txt
window:
  every: day
  first: 2026-01-05
  horizon: 4
mechanism:
  name: laplace
  k: 4
budget:
  epsilon: 1
  privacy_unit: user
  max_windows_per_user: 2
release_key: file:key
sink:
  output: out/{report}-{start}.jsonl
"""


def test_a_report_sees_one_period_at_a_time(folder: Path) -> None:
    write(folder / "weekly.yaml", REPORT)
    done = command("report", "weekly.yaml", "--check")
    assert done.status == 2, done
    assert "weekly.yaml:16: budget.max_windows_per_user does not go with a report" in done.err, done.err
    assert "Rank the whole horizon in one `private-topk run`" in done.err


def test_before_a_run_it_is_planned_previewed_and_checked(folder: Path) -> None:
    words = {"mechanism": "joint", "epsilon": 1, "max_windows_per_user": 4}
    planned = command("plan", *options(windows=52, **words))
    assert "over 4 of 52 windows that one user can be in" in planned.out and "0.25" in planned.out, planned
    assert "In a run: --privacy-unit user --max-windows-per-user 4 --epsilon 1" in planned.out
    swapped = command("plan", *options(windows=52, neighbours="swap", **words))
    assert "over 4 of 52 windows" in swapped.out and "0.25" in swapped.out
    assert command("plan", *options(windows=52, **{**words, "max_windows_per_user": 0})).status == 2
    shape = {"zipf": 1, "items": 50, "users": 3000, "items_per_user": 4, "k": 3, "draws": 20}
    seen = command("preview", *options(**shape, **words, privacy_unit="user", horizon=52))
    assert "over 4 windows that one user can be in" in seen.out, seen
    assert "--privacy-unit user --max-windows-per-user 4" in seen.out
    assert command("preview", *options(**shape, **words)).status == 2
    checked = command("run", *options(**{**QUESTION, "check": True, "quiet": None}))
    assert "over 2 windows, which is what one user can change of 4" in checked.out, checked
