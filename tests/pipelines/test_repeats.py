"""One release has one answer, whoever asks: again it is the same and costs nothing, changed it is refused, killed it
goes on. Two tables: every option of `run`, and what else may happen between two calls, by `run`, `report`, `rank` and
`select`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from private_topk import Period, Release, ReleaseKey, rank
from private_topk.pipelines.budget import Ledger
from private_topk.pipelines.options import rows
from private_topk.transforms.errors import InvalidArgument
from tests.nightly import nightly, nightly_but
from tests.pipelines.support import Done, command, kill_when_charged, options, write

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
KEPT: dict[str, dict[str, Any]] = {"no ledger": {}, "ledger": BOOKS}
GROUPS = {"group_column": "group", "groups": "groups.txt"}
AMOUNTS = {"value_column": "amount", "max_value": 8, "round_counts": None}
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
    "overall": [{**GROUPS, "overall": True}],
    "mechanism": [{"mechanism": "peeling"}],
    "k": [{"k": 2}, {"k": 4}],
    "epsilon": [{"epsilon": 0.5}, {"epsilon": 2}],
    "delta": [{"delta": 1e-6}, {"mechanism": "gaussian", "delta": 1e-6}],
    "neighbours": [{"neighbours": "replace-one"}, {"neighbours": "add-remove"}],
    "max_items_per_user": [{"max_items_per_user": 1}],
    "like": [{"like": "items=7,users=1e6,rank1=50%,rank7=9%"}],
    "on_noise": [{"on_noise": "refuse", "like": "items=7,users=1e6,rank1=50%,rank7=9%"}],
    "publish_counts": [{"publish_counts": 2}, {"publish_counts": None, "round_counts": None}],
    "publish_counts_delta": [{"publish_counts_delta": 1e-6}],
    "round_counts": [{"round_counts": 5}, {"round_counts": None}],
    "privacy_unit": [{"privacy_unit": "user"}],
    "horizon": [{"privacy_unit": "user", "horizon": 9}],
    "max_windows_per_user": [{"privacy_unit": "user", "max_windows_per_user": 2}],
    "ledger": [{**BOOKS, "ledger": "sqlite:///b2.db"}, {**BOOKS, "ledger": "sqlite:///none.db"}],
    "dataset": [{"ledger": "sqlite:///b2.db", "dataset": "e"}],
    "window": [{"window": "12h"}, {"window": "day"}, {"window": None}],
    "slide": [{"slide": "12h"}],
    "to_date": [{"to_date": True}],
    "time_zone": [
        {"time_zone": "Europe/Berlin"},
        {"time_zone": "Europe/Berlin", "from": "2026-01-05T00:00Z", "to": "2026-01-08T00:00Z"},
    ],
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
    "overwrite": [{"overwrite": True, "k": 2}, {"overwrite": True, "release_id": "s"}],
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
    "window": [1],
    "time_zone": [1],
    "output": [0],
    "output_format": [0],
    "overwrite": [1],
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


@pytest.fixture(scope="module", params=KEPT)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    books = KEPT[request.param]
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
                *f"budget create --ledger=sqlite:///{ledger} --dataset={dataset} --epsilon=99 --delta=0.9".split()
            )
            assert made.status == 0, made.err
        for output in ({}, {"output": "there/", "output_format": "jsonl"}):
            done = run(books, output)
            assert done.status == 0, done.err
        shutil.copy("out.jsonl", "found.jsonl")
        shutil.copy("out.manifest.json", "found.manifest.json")
    return folder, books


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
    asked = {option.name for option in rows() if option.helps("run") and not option.parameter}
    assert set(CHANGES) == asked - {"dry_run", "sign_off"}


BY_DAY = ("input", "domain", "mechanism", "k", "period_to", "release_id", "output", "overwrite")
"""Of what is changed where there is no ledger."""
BY_NIGHT = (
    "success_file expect_rows_at_least found like on_noise csv_delimiter csv_encoding json show_dropped_rows".split()
)
"""What changes nothing of the question, which `test_requests` asks by day: a run of each is left to the night."""


@pytest.mark.parametrize(
    ("published", "name"),
    nightly_but(
        product(KEPT, CHANGES),
        *(("ledger", name) for name in CHANGES if name not in BY_NIGHT),
        *product(["no ledger"], BY_DAY),
    ),
    indirect=["published"],
    scope="module",  # or it would be published anew for every row
)
def test_a_check_says_what_the_run_does(name: str, books: dict[str, Any]) -> None:
    for place, change in enumerate(CHANGES[name]):
        before, paid = files(), charges()
        checked = run(books, change, dry_run=True)
        assert (files(), charges()) == (before, paid), "a check changes nothing"
        done = run(books, change)
        assert done.status == checked.status, (change, checked.err, done.err)
        ready = READY.get(name, [])
        assert (done.status == 0) == (place in ready), (change, done.err)
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
    assert "was used on" in done.err if books else "holds another ranking of r: its input has changed" in done.err
    assert (files(), charges()) == (before, paid)


# What happens between two calls, by every door.

NAME = "out/weekly-2026-01-05.csv"
MANIFEST = Path("out/weekly-2026-01-05.manifest.json")
IDS = {"run": "r", "report": "weekly/20260105T000000Z--20260112T000000Z"}
"""Of what stands in a file, the id of the release."""
PLAYS = [
    {"user": f"u{n % 30}", "other": f"u{n % 7}", "item": f"{n * n % 7}", "time": f"2026-01-{5 + n % 14:02}T12:00:00Z"}
    for n in range(90)
]
ONCE: dict[str, Any] = {
    "input": "rows.csv",
    "domain": "items.txt",
    "mechanism": "joint",
    "k": 3,
    "epsilon": 1,
    "window": "7d",
    "from": "2026-01-05",
    "to": "2026-01-12",
    "release_key": "file:key",
    "release_id": "r",
    "dataset": "d",
    "output": NAME,
    "quiet": True,
}


class Answer(NamedTuple):
    """What came of a call: its status, all that it said, and the ranking that stands or is handed over afterwards."""

    status: int
    said: str
    ranking: bytes


def answer_of(done: Done) -> Answer:
    return Answer(done.status, done.out + done.err, Path(NAME).read_bytes() if Path(NAME).exists() else b"")


def words_of_run(url: str, **change: object) -> list[str]:
    return ["run", *options(**{**ONCE, "ledger": url, **change})]


def by_run(url: str, **change: object) -> Answer:
    return answer_of(command(*words_of_run(url, **change)))


def words_of_report(url: str, **change: object) -> list[str]:
    asked: dict[str, Any] = {**ONCE, **change}
    report = {
        "report": "weekly",
        "source": {"input": asked["input"]},
        "domain": {"file": asked["domain"]},
        "window": {"every": "week", "first": "2026-01-05"},
        "mechanism": {"name": asked["mechanism"], "k": asked["k"]},
        "budget": {"epsilon": asked["epsilon"]},
        "release_key": asked["release_key"],
        "sink": {"output": "out/{report}-{start}.csv"},
        "ledger": {"url": url, "dataset": asked["dataset"]},
    }
    Path("weekly.yaml").write_text(json.dumps(report))
    return ["report", "weekly.yaml", "--window-end", "2026-01-12"]


def by_report(url: str, **change: object) -> Answer:
    return answer_of(command(*words_of_report(url, **change)))


def by_rank(url: str, **change: object) -> Answer:
    asked: dict[str, Any] = {**ONCE, "ledger": url, "user_column": "user", **change}
    key = {"file:key": ReleaseKey.parse("file:key"), "fresh": ReleaseKey.fresh()}[asked["release_key"]]
    try:
        found = rank(
            pl.read_csv(asked["input"], infer_schema=asked.get("infer_schema", False)),
            asked["k"],
            asked["mechanism"],
            Path(asked["domain"]),
            epsilon=asked["epsilon"],
            user=asked["user_column"],
            period=Period.of(asked["from"], asked["to"], asked["window"]),
            release=asked["release_id"] and Release(key, asked["release_id"]),
            ledger=asked["ledger"],
            dataset=asked["dataset"],
        )
    except InvalidArgument as error:
        return Answer(2, str(error), b"")
    return Answer(0, "", json.dumps(found.to_rows(), default=str).encode())


def by_select(url: str, **change: object) -> Answer:
    asked = {"counts": "counts.csv", "mechanism": "joint", "k": 10, "epsilon": 1, "release_key": "file:key"}
    done = command("select", *options(**{**asked, "release_id": "r", **change}))
    return Answer(done.status, done.err, done.out.encode())


DOORS: dict[str, Callable[..., Answer]] = {"run": by_run, "report": by_report, "rank": by_rank, "select": by_select}


def nothing() -> None: ...


def lose() -> None:
    shutil.rmtree("out", ignore_errors=True)


def move() -> None:
    Path("rows.csv").rename("moved.csv")


def add() -> None:
    """A row more; and the output is lost, so that a report has something to publish."""
    with open("rows.csv", "a") as sink:
        sink.write("newcomer,newcomer,1,2026-01-06\n")
    lose()


def turn_round() -> None:
    head, *rows = Path("rows.csv").read_text().splitlines()
    Path("rows.csv").write_text("\n".join([head, *reversed(rows)]) + "\n")
    lose()


def change_key() -> None:
    """Without the first nobody can compare inputs, nor draw what is lost again."""
    write(Path("key"), "another key of enough bytes")
    lose()


class Between(NamedTuple):
    """What happens between two calls.

    Args:
        doors: by which calls.
        ends: how the second ends: `same`, `refused`, or with `another` release, which is charged where there is a
            ledger.
        said: by the second.
    """

    doors: tuple[str, ...]
    ends: str
    said: str = ""
    do: Callable[[], None] = nothing
    change: dict[str, Any] = {}


OVER = "1 spent + 1 asked = 2, over 1.5"
BETWEEN = {
    "nothing": Between(("rank", "select"), "same"),
    "nothing, and it is told": Between(("run",), "same", "was released before"),
    "nothing, and its place is looked at": Between(("report",), "same", "published before"),
    "it may be overwritten": Between(("run",), "same", "repeating it costs nothing", change={"overwrite": True}),
    "its output is lost": Between(("run", "report"), "same", do=lose),
    "its input has another name": Between(("run", "report", "rank"), "same", do=move, change={"input": "moved.csv"}),
    "its input has a row more": Between(("run", "report", "rank"), "refused", "for other input", add),
    "its rows are in another order": Between(
        ("run", "report", "rank"), "refused", "also the order of its rows", turn_round
    ),
    "its columns have other types": Between(
        ("rank",), "refused", "and, in a frame, the types of its columns", change={"infer_schema": True}
    ),
    "other people": Between(("run", "rank"), "refused", "for other input", lose, {"user_column": "other"}),
    "another id": Between(("run", "rank"), "refused", OVER, lose, {"release_id": "s"}),
    "another k": Between(("run", "report", "rank"), "refused", "with k 3 (now 2)", lose, {"k": 2}),
    "another mechanism": Between(
        ("run", "report", "rank"), "refused", "with mechanism joint (now", lose, {"mechanism": "peeling"}
    ),
    "another list": Between(
        ("run", "report", "rank"), "refused", "another domain, whose order counts too", lose, {"domain": "fewer.txt"}
    ),
    "other windows": Between(
        ("run", "rank"), "refused", "2026-01-12 UTC (now 7 windows of 1 day, ", lose, {"window": "1d"}
    ),
    "an epsilon that still fits": Between(
        ("run", "report", "rank"), "refused", "with epsilon 1 (now 0.5)", lose, {"epsilon": 0.5}
    ),
    "another key": Between(
        ("run", "report", "rank"), "refused", "not the one under which", change_key, {"epsilon": 0.5}
    ),
    "no id": Between(("rank",), "refused", "release", change={"release_id": None}),
    "a fresh key": Between(("rank",), "refused", "release", change={"release_key": "fresh"}),
    "no dataset": Between(("run", "rank"), "refused", "dataset", change={"dataset": None}),
    "a dataset of nobody": Between(("run", "report", "rank"), "refused", "nobody", lose, {"dataset": "nobody"}),
    "other counts": Between(("select",), "another", change={"counts": "more.csv"}),
    "of counts, another id": Between(("select",), "another", change={"release_id": "s"}),
    "of counts, another epsilon": Between(("select",), "another", change={"epsilon": 2}),
    "of counts, no release": Between(("select",), "another", change={"release_key": None, "release_id": None}),
}


def fill(folder: Path, url: str) -> None:
    """Rows, lists, counts and a key, and a ledger with a budget for one and a half."""
    write(folder / "rows.csv", PLAYS)
    write(folder / "items.txt", "\n".join("0123456"))
    write(folder / "fewer.txt", "\n".join("01234"))
    write(folder / "key", "a key of the tests, which is no secret")
    write(folder / "counts.csv", "count\n" + "5\n" * 300)
    write(folder / "more.csv", "count\n" + "5\n" * 299 + "6\n")
    assert command("budget", "create", f"--ledger={url}", "--dataset=d", "--epsilon=1.5").status == 0


@pytest.fixture
def place(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fill(tmp_path, url)


@pytest.fixture(scope="module")
def asked_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Answer]]:
    """What a first call by a door says, and the folder that it leaves, which every test copies."""

    @cache
    def first(door: str) -> tuple[Path, Answer]:
        folder = tmp_path_factory.mktemp(door)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            fill(folder, BOOKS["ledger"])
            return folder, DOORS[door](BOOKS["ledger"])

    return first


def outcomes(url: str) -> list[str]:
    return [entry.outcome for entry in Ledger(url).read().charges]


@pytest.mark.parametrize(("what", "door"), [(what, door) for what, one in BETWEEN.items() for door in one.doors])
def test_a_second_call_is_the_same_or_refused(
    what: str,
    door: str,
    asked_once: Callable[[str], tuple[Path, Answer]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    between, ask, url = BETWEEN[what], DOORS[door], BOOKS["ledger"]
    folder, first = asked_once(door)
    shutil.copytree(folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    paid = outcomes(url)
    assert (first.status, paid) == (0, [] if door == "select" else ["released"]), first
    if door in IDS:
        manifest, [entry] = json.loads(MANIFEST.read_text()), Ledger(url).read().charges
        assert (manifest["report"], manifest["key_id"]) == (IDS[door], entry.key_id)
    assert door != "run" or re.search("charged r to dataset d: epsilon .*; 66.7% of the budget is used", first.said)
    between.do()
    left = answer_of(Done(0, "", "")).ranking
    second = ask(url, **between.change)
    assert second.status == (2 if between.ends == "refused" else 0) and between.said in second.said, second
    if between.ends == "same":
        assert second.ranking == first.ranking
    if between.ends == "refused":
        assert second.ranking == left, "nothing new is published"
    if between.ends == "another" and door == "select":
        assert second.ranking != first.ranking
        repeatable = {"release_id": "r", **between.change}["release_id"] is not None
        assert (ask(url, **between.change).ranking == second.ranking) == repeatable
    another = between.ends == "another" and door != "select"
    assert outcomes(url) == paid + ["released"] * another
    assert len({entry.fingerprint for entry in Ledger(url).read().charges}) == len(paid)


MOMENTS = {
    "when charged": "",
    "between the renames": "real = p._rename\n"
    "def die(*pair):\n    real(*pair)\n    os.kill(os.getpid(), signal.SIGKILL)\np._rename = die",
    "before the ledger is told": "real = f.publish\n"
    "def die(*pair, **more):\n    real(*pair, **more)\n    os.kill(os.getpid(), signal.SIGKILL)\nf.publish = die",
}
"""When a process is killed, and by which patch of its own."""


def killed(moment: str, words: list[str]) -> None:
    if moment == "when charged":
        kill_when_charged(*words)
        return
    script = f"""import os, signal, sys
import private_topk.pipelines.release.store as p
import private_topk.pipelines.sinks.files as f
{MOMENTS[moment]}
from private_topk.pipelines import cli
cli.main(sys.argv[1:])"""
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("url", "door", "moment"),
    [
        nightly("sqlite", "run", "when charged"),
        ("sqlite", "run", "between the renames"),
        nightly("sqlite", "run", "before the ledger is told"),
        nightly("postgresql", "run", "when charged"),
        ("sqlite", "report", "when charged"),
    ],
    indirect=["url"],
)
@pytest.mark.usefixtures("place")
def test_a_killed_run_or_report_resumes_without_charge(url: str, door: str, moment: str) -> None:
    """Without --overwrite: what stands there is its own. The ranking does not depend on ledger or kill."""
    words = {"run": words_of_run, "report": words_of_report}[door](url)
    killed(moment, words)
    left = os.listdir("out") if Path("out").exists() else []
    assert (Path(NAME).name in left) == (moment == "before the ledger is told")
    assert (MANIFEST.name in left) == (moment != "when charged")
    assert outcomes(url) == ["started"]
    said = command("budget", "show", "--ledger", url).out
    assert "not finished: " in said and "over the same input, without files that came later, to resume at no" in said
    assert "(started); unless it still runs, run it again" in said
    resumed = DOORS[door](url)
    assert resumed.status == 0 and "resuming " in resumed.said and outcomes(url) == ["released"], resumed
    assert {path.name for path in Path("out").iterdir()} == {
        f"weekly-2026-01-05{end}" for end in (".csv", ".manifest.json")
    }
    again = DOORS[door](url)
    assert again.status == 0 and again.ranking == resumed.ranking and outcomes(url) == ["released"]
    if door == "run":
        assert "exists and is kept" in by_run(url, release_id="another").said
        plain = command(*words_of_run(url, ledger=None, dataset=None, output="plain.csv"))
        assert plain.status == 0 and Path("plain.csv").read_bytes() == resumed.ranking
