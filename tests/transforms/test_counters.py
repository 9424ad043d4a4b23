"""What a runner's pages may show of rows left out: attacked by one user who adds rows and looks for a difference."""

from __future__ import annotations

import ast
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from private_topk.transforms.counters import exact_counters, read_left_out
from private_topk.transforms.rows import MakeBlocks

ROOT = Path(__file__).resolve().parents[2]


def shown(nulls: int, exact: bool = False) -> dict[str, str]:
    pipeline = beam.Pipeline(FnApiRunner())
    with exact_counters(exact):
        _ = pipeline | beam.Create([(None, "x")] * nulls + [("a", "x")]) | MakeBlocks()
    result = pipeline.run()
    result.wait_until_finish()
    named = {entry.key.metric.name for entry in result.metrics().query()["counters"]}
    assert not {name for name in named if "left_out" in name} or exact
    return read_left_out(result.metrics())


@pytest.mark.parametrize(("nulls", "told"), [(1, {}), (99, {}), (101, {"null": "100 or more"})])
def test_one_row_more_shows_nowhere_but_at_an_order_of_magnitude(nulls: int, told: dict[str, str]) -> None:
    assert shown(nulls) == shown(nulls + 1 if nulls != 99 else 98) == told


def test_large_losses_are_told_and_exactly_if_asked() -> None:
    assert shown(10_050) == {"null": "10,000 or more"}
    assert shown(1234, exact=True) == {"null": "1,234"}


def test_there_are_no_other_metrics() -> None:
    """Whoever adds one has to think of who sees it."""
    for room in ("transforms", "pipelines", "runners", "budget"):
        for path in (ROOT / room).rglob("*.py"):
            names = {node.id for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name)}
            assert "Metrics" not in names or path == ROOT / "transforms" / "counters.py", path
