"""A ranking that is lost was published: its manifest counts in what a folder promises, and is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.show.rankings import asked, day, published, shown
from tests.pipelines.support import command

SAID = (
    "6.manifest.json has no ranking beside it: what was published there was withdrawn or is lost, and counts in these "
    "numbers."
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three days of three groups; the second day has lost its ranking."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("0" * 32)
    for number in (5, 6, 7):
        published(f"days/{number}.csv", asked(str(number), **day(number), groups=["x", "y", "z"]))
    (tmp_path / "days" / "6.csv").unlink()
    return tmp_path


def test_its_cost_counts_and_it_is_named_not_shown_as_empty() -> None:
    for said in (shown("days"), shown("days", "--group", "x")):
        assert SAID in said and "of the 3 windows" in said.replace("several ", "")
        assert "a person in all of them is protected by epsilon 3." in said
        assert "5 January 2026 (UTC)" in said and "7 January 2026 (UTC)" in said
        assert (
            "6 January 2026 (UTC)" not in said and "no item was released" not in said and "A list is short" not in said
        )
    assert "has no ranking" not in shown("days/5.csv", "days/7.csv")


def test_every_form_tells_it() -> None:
    assert command("show", "days", "--html", "days.html").err == ""
    page = " ".join(Path("days.html").read_text("utf-8").split())
    assert SAID in page and "2026-01-06: none" not in page
    for form in ("--sign-off", "--registry"):
        done = command("show", "days", form)
        said = " ".join(done.out.replace("#", "").split())
        assert done.status == 0 and done.err == "" and SAID in said and "epsilon 3, delta 0" in said, done
    done = command("show", "days", "--json")
    assert done.status == 0 and done.err == f"{SAID}\n"
    windows = {row["window_start"] for row in json.loads(done.out)["rows"]}
    assert windows == {"2026-01-05T00:00:00Z", "2026-01-07T00:00:00Z"}


def test_a_lost_correction_does_not_bring_back_what_it_corrects() -> None:
    correction = json.loads(Path("days/5.manifest.json").read_text())
    corrects = [{"report": "5", "epsilon": 1.0, "delta": 0.0}]
    correction |= {"report": "5/correction-1", "corrects": corrects, "output": "5.correction-1.csv"}
    Path("days/5.correction-1.manifest.json").write_text(json.dumps(correction))
    said = shown("days")
    assert "5.correction-1.manifest.json, 6.manifest.json have no rankings beside them" in said
    assert "5 January 2026 (UTC)" not in said and "is protected by epsilon 4." in said
    for lost in ("6.manifest.json", "7.manifest.json", "7.csv"):
        Path("days", lost).unlink()
    assert command("show", "days", "--html", "days.html").status == 0
    for said in (shown("days"), " ".join(Path("days.html").read_text("utf-8").split())):
        assert "no item was released" not in said.lower() and "A list is short" not in said
        assert "5.correction-1.manifest.json has no ranking beside it" in said


def test_a_lost_ranking_is_told_though_its_correction_is_there() -> None:
    published("days/6.correction-1.csv", asked("6/correction-1", **day(6), groups=["x", "y", "z"]))
    place = Path("days/6.correction-1.manifest.json")
    corrects = [{"report": "6", "epsilon": 1.0, "delta": 0.0}]
    place.write_text(json.dumps(json.loads(place.read_text()) | {"corrects": corrects}))
    assert SAID in shown("days") and f"what is lost {SAID}" in shown("days", "--sign-off")
    assert "6 January 2026 (UTC)" in shown("days"), "the correction is shown"


def test_a_folder_of_folders_names_them() -> None:
    done = command("show", ".", "--sign-off")
    assert done.status == 2 and ". is no ranking: give one of these folders in it: ./days\n" in done.err, done


def test_a_folder_without_a_ranking_has_every_form_of_its_manifests() -> None:
    """Of a report that was taken down whole, an officer needs the sheet; also of one manifest by its name."""
    for number in "57":
        Path("days", f"{number}.csv").unlink()
    nothing = "No ranking is here: what was published was taken away or is lost, and counts all the same."
    lost = "5.manifest.json, 6.manifest.json, 7.manifest.json have no rankings beside them: what was published there"
    title, promise = "Daily top 2, 5 to 7 January 2026 (UTC)", "epsilon 3"
    for form in ("--sign-off", "--registry"):
        done = command("show", "days", form)
        said = " ".join(done.out.replace("#", "").split())
        assert done.status == 0 and lost in said and title in said and promise in said, done
    assert command("show", "days", "--html", "days.html").status == 0
    for said in (shown("days"), " ".join(Path("days.html").read_text("utf-8").split())):
        assert said.count(nothing) == 1 and lost in said and promise in said and "is no ranking" not in said, said
    assert json.loads(command("show", "days", "--json").out)["rows"] == []
    one = command("show", "days/6.manifest.json", "--sign-off")
    assert one.status == 0 and SAID in " ".join(one.out.split()), one


def test_a_manifest_by_its_name_has_the_ranking_beside_it() -> None:
    assert shown("days/5.manifest.json") == shown("days/5.csv")


def test_what_is_no_manifest_or_of_another_series_is_refused_by_name() -> None:
    whole = Path("days/6.manifest.json").read_text()
    for content, said in (
        ("[]", "6.manifest.json is no manifest of a ranking: move it away"),
        (
            json.dumps(json.loads(whole) | {"answer": "set"}),
            "6.manifest.json contradicts itself: its mechanism and its answer",
        ),
    ):
        Path("days/6.manifest.json").write_text(content)
        done = command("show", "days")
        assert done.status == 2 and said in done.err and not done.out, done


def test_a_ranking_without_its_manifest_is_named_in_every_form_and_a_table_of_something_else_is_not() -> None:
    """Nobody knows what it has cost, so that the sum of budgets is less than what was spent."""
    Path("days/5.manifest.json").unlink()
    Path("days/rows.csv").write_text("user,item,time\nu,tea,2026-01-05\n")
    lost = "5.csv has no manifest beside it: what was published there is not shown, and its cost may be missing from "
    lost += "these numbers. Bring the manifest back from a copy."
    assert lost in shown("days") and SAID in shown("days") and "rows.csv" not in shown("days")
    assert command("show", "days", "--json").err == f"{SAID}\n{lost}\n"
    assert command("show", "days", "--html", "days.html").status == 0
    assert lost in " ".join(Path("days.html").read_text("utf-8").split())
