"""One release has one answer: what a window's ranking is hangs on its counts, and not on how the rows came along.

Items are so many, and epsilon is so small, that noise decides: another digest of the counts would be another ranking.
A wrong answer passes a comparison of k items out of 200,000 with probability below 1e-15.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue

from private_topk import (
    Groups,
    Joint,
    Laplace,
    LimitDomain,
    Period,
    PrivateTopK,
    PublicDomain,
    Release,
    ReleaseKey,
    UnknownDomain,
    WeightedOrder,
)
from private_topk.transforms import RangeDomain
from private_topk.transforms.mechanisms import Mechanism
from tests.nightly import nightly_but
from tests.transforms.streams import streaming

RELEASE = Release(ReleaseKey.held(b"a key of the tests, no secret"), "one answer")
ITEMS = 200_000
DAY = 86_400
WINDOWS = 24
FIRST, SECOND = "1970-01-02", "1970-01-03"
DAYS, ONE_DAY = Period.of(FIRST, "1970-01-26", "1d"), Period.of(FIRST, SECOND, "1d")
COUNTRIES = [f"land {n}" for n in range(3)]

LIST = PublicDomain.of(range(ITEMS))
RANGE = RangeDomain(0, ITEMS)
LISTS = {group: [str(item) for item in range(place, ITEMS, 2)] for place, group in enumerate(COUNTRIES[:2])}
JOINT = Joint(epsilon=0.01)
WEIGHTED = WeightedOrder(0.5, 0.01, 50, whole_items=2)
UNKNOWN = LimitDomain(epsilon=5.0, delta=0.1, max_items_per_user=20)

CASES: dict[str, tuple[Any, Mechanism, dict[str, Any]]] = {
    "list": (LIST, JOINT, {}),
    "weights": (RANGE, WEIGHTED, {}),
    "groups": (RANGE, Laplace(epsilon=0.1), {"publish_counts": 0.1, "groups": Groups.of(COUNTRIES)}),
    "lists by group": (LISTS, JOINT, {}),
    "unknown, groups": (UnknownDomain(), UNKNOWN, {"groups": Groups.of(COUNTRIES)}),
}

Rows = list[TimestampedValue]


def rows_of(case: str, days: int) -> Rows:
    """300 users, of whom each has 20 of the items in every one of some days; of some items many have one."""
    rng = np.random.default_rng(days)
    items = np.minimum(rng.zipf(1.3, (days, 300, 20)), ITEMS) - 1
    items[:, :, 10:] = items[:, :, 10:] * 7919 % ITEMS  # in all parts of the list
    grouped = "groups" in case or "by group" in case
    return [
        TimestampedValue((f"u{user}", str(item), *([COUNTRIES[user % 3]] if grouped else [])), DAY * (1 + day) + user)
        for day, users in enumerate(items.tolist())
        for user, own in enumerate(users)
        for item in own
    ]


def ranked(case: str, period: Period, rows: Rows, shards: int = 64, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """By the window's name, and the group's: what a batch publishes."""
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        found = _published(pipeline | beam.Create(rows, reshuffle=False), case, period, shards, "batch", **more)
    return found


def ranked_live(case: str, period: Period, rows: Rows, shards: int = 64) -> dict[str, Any]:
    """The same of a stream, window by window."""
    events = test_stream.TestStream()
    for start in range(0, len(rows), 2000):
        events = events.advance_watermark_to(min(row.timestamp for row in rows[start:]))
        events = events.add_elements(rows[start : start + 2000])
    with streaming("direct") as pipeline:
        found = _published(pipeline | events.advance_watermark_to_infinity(), case, period, shards, "stream")
    return found


FOUND: dict[str, dict[str, Any]] = {}


def _published(
    rows: beam.PCollection,
    case: str,
    period: Period,
    shards: int,
    execution: str,
    **more: Any,  # noqa: ANN401
) -> dict[str, Any]:
    domain, mechanism, settings = CASES[case]
    FOUND[execution] = {}
    transform = PrivateTopK(10, mechanism, domain, release=RELEASE, period=period, shards=shards, **settings, **more)
    _ = rows | transform | beam.Map(_keep, execution)
    return FOUND[execution]


def _keep(ranking: Any, execution: str) -> None:  # noqa: ANN401
    FOUND[execution][ranking.label()] = ranking.items, ranking.noisy_counts


@pytest.mark.parametrize("case", nightly_but(CASES, "groups", "unknown, groups"))
def test_many_windows_at_once_one_alone_and_a_stream_have_one_answer(case: str) -> None:
    """24 days of which the first one has rows, with those of the others and without them."""
    rows = rows_of(case, 2)
    alone = ranked(case, ONE_DAY, [row for row in rows if row.timestamp < 2 * DAY][::-1], shards=4)
    answers = list(alone.values())
    assert len(answers) == _groups(case) and all(len(items) == 10 for items, _ in answers) or "unknown" in case
    assert any(items for items, _ in answers)
    whole = ranked(case, DAYS, rows)
    assert len(whole) == WINDOWS * _groups(case)
    assert {label: whole[label] for label in alone} == alone
    two_days = Period.of(FIRST, "1970-01-04", "1d")
    live = ranked_live(case, two_days, rows, shards=2)
    assert {label: whole[label] for label in live} == live and len(live) == 2 * _groups(case)


def _groups(case: str) -> int:
    domain, _, settings = CASES[case]
    return settings["groups"].size if "groups" in settings else len(domain) if isinstance(domain, dict) else 1
