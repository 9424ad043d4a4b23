"""Five rows from stage to stage, and what each element holds: ana has tea twice in a week, bo tea, then cake, rum."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa

from private_topk.transforms.assign_windows import AssignWindows, EveryWindow
from private_topk.transforms.combine import CombineCounts
from private_topk.transforms.completeness import Receipt
from private_topk.transforms.contributions import BoundContributions
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.plan import Execution, plan
from private_topk.transforms.rows import ShardByUser
from private_topk.transforms.select import SelectTopK
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period
from tests.transforms.pipelines import direct
from tests.transforms.streams import RELEASE, Collect

DAY = 86_400_000_000
MONDAY = 1_767_571_200_000_000  # 2026-01-05
ROWS = [("ana", "tea", 0), ("ana", "tea", 0), ("bo", "tea", 1), ("bo", "cake", 8), ("bo", "rum", 8)]
BLOCK = pa.record_batch(
    {
        "user": pa.array([user for user, _, _ in ROWS], pa.large_string()),
        "item": pa.array([item for _, item, _ in ROWS], pa.large_string()),
        "time": pa.array([MONDAY + day * DAY for _, _, day in ROWS], pa.int64()),
    }
)
SPEC = TopK(1, Joint(epsilon=99.0), PublicDomain.of(["tea", "cake", "scone"]), max_items_per_user=1)
WEEKS = Period.of("2026-01-05", "2026-01-19", "7d")


def held() -> dict[str, list[Any]]:
    """The elements of every stage, by its name."""
    found: dict[str, list[Any]] = {}
    execution_plan = plan(SPEC, Execution(user_shards=2), WEEKS, in_global_window=True, bounded=True)
    with direct() as pipeline:
        blocks = pipeline | beam.Create([BLOCK], reshuffle=False).with_output_types(pa.RecordBatch)
        placed = blocks | AssignWindows(WEEKS)
        windows = placed | EveryWindow(WEEKS, execution_plan.windows)
        rows = placed | ShardByUser(SPEC, RELEASE.key, execution_plan)
        counts = (rows, windows) | BoundContributions(SPEC, RELEASE.key, execution_plan)
        totals = counts | CombineCounts(SPEC, RELEASE.key, execution_plan)
        rankings = (totals, windows) | SelectTopK(SPEC, RELEASE, execution_plan, WEEKS)
        stages = {"placed": placed, "rows": rows, "counts": counts, "totals": totals, "rankings": rankings}
        for name, elements in stages.items():
            _ = elements | f"Collect {name}" >> beam.ParDo(Collect(name))
    found |= {name: Collect.found[name] for name in stages}
    return found


def test_five_rows_pass_through_every_stage() -> None:
    found = held()
    (placed,) = (block.to_pydict() for block in found["placed"])
    assert placed["first"] == [0, 0, 0, 1, 1] and "time" not in placed, "windows are numbers"

    shards = {key: block.to_pydict() for key, block in found["rows"]}
    assert set(shards) == {0, 1}, "a user shard without a row answers too"
    kept = [row for block in shards.values() for row in zip(*block.values(), strict=True)]
    users = {user for user, *_ in kept}
    assert len(users) == 2 and all(isinstance(user, int) for user in users), "users are hashes"
    assert sorted(row[1:] for row in kept) == [(0, 0), (0, 0), (0, 0), (1, 1)], "rum is in no list"

    counts = [(group, of.table.to_pydict()) for group, of in found["counts"] if not isinstance(of, Receipt)]
    tea = sum(sum(table["count"]) for group, table in counts if group == 0)
    assert tea == 2, "ana's two rows are one"
    assert sorted(group for group, of in found["counts"] if isinstance(of, Receipt)) == [0, 0, 1, 1]

    totals = {group: of.table.to_pydict() for group, of in found["totals"] if not isinstance(of, Receipt)}
    assert totals == {0: {"window": [0], "item": [0], "count": [2]}, 1: {"window": [1], "item": [1], "count": [1]}}
    receipts = {group: of for group, of in found["totals"] if isinstance(of, Receipt)}
    assert {group: of.user_shards for group, of in receipts.items()} == {0: 2, 1: 2}
    assert sorted(ranking.items for ranking in found["rankings"]) == [("cake",), ("tea",)]
