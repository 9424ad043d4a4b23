"""The ranking of all rows beside those of groups, by the doors of a run: what is published, said and charged."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from private_topk.pipelines.beam_yaml import RankRows
from tests.pipelines.support import command
from tests.transforms.pipelines import create

LANDS = ["fr", "de"]
ASKED = (
    "--domain items.txt --k 2 --epsilon 1 --from 2026-01-05 --to 2026-01-12 "
    "--group-column land --groups lands.txt --overall"
).split()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tea is first in France and Germany together, scone with all, since it is so in a land that is not listed; and
    soup has the most rows without a land.
    """
    monkeypatch.chdir(tmp_path)
    held = {"fr": ("tea", 30), "de": ("tea", 20), "it": ("scone", 70), "": ("soup", 60)}
    rows = [f"{land}{n},{item},2026-01-06,{land}" for land, (item, users) in held.items() for n in range(users)]
    Path("rows.csv").write_text("\n".join(["user,item,time,land", *rows, "u,cake,,fr"]))
    Path("items.txt").write_text("cake\nscone\nsoup\ntea\n")
    Path("lands.txt").write_text("\n".join(LANDS))


def run(*words: str, epsilon: str = "1") -> str:
    asked = [epsilon if word == "1" else word for word in ASKED]
    return done("run", "--input", "rows.csv", *asked, *words)


def done(*words: str) -> str:
    found = command(*words)
    assert found.status == 0, found.err
    return found.out


@pytest.mark.parametrize("output", ["out.csv", "out.avro", "folder/"])
def test_it_is_one_more_group_in_every_file_and_where_it_is_shown(output: str) -> None:
    run("--output", output, "--quiet", epsilon="200")
    shown = done("show", output, "--json")
    rows = json.loads(shown)["rows"]
    first = {row["group"]: row["item"] for row in rows if row["rank"] == 1}
    assert first == {"fr": "tea", "de": "tea", "overall": "scone"}
    assert list(first) == [*LANDS, "overall"] and [row["item"] for row in rows[-2:]] == ["scone", "soup"]
    alone = done("show", output, "--group", "overall")
    assert "  1  scone\n  2  soup\n" in alone and "tea" not in alone.partition("What it")[0]
    if output == "out.csv":
        assert [row["group"] for row in csv.DictReader(Path(output).read_text().splitlines())][-1] == "overall"


def test_page_manifest_plan_and_sign_off_say_that_two_rankings_share_the_budget() -> None:
    plan = run("--output", "out.csv", "--dry-run")
    shared = "basic composition over 2 rankings of one window"
    assert f"{shared}: epsilon 0.5 each" in plan
    assert "2, a ranking each; a user counts in 1 of them; and all rows together" in plan
    run("--output", "out.csv", "--quiet")
    manifest = json.loads(Path("out.manifest.json").read_text())
    assert (manifest["groups"]["overall"], manifest["groups"]["rankings_of_a_user"]) == (True, 2)
    assert manifest["privacy"]["epsilon"] == 1 and manifest["privacy"]["share_of_a_window"]["epsilon"] == 0.5
    assert manifest["charge"]["epsilon"] == "1" and len(manifest["windows"]) == 3
    assert f"{shared}" in " ".join(done("show", "out.csv", "--sign-off").split())
    said = " ".join(done("show", "out.csv").split())
    assert "at most 1 of the groups of a window, and in the ranking of all rows" in said
    page = _page("out.csv")
    assert "groups of a window, and in the ranking of all rows" in page
    assert "op 2 of 2 groups and overall, 5 to 11 January 2026 (UTC)" in page


def _page(output: str) -> str:
    done("show", output, "--html", "page.html")
    return " ".join(Path("page.html").read_text().split())


def test_a_ledger_is_charged_for_all_rankings_of_a_user() -> None:
    Path("key").write_text("a key of the tests, which is no secret\n")
    books = "--ledger sqlite:///b.db --dataset d --release-key file:key --release-id r --quiet".split()
    budget = "--ledger sqlite:///b.db --dataset d --privacy-unit user-window --epsilon 1".split()
    done("budget", "create", *budget)
    run("--output", "out.csv", *books)
    again = command("run", "--input", "rows.csv", *ASKED, "--output", "again.csv", *books)
    assert again.status == 0 and Path("again.csv").read_bytes() == Path("out.csv").read_bytes()


@pytest.mark.parametrize("ledger", [True, False])
def test_what_is_refused_as_another_question_is_told_as_it_was_asked(ledger: bool) -> None:
    """By the ledger or by the manifest: without what follows from the arguments that differ, such as a share."""
    Path("key").write_text("a key of the tests, which is no secret\n")
    words = ["--release-key", "file:key", "--release-id", "r", "--quiet", "--publish-counts", "0.5"]
    words += ["--mechanism", "oneshot"]
    if ledger:
        books = ["--ledger", "sqlite:///b.db", "--dataset", "d"]
        done("budget", "create", *books, "--epsilon", "9")
        words += books
    run("--output", "out.csv", *words)
    if ledger:
        for path in Path().glob("out.*"):
            path.unlink()
    without = [word for word in ASKED if word != "--overall"]
    for asked, said in (
        (without, "overall (now none)"),
        ([*without, "--groups-per-user", "2"], "no groups_per_user (now 2), overall (now none)"),
        (["0.5" if word == "1" else word for word in ASKED], "epsilon 1 (now 0.5)"),
    ):
        told = command("run", "--input", "rows.csv", *asked, "--output", "out.csv", *words)
        assert told.status == 2 and "--release-id" in told.err, told.err
        assert f"with {said}: ask" in told.err, told.err
        assert not any(name in told.err for name in ("account", "share", "rankings_of", "guarantee")), told.err
    Path("lands.txt").write_text("fr\n")
    told = command("run", "--input", "rows.csv", *ASKED, "--output", "out.csv", *words)
    assert "with another list of groups: ask the same again" in told.err, told.err
    if ledger:
        with open("rows.csv", "a") as sink:
            sink.write("\nlate,tea,2026-01-06,fr")
        both = command("run", "--input", "rows.csv", *without, "--output", "out.csv", *words)
        said = "for other input (dataset d), and with another list of groups, overall (now none): if users were erased"
        assert said in both.err


def test_rows_of_no_listed_group_are_told_to_count_in_it_alone() -> None:
    words = "--show-dropped-rows --exact-counters --quiet".split()
    told = command("run", "--input", "rows.csv", *ASKED, "--output", "out.csv", *words, "--dry-run").err
    assert "in overall alone: 130, most" in told and "null: 1" in told and "not in groups" not in told
    assert "groups with fewer than 100 rows: fr, de, of 2" in told
    assert "exact): null 1; " in command("run", "--input", "rows.csv", *ASKED, "--output", "out.csv", *words).err
    without = [word for word in ASKED if word != "--overall"]
    assert (
        "not in groups: 130, most"
        in command("run", "--input", "rows.csv", *without, "--output", "new.csv", *words, "--dry-run").err
    )


def test_a_preview_pays_for_it_and_shows_what_an_earlier_ranking_had_of_it() -> None:
    sizes = "--like items=900,users=9000,4000,rank1=40%,rank10=8% --k 5 --epsilon 1 --mechanism oneshot".split()
    told = done("preview", *sizes, "--overall")
    assert "2 rankings that one user can change" in told and "The ranking of all rows is not shown" in told
    assert "rankings that one user" not in done("preview", *sizes)
    run("--output", "out.csv", "--publish-counts", "1", "--quiet")
    like = "--like out.csv --k 1 --epsilon 1 --mechanism oneshot --draws 20".split()
    found = json.loads(done("preview", *like, "--overall", "--json"))
    assert "overall" in found["mechanisms"] and found["groups"] == 3 and "not shown" not in " ".join(found["reasons"])
    nothing = command("preview", "--overall", "--k", "5", "--epsilon", "1")
    assert nothing.status == 2 and "--overall needs --groups-per-user" in nothing.err


def test_beam_yaml_ranks_all_rows_too() -> None:
    rows = [beam.Row(user=f"u{n}", item=item, land=land) for n, (item, land) in enumerate([("tea", "fr")] * 2)]
    rows += [beam.Row(user=f"v{n}", item="scone", land="it") for n in range(9)]
    asked = {"k": 1, "mechanism": "joint", "epsilon": 1000.0, "domain": ["scone", "tea"], "groups": ["fr"]}
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        ranked = pipeline | create(rows) | RankRows(**asked, group="land", overall=True)
        tops = ranked | beam.Map(lambda row: (row.group, row.item))
        assert_that(tops, equal_to([("fr", "tea"), ("overall", "scone")]))
