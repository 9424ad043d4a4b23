"""One rule says what an id may publish at a place: a check and the run give one verdict, whatever option is changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.budget import Ledger
from private_topk.pipelines.options import rows
from tests.pipelines.support import Done, command, options, write

MONDAY = 1_767_571_200  # 2026-01-05
ROWS = [
    {
        "user": f"u{n}",
        "other_user": f"u{n // 5}",
        "item": f"{n * n % 7}",
        "other_item": f"{n % 5}",
        "time": MONDAY + n * 4_000,
        "other_time": MONDAY + n * 2_000,
        "group": "ab"[n % 2],
        "amount": n % 9,
    }
    for n in range(60)
]
ASKED = {
    "input": "rows.csv",
    "domain": "items.txt",
    "mechanism": "joint",
    "k": 3,
    "epsilon": 1,
    "publish_counts": 1,
    "round_counts": 10,
    "window": "1d",
    "from": "2026-01-05",
    "to": "2026-01-08",
    "output": "out.jsonl",
    "release_key": "file:key",
    "release_id": "r",
    "quiet": True,
}
BOOKS = {"ledger": "sqlite:///b.db", "dataset": "d"}
GROUPS = {"group_column": "group", "groups": "groups.txt"}
AMOUNTS = {"value_column": "amount", "max_value": 8, "round_counts": None}
RISERS = {"against": "previous", "publish_counts": None, "round_counts": None}
UNKNOWN = {"domain": None, "unknown_domain": True, "mechanism": "limit-domain", "delta": 0.01}

CHANGES: dict[str, list[dict[str, Any]]] = {
    "input": [{"input": "copy.csv"}],  # other rows: below
    "success_file": [{"success_file": "key"}, {"success_file": "none"}],
    "expect_rows_at_least": [{"expect_rows_at_least": 1}, {"expect_rows_at_least": 10**6}],
    "snapshot": [{"snapshot": "gs://bucket/folder"}],
    "user_column": [{"user_column": "other_user"}],
    "item_column": [{"item_column": "other_item"}],
    "time_column": [{"time_column": "other_time"}],
    "time_unit": [{"time_unit": "ms"}],
    "value_column": [AMOUNTS],
    "max_value": [{"max_value": 8}],
    "value_resolution": [{**AMOUNTS, "value_resolution": 2}],
    "csv_delimiter": [{"csv_delimiter": ","}, {"csv_delimiter": ";"}],
    "csv_encoding": [{"csv_encoding": "utf-8"}, {"csv_encoding": "latin-1"}],
    "csv_quoted_newlines": [{"csv_quoted_newlines": True}],
    "domain": [{"domain": "fewer.txt"}, {"domain": "items.csv"}],
    "found": [{"found": "found.jsonl"}],
    "domain_column": [{"domain": "items.csv", "domain_column": "item"}, {"domain": "items.csv", "domain_column": "n"}],
    "domain_group_column": [{**GROUPS, "domain": "items.csv", "domain_group_column": "group"}],
    "domain_range": [{"domain": None, "domain_range": "0:7"}],
    "unknown_domain": [UNKNOWN],
    "group_column": [GROUPS],
    "groups": [{"groups": "groups.txt"}],
    "groups_per_user": [{**GROUPS, "groups_per_user": 2}],
    "mechanism": [{"mechanism": "peeling"}],
    "k": [{"k": 2}, {"k": 4}],
    "epsilon": [{"epsilon": 0.5}, {"epsilon": 2}],
    "delta": [{"delta": 1e-6}, {"mechanism": "gaussian", "delta": 1e-6}],
    "neighbours": [{"neighbours": "replace-one"}, {"neighbours": "add-remove"}],
    "max_items_per_user": [{"max_items_per_user": 1}],
    "like": [{"like": "zipf=1.1,items=7,users=1e6,items_per_user=3"}],
    "on_noise": [{"on_noise": "refuse", "like": "zipf=1.1,items=7,users=1e6,items_per_user=3"}],
    "publish_counts": [{"publish_counts": 2}, {"publish_counts": None, "round_counts": None}],
    "publish_counts_delta": [{"publish_counts_delta": 1e-6}],
    "publish_others": [{"publish_others": 1, "max_items_per_user": 3}],
    "round_counts": [{"round_counts": 5}, {"round_counts": None}],
    "hide_counts_below": [{"hide_counts_below": 1}, {"hide_counts_below": 10**6}],
    "privacy_unit": [{"privacy_unit": "user"}],
    "horizon": [{"privacy_unit": "user", "horizon": 9}],
    "max_windows_per_user": [{"privacy_unit": "user", "max_windows_per_user": 2}],
    "ledger": [{**BOOKS, "ledger": "sqlite:///b2.db"}, {**BOOKS, "ledger": "sqlite:///none.db"}],
    "dataset": [{"ledger": "sqlite:///b2.db", "dataset": "e"}],
    "window": [{"window": "12h"}, {"window": "day"}, {"window": None}],
    "slide": [{"slide": "12h"}],
    "time_zone": [
        {"time_zone": "Europe/Berlin"},
        {"time_zone": "Europe/Berlin", "from": "2026-01-05T00:00Z", "to": "2026-01-08T00:00Z"},
    ],
    "against": [RISERS],
    "against_weight": [{**RISERS, "against_weight": 0.5}],
    "period_from": [{"from": "2026-01-04"}],
    "period_to": [{"to": "2026-01-07"}, {"to": "2026-01-09"}],
    "release_key": [{"release_key": "file:key2"}, {"release_key": None}],
    "release_id": [{"release_id": "s"}],
    "output": [{"output": "other.jsonl"}, {"output": "out.csv"}, {"output": "there/"}],
    "output_format": [
        {"output": "there/", "output_format": "jsonl"},
        {"output": "there/", "output_format": "jsonl", "round_counts": 5},
        {"output": "there/", "output_format": "jsonl", "from": "2026-01-04", "round_counts": 5},
    ],
    "overwrite": [{"overwrite": True, "round_counts": 5}, {"overwrite": True, "k": 2}],
    "runner": [{"runner": "nothing"}],
    "exact_counters": [{"exact_counters": True}],
    "shards": [{"shards": 4}],
    "quiet": [{"quiet": None}],
    "json": [{"json": True}],
    "show_dropped_rows": [{"show_dropped_rows": True}],
}
"""For every option of `run`, what is changed of a release that was published before."""
READY = {
    "input": [0],
    "success_file": [0],
    "expect_rows_at_least": [0],
    "domain": [1],
    "found": [0],
    "domain_column": [0],
    "neighbours": [1],
    "like": [0],
    "on_noise": [0],
    "ledger": [0],
    "dataset": [0],
    "window": [1],
    "time_zone": [1],
    "output": [0],
    "output_format": [0],
    "overwrite": [0, 1],
    "exact_counters": [0],
    "shards": [0],
    "quiet": [0],
    "json": [0],
    "show_dropped_rows": [0],
    "csv_delimiter": [0],
    "csv_encoding": [0],
}
"""Which of these ask the same, or replace or leave alone what stands; all others are refused."""
REPLACED, ELSEWHERE = ("overwrite",), ("output",)
"""The options by which a run may write what was not there."""


def run(books: dict[str, Any], change: dict[str, Any], **more: object) -> Done:
    return command("run", *options(**{**ASKED, **books, **change, **more}))


@pytest.fixture(scope="module", params=[{}, BOOKS], ids=["no ledger", "ledger"])
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("published")
    for name in ("rows.csv", "copy.csv"):
        write(folder / name, ROWS)
    write(folder / "fewer_rows.csv", ROWS[:50])
    write(folder / "items.txt", "\n".join("0123456"))
    write(folder / "fewer.txt", "\n".join("01234"))
    write(folder / "items.csv", [{"item": n, "n": f"x{n}", "group": "ab"[int(n) % 2]} for n in "0123456"])
    write(folder / "groups.txt", "a\nb")
    for name in ("key", "key2"):
        write(folder / name, f"{name}, which is a key of tests and no secret")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for ledger, dataset in (("b.db", "d"), ("b2.db", "d"), ("b2.db", "e")):
            made = command(
                "budget",
                "create",
                f"--ledger=sqlite:///{ledger}",
                f"--dataset={dataset}",
                "--epsilon=99",
                "--delta=0.9",
            )
            assert made.status == 0, made.err
        for output in ({}, {"output": "there/", "output_format": "jsonl"}):
            done = run(request.param, output)
            assert done.status == 0, done.err
        shutil.copy("out.jsonl", "found.jsonl")
        shutil.copy("out.manifest.json", "found.manifest.json")
    return folder, request.param


@pytest.fixture
def books(published: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A copy of what was published, for every test to work in; and its ledger."""
    shutil.copytree(published[0], tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return published[1]


def charges() -> list[int]:
    return [len(Ledger(f"sqlite:///{name}").read().charges) for name in ("b.db", "b2.db")]


def files() -> dict[str, bytes]:
    found = (path for path in Path().rglob("*") if path.is_file() and path.suffix != ".db")
    return {str(path): path.read_bytes() for path in found}


def test_the_table_has_every_option() -> None:
    """But for the parameters of mechanisms, of which joint has none."""
    assert set(CHANGES) == {option.name for option in rows() if option.helps("run") and not option.parameter} - {
        "dry_run"
    }


@pytest.mark.parametrize("name", CHANGES)
def test_a_check_says_what_the_run_does(name: str, books: dict[str, Any]) -> None:
    for place, change in enumerate(CHANGES[name]):
        before, paid = files(), charges()
        checked = run(books, change, dry_run=True)
        assert (files(), charges()) == (before, paid), "a check changes nothing"
        done = run(books, change)
        assert done.status == checked.status, (change, checked.err, done.err)
        assert (done.status == 0) == (place in READY.get(name, [])), (change, done.err)
        assert done.status == 0 or charges() == paid, "nothing is charged for a run that does nothing"
        after = files()
        if name not in REPLACED:
            assert {path: after[path] for path in before} == before, "one id has one answer"
        if name not in (*REPLACED, *ELSEWHERE):
            assert after.keys() == before.keys()


def test_other_rows_are_seen_by_a_ledger_only(books: dict[str, Any]) -> None:
    """Without one the ranking itself tells: it is drawn, and not published."""
    before, paid = files(), charges()
    checked, done = (run(books, {"input": "fewer_rows.csv"}, dry_run=check) for check in (True, None))
    assert (checked.status, done.status) == ((2, 2) if books else (0, 1))
    assert "was used on" in done.err if books else "exists and is kept" in done.err
    assert (files(), charges()) == (before, paid)
