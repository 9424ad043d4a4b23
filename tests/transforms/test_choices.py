"""Which group, items and windows a user counts in where bounds leave the others out: each as if there were no other."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from private_topk import Joint, Period, Release, ReleaseKey, RestrictedLaplace, UnknownDomain, rank
from private_topk.transforms.assign_windows import _NumberDoFn
from private_topk.transforms.columnar import make_block
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.groups import Groups
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.rows import _ShardDoFn
from private_topk.transforms.spec import TopK
from tests.transforms.shards import shard_of

ITEMS, GROUPS, DAYS = ["a", "b", "c"], ["north", "south", "west"], 3
START = datetime(2026, 1, 5, tzinfo=UTC)
PERIOD = Period(START, START + timedelta(days=DAYS), timedelta(days=1))
KEY = ReleaseKey.held(b"the key of the choices, no secret")
USERS = 13_500
CELLS = DAYS * len(GROUPS) * len(ITEMS)


def everything(users: int) -> dict[str, np.ndarray]:
    """Every user has one row of each item in each group in each window: all choices are among equals."""
    cells = np.indices((users, DAYS, len(GROUPS), len(ITEMS))).reshape(4, -1)
    names = np.array([f"user {n}" for n in range(users)])
    days = np.datetime64("2026-01-05T12:00:00", "us") + cells[1] * np.timedelta64(1, "D")
    return {
        "user": names[cells[0]],
        "item": np.array(ITEMS)[cells[3]],
        "group": np.array(GROUPS)[cells[2]],
        "time": days,
    }


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("domain", ["public", "unknown"])
def test_counts_of_users_active_everywhere_are_uniform_over_places(domain: str) -> None:
    """13,500 users in all of 27 places, each counted in one: an item of a group of a window, 500 in the mean.

    Epsilon is so large that rankings and counts are the true ones. The choices are fixed by the key, so this passes or
    fails for ever: of uniform and independent choices chi-square with 26 degrees of freedom is above 95 once in 1e9.
    Caught: places that are off by a tenth in root mean square. Were groups chosen by the words that choose items, two
    thirds of the places were empty.
    """
    known: dict[str, Any] = {
        "public": {"mechanism": Joint(1e6), "domain": ITEMS},
        "unknown": {"mechanism": RestrictedLaplace(1e6, 1e-6, 1), "domain": UnknownDomain()},
    }[domain]
    found = rank(
        pa.table(everything(USERS)),
        3,
        **known,
        period=PERIOD,
        groups=Groups.of(GROUPS),
        publish_counts=1e6,
        max_items_per_user=1,
        max_windows_per_user=1,
        privacy_unit="user",
        release=Release(KEY, "choices"),
    )
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in found.to_arrow().to_pylist():
        counts[row["window_start"], row["group"], row["item"]] = row["noisy_count"]
    assert len(counts) == CELLS and sum(counts.values()) == USERS
    assert chi_square(np.array(list(counts.values()))) < 95


def test_the_choice_of_a_user_is_independent_of_the_shard() -> None:
    """The same in each of four user shards, which are told by bits of the user's hash: 108 places of 125.

    Of independent choices chi-square with 107 degrees of freedom is above 215 three times in 1e9. Caught:
    places that are off by 14% in root mean square.
    """
    domain, groups, shards = PublicDomain.of(ITEMS), Groups.of(GROUPS), 4
    layout = Partitioning.of(domain, PERIOD, groups.size)
    fn = _ShardDoFn(TopK(1, Joint(1.0), domain, groups=groups), KEY, shards, layout)
    fn.setup()
    rows = everything(USERS)
    block, _ = make_block(
        *(pa.array(rows[name]) for name in ("user", "item")),
        pa.array(rows["time"]).cast(pa.int64()),
        group=pa.array(rows["group"]),
    )
    cells = np.zeros((shards, layout.windows, len(ITEMS)), np.int64)
    pieces: dict[int, list[pa.RecordBatch]] = {shard: [] for shard in range(shards)}
    for numbered in _NumberDoFn(PERIOD).process(block):
        for shard, table in fn.process(numbered):
            pieces[shard].append(table)
    for shard, tables in pieces.items():
        for _, table in shard_of(layout, KEY, 1, 1).counts(tables):
            np.add.at(cells[shard], (table["window"].to_numpy(), table["item"].to_numpy()), table["count"].to_numpy())
    assert cells.sum() == USERS and cells.size == shards * CELLS
    assert chi_square(cells) < 215
