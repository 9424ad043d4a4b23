"""What becomes of a row must not depend on the rows it is read with, or one user could move other users' rows."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from private_topk.pipelines.sources.columns import to_microseconds

CLOCKS = ["", "T05", " 05:06", "T05:06:07", " 05:06:07.5", "T05:06:07.123456", "T05:06:07.1234567", "T5:6", "T05:06:61"]
ZONES = ["", "Z", "+01", "+0130", "-00:30", "+25:00", "z"]
OTHERS = ["2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04:05Z", "1767225600", "no time", None]


@pytest.mark.parametrize("day", ["2026-01-01", "1969-12-31", "2026-02-29"])
def test_a_time_means_the_same_whatever_it_is_read_with(day: str) -> None:
    texts = [day + clock + zone for clock, zone in itertools.product(CLOCKS, ZONES)]
    alone = [to_microseconds(pa.array([text]), "s")[0].as_py() for text in texts]
    for other in OTHERS:
        column = pa.array([*itertools.chain.from_iterable(zip(texts, itertools.repeat(other)))], pa.string())
        assert to_microseconds(column, "s").to_pylist()[::2] == alone
    if day == "2026-01-01":
        assert sum(time is not None for time in alone) > len(texts) / 2
        assert alone[texts.index("2026-01-01T05+01")] == 1_767_240_000_000_000
        assert alone[texts.index("2026-01-01 05:06-00:30")] == 1_767_245_760_000_000
