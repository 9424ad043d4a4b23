"""Rankings to date are previewed as they are drawn: at some steps, with the noise of each, and what would be better."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from private_topk.pipelines.preview import preview as preview_of
from private_topk.pipelines.preview.compare import mechanisms_of
from private_topk.pipelines.question import Question
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.history import History, series_root
from private_topk.transforms.mechanisms.exact.series import NewCounts
from private_topk.transforms.release import Release
from private_topk.transforms.windows import Period
from tests.pipelines.shapes import like, zipf
from tests.pipelines.support import command, options

SHAPE, K, MOST = zipf(0.7, 200, 3000, 30), 10, 10
YEAR = Period.of("2026-01-01", "2026-01-14", "1d", to_date=True)


def question(**more: object) -> Question:
    asked = {"max_items_per_user": MOST, "period": YEAR, "privacy_unit": "user", "epsilon": 1.0, "delta": 1e-6, **more}
    return Question.of(K, mechanisms_of(YEAR), RangeDomain(0, 200), **asked)


def test_every_step_is_previewed_as_the_series_draws_it() -> None:
    """Rows that come evenly, each user's first ten items: 300 draws of the series itself, five standard errors."""
    asked = question()
    found = preview_of(SHAPE, asked, draws=300)
    steps = [int(step) for step in found.previews]
    assert steps == [1, 4, 7, 13]
    whole = SHAPE.histogram(None, False).counts()
    kept = [np.floor(whole * min(t / 13, MOST / SHAPE.items_per_user) + 0.5).astype(np.int64) for t in range(1, 14)]
    new = [np.diff(pair, axis=0)[0] for pair in zip([np.zeros(200, np.int64), *kept], kept, strict=False)]
    series = asked.top_k.mechanism
    cells = NewCounts.of([(np.flatnonzero(one), one[one > 0]) for one in new])
    recalls = []
    for number in range(300):
        history, draws = History(series_root(Release.fresh(), [str(number)], {})), []
        for _ in kept:
            history = history.then(b"")
            draws.append(history.draw())
        answers = series.series(cells, range(200), K, draws)
        recalls.append([np.mean(kept[t - 1][answers[t - 1].items] >= kept[t - 1][K - 1]) for t in steps])
    drawn, spread = np.mean(recalls, axis=0), np.std(recalls, axis=0) * np.sqrt(2 / 300)
    told = np.array([one["correlated-gaussian"].recall.value for one in found.previews.values()])
    assert (np.abs(told - drawn) <= 5 * spread + 0.001).all(), (told, drawn)
    assert 0.1 < told[0] < told[-1] < 1, "steps differ, and none is sure"


ASKED = {
    "like": "items=2000,users=50000,rank1=20%,rank50=5%",
    "k": 20,
    "epsilon": 1,
    "delta": 1e-6,
    "max_items_per_user": 10,
    "draws": 40,
    "window": "1d",
    "from": "2026-01-01",
    "to": "2026-02-22",
}


def preview(*more: str, **settings: object) -> str:
    done = command("preview", *options(**{**ASKED, **settings}), "--to-date", *more)
    assert done.status == 0, done.err
    return done.out


def test_a_preview_to_date_says_what_is_better_and_what_is_unfair() -> None:
    said = preview(max_items_per_user=2)
    assert re.search(r"\n  recall by step +4 +13 +26 +52\n", said), said
    assert "At the last step cdp-peeling, drawn anew, without a bound on items, finds more: " in said, said
    assert "items that appear late in the period are ranked too low" in said
    assert "no place left after step 3." in said, "2 of 41 items"
    assert said.rstrip().rpartition("In a run: --mechanism correlated-gaussian --k 20 ")[2].endswith("--to 2026-02-22")
    few = json.loads(preview("--json", like=like(0.7, 200, 300, 5)))
    assert (
        list(few["mechanisms"]) == ["4", "13", "26", "52"]
        and few["recommended"] == "correlated-gaussian"
        and few["delta"] == 1e-6
    )
    assert few["reasons"][0].startswith("Nothing here is worth publishing: the best, ")
    assert "no place left" not in few["reasons"][-1] and few["close_to_noise"]
    assert "In a run" not in preview(like=like(0.7, 200, 300, 5))


def test_series_of_several_settings_are_one_table_of_their_last_steps() -> None:
    said = preview(k="10,20", epsilon="1,2")
    assert re.search(r"\n  k +10 +10 +20 +20\n  epsilon +1 +2 +1 +2\n", said), said
    assert re.search(r"\n  steps worth publishing( +4 of 4){4}\n", said), said
    last = preview(k=20, epsilon=2)
    recall = re.search(r"  correlated-gaussian .* (\d+ ±\d+)\*?\n", last)
    assert recall and re.search(rf"  correlated-gaussian .* {recall[1]}\*?\n", said), (said, last)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"recall": 0.9, "epsilon": None}, "--recall does not go with groups or --to-date"),
        ({"mechanism": "gaussian"}, "--mechanism"),
        ({"groups_per_user": 1}, "--to-date has a preview of one ranking with a --k, without groups"),
    ],
)
def test_what_does_not_go_with_windows_to_date_is_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        preview(**more)
