"""One release has one answer: what is pinned for a question is published by every execution of it.

Noise decides the rankings of public lists: from another draw, one window would hold the same five items with a
probability below 1e-4, and three windows below 1e-12. Those of unknown domains are shorter, and hang on counts as well.
"""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import FixedWindows

from private_topk import (
    Amounts,
    CorrelatedGaussian,
    Groups,
    Joint,
    Laplace,
    LimitDomain,
    Period,
    PublicDomain,
    UnknownDomain,
    WeightedOrder,
)
from private_topk.transforms import RangeDomain, shuffle
from private_topk.transforms.counters import exact_counters, read_dropped_rows
from private_topk.transforms.elements import ElementSchema
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.plan import Execution
from private_topk.transforms.rows import MakeBlocks
from private_topk.transforms.spec import TopK
from private_topk.transforms.top_k import RankBlocks
from private_topk.transforms.windows import ToDate
from private_topk.transforms.windows.windowing import windowing_of
from tests.nightly import nightly_but
from tests.transforms.pipelines import create, direct
from tests.transforms.streams import (
    DOMAIN,
    HOUR,
    RELEASE,
    START,
    Collect,
    Row,
    events_of,
    period_of,
    some_rows,
    stamped,
    streaming,
)

LARGE = 140_000
"""The items of a large domain, in three item shards."""

HOURS = Period(START, START + 72 * HOUR, HOUR)
"""More windows than there are window groups: two in most of them."""

GROUPS = ["fr", "de", "é ü"]
LISTS = {"fr": DOMAIN[:8], "de": DOMAIN[2:]}

JOINT, LAPLACE = Joint(epsilon=0.05), Laplace(epsilon=0.1)
LIMITED = LimitDomain(epsilon=1.0, delta=0.1)
FEW = LimitDomain(epsilon=5.0, delta=0.1, max_items_per_user=4, kbar=5)
PARTITIONS = MECHANISMS["weighted-gaussian"](epsilon=0.1, delta=0.1, max_items_per_user=4, whole_items=2)
WEIGHTED = WeightedOrder(0.5, 0.01, 5, whole_items=2)
TO_DATE = CorrelatedGaussian(0.2, 1e-6, 3)
DATES = Period(START, START + 72 * HOUR, ToDate(windowing_of(6 * HOUR)))


@dataclass(frozen=True)
class Question:
    """A question, and a digest of the windows, groups, items and counts that are published."""

    answer: str
    spec: TopK
    period: Period | None = None

    @property
    def schema(self) -> ElementSchema:
        return ElementSchema(score=self.spec.score, groups=self.spec.groups is not None)

    def rows(self) -> list[Row]:
        """6,000 rows by time: some users hold more items than any bound, and each of them is in several groups."""
        rows, schema = [], self.schema
        for n, (_, item, hours) in enumerate(some_rows(11, 72, 6_000)):
            user = f"u{n % 499}" if n % 3 else "busy"
            label = item if self.spec.domain.size < LARGE else str(int(item.split()[1]) * LARGE // len(DOMAIN))
            group = "nowhere" if n % 11 == 0 else GROUPS[n % 7 % 3]
            rows.append((user, label, *[group] * schema.groups, *[n % 100] * len(schema.score.columns), hours))
        return rows


QUESTIONS = {
    "one window": Question("1 237ea436f500301f", TopK(5, JOINT, DOMAIN)),
    "whole": Question("1 502265d348a4d071", TopK(5, JOINT, DOMAIN), period_of("whole")),
    "fixed": Question("11 3a260da3f161e079", TopK(5, JOINT, DOMAIN), period_of("fixed")),
    "hours": Question("72 8e85b90728c9e51b", TopK(5, JOINT, DOMAIN), HOURS),
    "day": Question("3 a44852bef3b991d9", TopK(5, JOINT, DOMAIN), period_of("day")),
    "sliding": Question("16 acfb032fb53ede6f", TopK(5, JOINT, DOMAIN, 2), period_of("sliding")),
    "sliding, some listed": Question("16 dbe04b9d61626e90", TopK(5, JOINT, DOMAIN[:9], 3), period_of("sliding")),
    "counts": Question("11 821952108f237fd9", TopK(5, JOINT, DOMAIN, None, 1.0), period_of("fixed")),
    "amounts": Question("16 1c1e415b2b15bd4a", TopK(5, JOINT, DOMAIN, 3, None, Amounts(60)), period_of("sliding")),
    "large": Question("11 e7d35503ad8906a4", TopK(5, JOINT, PublicDomain.of(range(LARGE))), period_of("fixed")),
    "weights": Question("1 ba0bb8b98b68b158", TopK(5, PARTITIONS, UnknownDomain())),
    "weights, large": Question("72 941c21681aeb5f7d", TopK(5, WEIGHTED, RangeDomain(0, LARGE)), HOURS),
    "weights, sliding": Question("16 5d0fbb79ba7f8fe3", TopK(5, PARTITIONS, UnknownDomain()), period_of("sliding")),
    "groups": Question(
        "33 713ade1b1fee1297", TopK(5, LAPLACE, RangeDomain(0, LARGE), groups=GROUPS), period_of("fixed")
    ),
    "groups, lists": Question("22 3106089dda267a68", TopK(5, JOINT, LISTS), period_of("fixed")),
    "groups, unknown": Question(
        "48 d7d8f2ea13a9b230", TopK(5, FEW, UnknownDomain(), groups=GROUPS), period_of("sliding")
    ),
    "overall": Question(
        "64 0f7b94199c348fbc",
        TopK(5, LAPLACE, DOMAIN, 3, 1.0, Amounts(60), groups=Groups.of(GROUPS, 2, overall=True)),
        period_of("sliding"),
    ),
    "to date, overall": Question(
        "48 7e1c588b5f93503f",
        TopK(5, TO_DATE, DOMAIN, score=Amounts(60), groups=Groups.of(GROUPS, 1, overall=True)),
        DATES,
    ),
    "to date": Question("12 8261e5c67fee9b75", TopK(5, TO_DATE, DOMAIN, score=Amounts(60)), DATES),
    "to date, groups": Question("36 846b43d1115a02e3", TopK(5, TO_DATE, DOMAIN, groups=Groups.of(GROUPS, 2)), DATES),
    "unknown": Question("11 c281287d49027bdb", TopK(5, LIMITED, UnknownDomain()), period_of("fixed")),
    "unknown, bounded": Question("16 2bb4496bbe9845e1", TopK(5, LIMITED, UnknownDomain(), 3), period_of("sliding")),
}


class Published(NamedTuple):
    """The items and noisy counts by window and group, and how many rows were dropped for which reason."""

    answers: dict[str, tuple[Sequence[Any], Sequence[int] | None]]
    dropped: dict[str, str]

    def digest(self) -> str:
        facts = sorted([label, list(items), counts and list(counts)] for label, (items, counts) in self.answers.items())
        return f"{len(facts)} {hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"


def published(pipeline: beam.Pipeline, rows: Any, asked: Question, execution: Execution) -> Published:  # noqa: ANN401
    with exact_counters():
        blocks = pipeline | rows | MakeBlocks(with_times=asked.period is not None, schema=asked.schema)
        rankings = blocks | RankBlocks(asked.spec, RELEASE, asked.period, execution, asked.period is None)
    _ = rankings | beam.ParDo(Collect("executed"))
    result = pipeline.run()
    result.wait_until_finish()
    found = Collect.found["executed"]
    answers = {ranking.label(): (ranking.items, ranking.noisy_counts) for ranking in found}
    assert len(answers) == len(found), "a window was released twice"
    return Published(answers, read_dropped_rows(result.metrics()))


def bounded(asked: Question, rows: Sequence[Row], execution: Execution, *windowed: beam.PTransform) -> Published:
    given: Any = create(stamped(rows))
    for windows in windowed:
        given |= windows
    return published(direct(), given, asked, execution)


@cache
def batch(name: str) -> Published:
    """Of many shards, whose rows come in no order."""
    rows = QUESTIONS[name].rows()
    shuffled = [rows[place] for place in np.random.RandomState(1).permutation(len(rows))]
    return bounded(QUESTIONS[name], shuffled, Execution(64))


def by_reference(name: str) -> Published:
    gc.collect()
    before = len(shuffle._LIVE)
    found = bounded(QUESTIONS[name], QUESTIONS[name].rows(), Execution(16, by_reference=True, cores=3))
    gc.collect()
    assert len(shuffle._LIVE) == before, "something is left of what was grouped by reference"
    return found


def first_window(name: str) -> Published:
    """A period of that window alone."""
    asked = QUESTIONS[name]
    assert asked.period is not None
    first = next(iter(asked.period.windows()))
    return bounded(replace(asked, period=Period(first.start, first.end)), asked.rows(), Execution(1))


def windows_of_the_input(name: str) -> Published:
    """Windows of the same hours that Beam has assigned, without a period."""
    asked = replace(QUESTIONS[name], period=None)
    return bounded(asked, asked.rows(), Execution(8), beam.WindowInto(FixedWindows(3600)))


def stream(runner: str, name: str) -> Published:
    """Some rows come five hours late, and the watermark waits for them."""
    asked = QUESTIONS[name]
    late = [(row[-1] + 5 * (n % 7 == 0), row) for n, row in enumerate(asked.rows())]
    events = events_of([row for _, row in sorted(late)], 72, 1500)
    return published(streaming(runner), events, asked, Execution(2, waits_for_timers=runner == "prism"))


EXECUTIONS: dict[str, Callable[[str], Published]] = {
    "batch": batch,
    "by reference": by_reference,
    "first window": first_window,
    "windows of the input": windows_of_the_input,
    "stream": partial(stream, "direct"),
    "prism": partial(stream, "prism"),
}

BY_DAY = {
    "batch": ("one window", "hours", "groups, lists", "to date"),
    "by reference": ("sliding, some listed", "to date, groups", "overall"),
    "first window": ("unknown, bounded",),
    "windows of the input": ("hours",),
    "stream": ("hours", "day", "weights, sliding", "overall"),
    "prism": ("amounts", "weights, large", "groups, unknown"),
}


def applies(execution: str, name: str) -> bool:
    if QUESTIONS[name].period == DATES:  # a stream is refused
        return execution in ("batch", "by reference")
    if execution == "windows of the input":
        return QUESTIONS[name].period == HOURS
    return QUESTIONS[name].period is not None or execution in ("batch", "by reference")


@pytest.mark.parametrize(
    ("execution", "name"),
    nightly_but(
        [pair for pair in product(EXECUTIONS, QUESTIONS) if applies(*pair)],
        *((execution, name) for execution, names in BY_DAY.items() for name in names),
    ),
)
def test_every_execution_publishes_the_pinned_answer(execution: str, name: str, request: pytest.FixtureRequest) -> None:
    if execution == "prism":
        request.getfixturevalue("prism_binary")
    found = EXECUTIONS[execution](name)
    if execution == "first window":
        assert found.answers == {label: batch(name).answers[label] for label in found.answers} != {}
    else:
        assert found.digest() == QUESTIONS[name].answer
    assert execution != "by reference" or found.dropped == batch(name).dropped
