"""Groups are published and shown in the order in which they are listed, whatever they are called."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from private_topk.pipelines.rank import rank
from private_topk.pipelines.release.formats import RANKING_FORMATS, RankingSchema, ranking_rows
from private_topk.pipelines.show.reading import read_published
from private_topk.transforms import Ranking
from private_topk.transforms.mechanisms import Joint
from tests.pipelines.sinks.contract import PERIOD
from tests.pipelines.support import command, manifest, options, write

LISTED = ["Spain", "austria", "Norway", "10", "9"]
WINDOWS = ["2026-01-05", "2026-01-06"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"user": f"u{n}", "item": "tea", "time": WINDOWS[n % 2], "land": LISTED[n % 3]} for n in range(12)]
    write(tmp_path / "rows.csv", rows)
    return tmp_path


def publish(
    output: str, groups: Iterable[str] = LISTED, first: str = WINDOWS[0], to: str = "2026-01-07", **more: object
) -> str:
    write(Path("groups.txt"), "".join(f"{name}\n" for name in groups))
    write(Path("items.txt"), "tea\ncake\n")
    done = command(
        "run",
        *options(from_=first, to=to, output=output, **more),
        *(
            "--input=rows.csv --domain=items.txt --mechanism=joint --k=1 --epsilon=1 --group-column=land "
            "--groups=groups.txt --window=1d"
        ).split(),
    )
    assert done.status == 0, done.err
    return done.out


def distinct(found: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("ending", sorted(RANKING_FORMATS))
def test_files_manifests_and_what_is_shown_are_in_the_order_of_the_list(ending: str) -> None:
    printed = publish(f"r{ending}")
    assert re.findall(r"^(\w+), \d January", printed, re.M) == LISTED * 2
    rows = RANKING_FORMATS[ending].decode(Path(f"r{ending}").read_bytes())
    assert [row["group"] for row in rows] == LISTED * 2
    assert all(one["window_start"] <= other["window_start"] for one, other in pairwise(rows))
    entries = json.loads(Path("r.manifest.json").read_text())["windows"]
    assert [(entry["group"], entry["group_number"]) for entry in entries] == [*zip(LISTED, range(5), strict=True)] * 2
    assert re.findall(r"^(\w+), \d January", command("show", f"r{ending}").out, re.M) == LISTED * 2
    command("show", f"r{ending}", "--html", "r.html")
    index = Path("r.html").read_text()
    assert distinct(re.findall(r'href="r-groups/(\w+)\.html"', index)) == LISTED


def test_a_folder_is_in_the_order_of_the_list_of_groups() -> None:
    publish("out/", output_format="csv")
    report = read_published("out")
    assert list(report.by_group()) == LISTED
    assert [row["group"] for row in report.rows] == LISTED * 2
    assert [len(listings) for listings in report.by_group().values()] == [2] * 5


def test_a_series_with_two_lists_has_the_newest_and_behind_it_what_it_leaves_out() -> None:
    publish("a.csv", ["gone", *LISTED], to=WINDOWS[1])
    publish("b.csv", ["new", *reversed(LISTED)], first=WINDOWS[1])
    assert list(read_published("a.csv", "b.csv").by_group()) == ["new", *reversed(LISTED), "gone"]


def test_a_notebook_is_in_the_order_of_the_list_of_groups() -> None:
    ranked = rank(pl.read_csv("rows.csv"), 1, Joint(epsilon=1.0), ["tea", "cake"], groups=LISTED, group="land")
    assert [window.group for window in ranked] == LISTED
    assert distinct(re.findall(rf"\b({'|'.join(LISTED)}), All rows", ranked._repr_html_())) == LISTED


def test_a_file_has_the_same_bytes_however_its_rankings_arrive() -> None:
    rankings = [
        Ranking(window, ("tea",), 1, "sequence", group=name, group_number=number)
        for window in PERIOD.windows()
        for number, name in enumerate(LISTED)
    ]
    found, schema = set(), RankingSchema(grouped=True)
    for seed in range(20):
        random.Random(seed).shuffle(rankings)
        rows = RANKING_FORMATS[".avro"].encode(ranking_rows(rankings, "id", schema), schema)
        found.add((rows, manifest().with_answer(rankings).at("r.avro", rows).encode()))
    assert len(found) == 1
