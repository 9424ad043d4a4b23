"""The sum of all counts that are not published: in every format, on terminal and page, and charged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_topk import CountBudget, rank
from private_topk.pipelines.release.formats import RANKING_FORMATS
from tests.pipelines.support import command, options, write

RUN = {
    "input": "rows.csv",
    "domain": "items.txt",
    "mechanism": "joint",
    "k": 2,
    "epsilon": 30,
    "max_items_per_user": 3,
    "publish_counts": 20,
    "publish_others": 60,
    "release_key": "file:key",
    "release_id": "r",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user more for every item from 0 to 4, in group a; one user in b, and an item that is not listed."""
    monkeypatch.chdir(tmp_path)
    rows = [{"user": f"u{n}", "item": f"item {i}", "group": "a"} for i in range(5) for n in range(5 * i)]
    rows += [{"user": "alone", "item": f"item {i}", "group": "b"} for i in range(3)]
    write(Path("rows.csv"), [*rows, {"user": "u1", "item": "elsewhere", "group": "a"}])
    write(Path("items.txt"), "".join(f"item {n}\n" for n in range(5)))
    write(Path("groups.txt"), "a\nb\n")
    write(Path("key"), "0" * 32)


@pytest.mark.parametrize("ending", RANKING_FORMATS)
def test_the_sum_of_others_is_published_with_the_ranking_and_charged(ending: str) -> None:
    ledger = {"ledger": "sqlite:///budget.db", "dataset": "plays"}
    assert command("budget", "create", *options(**ledger, epsilon=200)).status == 0
    done = command("run", *options(**RUN, **ledger, output=f"r{ending}"))
    assert done.status == 0, done.err
    shown = json.loads(command("show", f"r{ending}", "--json").out)
    [(noisy, within)] = {(row["noisy_others"], row["others_95"]) for row in shown["rows"]}
    counted = sum(row["noisy_count"] for row in shown["rows"])
    kept = 5 * (3 + 3 + 2 + 1) + 3  # of nobody more than three items
    assert type(noisy) is int and abs(noisy - (kept - counted)) <= 3 and within <= 1
    assert shown["manifest"]["privacy"]["epsilon"] == 110
    [budget] = json.loads(command("budget", "show", *options(ledger=ledger["ledger"]), "--json").out)["budgets"]
    assert budget["spent"]["epsilon"] == 110
    said = f"all others together: about {noisy} ± {within}"
    assert said in command("show", f"r{ending}").out and said in done.out
    assert command("show", f"r{ending}", "--html", "r.html").status == 0
    assert said.capitalize() in Path("r.html").read_text("utf-8")


def test_the_sum_of_others_is_published_from_a_total_over_all_windows() -> None:
    shared = {"privacy_unit": "user", "horizon": 2, "output": "r.parquet"}
    assert command("run", *options(**RUN, **shared)).status == 0
    shown = json.loads(command("show", "r.parquet", "--json").out)
    counts = shown["manifest"]["privacy"]["share_of_a_window"]["noisy_counts"]
    assert counts["others"] == 30 and all(abs(row["noisy_others"]) <= 33 for row in shown["rows"])


def test_each_group_has_its_sum_of_others_in_users_or_amounts() -> None:
    grouped = {"group_column": "group", "groups": "groups.txt", "output": "g.csv"}
    assert command("run", *options(**RUN, **grouped)).status == 0
    rows = json.loads(command("show", "g.csv", "--json").out)["rows"]
    others = {row["group"]: row["noisy_others"] for row in rows}
    assert abs(others["b"] - 1) <= 1 and others["a"] >= 10
    table = [{"user": f"u{n}", "item": f"i{n % 3}", "value": 2.5} for n in range(300)]
    from polars import DataFrame

    from private_topk import Amounts

    found = rank(
        DataFrame(table),
        1,
        "laplace",
        ["i0", "i1", "i2"],
        epsilon=50,
        max_items_per_user=1,
        amounts=Amounts(10, value_resolution=0.5),
        publish_counts=CountBudget(50, others=50),
    )
    first = found.to_rows()[0]
    assert first["noisy_others"] == pytest.approx(500, abs=3) and first["others_95"] % 0.5 == 0


def test_the_sum_of_others_is_published_only_on_request() -> None:
    asked = {name: value for name, value in RUN.items() if name != "publish_others"}
    assert command("run", *options(**asked, output="r.csv")).status == 0
    assert "others" not in Path("r.csv").read_text() + command("show", "r.csv").out
    done = command("run", *options(**asked | {"publish_counts": None, "publish_others": 1}, output="s.csv"))
    assert done.status == 2 and "--publish-others needs --publish-counts" in done.err
