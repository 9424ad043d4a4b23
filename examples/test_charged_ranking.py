"""The tests of charged_ranking.py, as one would write them beside a pipeline of one's own: `pytest examples`."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import GlobalWindows
from charged_ranking import DISHES, WEEK, daily_top, main

from private_topk import Period, PrivateTopK
from private_topk.pipelines.budget import Budget, Ledger
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.testing import TrueTopK

MONDAY = [f"u{n},{('tea', 'cake', 'tea')[n % 3]},2026-01-05T12:00:00+00:00" for n in range(60)]


def test_users_of_a_day_are_counted() -> None:
    """Without noise: the pipeline around the ranking is what is tested."""
    rank = PrivateTopK(k=1, mechanism=TrueTopK(), domain=DISHES, item="dish", period=WEEK)
    with beam.Pipeline() as pipeline:
        rankings = daily_top(pipeline | beam.Create([line.encode() for line in MONDAY]), rank)
        monday = rankings | beam.Filter(lambda ranking: ranking.window.start == WEEK.start)
        # A ranking is in its window: all windows in one assertion.
        items = monday | beam.Map(lambda ranking: ranking.items) | beam.WindowInto(GlobalWindows())
        assert_that(items, equal_to([("tea",)]))


def test_it_is_charged_once_and_repeats_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("release.key").write_text("the key of the example's test")
    Path("orders.csv").write_text("\n".join(["user,dish,time", *MONDAY, "u1", "u1,tea,yesterday"]))
    ledger = Ledger("sqlite:///budget.db")
    ledger.create(Budget.of("orders", 1))
    job = ["--orders=orders.csv", "--key=release.key", "--ledger=sqlite:///budget.db", "--output=top.jsonl"]
    main(job)
    answer = Path("top.jsonl").read_bytes()
    assert len(answer.splitlines()) == 7 * 2
    main(job)
    assert Path("top.jsonl").read_bytes() == answer
    with monkeypatch.context() as changed, pytest.raises(InvalidArgument):  # a slip in the code, refused uncharged
        changed.setattr("charged_ranking.daily_top", lambda lines, rank: lines | rank)
        changed.setattr("charged_ranking.WEEK", Period.of("2026-01-12", "2026-01-19", "1d"))
        main(job)
    assert [(charge.windows.number, charge.cost.epsilon, charge.outcome) for charge in ledger.read().charges] == [
        (7, 1, "released")
    ]
    with monkeypatch.context() as changed, pytest.raises(InvalidArgument, match="parser"):
        changed.setattr("charged_ranking.PARSER", 2)
        main(job)
    Path("orders.csv").write_text("\n".join(["user,dish,time", *MONDAY[1:]]))
    with pytest.raises(InvalidArgument, match="was used on"):
        main(job)
