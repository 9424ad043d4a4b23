"""`--publish-counts drawn`, from what is asked to what readers see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from private_topk import rank
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.show.published import PublishedReport
from private_topk.transforms import CountBudget, PrivateTopK, RangeDomain, Release, ReleaseKey
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import Laplace
from private_topk.transforms.mechanisms.noisy_counts import DrawnCounts
from tests.pipelines.show import rankings
from tests.pipelines.support import command, options, question_of

DRAWN = "whose counts come with the draw, often with far more noise than without counts"
ROWS = [(user, item) for item in range(6) for user in range(40 * (6 - item))]
BASE: dict[str, Any] = {
    "input": "rows.csv",
    "domain_range": "0:100",
    "k": 5,
    "epsilon": 1,
    "max_items_per_user": 6,
    "publish_counts": "drawn",
    "quiet": True,
}


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(ROWS, ("user", "item"), orient="row").write_csv("rows.csv")
    Path("key").write_bytes(bytes(range(32)))


def words(**more: object) -> list[str]:
    return options(**{**BASE, **more})


def told(**more: object) -> dict[str, str]:
    """What `--dry-run` says."""
    done = command("run", *words(output="top.csv", **more), "--dry-run", "--json")
    assert done.status == 0, done.err
    return json.loads(done.out)


def refusal(**more: object) -> str:
    done = command("run", *words(output="top.csv", **more), "--dry-run")
    assert done.status == 2
    return done.err


def test_a_run_publishes_the_counts_that_have_decided_and_pays_for_the_ranking_alone() -> None:
    release = {"release_key": "file:key", "release_id": "week 1"}
    done = command(
        "run", *words(mechanism="laplace", output="top.csv", ledger="sqlite:///l.db", dataset="d", **release)
    )
    assert done.status == 2  # no budget yet: what is asked for is the epsilon of the ranking
    assert "--epsilon 1 " in done.err.replace("'", "") + " "
    assert command("budget", "create", "--ledger=sqlite:///l.db", "--dataset=d", "--epsilon=1").status == 0
    done = command(
        "run", *words(mechanism="laplace", output="top.csv", ledger="sqlite:///l.db", dataset="d", **release)
    )
    assert done.status == 0, done.err
    published = pl.read_csv("top.csv")
    counts = published["noisy_count"].to_list()
    assert counts == sorted(counts, reverse=True) and published["noise_stddev"].unique().to_list() == [8.49019]
    # The union over 100 items of noise of scale 6 that is off by 6 log(100 / 0.05) once in 20 times.
    assert published["noise_95"].unique().to_list() == [46]
    manifest = Manifest.decode(Path("top.manifest.json").read_bytes())
    assert manifest.privacy.epsilon == 1 and manifest.draws_counts and manifest.privacy.publishes_counts
    assert "noise has helped" in manifest.privacy.noisy_counts["bias"]
    assert "too high on average: noise has helped the items shown to be shown" in command("show", "top.csv").out
    low = [place for place, count in enumerate(counts, 1) if count <= 46]
    said = f"of ranks {low[0]} to {low[-1]} reach down to 0" if len(low) > 1 else ""
    assert said in " ".join(command("show", "top.csv").out.split()), "of those that noise alone may show"
    assert command("show", "top.csv", "--html", "page.html").status == 0
    page = Path("page.html").read_text()
    assert "too high on average: noise has helped the items shown to be shown" in page
    assert "for all items of a ranking together." in page and "by itself" not in page
    entry = " ".join(command("show", "top.csv", "--registry").out.split())
    assert "They come with the draw, and are too high on average." in entry
    # In Python the same, by either door.
    its = Release(ReleaseKey.parse("file:key"), "week 1")
    asked = {"k": 5, "mechanism": Laplace(1.0, 6), "domain": RangeDomain(0, 100), "publish_counts": "drawn"}
    [ranking] = rank(pl.read_csv("rows.csv"), release=its, **asked)
    assert list(ranking.noisy_counts) == counts
    assert PrivateTopK(**asked).display_data()["epsilon_of_counts"] == 0


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"mechanism": "joint"}, "drawn does not go with joint"),
        ({"mechanism": "weighted-order", "delta": 1e-6}, "does not go with weighted-order, which adds up weights"),
        ({"domain_range": None, "unknown_domain": True, "delta": 1e-6}, "drawn does not go with restricted-gumbel"),
        ({"mechanism": "laplace", "publish_counts_delta": 1e-6}, "such counts have no budget of their own"),
        ({"publish_counts": "dawn"}, "must be 'drawn' or a number"),
    ],
)
def test_what_cannot_have_them_is_refused_by_name(asked: dict[str, Any], says: str) -> None:
    assert says in refusal(**asked)


def test_python_takes_the_word_and_no_other() -> None:
    with pytest.raises(InvalidArgument, match="must be 'drawn', an epsilon"):
        question_of(5, Laplace(1.0, 6), RangeDomain(0, 100), publish_counts="dawn")


def test_auto_chooses_among_those_that_can_and_says_so() -> None:
    """Without counts one-shot noise for 2 places is less than Laplace noise for 6 items."""
    assert told(publish_counts=None, epsilon=0.2, k=2)["mechanism"].startswith("oneshot (")
    assert told(epsilon=0.2, k=2)["mechanism"] == f"laplace (the only one here {DRAWN})"
    both = told(epsilon=0.2, k=2, delta=1e-6, max_items_per_user=60)["mechanism"]
    assert both.startswith(f"gaussian (least noise of those {DRAWN}: about 998 of 1,000 counts change by")


def test_a_shared_total_goes_to_the_ranking_whole() -> None:
    asked = question_of(5, Laplace(4.0, 6), RangeDomain(0, 100), publish_counts="drawn", privacy_unit="user", horizon=4)
    assert asked.top_k.mechanism.epsilon == 1.0 and asked.top_k.publish_counts == DrawnCounts()
    assert asked.top_k.mechanism.with_counts and float(asked.privacy.total.epsilon) == 4.0
    other = question_of(5, Laplace(4.0, 6), RangeDomain(0, 100), publish_counts=CountBudget(1.0))
    assert not other.top_k.mechanism.with_counts


def test_a_report_file_takes_the_word() -> None:
    Path("report.yaml").write_text(
        "report: plays\nsource: {input: 'plays/{start}.csv'}\ndomain: {range: '0:100'}\n"
        "window: {every: week, first: 2026-01-05}\nmechanism: {name: joint, k: 5}\n"
        "budget: {epsilon: 1, publish_counts: drawn}\nrelease_key: file:key\nsink: {output: 'top-{start}.csv'}\n"
    )
    done = command("report", "report.yaml", "--dry-run")
    assert done.status == 2 and "drawn does not go with joint" in done.err
    text = Path("report.yaml").read_text()
    Path("report.yaml").write_text(text.replace("joint, k: 5", "laplace, k: 5, max_items_per_user: 6"))
    assert command("report", "report.yaml", "--dry-run").status == 0


def test_a_preview_draws_with_the_noise_of_the_counts() -> None:
    """At k = 2 of users with up to 20 items Laplace noise for all counts is ten times that for the order."""
    shape = ["--like", "users=1e4,rank1=50%,rank100=1%", "--domain-range", "0:1000", "--epsilon", "0.05", "--k", "2"]
    asked = [*shape, "--max-items-per-user", "20", "--mechanism", "laplace,joint", "--json"]
    plain, drawn = (json.loads(command("preview", *asked, *more).out) for more in ([], ["--publish-counts", "drawn"]))
    recall = {name: its["mechanisms"] for name, its in (("plain", plain), ("drawn", drawn))}
    assert len(recall["plain"]) == 2 and [each["mechanism"] for each in recall["drawn"]] == ["laplace"]
    of = {name: next(each for each in found if each["mechanism"] == "laplace") for name, found in recall.items()}
    assert of["drawn"]["recall"]["high"] < of["plain"]["recall"]["low"]


HELPED = {"epsilon": 1.0, "delta": 0.0, "neighbours": "add-remove", "unit": "one user's rows", "guarantee": "pure"}


def listing(counts: dict[str, Any], apart: int = 100, stddev: float = 9.5, noise_95: int = 60) -> Any:  # noqa: ANN401
    noise = {"noise_stddev": stddev, "noise_95": noise_95}
    rows = [{**row, "noisy_count": 1000 - apart * row["rank"], **noise} for row in rankings.rows(1, list("abcde"))]
    manifest = rankings.manifest(1, privacy={**HELPED, "ranking": {}, "noisy_counts": counts}, counts_rounded_to=1)
    return PublishedReport(rows, manifest).listings()[0]


def test_pages_judge_the_order_of_such_counts_by_their_differences() -> None:
    """As of counts that were chosen beforehand, and each range is of all items: so wide that neighbours' overlap."""
    fresh, helped = listing({"epsilon": 0.5, "delta": 0}), listing({"drawn": True})
    assert "order of these items is certain" in fresh.certainty and helped.certainty == fresh.certainty
    assert helped.bias and not fresh.bias and helped.drawn is None and not helped.noise
    wide, narrow = (listing({"drawn": True}, noise_95=noise).bias for noise in (1000, 899))
    assert wide.endswith("all of these items may be shown by noise alone.")
    said = "The ranges of ranks 2 to 5 reach down to 0: noise alone may show what stands there."
    none = "It is sure of none of these items that it would be listed without noise."
    assert narrow.endswith(f"{said} {none}")
    told = {noise: listing({"drawn": True}, noise_95=noise).bias for noise in (200, 199, 60, 50, 49)}
    surely = {
        noise: bias.partition(" Without noise the ")[2].partition(" would surely")[0] for noise, bias in told.items()
    }
    assert told[200].endswith(none) and told[49].endswith(
        "would surely be listed too (95% confidence); others may not."
    )
    assert surely == {
        200: "",
        199: "item of rank 1",
        60: "items of ranks 1 to 3",
        50: "items of ranks 1 to 3",
        49: "items of ranks 1 to 4",
    }
    # Of counts next to each other with hardly any noise, one that is shown may have come in by it.
    fresh, helped, exact = (
        listing(counts, 1, 0.01, noise_95).certainty
        for counts, noise_95 in (({"epsilon": 9, "delta": 0}, 1), ({"drawn": True}, 1), ({"drawn": True}, 0))
    )
    assert "is certain" in fresh and "may be in another order" in helped and "is certain" in exact


def test_that_most_is_noise_is_said_of_them_too_by_the_noise_of_their_step() -> None:
    """A manifest to date does not tell its steps, but the noise of each, which is more than that of one step alone."""
    parameters = {"epsilon": 0.5, "delta": 1e-6, "max_items_per_user": 3, "neighbours": "add-remove"}
    privacy = {**HELPED, "ranking": {}, "noisy_counts": {"drawn": True}}
    to_date = rankings.manifest(1, mechanism="correlated-gaussian", parameters=parameters, privacy=privacy)

    def said(stddev: float, apart: int) -> str:
        noise = {"noise_stddev": stddev, "noise_95": 9}
        rows = [{**row, "noisy_count": 150 - apart * row["rank"], **noise} for row in rankings.rows(1, list("abcde"))]
        return PublishedReport(rows, to_date).listings()[0].noise

    assert said(14, 25) == "" and said(14, 2) == said(70, 25)
    assert said(70, 25).startswith("Most of this is noise: by the noisy counts, probably at most half of these 5 are")
