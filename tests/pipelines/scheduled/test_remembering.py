"""Reports that list what was found or published before, each period once, whatever fails between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.support import WEEKLY, Done, command

WEEKS = ["2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four weeks: items 0 to 9, each held by 30 users fewer than the one before; item 9 is new in the third week, and
    everybody's then."""
    held = [
        (week, user, item)
        for week in range(4)
        for item in range(10)
        for user in range(400)
        if user < (400 if item == 9 and week > 1 else 0 if item == 9 else 390 - 30 * item)
    ]
    rows = [f"user {user},item {item},{WEEKS[week]}" for week, user, item in held]
    (tmp_path / "rows.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    return tmp_path


def report(folder: Path, *words: str) -> Done:
    return command("report", folder / "weekly.yaml", *words)


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / "weekly.yaml").read_text()
    assert text.count(old) == 1
    (folder / "weekly.yaml").write_text(text.replace(old, new))


def caught_up(folder: Path) -> dict[str, bytes]:
    done = report(folder, "--backfill", "--until", "2026-02-02", "--quiet")
    assert done.status == 0, done.err
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("out/*")) if path.suffix != ".json"}


def facts(folder: Path, week: str) -> dict[str, object]:
    return json.loads((folder / f"out/weekly-{week}.manifest.json").read_text())


REMEMBERED = (
    WEEKLY.replace("file: items.txt", "unknown: true\n  remember: true")
    .replace("joint\n", "weighted-gaussian\n  max_items_per_user: 20\n")
    .replace("epsilon: 1\n", "epsilon: 1\n  delta: 1e-6\n")
)


def test_published_items_are_in_the_list_of_later_periods(folder: Path) -> None:
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
    assert "catalogue" not in facts(folder, WEEKS[0])["domain"]
    (folder / f"out/weekly-{WEEKS[3]}.csv").unlink()
    assert caught_up(folder) == published
    (folder / f"out/weekly-{WEEKS[1]}.csv").unlink()
    (folder / f"out/weekly-{WEEKS[3]}.csv").unlink()
    done = report(folder, "--window-end", "2026-02-02")
    assert done.status == 2 and f"weekly-{WEEKS[1]}.csv is missing, and its items are on the list" in done.err
    assert caught_up(folder) == published
    for week in WEEKS[1], WEEKS[3]:
        (folder / f"out/weekly-{week}.csv").unlink()
    (folder / f"out/weekly-{WEEKS[3]}.manifest.json").unlink()
    change(folder, "2026-01-05", f"2026-01-05\n  withdrawn: [{WEEKS[1]}]")
    assert list(caught_up(folder)) == [lists[0], *lists[2:]]
    assert facts(folder, WEEKS[3])["found"] == [lists[0], lists[2]], "not what was withdrawn"


def test_a_period_that_published_nothing_lists_nothing(folder: Path) -> None:
    lines = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join(line for line in lines if WEEKS[0] not in line) + "\n")
    (folder / "weekly.yaml").write_text(REMEMBERED)
    published = caught_up(folder)
    assert [text.count(b"\n") - 1 for text in published.values()] == [0, 3, 3, 3]
    shown = " ".join(command("show", folder / "out", "--sign-off").out.split())
    newest = "that are listed, and others not known beforehand; other windows have other lists"
    assert f"items to choose from {facts(folder, WEEKS[3])['domain']['catalogue']['size']} {newest}" in shown
    one = command("show", folder / f"out/weekly-{WEEKS[3]}.csv", "--sign-off").out
    assert "that are listed, and others not known beforehand" in one


def test_only_a_single_file_lists_what_was_published(folder: Path) -> None:
    (folder / "weekly.yaml").write_text(REMEMBERED)
    change(folder, "out/{report}-{start}.csv", "out/{start}/")
    done = report(folder, "--dry-run")
    assert done.status == 2 and "domain.remember needs a file of every period: sink.output" in done.err


def test_a_report_lists_what_was_found_before(folder: Path) -> None:
    """Found once by a release of its own, and ranked beside a catalogue from then on."""
    found = command(
        *(
            f"run --input {folder}/rows.csv --unknown-domain --mechanism weighted-gaussian --whole-items 1 "
            f"--max-items-per-user 1000 --epsilon 2 --delta 1e-6 --output {folder}/found.csv --json"
        ).split()
    )
    assert found.status == 0, found.err
    items = {row["item"] for row in json.loads(found.out)["rows"]}
    (folder / "catalogue.txt").write_text("item 8\nnobody has this\n")
    (folder / "weekly.yaml").write_text(WEEKLY.replace("items.txt", "catalogue.txt\n  found: [found.csv]"))
    caught_up(folder)
    for week in WEEKS:
        known = facts(folder, week)
        assert known["domain"]["size"] == len(items | {"item 8", "nobody has this"})
        assert known["found"] == ["found.csv"]
    (folder / "found.csv").unlink()
    (folder / f"out/weekly-{WEEKS[0]}.csv").unlink()
    done = report(folder, "--window-end", WEEKS[1])
    assert done.status == 2 and "weekly.yaml:6: domain.found" in done.err
