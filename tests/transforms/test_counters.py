"""What a runner's pages may show of dropped rows: attacked by one user who adds rows and looks for a difference."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from private_topk.transforms import Period, PrivateTopK
from private_topk.transforms.assign_windows import SplitDoFn, _NumberDoFn
from private_topk.transforms.counters import about_users, exact_counters, read_dropped_rows
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.rows import MakeBlocks
from private_topk.transforms.windows import microseconds
from tests.transforms.pipelines import create, direct

ROOT = Path(__file__).resolve().parents[2]


def shown(nulls: int, exact: bool = False) -> tuple[dict[str, str], dict[str, int]]:
    """What is read of the metrics, and all counters of ours as a runner's page has them."""
    pipeline = direct()
    with exact_counters(exact):
        _ = pipeline | create([(None, "x")] * nulls + [("a", "x")]) | MakeBlocks()
    result = pipeline.run()
    result.wait_until_finish()
    ours = beam.metrics.MetricsFilter().with_namespace("private_topk")
    kinds = result.metrics().query(ours)
    counters = {entry.key.metric.name: entry.committed for entry in kinds.pop("counters")}
    assert not any(kinds.values())
    return read_dropped_rows(result.metrics()), counters


@pytest.mark.parametrize(("nulls", "more", "told"), [(1, 98, None), (100, 9_999, "100"), (10_000, 10_050, "10,000")])
def test_one_row_more_shows_nowhere_but_at_an_order_of_magnitude(nulls: int, more: int, told: str | None) -> None:
    assert shown(nulls) == shown(more)
    assert shown(nulls)[0] == ({} if told is None else {"null": f"{told} or more"})


@pytest.mark.parametrize(
    ("rows", "users", "look"),
    [
        *[(99, 1, None), (100, 99, "few"), (100, 100, None), (10_000, 99, "few"), (9_999, 9_999, None), (0, 0, None)],
        *[(10_000, 10_000, "many"), (10_000, 9_500, "many"), (65_806, 31_243, "many"), (64_479, 9_745, None)],
        *[(10_000, 3_301, "many"), (10_000, 3_300, None), (1_000_000, 330_001, "many"), (1_000_000, 330_000, None)],
    ],
)
def test_users_are_asked_about_by_orders_of_magnitude(rows: int, users: int, look: str | None) -> None:
    assert about_users(rows, users, users) == look


def test_counters_are_exact_on_request() -> None:
    assert shown(1234, exact=True) == ({"null": "1,234"}, {"operator_only_dropped_rows_null": 1234})


def test_counters_of_an_own_pipeline_are_exact_on_request() -> None:
    """A forgotten `group="country"`, elements that were given no time, and items outside the domain."""
    plays = [{"user": f"u{n}", "item": "tea", "country": "FR"} for n in range(99)]

    def dropped(rows: list[Any], exact_counters: bool = True, **asked: Any) -> dict[str, str]:  # noqa: ANN401
        pipeline = direct()
        rank = PrivateTopK(k=1, mechanism=Joint(epsilon=1.0), domain=["tea"], exact_counters=exact_counters, **asked)
        _ = pipeline | create(rows) | rank
        return read_dropped_rows(pipeline.run().metrics())

    assert dropped(plays, groups=["FR", "DE"]) == {"unreadable": "99"}
    assert dropped(plays, groups=["FR", "DE"], exact_counters=False) == {}
    assert dropped(plays, groups=["FR", "DE"], group="country") == {}
    nowhere = [{**play, "country": None} for play in plays] + [{**play, "country": ""} for play in plays]
    asked: dict[str, Any] = {"groups": ["FR", "DE"], "group": "country"}
    assert dropped(nowhere, **asked) == {"not_in_groups": "198"}
    assert dropped(nowhere, **asked, overall=True) == {}, "they count among all rows"
    assert dropped(plays, period=Period.of("2026-01-05", "2026-01-12")) == {"outside_the_period": "99"}
    assert dropped([("ana", "cake"), ("bo", None)]) == {"not_in_domain": "1", "null": "1"}


@pytest.mark.parametrize("placing", [SplitDoFn, _NumberDoFn])
def test_times_of_another_unit_are_counted_apart_from_rows_that_are_outside_the_period(placing: type) -> None:
    """Milliseconds as seconds and the other way round; not rows that came before it, nor where none tells when."""
    period, now = Period.of("2026-01-05", "2026-01-12"), microseconds(datetime(2026, 1, 6, tzinfo=UTC))
    times = [now, now * 1000, now // 1000, now - 10**12, now - 10**12]
    came = [now, now, now, now - 10**12 + 1, now]

    def dropped(**columns: list[int]) -> dict[str, str]:
        names, pipeline = [str(n) for n in range(5)], direct()
        block = pa.RecordBatch.from_pydict({"user": names, "item": names, "time": times, **columns})
        with exact_counters():
            _ = pipeline | create([block]) | beam.ParDo(placing(period))
        return read_dropped_rows(pipeline.run().metrics())

    assert dropped(arrived=came) == {"outside_the_period": "2", "a_year_off": "2"}
    assert dropped() == {"outside_the_period": "4"}


def test_only_the_counters_file_uses_metrics() -> None:
    """Whoever adds one has to think of who sees it."""
    for room in ("transforms", "pipelines", "runners"):
        for path in (ROOT / room).rglob("*.py"):
            names = {node.id for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name)}
            assert "Metrics" not in names or path == ROOT / "transforms" / "counters.py", path
