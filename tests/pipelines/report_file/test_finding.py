"""Reports whose domain grows: found and ranked, once each, whatever fails between; charged so that both fit."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import fastavro
import pytest

from private_topk.pipelines.budget.ledger import Ledger
from private_topk.transforms.mechanisms.exact.accounting import rho_within
from tests.pipelines.support import WEEKLY, Done, command, kill_when_charged

REPORT = (
    WEEKLY.replace("file: items.txt", "found: found/{report}-{start}.avro\n  find_every: 2").replace(
        "epsilon: 1\n", "epsilon: 3\n  find_epsilon: 1\n  find_delta: 1e-6\n"
    )
    + "ledger:\n  url: sqlite:///budget.db\n  dataset: plays\n"
)
WEEKS = ["2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four weeks: items 0 to 9, each held by 30 users fewer than the one before; item 9 is new in the third week, and
    everybody's then."""
    held = [(week, user, item) for week in range(4) for item in range(10) for user in range(400)
            if user < (400 if item == 9 and week > 1 else 0 if item == 9 else 390 - 30 * item)]  # fmt: skip
    rows = [f"user {user},item {item},{WEEKS[week]}" for week, user, item in held]
    (tmp_path / "rows.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    (tmp_path / "catalogue.txt").write_text("item 8\nnobody has this\n")
    (tmp_path / "weekly.yaml").write_text(REPORT)
    budget(tmp_path, "--epsilon", "4", "--delta", "2e-6")
    return tmp_path


def budget(folder: Path, *words: str) -> None:
    ledger = f"sqlite:///{folder}/budget.db"
    assert command("budget", "create", "--ledger", ledger, "--dataset", "plays", *words).status == 0


def report(folder: Path, *words: str) -> Done:
    return command("report", folder / "weekly.yaml", *words)


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / "weekly.yaml").read_text()
    assert text.count(old) == 1
    (folder / "weekly.yaml").write_text(text.replace(old, new))


def caught_up(folder: Path) -> dict[str, bytes]:
    done = report(folder, "--catch-up", "--until", "2026-02-02", "--quiet")
    assert done.status == 0, done.err
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for place in ("found", "out") for path in sorted(folder.glob(f"{place}/*"))
            if path.suffix != ".json"}  # fmt: skip


def charged(folder: Path) -> list[tuple[str, str]]:
    entries = Ledger(f"sqlite:///{folder}/budget.db").read()[1]
    return [(entry.request.report.partition("T")[0], entry.outcome) for entry in entries]


EVERYTHING = [
    (name, "released")
    for name in ("weekly found/20260105", "weekly/20260105", "weekly/20260112", "weekly found/20260119",
                 "weekly/20260119", "weekly/20260126")
]  # fmt: skip


def found_in(folder: Path, week: str) -> set[str]:
    with (folder / f"found/weekly-{week}.avro").open("rb") as file:
        return {str(row["item"]) for row in fastavro.reader(file)}  # type: ignore[index, call-overload]


def facts(folder: Path, week: str) -> dict[str, object]:
    return json.loads((folder / f"out/weekly-{week}.manifest.json").read_text())


def test_items_are_found_now_and_then_and_ranked_from_then_on(folder: Path) -> None:
    change(folder, "domain:\n", "domain:\n  file: catalogue.txt\n")
    published = caught_up(folder)
    first, second = found_in(folder, WEEKS[0]), found_in(folder, WEEKS[2])
    assert len(first) > 3 and "item 9" in second - first
    listed = [{"item 8", "nobody has this"} | first] * 2 + [{"item 8", "nobody has this"} | first | second] * 2
    lists = [f"weekly-{week}.avro" for week in (WEEKS[0], WEEKS[2])]
    for week, items, number in zip(WEEKS, listed, (1, 1, 2, 2), strict=True):
        known = facts(folder, week)
        assert known["domain"]["size"] == len(items) and known["found"] == lists[:number]  # type: ignore[index]
        assert (b"item 9" in published[f"weekly-{week}.csv"]) == (number == 2)
    assert charged(folder) == EVERYTHING
    assert "nothing was missed" in report(folder, "--catch-up", "--until", "2026-02-02").out


def test_what_was_lost_or_cut_short_comes_back_the_same_at_no_cost(folder: Path) -> None:
    kill_when_charged("report", folder / "weekly.yaml", "--window-end", "2026-01-12")
    assert charged(folder) == [("weekly found/20260105", "started")] and not files(folder)
    published = caught_up(folder)
    for lost in ("found", "out"):
        shutil.rmtree(folder / lost)
        assert caught_up(folder) == published and charged(folder) == EVERYTHING
    (folder / f"found/weekly-{WEEKS[0]}.avro").unlink()
    assert f"{WEEKS[0]} to {WEEKS[1]}: missed" in report(folder, "--missed", "--until", "2026-02-02").out
    (folder / f"out/weekly-{WEEKS[3]}.csv").unlink()
    done = report(folder, "--window-end", "2026-02-02")
    assert (
        done.status == 2 and f"weekly.yaml:5: domain.found {folder}/found/weekly-2026-01-05.avro is missing" in done.err
    )
    assert caught_up(folder) == published and charged(folder) == EVERYTHING


def test_a_correction_ranks_over_what_was_found_before(folder: Path) -> None:
    (folder / "budget.db").unlink()
    budget(folder, "--epsilon", "7", "--delta", "2e-6")
    published = caught_up(folder)
    rows = (folder / "rows.csv").read_text()
    (folder / "rows.csv").write_text(rows + f"user 1,item 9,{WEEKS[0]}\n")
    done = report(folder, "--window-end", WEEKS[1], "--correction", "1", "--quiet")
    assert done.status == 0 and [name for name, _ in charged(folder)][6:] == ["weekly/20260105"], done.err
    assert {name: held for name, held in files(folder).items() if name.endswith("avro")} == {
        name: held for name, held in published.items() if name.endswith("avro")}  # fmt: skip
    (folder / f"found/weekly-{WEEKS[0]}.avro").unlink()
    done = report(folder, "--window-end", WEEKS[1])
    assert done.status == 2 and "for other input" in done.err, "the list is of the rows before"


def test_both_are_said_and_refused_before_either_is_charged(folder: Path) -> None:
    """Of the readings of its cost a finding is charged by one that leaves room for the rankings."""
    done = report(folder, "--window-end", WEEKS[1], "--check")
    assert done.out.count("ready: nothing was drawn") == 2 and "4 items or more" not in done.out
    assert "epsilon 1 and delta 1e-06 for one" in done.out and "epsilon 3 for one" in done.out
    change(folder, "epsilon: 3\n  find", "epsilon: 3.01\n  find")
    for words in (["--check"], []):
        done = report(folder, "--window-end", WEEKS[1], *words)
        assert done.status == 2 and "what the report will charge later is counted as spent" in done.err
    assert charged(folder) == [] and not files(folder)


def test_a_total_of_all_periods_lasts_to_the_horizon(folder: Path) -> None:
    """Findings share theirs by as many periods as have one; where rankings and findings do not add up, none starts."""
    change(folder, "find_delta: 1e-6", "find_delta: 1e-6\n  delta: 1e-6\n  privacy_unit: user")
    change(folder, "2026-01-05", "2026-01-05\n  horizon: 4")
    change(folder, "name: joint", "name: cdp-peeling")
    change(folder, "epsilon: 3\n  find", "epsilon: 30\n  find")
    change(folder, "find_epsilon: 1\n", "find_epsilon: 10\n")
    (folder / "budget.db").unlink()
    budget(folder, "--epsilon", "40", "--delta", "2e-6", "--privacy-unit", "user")
    said = report(folder, "--window-end", WEEKS[1], "--check").out
    assert "ready: nothing" in said and "horizon" not in said, "what is left to find would be missing in it"
    caught_up(folder)
    assert charged(folder) == EVERYTHING
    entries = Ledger(f"sqlite:///{folder}/budget.db").read()[1]
    limit = rho_within(Fraction(10), Fraction(1, 2 * 10**6))
    assert all(0.99 < 2 * entries[at].request.cost.rho / limit <= 1 for at in (0, 3)), "a half each"
    shutil.rmtree(folder / "found"), shutil.rmtree(folder / "out")
    (folder / "budget.db").unlink()
    budget(folder, "--epsilon", "20", "--delta", "2e-6", "--privacy-unit", "user")
    done = report(folder, "--window-end", WEEKS[1])
    assert done.status == 2 and charged(folder) == [], "the last of the rankings would not fit"


REMEMBERED = WEEKLY.replace("file: items.txt", "unknown: true\n  remember: true").replace(
    "joint\n", "weighted-gaussian\n  max_items_per_user: 20\n").replace(
    "epsilon: 1\n", "epsilon: 1\n  delta: 1e-6\n")  # fmt: skip


def test_what_was_published_is_listed_from_then_on(folder: Path) -> None:
    """In the third week nobody has anything but item 9: what was known is ranked all the same, and item 9 is new."""
    lines = (folder / "rows.csv").read_text().splitlines()
    kept = [line for line in lines if WEEKS[2] not in line or "item 9" in line]
    (folder / "rows.csv").write_text("\n".join(kept) + "\n")
    (folder / "weekly.yaml").write_text(REMEMBERED)
    published = caught_up(folder)
    ranked = [published[f"weekly-{week}.csv"].decode() for week in WEEKS]
    assert [text.count("\n") - 1 for text in ranked] == [3, 3, 3, 3]
    assert "item 9" in ranked[2] and all("item 0" in text for text in (*ranked[:2], ranked[3]))
    lists = [f"weekly-{week}.csv" for week in WEEKS]
    assert [facts(folder, week).get("found", []) for week in WEEKS] == [lists[:n] for n in range(4)]
    assert "catalogue" not in facts(folder, WEEKS[0])["domain"]  # type: ignore[operator]
    (folder / f"out/weekly-{WEEKS[3]}.csv").unlink()
    assert caught_up(folder) == published
    (folder / f"out/weekly-{WEEKS[1]}.csv").unlink()
    (folder / f"out/weekly-{WEEKS[3]}.csv").unlink()
    done = report(folder, "--window-end", "2026-02-02")
    assert done.status == 2 and f"weekly-{WEEKS[1]}.csv is missing, whose items are listed" in done.err
    assert caught_up(folder) == published


def test_a_period_that_published_nothing_lists_nothing(folder: Path) -> None:
    lines = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join(line for line in lines if WEEKS[0] not in line) + "\n")
    (folder / "weekly.yaml").write_text(REMEMBERED)
    published = caught_up(folder)
    assert [text.count(b"\n") - 1 for text in published.values()] == [0, 3, 3, 3]
    shown = command("show", folder / "out", "--sign-off").out
    assert "items to choose from" not in shown, "other lists in other periods"
    one = command("show", folder / f"out/weekly-{WEEKS[3]}.csv", "--sign-off").out
    assert "that are listed, and others not known beforehand" in one


def test_only_a_single_file_lists_what_was_published(folder: Path) -> None:
    (folder / "weekly.yaml").write_text(REMEMBERED)
    change(folder, "out/{report}-{start}.csv", "out/{start}/")
    done = report(folder, "--check")
    assert done.status == 2 and "domain.remember needs a file of every period: sink.output" in done.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  find_delta: 1e-6\n", "", "budget.find_delta must be given: domain.found is published"),
        ("  find_epsilon: 1\n", "", "budget.find_epsilon must be given"),
        ("  found: found/{report}-{start}.avro\n", "  file: catalogue.txt\n", "domain.find_every needs domain.found"),
        ("  find_every: 2", "  unknown: true", "mechanism.name joint needs a public domain"),
        ("  find_every: 2", "  remember: true", "domain.remember needs domain.unknown"),
        ("  find_every: 2", "  range: 0:9", "give domain.file"),
        ("found/{report}-{start}.avro", "found/{report}.avro", "must contain {start} or {end}"),
        ("found/{report}-{start}.avro", "found/", "must end with one of"),
        ("  find_delta: 1e-6", "  find_delta: 1", "weekly.yaml:16: budget.find_delta must lie"),
        ("  k: 3\n", "", "mechanism.k must be given for joint"),
        ("  input: rows.csv", "  input: rows.csv\n  watch: true", "domain.found does not go with rows that are read"),
    ],
)
def test_what_cannot_be_found_is_refused_with_its_line(folder: Path, old: str, new: str, message: str) -> None:
    change(folder, old, new)
    done = report(folder, "--check")
    assert done.status == 2 and message in done.err and "weekly.yaml:" in done.err
