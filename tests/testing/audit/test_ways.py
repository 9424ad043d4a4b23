from __future__ import annotations

import pytest

from private_topk.testing.audit.scenes import LABELS, Sheet
from private_topk.testing.audit.ways import WAYS, Counting, Way, totals_of
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.keys import ReleaseKey

KEY = ReleaseKey.fresh()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("public", [True, False])
def test_every_window_of_every_way_holds_all_rows(way: Way, public: bool) -> None:
    """Whatever strays the one user sends along: out of the period, of the domain, and too late."""
    domain = PublicDomain.of(LABELS[:4]) if public else UnknownDomain()
    totals = totals_of(Counting(domain, None, KEY, None), Sheet((4, 0, 2, 1), (1, 2)), way)
    assert len(totals) == (1 if way.period is None else len(way.period))
    for tables in totals:
        rows = [row for table in tables for row in table.select(["item", "count"]).to_pylist()]
        found = {LABELS[row["item"]] if public else row["item"]: row["count"] for row in rows}
        assert found == {"A": 4, "a": 1, "a ": 3, "a\u0301": 1} and len(rows) == 4


def test_the_ways_differ_in_all_that_must_not_matter() -> None:
    assert {way.kind for way in WAYS} == {"whole", "days", "sliding", "stream"}
    assert {way.order for way in WAYS} == {"first", "last", "between"}
    assert min(way.shards for way in WAYS) == 1 < max(way.shards for way in WAYS)
    assert min(way.blocks for way in WAYS) == 1 < max(way.blocks for way in WAYS)
