"""Random questions on every road; `python -m benchmarks.fuzz_roads --questions N` runs longer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.fuzz_roads import fuzz
from private_topk.transforms import combine, contributions, parts
from private_topk.transforms.parts import PlacedPart

ROADS = 2


def test_all_roads_publish_what_plain_python_counts() -> None:
    answers = list(fuzz(8, ROADS, seed=3))
    assert [answer.problem for answer in answers if answer.problem] == []
    assert sum(answer.roads for answer in answers) >= 8 and not any(answer.told for answer in answers)


@pytest.mark.long
@pytest.mark.parametrize("defect", ["cut", "counted"])
def test_a_planted_defect_is_seen(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a road loses is told by another one; what all of them lose, by plain Python.

    A table that is cut loses all but its first slice, without a word in its manifest; every sum its last count.
    """

    def cut(*arguments: Any) -> Iterator[PlacedPart]:  # noqa: ANN401 - those of with_manifest
        whole = list(with_manifest(*arguments))
        first = [its for its in whole[:-1] if its[1].sources[0] < 1 << parts._SOURCE_BITS]
        place, manifest = whole[-1]
        kept = [row for row in manifest.table.to_pylist() if row["source"] < 1 << parts._SOURCE_BITS]
        yield from [*first, (place, manifest._replace(table=pa.RecordBatch.from_pylist(kept, manifest.table.schema)))]

    def less(*arguments: Any) -> pa.RecordBatch:  # noqa: ANN401 - those of add_up_codes
        totals = add_up_codes(*arguments)
        return totals.slice(0, max(len(totals) - 1, 0))

    with_manifest, add_up_codes = contributions.with_manifest, combine.add_up_codes
    if defect == "cut":
        monkeypatch.setattr(contributions, "with_manifest", cut)
    else:
        monkeypatch.setattr(combine, "add_up_codes", less)
    assert any(answer.problem for answer in fuzz(60, ROADS, seed=3))
