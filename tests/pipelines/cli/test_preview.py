"""`private-topk preview` and what `plan` says of it: one setting, several, solved ones, and slips."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.arguments import options_of
from private_topk.pipelines.preview import outlook
from tests.pipelines.support import command, options

SHAPE = {"zipf": 1, "items": 200, "users": 3000, "items_per_user": 4}


def preview(*more: str, **settings: object) -> str:
    done = command("preview", *options(**{**SHAPE, "draws": 20, **settings}), *more)
    assert done.status == 0, done.err
    assert re.sub(r"setting \d+ of \d+\n", "", done.err) == ""
    return done.out


def test_one_setting_whole() -> None:
    said = preview(k=3, epsilon=1, delta=1e-6, mechanism="joint,cdp-peeling,restricted-normal", privacy_unit="user",
                   horizon=10)  # fmt: skip
    assert said.startswith("Expected: Zipf 1: 200 items, 3,000 users with 4 each in a window. Nothing is charged.\n")
    assert "Asked: the top 3 of 200 items, epsilon 1, delta 1e-06 in all, over 10 windows" in said
    assert "Not tried (they need --max-items-per-user): restricted-normal" in said
    assert "Take " in said
    assert said.rstrip().endswith("--k 3 --epsilon 1 --delta 1e-06 --privacy-unit user --horizon 10")


def test_a_pure_run_is_recommended_without_the_delta() -> None:
    said = preview(k=3, epsilon=5, delta=1e-6, mechanism="joint")
    assert said.rstrip().endswith("In a run: --mechanism joint --k 3 --epsilon 5")


def test_the_command_that_is_printed_is_what_was_previewed() -> None:
    asked = {"neighbours": "swap", "max_items_per_user": 3, "publish_counts": 0.5, "round_counts": 10, "kbar": 40}
    said = preview("--unknown-domain", k=3, epsilon=2, delta=1e-6, mechanism="limit-domain", **asked)
    arguments, others = parser_of("run").read(shlex.split(said.rpartition("In a run: ")[2]))
    assert not others and options_of(arguments).get("unknown_domain")
    found = options_of(arguments)
    assert {name: found.get(name, found.get("parameters", {}).get(name)) for name in asked} == asked


def test_nothing_is_recommended_where_the_best_is_noise() -> None:
    said = preview(k=10, epsilon=1e-4, mechanism="joint,peeling")
    assert "Nothing here is worth publishing: the best, " in said and "Take " not in said and "In a run" not in said


def test_a_comma_in_a_number_is_told() -> None:
    done = command("preview", *options(zipf=1, users=900, k=3, epsilon=1, items_per_user="7,5"))
    said = "--items-per-user must be a number, got '7,5': one number, decimals with a point: 100.00"
    assert done.status == 2 and said in done.err


def test_groups_by_their_sizes(tmp_path: Path) -> None:
    """Of a list, a file with names, or a shape; the smallest is noise, and the largest is not."""
    asked = {"k": 3, "epsilon": 0.5, "mechanism": "joint,peeling"}
    said = preview(users="20,30000,225", **asked)
    assert "Expected of the largest of 3 groups: Zipf 1: 200 items, 30,000 users" in said
    assert "1: 30,000 users  2: 225 users  3: 20 users" in said
    assert "2 of 3 groups are worth publishing (1: 30,000 users, 2: 225 users)." in said and "In the smallest, " in said
    assert said.rstrip().endswith("--groups-per-user 1")
    (tmp_path / "sizes.csv").write_text("item,count\nFR,20\nUS,30000\nDE,225\n")
    named = preview("--these-counts-are-public", users=tmp_path / "sizes.csv", **asked)
    assert "US: 30,000 users  DE: 225 users  FR: 20 users" in named
    assert "1: 16,364 users  2: 8,182 users  3: 5,455 users" in preview(users=30001, groups=3, **asked)
    found = json.loads(preview("--json", users=600, groups=30, groups_zipf=0, **asked))
    assert found["groups"] == 30 and found["worth_publishing"] == []
    nothing = preview(users=600, groups=30, groups_zipf=0, **asked)
    assert "Nothing here is worth publishing" in nothing and "In a run" not in nothing


def test_several_settings_as_a_table() -> None:
    said = preview(k="3,5", epsilon="0.001,1", mechanism="joint,peeling")
    assert "k=3, epsilon=0.001" in said and "k=5, epsilon=1" in said
    assert "* the one to take; close to noise: k=3, epsilon=0.001; k=5, epsilon=0.001" in said


def test_json() -> None:
    one = json.loads(preview("--json", k=3, epsilon=1, mechanism="joint"))
    assert one["recommended"] == "joint" and one["mechanisms"][0]["draws"] == 20
    many = json.loads(preview("--json", k="3,4", epsilon=1, mechanism="joint"))
    assert [found["k"] for found in many] == [3, 4]


def test_numbers_of_items_side_by_side() -> None:
    said = preview(items="100,1e4", k=3, epsilon=0.01, mechanism="joint,peeling")
    assert "items=100" in said and "items=10000" in said and "(and other numbers of items)" in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"k": 3}, "--epsilon must be given"),
        ({"k": 3, "epsilon": 1, "recall": 0.9}, "--recall looks for --k or for --epsilon: give one of the two"),
        ({"k": 3, "recall": 90}, "--recall must be above 0 and at most 1, got 90"),
        ({"k": 3, "epsilon": 1, "draws": 0}, "--draws must be at least 1, got 0"),
        ({"k": "3,x", "epsilon": 1}, "--k must be a whole number, got 'x'"),
        ({"k": 300, "epsilon": 1}, "--k must be at most the number of items, got k = 300 and 200 items"),
        ({"k": 3, "epsilon": 1, "mechanism": "jiont"}, "did you mean joint?"),
        ({"k": 3, "epsilon": 1, "mechanism": "gaussian"}, "needs --delta"),
        ({"k": 3, "epsilon": 1, "users": "5,x"}, "--users must be a number, got 'x'"),
        ({"k": 3, "epsilon": 1, "users": "s.csv"}, "--these-counts-are-public must be given with --users"),
        ({"k": 3, "epsilon": 1, "users": "5,9", "groups": 2}, "--groups shares out one number of --users"),
        ({"k": "3,4", "epsilon": 1, "groups": 2}, "groups have a preview of one --k"),
        ({"k": 3, "epsilon": 1, "groups": 2, "groups_zipf": 11}, "--groups-zipf must be from 0 to 10"),
        ({"k": 3, "epsilon": 1, "items": "many"}, "--items must be a number"),
        ({"k": 3, "epsilon": 1, "items": "2.5"}, "--items must be a whole number such as 1000 or 1e6"),
        ({"k": 3, "epsilon": 1, "horizon": 4}, "--horizon needs --privacy-unit user"),
        ({"k": 3, "epsilon": 1, "dataset": "d"}, "--ledger and --dataset go together"),
    ],
)
def test_slips_are_told_by_their_names(settings: dict, said: str) -> None:
    done = command("preview", *options(**{**SHAPE, **settings}))
    assert done.status == 2 and said in done.err, done.err


def test_a_ledger_parts_the_budget_as_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = {"ledger": "sqlite:///b.db", "dataset": "d"}
    assert command("budget", "create", *options(**ledger, epsilon=2, privacy_unit="user")).status == 0
    found = json.loads(preview("--json", k=3, epsilon=1, mechanism="joint", privacy_unit="user", horizon=4, **ledger))
    assert found["mechanisms"][0]["parameters"]["epsilon"] == 0.25


def test_plan_recommends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook, "DRAWS", 8)
    plan = options(
        mechanism="joint", epsilon=1, delta=1e-6, windows=52, like="zipf=1,items=200,users=3000,items_per_user=4"
    )
    done = command("plan", *plan)
    assert done.status == 0 and "Judging by Zipf 1: 200 items" in done.out, done.err
    assert "\njoint finds" in done.out and "\nBest: " in done.out
    bare = command("plan", *plan[:-1])
    assert "`private-topk preview` tells what a ranking with such a share would be like" in bare.out
