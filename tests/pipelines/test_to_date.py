"""`run --to-date`: one series, paid for once, told as one; and whatever does not go with it is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from private_topk import Period, Release, ReleaseKey, rank
from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.question import Question
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.promise import promise_of
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import command

ITEMS = [f"song {n}" for n in range(8)]
YEAR = Period.of("2026-01-05", "2026-02-02", "7d", to_date=True)
ASKED = "--domain items.txt --k 3 --epsilon 2 --delta 1e-5 --max-items-per-user 4".split()
MONTH = [*ASKED, *"--window 7d --to-date --from 2026-01-05 --to 2026-02-02".split()]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Song n is played by 300 - 30 n people, in four weeks; every fifth of them plays it again a week later."""
    monkeypatch.chdir(tmp_path)
    rows = [
        (f"u{n}-{user % 150}", f"song {n}", f"2026-01-{5 + (user * 7 + again * 7) % 28:02}")
        for n in range(8)
        for user in range(300 - 30 * n)
        for again in range(1 + (user % 5 == 0))
    ]
    pl.DataFrame(rows, schema=["user", "item", "time"], orient="row").write_csv("rows.csv")
    Path("items.txt").write_text("\n".join(ITEMS))
    Path("release.key").write_text("a key of the tests, which is no secret\n")
    return tmp_path


def published(path: str = "top.csv") -> pl.DataFrame:
    return pl.read_csv(path)


def test_every_window_begins_with_the_period_and_counts_to_its_end() -> None:
    """With next to no noise each ranking is that of the distinct users up to its end."""
    done = command("run", "--input", "rows.csv", *MONTH, "--epsilon=500", "--output", "top.csv", "--json")
    assert done.status == 2, "epsilon is given twice"
    precise = [word if word != "2" else "500" for word in MONTH]
    done = command("run", "--input", "rows.csv", *precise, "--output", "top.csv")
    assert done.status == 0 and "mechanism: correlated-gaussian (its noise hardly grows" in done.err, done.err
    rows, told = pl.read_csv("rows.csv", try_parse_dates=True), published()
    assert told["window_start"].unique().to_list() == ["2026-01-05T00:00:00Z"]
    ends = told["window_end"].unique(maintain_order=True).to_list()
    assert ends == [f"2026-{day}T00:00:00Z" for day in ("01-12", "01-19", "01-26", "02-02")]
    for end in ends:
        so_far = rows.filter(pl.col("time") < pl.lit(end[:10]).str.to_date())
        counts = Counter(dict(so_far.group_by("item").agg(pl.col("user").n_unique()).iter_rows()))
        true = [count for _, count in counts.most_common(3)]
        assert [counts[item] for item in told.filter(pl.col("window_end") == end)["item"]] == true


def test_a_ledger_is_charged_once_for_the_series_and_a_repeat_is_free() -> None:
    ledger = ["--ledger", "sqlite:///budget.db", "--dataset", "plays"]
    created = command(
        "budget", "create", *ledger, "--epsilon", "3", "--delta", "1e-4", "--privacy-unit", "user", "--json"
    )
    assert created.status == 0, created.err
    named = ["--release-key", "file:release.key", "--release-id", "charts", "--privacy-unit", "user", *ledger]
    first = command("run", "--input", "rows.csv", *MONTH, *named, "--output", "top.csv")
    assert first.status == 0, first.err
    content = Path("top.csv").read_bytes()
    again = command("run", "--input", "rows.csv", *MONTH, *named, "--output", "top.csv", "--overwrite")
    assert again.status == 0 and "costs nothing" in again.err and Path("top.csv").read_bytes() == content
    (charge,) = json.loads(command("budget", "history", *ledger, "--json").out)["charges"]
    assert charge["windows"] == "2026-01-05 to 2026-02-02 UTC" and charge["mechanism"] == "correlated-gaussian"


@pytest.mark.parametrize("output", ["top.csv", "another.csv"])
def test_another_history_is_not_published_under_the_id_of_a_series(output: str) -> None:
    """A longer period, or rows that were added to a step that is published: two answers would give both away."""
    ledger = ["--ledger", "sqlite:///budget.db", "--dataset", "plays"]
    command("budget", "create", *ledger, "--epsilon", "9", "--delta", "1e-4", "--privacy-unit", "user")
    named = ["--release-key", "file:release.key", "--release-id", "charts", "--privacy-unit", "user", *ledger]
    assert command("run", "--input", "rows.csv", *MONTH, *named, "--output", "top.csv").status == 0
    before = Path("top.csv").read_bytes()
    longer = [word if word != "2026-02-02" else "2026-02-09" for word in MONTH]
    refused = command("run", "--input", "rows.csv", *longer, *named, "--output", output, "--overwrite")
    assert refused.status == 2 and "--release-id" in refused.err, refused.err
    with open("rows.csv", "a") as file:
        file.write("late,song 7,2026-01-06\n")
    refused = command("run", "--input", "rows.csv", *MONTH, *named, "--output", output, "--overwrite")
    assert refused.status == 2 and "--release-id" in refused.err, refused.err
    assert Path("top.csv").read_bytes() == before and not Path("another.csv").exists()


def asked(period: Period, **more: Any) -> Question:  # noqa: ANN401
    release = Release(ReleaseKey.parse("file:release.key"), "charts")
    return Question.of(
        3, domain=ITEMS, period=period, release=release, epsilon=1, delta=1e-6, max_items_per_user=4, **more
    )


@pytest.mark.parametrize("unit", ["user", "user-window"])
def test_the_promise_is_that_of_one_window_however_many_are_listed(unit: str) -> None:
    from private_topk.transforms.release import Ranking

    question = asked(YEAR, privacy_unit=unit)
    manifest = manifest_of(question).with_answer(
        Ranking(window, tuple(ITEMS[:3]), 3, "sequence") for window in reversed(YEAR.windows())
    )
    manifest = Manifest.decode(manifest.encode())
    assert [window.end for window in manifest.windows] == [window.end for window in YEAR.windows()]
    privacy, everything = promise_of([manifest])
    assert (privacy.epsilon, privacy.delta, everything) == (1.0, 1e-6, None)
    assert manifest.charge is not None and manifest.charge.epsilon == "1"
    assert question.request(dataset="", key_id="", fingerprint="").windows.number == 1
    several = asked(YEAR, privacy_unit="user-window", groups=["a", "b", "c"], groups_per_user=2)
    assert several.top_k.mechanism.parameter("epsilon") < 1, "two groups share the budget"


def test_its_words_are_true_of_a_series() -> None:
    assert command("run", "--input", "rows.csv", *MONTH, "--output", "top.csv").status == 0
    said = " ".join(command("show", "top.csv").out.split())
    assert "rows of any one person in the whole period" in said
    assert "At most 4 items of each person were counted, the first ones in the period." in said
    assert "most of its noise is that of the window before" in said and "drawn anew" not in said
    assert command("show", "top.csv", "--html", "page.html").status == 0
    page = Path("page.html").read_text()
    assert "in the whole period" in page
    assert all(f">2026-{day}<" in page for day in ("01-11", "01-18", "01-25", "02-01")), (
        "the days up to which it counts"
    )


def test_python_and_yaml_ask_the_same() -> None:
    release = Release(ReleaseKey.parse("file:release.key"), "charts")
    given = {"epsilon": 2, "delta": 1e-5, "max_items_per_user": 4}
    ranked = rank(pl.read_csv("rows.csv"), 3, domain=ITEMS, period=YEAR, release=release, time="time", **given)
    named = ["--release-key", "file:release.key", "--release-id", "charts"]
    assert command("run", "--input", "rows.csv", *MONTH, *named, "--output", "top.csv").status == 0
    assert [item for one in ranked for item in one.items] == published()["item"].to_list()
    period = {"from": "2026-01-05", "to": "2026-02-02", "window": "7d", "to_date": True}
    rows = RankRows(2.0, k=3, domain=ITEMS, max_items_per_user=4, period=period, parameters={"delta": 1e-5})
    assert rows.rank.top_k.mechanism.about.name == "correlated-gaussian"


def test_counts_that_come_with_the_draw_state_the_noise_of_each_step() -> None:
    done = command("run", "--input", "rows.csv", *MONTH, "--publish-counts", "drawn", "--output", "top.csv")
    assert done.status == 0 and "mechanism: correlated-gaussian (its noise hardly grows" in done.err, done.err
    noise = published().group_by("window_end", maintain_order=True).agg(pl.col("noise_stddev", "noise_95").unique())
    stated = noise["noise_stddev"].explode().to_list()
    assert len(stated) == 4 == len(set(stated)), "one for each step"
    for end in noise["window_end"]:
        counts = published().filter(pl.col("window_end") == end)["noisy_count"].to_list()
        assert counts == sorted(counts, reverse=True), "ranks and counts never contradict each other"
    page = command("show", "top.csv").out
    assert "too high" in page and "Most of this is noise" not in page, page


def test_a_bound_on_the_items_of_a_user_and_a_delta_are_needed() -> None:
    for left_out in ("max_items_per_user", "delta"):
        given: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "max_items_per_user": 4}
        with pytest.raises(InvalidArgument, match=left_out):
            Question.of(3, domain=ITEMS, period=YEAR, **{k: v for k, v in given.items() if k != left_out})
