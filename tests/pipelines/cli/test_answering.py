"""`--json`: one document on stdout and nothing else there, of the shape that docs/command-line.md names."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from private_topk.pipelines.cli.output import print_json
from private_topk.transforms.mechanisms import MECHANISMS
from tests.pipelines.support import command, write

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "command-line.md").read_text("utf-8")
ASKED = ["--domain", "items.txt", "--mechanism", "joint", "--k", "2", "--epsilon", "1"]
WEEK = ["--window", "day", "--from", "2026-03-28", "--to", "2026-03-30", "--time-zone", "Europe/Berlin"]
LEDGER = ["--ledger", "sqlite:///budget.db"]


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("answers")
    write(place / "rows.csv", "user,item,time\n" + "".join(f"u{n},tea,2026-03-{28 + n % 2}\n" for n in range(30)))
    write(place / "items.txt", "tea\ncake\nscone\n")
    (place / "key").write_text("a key of the tests' own")
    np.save(place / "counts.npy", np.arange(9))
    write(
        place / "report.yaml",
        "report: r\nsource: {input: rows.csv}\ndomain: {file: items.txt}\n"
        "window: {every: day, first: 2026-03-28, time_zone: Europe/Berlin}\nmechanism: {name: joint, k: 2}\n"
        "budget: {epsilon: 1}\nrelease_key: file:key\nsink: {output: 'out/{start}.csv'}\n"
        "ledger: {url: 'sqlite:///budget.db', dataset: d}\n",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place


def answer(*words: str, status: int = 0) -> Any:  # noqa: ANN401 - what JSON has
    done = command(*words, "--json")
    assert done.status == status, done.err
    return json.loads(done.out)


def named(command_name: str) -> set[str]:
    """The words in code of a command's row."""
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{command_name}` |")]
    return set(re.findall(r"`(\w+)`", row.split("|", 2)[2]))


def test_run_and_show_tell_the_same(folder: Path) -> None:
    found = answer("run", "--input", "rows.csv", "--output", "top.csv", *ASKED, *WEEK)
    assert set(found) == {"output", "manifest", "rows", "empty"} <= named("run") and len(found["rows"]) == 4
    shown = answer("show", "top.csv")
    assert set(shown) == {"manifest", "rows"} <= named("show")
    assert shown["manifest"] == found["manifest"] and shown["rows"] == found["rows"]
    assert shown["rows"][0]["window_start"] == "2026-03-27T23:00:00Z" and found["manifest"]["time_zone"] == WEEK[-1]


def test_people_are_told_local_times(folder: Path) -> None:
    """A day with a change of the clock has its two distances from UTC."""
    done = command("run", "--input", "rows.csv", "--output", "local.csv", *ASKED, *WEEK)
    assert "28 March 2026 (Europe/Berlin)" in done.out
    assert "29 March 2026 (Europe/Berlin)" in done.out
    assert "28 March 2026 (Europe/Berlin)" in command("show", "local.csv").out
    ready = answer("run", "--input", "rows.csv", "--output", "other.csv", *ASKED, *WEEK, "--dry-run")
    assert ready["windows"] == (
        "2, 28 to 29 March 2026 (Europe/Berlin), the first to 28 March 2026 (Europe/Berlin); "
        "times that have no zone are read as UTC, and windows are in Europe/Berlin"
    )
    assert set(ready) - {"report", "well_described"} == set(
        "ready input domain windows draw privacy release ledger output runner recall".split()
    )


def test_a_dry_run_of_a_stream_answers_in_json(folder: Path) -> None:
    (folder / "in").mkdir(exist_ok=True)
    write(folder / "in" / "rows.jsonl", '{"user": "a", "item": "tea", "time": "2026-03-28"}\n')
    asked = ["--input", "in/*.jsonl", "--output", "windows", "--clock", "event", *ASKED, *WEEK]
    assert set(ready := answer("stream", *asked, "--dry-run")) >= {"ready", "draw"}
    assert "have closed" not in ready["windows"], "by the rows, whose times are not known"


@pytest.mark.parametrize(("days", "many"), [((-2, 0), "All"), ((-1, 1), "1 of 2"), ((0, 2), None)])
def test_a_dry_run_of_a_stream_says_how_many_windows_have_closed(
    folder: Path, days: tuple[int, int], many: str | None
) -> None:
    """Files that are written from now on are late for them, and would leave noise."""
    (folder / "in").mkdir(exist_ok=True)
    write(folder / "in" / "rows.jsonl", '{"user": "a", "item": "tea", "time": "2026-03-28"}\n')
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first, last = (f"{today + timedelta(days=day):%Y-%m-%d}" for day in days)
    period = ["--from", first, "--to", last, "--window", "1d"]
    ready = answer("stream", "--input", "in/*.jsonl", "--output", "windows", *ASKED, *period, "--dry-run")
    told = ready["windows"].partition(". ")[2]
    assert told.startswith(f"{many} windows have closed: rows count only") if many else not told, told


def test_a_report_and_its_budget(folder: Path) -> None:
    made = answer("budget", "create", *LEDGER, "--dataset", "d", "--epsilon", "2")
    assert set(made) == set(
        "dataset privacy_unit neighbours period total spent left all_windows used binds charges".split()
    )
    asked = ["report", "report.yaml"]
    checked = answer(*asked, "--dry-run")
    assert (
        set(checked) == {"report", "well_described", "input", "privacy", "recall", "ledger"}
        and checked["well_described"] is True
    )
    cost = "epsilon 1 added up, or rho 0.125 by zCDP"
    fits = f"the next one fits and costs {cost}; 50.0% of the user-window budget would be used"
    assert checked["ledger"] == f"dataset d, periods charged: 0; {fits}"
    assert answer(*asked, "--dry-run", "--window-end", "2026-03-29")["ready"] is True
    missed = answer(*asked, "--missed", "--until", "2026-03-30")
    assert [period["outcome"] for period in missed["periods"]] == ["missed", "missed"]
    assert set(missed["periods"][0]) == {"start", "end", "release_id", "output", "outcome"} <= named("report")
    first = answer(*asked, "--window-end", "2026-03-29")
    assert first["periods"][0]["outcome"] == "published" and first["periods"][0]["start"] == "2026-03-27T23:00:00Z"
    assert answer(*asked, "--window-end", "2026-03-29")["periods"][0]["outcome"] == "published before"
    assert first["periods"][0]["empty"] == [] and "empty" in named("report")
    (folder / "rows.csv").rename(folder / "gone.csv")
    caught = answer(*asked, "--backfill", "--until", "2026-03-30", status=2)
    (folder / "gone.csv").rename(folder / "rows.csv")
    assert [period["outcome"] for period in caught["periods"]] == ["published before", "refused"]
    shown, charges = answer("budget", "show", *LEDGER), answer("budget", "history", *LEDGER)["charges"]
    assert set(shown) == {"budgets", "unfinished"} <= named("budget show")
    assert shown["budgets"][0]["used"] == 0.5 and len(charges) == 1
    assert set(charges[0]) <= named("budget history")


def test_commands_without_rows_answer_in_json(folder: Path) -> None:
    drawn = answer("select", "--counts", "counts.npy", "--mechanism", "joint-set", "--k", "2", "--epsilon", "1")
    assert set(drawn) == {"mechanism", "k", "returned", "rows"} <= named("select")
    assert drawn["returned"] == 2 and drawn["rows"][0]["rank"] is None
    mechanisms = answer("mechanisms")
    assert [one["name"] for one in mechanisms] == list(MECHANISMS) and set(mechanisms[0]) <= named("mechanisms")
    assert {its["name"] for its in mechanisms[0]["parameters"]} >= {"epsilon", "skew"}
    shared = ["--privacy-unit=user", "--horizon=9", "--publish-counts=5", "--max-items-per-user=3"]
    found = answer("preview", "--mechanism=joint", "--epsilon=4", *shared)
    assert set(found) == {"budget"} and {"budget", *found["budget"]} <= named("preview")
    assert found["budget"]["shares"]["basic"]["epsilon"] == pytest.approx(1)
    assert found["budget"]["counts"]["epsilon"] == pytest.approx(5 / 9)
    preview = answer(
        *("preview --like items=99,users=999,rank1=50%,rank50=1% --k 3 --epsilon 1 --mechanism joint --draws 5").split()
    )
    assert set(preview) <= named("preview")


@pytest.mark.long
def test_the_sample_answers_in_json_with_its_files(folder: Path) -> None:
    found = answer("sample", "--folder", "sample")
    assert all(set(one) == {"path", "holds"} <= named("sample") and Path(one["path"]).exists() for one in found)


def test_exact_numbers_and_moments_have_a_form(capsys: pytest.CaptureFixture) -> None:
    print_json([Fraction(1, 3), datetime(2026, 1, 5, tzinfo=UTC)])
    assert json.loads(capsys.readouterr().out) == [math.nextafter(1 / 3, 1), "2026-01-05T00:00:00Z"], "rounded up"
    with pytest.raises(TypeError):
        print_json(object())
