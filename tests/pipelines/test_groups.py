"""Groups through every door: whole commands, report files, streams, a ledger, and what is refused."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from private_topk.transforms import user_shards
from private_topk.transforms.beam_yaml import RankRows
from tests.pipelines.support import command, options, write
from tests.transforms.pipelines import outcome

ITEMS, LANDS = "abcd", ["fr", "de", "é ü", "7"]
QUESTION = {
    "domain": "items.txt", "mechanism": "laplace", "k": 4, "epsilon": 1e6, "publish_counts": 1e6,
    "group_column": "land", "groups": "lands.txt", "release_key": "file:key", "release_id": "r",
    "window": "1d", "from_": "2026-01-05", "to": "2026-01-07",
}  # fmt: skip
Row = dict[str, Any]
Scores = dict[tuple[str, str, str], int]


def plays() -> list[Row]:
    """Two days of 50 users who each have one land a day, and one row elsewhere; nobody is in the last land."""
    draw = np.random.default_rng(6)
    rows = []
    for user in range(50):
        for day in (5, 6):
            land = LANDS[draw.integers(3)]
            for _ in range(4):
                rows.append({"user": f"u{user}", "item": ITEMS[min(draw.integers(4), draw.integers(4))], "land": land,
                             "time": f"2026-01-0{day}T{draw.integers(24):02}:00:00"})  # fmt: skip
            rows.append({**rows[-1], "land": ["mars", "fr"][draw.integers(2)]})
    return rows


def expected(rows: list[Row]) -> Scores:
    held: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["land"] in LANDS:
            held[row["time"][:10], row["user"]][row["land"]] += 1
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        day = row["time"][:10]
        if row["land"] in LANDS and held[day, row["user"]].most_common(1)[0][0] == row["land"]:
            found[day, row["land"], row["item"]].add(row["user"])
    return {place: len(users) for place, users in found.items()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.txt").write_text("\n".join(ITEMS) + "\n")
    (tmp_path / "lands.txt").write_text("\n".join(LANDS) + "\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    return tmp_path


def published(folder: Path, **others: object) -> list[Row]:
    asked = {**QUESTION, "input": "rows.csv", "output": "out.jsonl", "overwrite": True, "quiet": True, **others}
    done = command("run", *options(**asked))
    assert done.status == 0, done.err
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def scores(rows: list[Row]) -> Scores:
    return {(row["window_start"][:10], row["group"], row["item"]): row["noisy_count"] for row in rows}


def test_from_rows_to_files_and_with_one_user_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every group of every window; one user who is in every group changes one ranking of the window.

    The same look at a pipeline with a defect planted, that lets users count in every group, sees it.
    """
    rows = plays()
    everywhere = [{"user": "one more", "item": item, "land": land, "time": "2026-01-06T01:00:00"}
                  for item in ITEMS for land in LANDS for _ in range(3)]  # fmt: skip
    write(folder / "rows.csv", rows)
    write(folder / "more.csv", [*rows, *everywhere])
    here = published(folder)
    found = scores(here)
    assert list(dict.fromkeys((row["window_start"][:10], row["group"]) for row in here)) == [
        (day, land) for day in ("2026-01-05", "2026-01-06") for land in sorted(LANDS)
    ]
    assert list(here[0])[:4] == ["window_start", "window_end", "group", "rank"]
    assert {place: count for place, count in found.items() if count} == expected(rows)
    assert lands_moved(found, scores(published(folder, input="more.csv"))) == 1
    manifest = json.loads((folder / "out.manifest.json").read_text())
    assert manifest["groups"]["rankings_of_a_user"] == 1 and manifest["privacy"]["epsilon"] == 2e6
    assert [window["group"] for window in manifest["windows"][:4]] == sorted(LANDS)
    monkeypatch.setattr(user_shards, "chosen", lambda users, *_: np.ones(len(users), bool))
    assert lands_moved(*(scores(published(folder, input=name)) for name in ("rows.csv", "more.csv"))) == 4


def lands_moved(here: Scores, there: Scores) -> int:
    moved = {place for place in here if there[place] != here[place]}
    assert all(abs(there[place] - here[place]) == 1 for place in moved if place[0] == "2026-01-06")
    return len({(day, land) for day, land, _ in moved if day == "2026-01-06"})


@pytest.mark.parametrize("ending", [".avro", ".csv", ".parquet"])
def test_the_group_is_a_column_and_in_the_title(folder: Path, ending: str) -> None:
    write(folder / "rows.csv", plays())
    asked = {**QUESTION, "window": None, "from_": None, "to": None, "input": "rows.csv", "output": f"out{ending}"}
    done = command("run", *options(**asked))
    assert done.status == 0 and all(f"{land}, All rows\n" in done.out for land in LANDS), done


def test_a_stream_of_groups_is_its_batch(folder: Path) -> None:
    """With amounts and a bound besides; a file for each window holds all of its groups."""
    write(folder / "rows.csv", [{**row, "n": n % 9} for n, row in enumerate(plays())])
    asked = {"epsilon": 1, "publish_counts": 1, "max_items_per_user": 2, "value_column": "n", "max_value": 5}
    batch = published(folder, **asked)
    written = datetime(2026, 1, 5, tzinfo=timezone.utc).timestamp()
    os.utime(folder / "rows.csv", (written, written))  # on time for every window
    streamed = {**QUESTION, **asked, "input": "./rows*.csv", "output": "out", "output_format": "jsonl"}
    done = command("stream", *options(**streamed))
    assert done.status == 0 and "2 windows published" in done.out, done
    files = sorted((folder / "out").glob("*.jsonl"))
    assert [json.loads(line) for path in files for line in path.read_text().splitlines()] == batch and len(files) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": None}, "--group-column needs --groups: the public list of groups"),
        ({"group_column": None}, "--groups needs --group-column: the column of the groups"),
        ({"group_column": None, "groups": None, "groups_per_user": 2}, "--groups-per-user needs --group-column"),
        ({"groups_per_user": 0}, "--groups-per-user must be a whole number of at least 1, got 0"),
        ({"groups": "none.txt"}, "--groups none.txt does not exist"),
        ({"groups": "twice.txt"}, "--groups twice.txt must hold every item once"),
        ({"group_column": "user"}, "--group-column must be another column than --user-column"),
        ({"group_column": "m"}, "name one column 'm'"),
        ({"output": "lands.txt.csv", "groups": "lands.txt.csv"}, "would replace"),
        ({"output": "lists.csv", "domain": "lists.csv", "domain_group_column": "land", "k": 1}, "would replace"),
        ({"partition_by": "land"}, "--partition-by does not apply to out.csv"),
        ({"partition_by": "land", "output": "kafka://localhost:9/out"}, "--partition-by does not apply to kafka://"),
        ({"partition_by": "user", "output": "out/"}, "--partition-by must be group or land, got user"),
        ({"partition_by": "group", "output": "out/", "group_column": None, "groups": None}, "--partition-by needs"),
        ({"domain_group_column": "land"}, "--domain-group-column does not apply to items.txt: its lines are the items"),
        ({"domain": "lists.csv", "domain_group_column": "of"}, "must name one column 'of'"),
        ({"domain": "lists.csv", "domain_group_column": "land", "k": 2}, "got k = 2 and a group of 1 items"),
        ({"domain": "lists.csv", "domain_group_column": "land", "groups": "some.txt"}, "such as 'é ü'"),
        ({"domain": "lists.csv", "domain_group_column": "item"}, "must be another column"),
        (
            {"domain": "lists.csv", "domain_group_column": "land", "group_column": None, "groups": None},
            "--domain-group-column needs --group-column and --groups",
        ),
    ],
)
def test_what_is_refused(folder: Path, change: Row, message: str) -> None:
    write(folder / "rows.csv", plays()[:9])
    (folder / "twice.txt").write_text("fr\nfr\n")
    (folder / "lands.txt.csv").write_text("land\nfr\nde\n")
    (folder / "some.txt").write_text("fr\nde\n")
    write(folder / "lists.csv", [{"item": i, "land": land} for land in LANDS for i in ITEMS[: 1 + 3 * (land != "7")]])
    asked = {**QUESTION, "overwrite": True, "input": "rows.csv", "output": "out.csv", **change}
    done = command("run", *options(**asked))
    assert done.status == 2 and message in done.err and not (folder / "out.csv").exists(), done.err


def test_a_ledger_is_charged_for_all_rankings_that_a_user_can_change(folder: Path) -> None:
    write(folder / "rows.csv", plays())
    ledger = {"ledger": "sqlite:///b.db", "dataset": "d", "publish_counts": None}
    assert command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=4").status == 0
    asked = {**QUESTION, **ledger, "input": "rows.csv", "output": "out.csv", "overwrite": True}
    for number, (change, used) in enumerate([({}, "25.0%"), ({"groups_per_user": 2}, "50.0%")]):
        done = command("run", *options(**{**asked, "epsilon": 1, **change, "release_id": f"r{number}"}))
        assert done.status == 0 and used in done.err, done.err
    manifest = json.loads((folder / "out.manifest.json").read_text())
    assert manifest["privacy"]["epsilon"] == 1 and manifest["privacy"]["rankings_of_a_user_in_a_window"] == 2
    assert manifest["parameters"]["epsilon"] == 0.5 and manifest["groups"]["per_user"] == 2


def test_weights_are_published_beside_the_items(folder: Path) -> None:
    """Of items that are not public, in groups, by a batch and by a stream; nobody has items enough to weigh less."""
    write(folder / "rows.csv", plays())
    asked = {"domain": None, "unknown_domain": True, "mechanism": "weighted-gaussian", "epsilon": 1000, "delta": 1e-3,
             "max_items_per_user": 4, "publish_counts": None}  # fmt: skip
    batch = published(folder, **asked)
    wanted = expected(plays())
    assert len(batch) > 10 and all(row["noisy_count"] is None for row in batch)
    for row in batch:
        held = wanted[row["window_start"][:10], row["group"], row["item"]]
        assert abs(row["noisy_weight"] - held) < 1, "one user less or more, whose groups tie, and little noise"
    written = datetime(2026, 1, 5, tzinfo=timezone.utc).timestamp()
    os.utime(folder / "rows.csv", (written, written))
    streamed = {**QUESTION, **asked, "input": "./rows*.csv", "output": "out", "output_format": "jsonl"}
    assert command("stream", *options(**streamed)).status == 0
    files = sorted((folder / "out").glob("*.jsonl"))
    assert [json.loads(line) for path in files for line in path.read_text().splitlines()] == batch


@pytest.mark.parametrize(("mechanism", "order"), [("weighted-order", "acbd"), ("candidates-then-rank", "abcd")])
def test_a_weighted_order_is_that_of_the_sums_and_the_same_in_a_stream(
    folder: Path, mechanism: str, order: str
) -> None:
    """Who holds two items weighs 0.7 in each, where one counts wholly: the order can be another one than by users."""
    rows = [
        {"user": f"a{n}", "item": item, "land": "fr", "time": "2026-01-05T01:00:00"} for n in range(30) for item in "ab"
    ]
    rows += [{**rows[0], "user": f"c{n}", "item": "c"} for n in range(25)]
    rows += [{**rows[0], "user": f"d{n}", "item": "ad"[n % 2]} for n in range(10)]
    write(folder / "rows.csv", rows)
    asked = {"mechanism": mechanism, "epsilon": 1000, "delta": 1e-6, "max_items_per_user": 3, "whole_items": 1,
             "publish_counts": None}  # fmt: skip
    batch = published(folder, **asked)
    found = [row["item"] for row in batch if row["group"] == "fr" and "-05T" in row["window_start"]]
    assert found == list(order)
    assert "noisy_weight" not in batch[0], "the noise is calibrated to the order alone"
    written = datetime(2026, 1, 5, tzinfo=timezone.utc).timestamp()
    os.utime(folder / "rows.csv", (written, written))
    streamed = {**QUESTION, **asked, "input": "./rows*.csv", "output": "out", "output_format": "jsonl"}
    assert command("stream", *options(**streamed)).status == 0
    files = sorted((folder / "out").glob("*.jsonl"))
    assert [json.loads(line) for path in files for line in path.read_text().splitlines()] == batch


def test_every_group_ranks_the_items_of_its_own_list(folder: Path) -> None:
    """Of batch, and of a stream; a report file asks for it too."""
    lists = {"fr": "ab", "de": "bcd", "é ü": "dax", "7": "xy"}
    write(folder / "lists.csv", [{"item": item, "land": land} for land, items in lists.items() for item in items])
    at_home = [row for number, row in enumerate(plays()) if number % 5 < 4]
    rows = [row for row in at_home if row["item"] in lists[row["land"]]]
    write(folder / "rows.csv", at_home)
    found = published(folder, domain="lists.csv", domain_group_column="land", k=2)
    for row in found:
        assert row["item"] in lists[row["group"]]
    wanted = expected(rows)
    assert {place: count for place, count in scores(found).items() if count} == {
        place: count for place, count in wanted.items() if place in scores(found)
    }
    manifest = json.loads((folder / "out.manifest.json").read_text())
    assert manifest["domain"]["by_group"]["least"] == 2
    write(folder / "lands.yaml", REPORT.replace("file: items.txt", "file: lists.csv\n  group_column: land").replace(
        "k: 4", "k: 2"))  # fmt: skip
    assert command("report", "lands.yaml", "--window-end", "2026-01-06").status == 0
    (path,) = (folder / "out").glob("*.jsonl")
    by_report = [json.loads(line) for line in path.read_text().splitlines()]
    assert scores(by_report) == {place: count for place, count in scores(found).items() if place[0] == "2026-01-05"}


REPORT = """\
report: lands
source:
  input: rows.csv
groups:
  column: land
  file: lands.txt
  per_user: 1
domain:
  file: items.txt
window:
  every: day
  first: 2026-01-05
mechanism:
  name: laplace
  k: 4
budget:
  epsilon: 1000000
  publish_counts: 1000000
release_key: file:key
sink:
  output: out/{report}-{start}.jsonl
"""


def test_a_report_file_asks_for_groups(folder: Path) -> None:
    write(folder / "rows.csv", plays())
    write(folder / "lands.yaml", REPORT)
    assert command("report", "lands.yaml", "--window-end", "2026-01-06").status == 0
    (path,) = (folder / "out").glob("*.jsonl")
    found = scores([json.loads(line) for line in path.read_text().splitlines()])
    wanted = {place: count for place, count in expected(plays()).items() if place[0] == "2026-01-05"}
    assert {place: count for place, count in found.items() if count} == wanted
    write(folder / "lands.yaml", REPORT.replace("  file: lands.txt\n", ""))
    done = command("report", "lands.yaml", "--check")
    assert done.status == 2 and "lands.yaml:5: groups.column needs groups.file" in done.err, done.err


def test_beam_yaml_takes_groups() -> None:
    rows = [beam.Row(user=f"u{n}", item="ab"[n % 2], land=LANDS[n % 2]) for n in range(6)]
    rank = RankRows(1, "laplace", 1e6, ["a", "b"], group="land", groups=LANDS[:2])
    found = outcome(lambda p: p | beam.Create(rows) | rank | beam.Map(lambda row: [row.group, row.rank, row.item]))
    assert sorted(element for _, element in found) == [["de", 1, "b"], ["fr", 1, "a"]]
