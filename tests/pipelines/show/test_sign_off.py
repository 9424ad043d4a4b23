"""What somebody signs for says what the manifest says, and names every blank; titles of items, and hidden counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.pipelines.support import command, options, write

ROWS = [{"user": f"u{n}", "item": str(n % 3), "time": f"2026-01-{5 + n % 2:02}"} for n in range(300)]
TITLES = "item,title\n0,tea\n1,cake\n2,cake\n"
RUN = {
    "input": "rows.csv",
    "domain": "items.csv",
    "mechanism": "joint",
    "k": 2,
    "epsilon": 1,
    "release_key": "file:key",
    "release_id": "weekly",
    "overwrite": True,
    "quiet": True,
}
TWO_DAYS = {"window": "1d", "from_": "2026-01-05", "to": "2026-01-07"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", ROWS)
    write(tmp_path / "items.csv", TITLES)
    write(tmp_path / "key", "0" * 32)
    return tmp_path


def run(**more: object) -> None:
    words = [word for word in options(**{"output": "r.csv", **RUN, **more}) if word]
    done = command("run", *words)
    assert done.status == 0, done.err


@pytest.mark.parametrize(
    ("asked", "on_the_sheet", "parameters", "variant"),
    [
        (TWO_DAYS, ["epsilon 1, delta 0", "rho 0.125 (zCDP)", "epsilon 2, delta 0"], {"epsilon": 1.0}, "Pure DP"),
        (
            TWO_DAYS | {"privacy_unit": "user", "delta": 1e-6, "max_items_per_user": 1, "neighbours": "replace-one"},
            [
                "epsilon 1, delta 1e-06",
                "one user's rows in all windows",
                "add 1.08421e-19 to delta",
                "replacing one user",
            ],
            {"epsilon": 1.0, "delta": 1e-6},
            "Approximate DP",
        ),
    ],
)
def test_sheet_and_entry_say_what_the_manifest_says(
    asked: dict[str, object], on_the_sheet: list[str], parameters: dict[str, float], variant: str
) -> None:
    run(**asked)
    sheet = " ".join(command("show", "r.csv", "--sign-off").out.split())
    assert all(said in sheet for said in on_the_sheet), sheet
    assert "computational" in sheet and "signed name, date" in sheet
    entry = yaml.safe_load(command("show", "r.csv", "--registry").out)
    deployment = entry["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == parameters
    assert deployment["dp_variant"]["variant_name"] == variant
    manifest = json.loads(Path("r.manifest.json").read_text("utf-8"))
    assert deployment["basic"]["publication_date"] == manifest["released"]
    assert deployment["privacy_loss"]["privacy_unit"] == manifest["privacy"]["unit"] in sheet


def test_the_entry_says_what_a_row_is_who_is_trusted_and_how_many_releases_there_are() -> None:
    write(Path("shops.csv"), b"user,item,time,shop\na,A,2026-01-05,x\n")
    write(Path("shops.txt"), b"x\ny\nz\n")
    grouped = {"input": "shops.csv", "group_column": "shop", "groups": "shops.txt"}
    number = len(TITLES.splitlines()) - 1
    for asked, row, releases in (
        ({}, "a user, an item.", "One ranking of all rows."),
        (
            TWO_DAYS,
            "a user, an item, a time.",
            "One ranking in each of 2 windows, from 2026-01-05 00:00 UTC to 2026-01-07 00:00 UTC.",
        ),
        (grouped, "a user, an item, a group.", "One ranking of all rows for each of 3 groups."),
    ):
        run(**asked, release_id=row)
        deployment = yaml.safe_load(command("show", "r.csv", "--registry").out)["deployment"]
        groups = " Groups: 3, a public list." if asked is grouped else ""
        assert deployment["dp_variant"]["data_domain"] == f"Rows of {row} Items: {number}, a public list.{groups}"
        assert deployment["deployment_model"]["release_type_details"] == releases
        assert "trusted curator" in deployment["deployment_model"]["actors"]


def test_every_blank_of_the_entry_is_named_and_no_other_field() -> None:
    run()
    text = command("show", "r.csv", "--registry").out
    named = {line.removeprefix("# to be filled in: ") for line in text.splitlines() if line.startswith("#")}
    deployment = yaml.safe_load(text)["deployment"]
    blank = {
        f"{section}.{field}"
        for section, fields in deployment.items()
        for field, value in fields.items()
        if "TO BE FILLED IN" in str(value)
    }
    assert named - blank == {"basic.data_product_sector", "deployment_model.data_source_type"}, "a choice of words"
    assert blank < named and {"basic.data_curators", "administrative.registry_authors"} < blank


def test_nothing_is_signed_for_without_a_promise() -> None:
    run()
    Path("r.manifest.json").rename("moved.json")
    for flag in ("--sign-off", "--registry"):
        done = command("show", "r.csv", flag)
        assert (
            done.status == 2 and "no manifest beside this ranking that promises anything" in done.err and not done.out
        )


def test_a_ledger_fills_in_what_all_releases_have_spent() -> None:
    ledger = {"ledger": "sqlite:///budget.db", "dataset": "plays"}
    total = {"epsilon": 10, "delta": 1e-6, "privacy_unit": "user", "neighbours": "replace-one"}
    assert command("budget", "create", *options(**ledger, **total)).status == 0
    of_a_user = {**TWO_DAYS, "privacy_unit": "user", "neighbours": "replace-one"}
    for name, mechanism in (("r", "joint"), ("other", "pnf-peeling")):
        run(**of_a_user, **ledger, output=f"{name}.csv", release_id=name, mechanism=mechanism)
    [budget] = json.loads(command("budget", "show", "--ledger", ledger["ledger"], "--json").out)["budgets"]
    said = (
        "The ledger's budget of dataset plays is epsilon 10, delta 1e-06 for one user's rows in all windows "
        f"(neighbours: replace-one). So far 2 releases have spent epsilon {budget['spent']['epsilon']:g}, delta 0, "
        "composed."
    )
    assert budget["spent"]["epsilon"] == 2
    sheet = " ".join(command("show", "r.csv", "--sign-off", "--ledger", ledger["ledger"]).out.split())
    before, after = sheet.split("To be filled in")
    assert f"other releases {said}" in before and "other releases" not in after
    entry = yaml.safe_load(command("show", "r.csv", "--registry", "--ledger", ledger["ledger"]).out)
    accounting = entry["deployment"]["accounting"]
    assert accounting["composition"] == f"basic composition over 2 windows. {said}"


def test_a_series_says_what_a_person_in_all_of_its_windows_has() -> None:
    """Two releases of a day each: the sheet, the entry, the words for a reader, and the ledger."""
    ledger = {"ledger": "sqlite:///budget.db", "dataset": "plays"}
    assert command("budget", "create", *options(**ledger, epsilon=1)).status == 0
    Path("days").mkdir()
    for number, (day, end) in enumerate((("05", "06"), ("06", "07"))):
        one = {"window": "1d", "from_": f"2026-01-{day}", "to": f"2026-01-{end}"}
        run(**one, **ledger, output=f"days/{number}.csv", release_id=day)
    sheet = " ".join(command("show", "days", "--sign-off", "--ledger", ledger["ledger"]).out.split())
    assert (
        "of a person in all windows epsilon 2, delta 0" in sheet
        and "of a person over a year at most the budget" in sheet
    )
    assert "epsilon 1, delta 0, composed; together epsilon 2, delta 0 for a user who is in all windows" in sheet
    entry = yaml.safe_load(command("show", "days", "--registry").out)["deployment"]["privacy_loss"]
    assert entry["privacy_parameters_details"].startswith(
        "A person in all windows: epsilon 2, delta 0. A person over a year: "
    )
    assert "a person in all of them is protected by epsilon 2." in " ".join(command("show", "days").out.split())
    alone = command("show", "days/0.csv", "--sign-off").out
    assert "of a person in all windows" not in alone and "of a person over a year" in alone


@pytest.mark.parametrize("apart", [False, True])
def test_the_cost_over_all_windows_adds_up_by_release_and_not_by_file(apart: bool) -> None:
    """Two releases of two windows each, epsilon 1 a window. Each alone says 2, and so do all of its files."""
    for name, (day, end) in {"a": ("03", "05"), "b": ("05", "07")}.items():
        output = f"all/{name}/" if apart else f"all/{name}.csv"
        form = {"output_format": "csv"} if apart else {}
        run(window="1d", from_=f"2026-01-{day}", to=f"2026-01-{end}", output=output, release_id=name, **form)
    places = ["all/a", "all/b"] if apart else ["all"]
    said = " ".join(command("show", *places).out.split())
    assert "active in several of the 4 windows" in said and "is protected by epsilon 4." in said
    assert "is protected by epsilon 2." in " ".join(command("show", f"all/a{'' if apart else '.csv'}").out.split())


def test_a_series_whose_windows_have_budgets_of_their_own_may_go_on_for_ever() -> None:
    """Also where several rankings of a window share one: of two groups of a user, one after the other."""
    rows = [{**row, "country": country} for row, country in zip(ROWS, "DF" * 150, strict=True)]
    write(Path("rows.csv"), rows)
    write(Path("lands.txt"), "D\nF\n")
    groups = {"group_column": "country", "groups": "lands.txt", "groups_per_user": 2}
    for day in (5, 6):
        one = {"window": "1d", "from_": f"2026-01-{day:02}", "to": f"2026-01-{day + 1:02}"}
        run(**one, **groups, output=f"days/{day}.csv", release_id=str(day))
    said = " ".join(command("show", "days").out.split())
    assert "rows of any one person within one window had been missing" in said and "is protected by epsilon 2." in said


def test_a_ledger_that_says_nothing_of_the_ranking_is_refused() -> None:
    run()
    for words, said in (
        (["--ledger", "sqlite:///budget.db"], "--ledger needs --sign-off or --registry"),
        (["--sign-off", "--ledger", "sqlite:///budget.db"], "the manifest names no dataset that was charged"),
    ):
        done = command("show", "r.csv", *words)
        assert done.status == 2 and said in done.err and not done.out, done
    charged = {"ledger": "sqlite:///budget.db", "dataset": "plays", "epsilon": 1}
    other = charged | {"ledger": "sqlite:///other.db", "dataset": "searches"}
    assert all(command("budget", "create", *options(**each)).status == 0 for each in (charged, other))
    run(**charged, release_id="charged")
    done = command("show", "r.csv", "--registry", "--ledger", other["ledger"])
    assert done.status == 2 and "has no budget of dataset plays" in done.err and not done.out, done
    same = charged | {"ledger": "sqlite:///same.db"}
    assert command("budget", "create", *options(**same)).status == 0
    done = command("show", "r.csv", "--sign-off", "--ledger", same["ledger"])
    assert done.status == 2 and "knows nothing of charged: give the ledger that was charged" in done.err, done
    assert command("show", "r.csv", "--sign-off", "--ledger", charged["ledger"]).status == 0


def test_items_are_shown_by_their_titles_unless_two_have_the_same() -> None:
    run(k=3)
    assert {line[5:] for line in command("show", "r.csv", "--item-titles", "items.csv").out.splitlines()[1:4]} == {
        "tea",
        "1",
        "2",
    }
    assert command("show", "r.csv", "--item-titles", "items.csv", "--html", "r.html").status == 0
    assert ">tea<" in Path("r.html").read_text("utf-8")
    for words, said in (
        (["--item-titles", "key"], "key must be a table with a column for items and one for titles"),
        (["--item-titles", "items.csv", "--title-column", "name"], "'name'"),
        (["--title-column", "title"], "--title-column needs --item-titles"),
        (["--item-titles", "none.csv"], "none.csv does not exist"),
        (["--sign-off", "--registry"], "--sign-off does not go with --registry"),
    ):
        done = command("show", "r.csv", *words)
        assert done.status == 2 and said in done.err and not done.out, done
