"""Random questions on every execution; `python -m benchmarks.fuzz_executions --questions N` runs longer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.fuzz_executions import fuzz
from private_topk.transforms import combine
from private_topk.transforms.user_shards import UserShard
from tests.nightly import nightly

ROADS = 2


@pytest.mark.parametrize("questions", [3, nightly(8)])
def test_all_roads_publish_what_plain_python_counts(questions: int) -> None:
    answers = list(fuzz(questions, ROADS, seed=3))
    assert [answer.problem for answer in answers if answer.problem] == []
    assert sum(answer.executions for answer in answers) >= questions and not any(answer.told for answer in answers)


@pytest.mark.long
@pytest.mark.parametrize("defect", ["cut", "counted"])
def test_a_planted_defect_is_seen(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an execution loses is told by another one; what all of them lose, by plain Python.

    A large table of a user shard loses all but its first rows, before its receipt is made; every sum its last count.
    """

    def cut(*arguments: Any) -> Iterator[tuple[int, pa.RecordBatch]]:  # noqa: ANN401 - those of UserShard.counts
        yield from ((key, table.slice(0, combine.MAX_ROWS)) for key, table in counts(*arguments))

    def less(*arguments: Any) -> pa.RecordBatch:  # noqa: ANN401 - those of add_up_codes
        totals = add_up_codes(*arguments)
        return totals.slice(0, max(len(totals) - 1, 0))

    counts, add_up_codes = UserShard.counts, combine.add_up_codes
    if defect == "cut":
        monkeypatch.setattr(UserShard, "counts", cut)
    else:
        monkeypatch.setattr(combine, "add_up_codes", less)
    answers = fuzz(44, ROADS, seed=3, first=16)
    assert any(answer.problem or "lost or doubled" in answer.told for answer in answers)
