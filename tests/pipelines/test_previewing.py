"""A preview is of what a run draws; and what is not public does not get into one."""

from __future__ import annotations

import csv
import math
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from private_topk.pipelines.preview import PublicCounts, preview
from private_topk.pipelines.preview.expected import expected_counts
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import command, options, write

COUNTS = [40, 36, 33, 20, 19, 18, 6, 4, 1, 0, 0, 0]
DAYS = 200


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(counts: list[int], days: int) -> list[dict[str, str]]:
    """The first `count` users hold an item, on every day."""
    start = date(2026, 1, 1)
    return [
        {"user": f"u{user}", "item": f"item {item:02}", "time": (start + timedelta(days=day)).isoformat()}
        for day in range(days)
        for item, count in enumerate(counts)
        for user in range(count)
    ]


@pytest.mark.long
@pytest.mark.nightly
def test_a_preview_is_of_what_a_run_draws(folder: Path, mechanism: str = "joint") -> None:
    """200 windows of one run, each with the same counts: 200 draws of the whole path, under a given key.

    Their recall and every place's chance to be right lie within five standard errors of the preview's (0.19 at most): a
    sound pair fails with one key in 1e5. A quarter of the budget moves the first place by 0.44 at least, four times the
    budget the second by 0.38, which is more than five standard errors beyond the bound: each is missed as seldom.
    """
    write(folder / "rows.csv", rows_of(COUNTS, DAYS))
    write(folder / "items.txt", "\n".join(f"item {n:02}" for n in range(len(COUNTS))))
    write(folder / "key", "a key of the tests, thirty-two bytes and more")
    end = (date(2026, 1, 1) + timedelta(days=DAYS)).isoformat()
    asked = {"mechanism": mechanism, "k": 5, "epsilon": 1, "window": "1d", "from": "2026-01-01", "to": end}
    drawing = {"release_key": "file:key", "release_id": "a preview's"}
    done = command(
        "run", *options(input="rows.csv", domain="items.txt", output="out.csv", **asked, **drawing), "--quiet"
    )
    assert done.status == 0, done.err
    drawn: dict[str, list[int]] = {}
    with (folder / "out.csv").open() as source:
        for row in csv.DictReader(source):
            drawn.setdefault(row["window_start"], []).append(COUNTS[int(row["item"].removeprefix("item "))])
    assert len(drawn) == DAYS
    answers = np.array(list(drawn.values()))
    seen_recall = (answers >= COUNTS[4]).mean()
    seen_right = (answers == COUNTS[:5]).mean(axis=0)

    def agrees(epsilon: float) -> bool:
        found = preview(PublicCounts(COUNTS), 5, epsilon, mechanism=mechanism, draws=2000).best
        error = 5 * math.sqrt(0.25 * (1 / DAYS + 1 / 2000))
        near = [abs(one.value - seen) <= error for one, seen in zip(found.right, seen_right, strict=True)]
        return all(near) and abs(found.recall.value - seen_recall) <= error

    assert agrees(1)
    assert not agrees(0.25) and not agrees(4)


def test_exact_counts_need_a_declaration_that_they_are_public(folder: Path) -> None:
    write(folder / "counts.csv", "item,count\na,5\nb,3\n")
    given = {"counts": "counts.csv"}
    with pytest.raises(
        InvalidArgument, match="these_counts_are_public must be given with counts: .* which no budget pays for"
    ):
        expected_counts({}, given)
    found = expected_counts({}, {**given, "these_counts_are_public": True})[""]
    assert found.histogram(None, False).counts().tolist() == [5, 3]
    assert found.summary() == "counts.csv: 2 items, the largest count 5"


@pytest.mark.parametrize(
    ("asked", "given", "said"),
    [
        ({}, {}, "give one of like and counts"),
        ({"like": "sample"}, {"counts": "c.csv"}, "give one of like and counts"),
        ({"like": "sample"}, {"these_counts_are_public": True}, "is said of counts: leave it out"),
        ({}, {"counts": "none.npy", "these_counts_are_public": True}, "none.npy cannot be read"),
        ({}, {"counts": "rows.csv", "these_counts_are_public": True}, "has a column user, so it holds rows of users"),
    ],
)
def test_an_invalid_source_of_expected_counts_is_refused(folder: Path, asked: dict, given: dict, said: str) -> None:
    write(folder / "rows.csv", rows_of([2, 1], 1))
    write(folder / "c.csv", "count\n5\n")
    with pytest.raises(InvalidArgument) as refused:
        expected_counts(asked, given)
    assert said in refused.value.shown()


@pytest.mark.parametrize(
    "rows", [pl.DataFrame({"user": ["secret"], "item": ["x"]}), "sample", None, {}, {"DE": "sample"}]
)
def test_invalid_expected_counts_are_refused_without_showing_them(rows: object) -> None:
    """Rows above all; and no value of them is shown."""
    with pytest.raises(
        InvalidArgument, match="^expected must say what is publicly known of the counts, got "
    ) as caught:
        preview(rows, 3, 1.0)
    assert "secret" not in str(caught.value)
    assert "Released(ranking.noisy_counts), all of private_topk.pipelines.preview" in str(caught.value)
