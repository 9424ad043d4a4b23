"""Rows as streams and as batches, and the rankings that are released for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue

from private_topk.runners import prepare
from private_topk.runners.options import BeamOptions
from private_topk.transforms import Period, PrivateTopK, Ranking, Release, ReleaseKey
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.release import Label
from private_topk.transforms.windows import CalendarWindows, SlidingWindows, microseconds
from tests.transforms.pipelines import create, direct

START = datetime(2026, 3, 28, 23, tzinfo=UTC)  # midnight in Berlin; the clock changes that night
HOUR = timedelta(hours=1)
DOMAIN = [f"item {n}" for n in range(12)]
RELEASE = Release(ReleaseKey.held(b"a key of the tests, no secret"), "streaming")

CUTS = {
    "whole": (None, 72),
    "fixed": (timedelta(hours=7), 72),
    "sliding": (SlidingWindows(timedelta(hours=9), timedelta(hours=4)), 72),
    "day": (CalendarWindows("day", "Europe/Berlin"), 23 + 24 + 24),
}

Row = tuple[Any, ...]
"""(user, item, hours after the start); before these a group or an amount, where elements hold one."""


def period_of(cut: str, allowed_lateness: timedelta = timedelta(0)) -> Period:
    kind, hours = CUTS[cut]
    return Period(START, START + hours * HOUR, kind, allowed_lateness)


def some_rows(seed: int, hours: float, count: int = 3000) -> list[Row]:
    """(user, item, hours after the start), by time, with many repeated pairs."""
    state = np.random.RandomState(seed)
    users, times = state.randint(0, 60, count), np.sort(state.uniform(0, hours, count))
    items = np.minimum(state.geometric(0.3, count), len(DOMAIN)) - 1
    return [(f"u{user}", DOMAIN[item], float(at)) for user, item, at in zip(users, items, times, strict=True)]


def at(hours: float) -> int:
    """Seconds since 1970 UTC; whole ones, since a TestStream takes no more than milliseconds."""
    return microseconds(START) // 1_000_000 + math.floor(hours * 3600)


def stamped(rows: Sequence[Row]) -> list[TimestampedValue]:
    return [TimestampedValue(tuple(element), at(hours)) for *element, hours in rows]


class Collect(beam.DoFn):
    """Keeps what a pipeline gave, by the name of a test: its runners run in this process."""

    found: dict[str, list[Ranking]] = {}

    def __init__(self, name: str) -> None:
        self._name = name
        Collect.found[name] = []

    def process(self, element: Ranking) -> None:
        Collect.found[self._name].append(element)


def transform(period: Period, **more: Any) -> PrivateTopK:  # noqa: ANN401
    return PrivateTopK(3, Joint(epsilon=2.0), DOMAIN, release=RELEASE, period=period, shards=4, **more)


def batch(rows: Sequence[Row], period: Period, **more: Any) -> dict[str, tuple[Label, ...]]:  # noqa: ANN401
    with direct() as pipeline:
        _ = pipeline | create(stamped(rows)) | transform(period, **more) | beam.ParDo(Collect("batch"))
    return by_label(Collect.found["batch"])


def streaming(runner: str) -> beam.Pipeline:
    """A pipeline in which a TestStream runs: by Beam's in-process runner, or by Prism, which is a process."""
    if runner == "direct":
        options = BeamOptions([])
        options.view_as(StandardOptions).streaming = True
        return beam.Pipeline(runner=BundleBasedDirectRunner(), options=options)
    launch = prepare("prism", ["--streaming"])
    return beam.Pipeline(runner=launch.runner, options=launch.options)


def stream(events: test_stream.TestStream, period: Period, runner: str, **more: Any) -> dict[str, tuple[Label, ...]]:  # noqa: ANN401
    with streaming(runner) as pipeline:
        waits = runner != "direct"
        _ = pipeline | events | transform(period, waits_for_timers=waits, **more) | beam.ParDo(Collect("stream"))
    return by_label(Collect.found["stream"])


def by_label(rankings: Sequence[Ranking]) -> dict[str, tuple[Label, ...]]:
    found = {ranking.window.label(): ranking.items for ranking in rankings}
    assert len(found) == len(rankings), "a window was released twice"
    return found


def late_events(rows: Sequence[Row], late: Sequence[Row]) -> test_stream.TestStream:
    """Rows of the first seven hours, then late ones when half an hour more has passed."""
    events = test_stream.TestStream().add_elements(stamped(rows)).advance_watermark_to(at(7.5))
    events = events.add_elements(stamped(late)).advance_watermark_to(at(8)).add_elements(stamped(late[:1]))
    return events.advance_watermark_to_infinity()


def events_of(rows: Sequence[Row], hours: float, bundle: int = 150) -> test_stream.TestStream:
    """Rows in bundles, the watermark at the first row that is still to come."""
    events = test_stream.TestStream()
    for first in range(0, len(rows), bundle):
        events = events.advance_watermark_to(at(min(row[-1] for row in rows[first:])))
        events = events.add_elements(stamped(rows[first : first + bundle]))
    return events.advance_watermark_to(at(hours + 1)).advance_watermark_to_infinity()
