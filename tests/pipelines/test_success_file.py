"""An input that may still be on its way: nothing is charged for it; one that is empty is published like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_topk.pipelines.budget.ledger import Ledger
from tests.pipelines.support import Done, command

HEADER = "user,item,time\n"
ROWS = "".join(f"u{n},{'abc'[n % 3]},2026-01-06\n" for n in range(26))
REPORT = """\
report: weekly
source:
  input: plays/{start}*.csv
  success_file: plays/{start}_SUCCESS
domain:
  file: items.txt
window: {every: week, first: 2026-01-05, horizon: 3}
mechanism: {name: joint, k: 2}
budget: {epsilon: 1}
release_key: file:key
sink: {output: "out/{start}.csv"}
ledger: {url: "sqlite:///b.db", dataset: d}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plays").mkdir()
    (tmp_path / "items.txt").write_text("a\nb\nc\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    (tmp_path / "report.yaml").write_text(REPORT)
    assert command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=9").status == 0
    return tmp_path


def charged() -> int:
    return len(Ledger("sqlite:///b.db").read("d").charges)


def run(*more: str) -> Done:
    return command(
        *(
            "run --input plays/2026-01-05.csv --domain items.txt --mechanism joint --k 2 --epsilon 1 --window 7d "
            "--from 2026-01-05 --to 2026-01-12 --output out.csv --ledger sqlite:///b.db --dataset d"
        ).split(),
        *more,
    )


def test_nothing_is_read_or_charged_before_the_success_file_exists(folder: Path) -> None:
    """The input is no CSV, which nobody sees before the marker is there."""
    (folder / "plays" / "2026-01-05.csv").write_bytes(b"\xff\xfe half of an upload")
    done = run("--success-file", "plays/_SUCCESS")
    assert done.status == 3 and "--success-file plays/_SUCCESS is not there yet" in done.err, done.err
    assert charged() == 0 and not (folder / "out.csv").exists()
    (folder / "plays" / "2026-01-05.csv").write_text(HEADER + ROWS)
    (folder / "plays" / "_SUCCESS").touch()
    assert run("--success-file", "plays/_SUCCESS").status == 0 and charged() == 1


def test_every_one_of_several_success_files_is_waited_for(folder: Path) -> None:
    several = "".join(f"\n    - plays/{{start}}_{country}" for country in ("de", "fr", "se"))
    (folder / "report.yaml").write_text(REPORT.replace(" plays/{start}_SUCCESS", several).replace("*.csv", ".csv"))
    (folder / "plays" / "2026-01-05.csv").write_text(HEADER + ROWS)
    (folder / "plays" / "2026-01-05_fr").touch()
    call = ("report", "report.yaml", "--window-end", "2026-01-12")
    done = command(*call)
    assert done.status == 3 and charged() == 0
    assert "2026-01-05_de, " in done.err and "2026-01-05_se are not there yet" in done.err and "_fr" not in done.err
    for country in ("de", "se"):
        (folder / "plays" / f"2026-01-05_{country}").touch()
    assert command(*call).status == 0 and charged() == 1


def test_only_a_file_says_that_the_input_is_complete(folder: Path) -> None:
    """A folder that a writer makes first says nothing, nor a link to nowhere, nor a store that cannot be asked."""
    (folder / "plays" / "2026-01-05.csv").write_text(HEADER + ROWS)
    (folder / "plays" / "folder").mkdir()
    (folder / "plays" / "link").symlink_to("gone")
    for place, said in (
        ("plays/folder", "is not there yet"),
        ("plays/link", "is not there yet"),
        ("what://b/_SUCCESS", "cannot be looked for: no file system is known"),
    ):
        done = run("--success-file", place)
        assert (
            done.status == (2 if "://" in place else 3)
            and f"--success-file {place} {said}" in done.err
            and charged() == 0
        ), done.err


def test_no_file_is_refused_and_no_row_is_an_answer(folder: Path) -> None:
    """The one is public. The other would tell a user who is alone from nobody at all, whatever epsilon is."""
    done = run()
    assert done.status == 2 and "matches no file" in done.err and charged() == 0
    said = []
    for rows in ("", "u1,a,2026-01-06\n", ROWS):
        (folder / "plays" / "2026-01-05.csv").write_text(HEADER + rows)
        done = run("--overwrite", "--quiet")
        assert done.status == 0, done.err
        manifest = json.loads((folder / "out.manifest.json").read_text())
        said.append(
            (done.out, len(done.err.split()), len((folder / "out.csv").read_text().splitlines()), sorted(manifest))
        )
    assert said[0] == said[1] == said[2] and charged() == 3


@pytest.mark.long
def test_a_report_catches_up_with_what_is_complete(folder: Path) -> None:
    for start in ("2026-01-05", "2026-01-12", "2026-01-19"):
        (folder / "plays" / f"{start}.csv").write_text(HEADER)
    for start in ("2026-01-05", "2026-01-19"):
        (folder / "plays" / f"{start}_SUCCESS").touch()
    done = command("report", "report.yaml", "--backfill", "--quiet")
    assert done.status == 3 and charged() == 2
    waits = "private-topk: 1 of 3 periods wait for their input: 2026-01-12 to 2026-01-19; "
    assert waits in done.err and "source.success_file plays/2026-01-12_SUCCESS is not there yet" in done.err, done.err
    said = command("report", "report.yaml", "--backfill").err
    assert "report.yaml:4: source.success_file" in said and "2026-01-12_SUCCESS is not there yet" in said, said
    assert sorted(path.name for path in (folder / "out").glob("*.csv")) == ["2026-01-05.csv", "2026-01-19.csv"]
    (folder / "plays" / "2026-01-12_SUCCESS").touch()
    assert command("report", "report.yaml", "--backfill", "--quiet").status == 0 and charged() == 3
