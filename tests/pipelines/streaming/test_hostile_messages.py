"""Messages as Pub/Sub hands them over: in any order and bundles, whatever its clock does.

It gives single messages whose element time is that of publication, and a clock of its own.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.payloads import JsonPayload
from private_topk.pipelines.sources.pubsub import GatherMessages
from private_topk.transforms import Period, Release, ReleaseKey
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.plan import Execution
from private_topk.transforms.spec import TopK
from private_topk.transforms.top_k import RankBlocks
from tests.transforms.streams import Collect, streaming

START, HOUR, DAYS = datetime(2026, 1, 1, tzinfo=UTC), 3600, 3
FIRST = int(START.timestamp())
PERIOD = Period(START, START + DAYS * timedelta(days=1), timedelta(days=1), timedelta(hours=1))
ITEMS = ["a", "b", "c", "d"]

BROKEN = [TimestampedValue(data, FIRST) for data in (b"{", b'{"user": null, "item": "a", "time": 1}')]

Message = tuple[str, str, int, int]
"""User, item, the row's time and that of its publication."""


def log_of(dice: random.Random) -> list[Message]:
    """By publication. Users send at once, days later, and dates that are made up; often the same row again."""
    found = [
        (
            f"u{dice.randrange(40)}",
            ITEMS[min(dice.randrange(4), dice.randrange(4))],
            published - dice.choice([0, 60, 2 * HOUR, 20 * HOUR, 40 * HOUR, -90 * HOUR]),
            published,
        )
        for published in (FIRST + dice.randrange(DAYS * 24 * HOUR) for _ in range(250))
    ]
    return sorted(found, key=lambda message: message[3])


def counted(log: list[Message]) -> list[dict[str, int]]:
    """The users of every item on every day, by sets: a row counts where its day was open when it came."""
    users: dict[tuple[int, str], set[str]] = defaultdict(set)
    for user, item, moment, published in log:
        day = (moment - FIRST) // (24 * HOUR)
        if 0 <= day < DAYS and published < FIRST + (day + 1) * 24 * HOUR + HOUR:
            users[day, item].add(user)
    return [{item: len(users[day, item]) for item in ITEMS} for day in range(DAYS)]


def delivered(
    log: list[Message], dice: random.Random | None, ahead: int = 0, runner: str = "direct"
) -> list[tuple[str, ...]]:
    """The rankings where broken messages lie among the others, messages come out of order, by up to a few hundred, and
    the clock stands at the first message that is still to come, or so much further; without dice, all at once.
    """
    pending, clock, events = list(log), FIRST, test_stream.TestStream().advance_watermark_to(FIRST)
    while pending:
        size = len(pending) if dice is None else dice.choice([1, 5, 60])
        reach = pending if dice is None else pending[: dice.choice([1, 20, 300])]
        bundle = dice.sample(reach, min(size, len(reach))) if dice else pending
        pending = [message for message in pending if message not in bundle]
        stamped = [
            TimestampedValue(
                json.dumps(dict(zip(("user", "item", "time"), message, strict=False))).encode(), message[3]
            )
            for message in bundle
        ]
        events = events.add_elements([*BROKEN, *stamped])
        if pending and pending[0][3] + ahead > clock:
            clock = pending[0][3] + ahead
            events = events.advance_watermark_to(clock)
    spec = TopK(4, Joint(epsilon=10_000.0), ITEMS)
    release = Release(ReleaseKey.held(b"a key of the tests, no secret"), "messages")
    with streaming(runner) as pipeline:
        messages = pipeline | events.advance_watermark_to_infinity() | beam.Map(bytes).with_output_types(bytes)
        blocks = messages | beam.ParDo(GatherMessages(Columns(time="time"), JsonPayload()))
        _ = blocks | RankBlocks(spec, release, PERIOD, Execution(2)) | beam.ParDo(Collect("messages"))
    return [ranking.items for ranking in sorted(Collect.found["messages"], key=lambda ranking: ranking.window.label())]


class OneByOne(random.Random):
    """No dice: messages come singly, in their order."""

    def choice(self, options: Any) -> Any:  # noqa: ANN401
        return options[0]

    def sample(self, population: Any, k: int, **more: Any) -> Any:  # noqa: ANN401
        return population[:k]


@pytest.mark.parametrize("runner", ["direct", "prism"])
def test_a_live_stream_equals_its_replay_for_any_order_of_delivery(runner: str, request: pytest.FixtureRequest) -> None:
    """Behind an honest clock, one that never passes what is still to come. The answer is that of plain sets."""
    if runner == "prism":
        request.getfixturevalue("prism_runner")
    dice = random.Random(1)
    log = log_of(dice)
    live = delivered(log, dice, runner=runner)
    assert live == delivered(log, None)
    for items, counts in zip(live, counted(log), strict=True):  # at this epsilon the ranking is that of the counts
        assert [counts[item] for item in items] == sorted(counts.values(), reverse=True)


def test_a_clock_that_runs_ahead_of_its_messages_loses_them() -> None:
    """What no sink can see, as docs/streaming.md says: Pub/Sub's clock is an estimate, and so is that of Beam's reader.
    So a subscription is no input that a release is repeated over (`PubSub.since`).
    """
    early = [("u", "a", FIRST, FIRST + HOUR)]
    log = early + [(f"v{n}", "d", FIRST, FIRST + 2 * HOUR) for n in range(30)]
    assert delivered(log, None)[0][0] == "d" and delivered(log, OneByOne(), ahead=30 * HOUR)[0][0] == "a"
