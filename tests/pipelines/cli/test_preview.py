"""`private-topk preview`: one setting, several, solved ones, shares of a total, and slips."""

from __future__ import annotations

import json
import re
import shlex
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli import preview as cli_preview
from private_topk.pipelines.cli.arguments import options_of, words_for
from private_topk.pipelines.options import rows
from private_topk.pipelines.preview import outlook
from tests.pipelines.shapes import like
from tests.pipelines.support import command, manifest, options

SHAPE = {"like": like(1, 200, 3000, 4)}


def preview(*more: str, **settings: object) -> str:
    done = command("preview", *options(**{**SHAPE, "draws": 20, **settings}), *more)
    assert done.status == 0, done.err
    assert re.sub(r"(setting \d+ of \d+|trying .*)\n", "", done.err) == ""
    return done.out


def test_a_long_preview_tells_what_it_tries_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {**SHAPE, "draws": 2, "k": 2, "epsilon": 1, "mechanism": "joint,peeling", "json": True}
    monkeypatch.setattr(cli_preview, "_EVERY", 0.0)
    done = command("preview", *options(**asked))
    assert done.status == 0 and done.err == "trying joint\ntrying peeling\n"
    assert json.loads(done.out)


def test_the_recall_that_was_asked_for_is_that_of_the_recommended_mechanism() -> None:
    """`fast-joint` has it at epsilon 0.46, on the stated curve alone: `oneshot` finds 88% there."""
    shape = {"like": "items=1000,users=5000,rank1=20%,rank10=3%", "draws": None}
    found = json.loads(preview("--json", **shape, k=10, recall=0.95, mechanism="fast-joint,oneshot"))
    assert found["recommended"] == "oneshot" and found["mechanisms"][0]["recall"]["high"] > 0.95, found


def test_a_preview_states_question_results_and_recommendation() -> None:
    said = preview(
        k=3, epsilon=1, delta=1e-6, mechanism="joint,cdp-peeling,restricted-normal", privacy_unit="user", horizon=10
    )
    assert said.startswith("Expected in each window: 200 items and 3,000 users, of whom ")
    assert "Asked: the top 3 of 200 items, epsilon 1, delta 1e-06 in all, over 10 windows" in said
    assert "Not tried (they need --max-items-per-user): restricted-normal" in said
    assert "Take " in said
    assert said.rstrip().endswith("--privacy-unit user --horizon 10")
    bounded = preview(k=3, epsilon=1, delta=1e-6, mechanism="gaussian", max_items_per_user=5)
    assert [text.count("as if bounds on a person left no row out") for text in (said, bounded)] == [0, 1]


def test_a_pure_run_is_recommended_without_the_delta() -> None:
    said = preview(k=3, epsilon=5, delta=1e-6, mechanism="joint")
    assert said.rstrip().rpartition("In a run: ")[2].startswith("--mechanism joint --k 3 --epsilon 5 --like")


GIVEN = [
    "--max-value 12345.67 --value-resolution 0.01 --mechanism peeling "
    "--like items=9,users=5e7,amount=30,rank1=5%,rank9=4%",
    "--domain games.csv --domain-column game --mechanism peeling --groups-per-user 2 --overall",
    "--domain games.csv --item-column game --mechanism peeling",
    "--domain games.csv --domain-column game --found old.csv --found older.csv --mechanism peeling",
    "--domain-range 1000:1200 --mechanism peeling",
    "--mechanism canonical --noise exponential --gamma 1/3",
    "--mechanism joint --skew 2/3 --max-items-per-user 123456789 --publish-counts 1.23456789",
    "--mechanism fast-joint --beta 1.23456789e-9",
    "--mechanism weighted-gaussian --unknown-domain --whole-items 2 --max-items-per-user 3 --delta 1.23456789e-7",
    "--unknown-domain --mechanism limit-domain --kbar 40 --neighbours replace-one --delta 1.23456789e-7",
    "--mechanism gaussian --max-items-per-user 4 --publish-counts 9 --publish-counts-delta 1e-12 --round-counts 10 "
    "--delta 1.23456789e-7",
    "--mechanism joint --window 36h --slide 12h --from 2026-03-28T12:00:00.125 --to 2026-04-01T12:00:00.125Z "
    "--time-zone Europe/Berlin",
    "--mechanism joint --window month --from 2026-01-01 --to 2026-04-01+00:00 --privacy-unit user --horizon 3 "
    "--max-windows-per-user 2 --delta 1e-9 --ledger 'sqlite:///a b.db' --dataset plays",
    "--mechanism correlated-gaussian --window 7d --to-date --from 2026-01-05 --to 2026-02-02 --max-items-per-user 4 "
    "--delta 1.23456789e-7",
    "--mechanism joint --like 'items=200, users=5e7, rank1=50%, rank9=4%'",
    "--mechanism joint --groups-per-user 2 --overall",
]


def words_in(said: str) -> list[str]:
    return shlex.split(said.rpartition("In a run: ")[2].partition("\n")[0])


def asked_of_a_run(*words: str) -> dict:
    arguments, others = parser_of("run", *words).read(words)
    assert not others
    return dict(options_of(arguments))


def test_the_command_that_is_printed_is_what_was_previewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option that both commands take, as it was given: a new one is refused here until it has a line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "games.csv").write_text("game\n" + "".join(f"g{i}\n" for i in range(200)))
    for name in ("old", "older"):
        ranking = f"item,rank\n{name},1\n".encode()
        (tmp_path / f"{name}.csv").write_bytes(ranking)
        (tmp_path / f"{name}.manifest.json").write_bytes(manifest().at(f"{name}.csv", ranking).encode())
    budget = options(ledger="sqlite:///a b.db", dataset="plays", epsilon=100, delta=0.1, privacy_unit="user")
    assert command("budget", "create", *budget).status == 0
    shared = {option.name for option in rows() if None not in (option.helps("run"), option.helps("preview"))}
    seen = set()
    for line in GIVEN:
        given = ["--k", "3", "--epsilon", "15.00000001", *shlex.split(line)]
        items = None if "--domain" in line else 200
        shape = [] if "--like" in given else options(like=like(1, items or 200, "5e7", 4, told=items is not None))
        said = command("preview", *shape, "--draws", "20", *given)
        assert said.status == 0, (line, said.err)
        asked = asked_of_a_run(*shape, *given)
        assert asked_of_a_run(*words_in(said.out)) == asked, (line, said.out)
        seen |= {*asked, *asked.get("parameters", {})}
    assert seen - {"parameters"} == shared - {"json"}  # which prints no command


def test_of_several_mechanisms_the_command_has_what_the_best_one_takes() -> None:
    said = preview(k="3,3", epsilon="5.5,5.5", delta="1e-6", skew="2/3", kbar=40, mechanism="peeling,joint")
    words = words_in(said)
    assert words[:6] == ["--mechanism", words[1], "--k", "3", "--epsilon", "5.5"] and "--delta" not in words
    assert "--kbar" not in words and ("--skew" in words) == (words[1] == "joint")


def test_a_solved_parameter_is_in_the_printed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook, "DRAWS", 8)
    said = preview(k=3, recall=0.9, mechanism="peeling", window="7d", from_="2026-01-05", to="2026-02-02")
    asked = asked_of_a_run(*words_in(said))
    assert asked["k"] == 3 and asked["window"] == timedelta(7) and 0 < asked["epsilon"] < 10
    assert f"epsilon {float(asked['epsilon']):g} in every window, found for a recall of 0.9" in said
    said = preview(epsilon="1.25", recall=0.9, mechanism="peeling")
    asked = asked_of_a_run(*words_in(said))
    assert asked["epsilon"] == Fraction(5, 4) and f"the top {asked['k']} of 200 items, epsilon 1.25" in said


def test_no_password_is_printed() -> None:
    line = "--privacy-unit user --ledger postgresql://me:s:e/cret@host/db?sslpassword=s3cret&x=1 --dataset d"
    arguments, _ = parser_of("preview").read(line.split())
    said = words_for("run", "preview", arguments, {"k": "-1"})
    assert said == "--k=-1 --privacy-unit user --ledger 'postgresql://me:***@host/db?sslpassword=***&x=1' --dataset d"


def test_the_default_is_compared_with_others_by_the_name_auto() -> None:
    for others in ("joint", "oneshot,joint,auto"):
        found = json.loads(preview("--json", k=3, epsilon=1, mechanism=f"auto,{others}"))
        assert {each["mechanism"] for each in found["mechanisms"]} == {"oneshot", "joint"}
    done = command("preview", *options(**SHAPE, k=3, recall=0.9, mechanism="auto,joint"))
    assert done.status == 2 and "--recall needs names: what auto takes depends on --k and --epsilon" in done.err


def test_nothing_is_recommended_where_the_best_is_noise() -> None:
    said = preview(k=10, epsilon=1e-4, mechanism="joint,peeling")
    assert "Nothing here is worth publishing: the best, " in said and "Take " not in said and "In a run" not in said


def test_groups_by_their_sizes() -> None:
    """The smallest is noise, and the largest is not."""
    asked = {"k": 3, "epsilon": 0.5, "mechanism": "joint,peeling"}
    said = preview(like=like(1, 200, "20,30000,225", 4), **asked)
    assert "Expected of the largest of 3 groups: 200 items and 30,000 users" in said
    assert "1: 30,000 users  2: 225 users  3: 20 users" in said
    assert "2 of 3 groups are worth publishing (1: 30,000 users, 2: 225 users)." in said and "In the smallest, " in said
    assert "--groups-per-user 1" in said
    alike = like(1, 200, ",".join(["20"] * 12), 4)
    found = json.loads(preview("--json", like=alike, **asked))
    assert found["groups"] == 12 and found["worth_publishing"] == []
    many = preview(like=like(1, 200, "20,30000,225", 4), **{**asked, "k": "3,5"})
    assert many.startswith("Expected of the median of 3 groups: ")
    assert re.search(r"\n +k +3 +5\n +epsilon +0\.5 +0\.5\n", many), many
    assert re.search(r"\n +groups worth publishing( +2 of 3){2}\n\nrecall in percent; \* the one to take", many), many
    nothing = preview(like=alike, **asked)
    assert "Nothing here is worth publishing" in nothing and "In a run" not in nothing


def test_several_settings_as_a_table() -> None:
    said = preview(k="3,5", epsilon="0.001,1", mechanism="joint,peeling")
    head = [line.split() for line in said.splitlines() if line.startswith(("  k ", "  epsilon "))]
    assert head == [["k", "3", "3", "5", "5"], ["epsilon", "0.001", "1", "0.001", "1"]]
    assert (
        "* the one to take: a preview of its setting alone says why; close to noise: k=3, epsilon=0.001; k=5, " in said
    )
    assert "Asked: the top k of 200 items, each epsilon in every window" in said


def test_a_preview_in_json_has_recommendation_and_settings() -> None:
    one = json.loads(preview("--json", k=3, epsilon=1, mechanism="joint"))
    assert one["recommended"] == "joint" and one["mechanisms"][0]["draws"] == 20
    many = json.loads(preview("--json", k="3,4", epsilon=1, mechanism="joint"))
    assert [found["k"] for found in many] == [3, 4]


def test_a_ledger_parts_the_budget_as_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = {"ledger": "sqlite:///b.db", "dataset": "d"}
    assert command("budget", "create", *options(**ledger, epsilon=2, privacy_unit="user")).status == 0
    found = json.loads(preview("--json", k=3, epsilon=1, mechanism="joint", privacy_unit="user", horizon=4, **ledger))
    assert found["mechanisms"][0]["parameters"]["epsilon"] == 0.25


@pytest.mark.parametrize(("windows", "more"), [(52, {}), (1, {"delta": "1.5e-6"})])
def test_without_counts_the_shares_of_a_total_are_told(windows: int, more: dict[str, str]) -> None:
    given = options(mechanism="peeling", epsilon="0.10000001", privacy_unit="user", horizon=windows, **more)
    done = command("preview", *given)
    assert done.status == 0 and f"in all, over {windows} windows" in done.out, done.err
    assert asked_of_a_run(*words_in(done.out)) == asked_of_a_run(*given, "--k=10")
    assert "With --like a preview also tells" in done.out and ("accounting" in done.out) == (windows > 1)
    found = json.loads(command("preview", *given, "--json").out)["budget"]
    assert found["windows"] == windows and found["total"]["epsilon"] == pytest.approx(0.10000001)
    assert found["parameters_of_a_ranking"]["epsilon"] == pytest.approx(0.10000001 / windows)


def test_a_preview_of_windows_that_share_a_total_tells_their_shares() -> None:
    asked = {"k": 3, "epsilon": 1, "mechanism": "joint", "privacy_unit": "user", "horizon": 4}
    said = preview(**asked)
    assert "joint, k = 3: epsilon 1, delta 0 in all, over 4 windows" in said
    assert re.search(r"\n  basic +0\.25 .*<- tightest\n", said), said
    found = json.loads(preview("--json", **asked))
    assert found["budget"]["shares"]["basic"]["epsilon"] == 0.25 and found["recommended"] == "joint"
    assert "budget" not in json.loads(preview("--json", **{**asked, "privacy_unit": None, "horizon": None}))
