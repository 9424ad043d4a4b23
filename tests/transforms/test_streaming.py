"""Unbounded inputs against bounded ones: the same release of the same rows, whenever and however often they come."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from benchmarks.servers.prism import build
from private_topk.runners import prism
from private_topk.transforms import PrivateTopK
from private_topk.transforms.mechanisms import Joint
from tests.quick import in_check
from tests.runners.servers import missing
from tests.transforms.streams import (
    CUTS,
    DOMAIN,
    HOUR,
    RELEASE,
    Collect,
    at,
    batch,
    events_of,
    late_events,
    period_of,
    some_rows,
    stamped,
    stream,
    streaming,
    transform,
)  # fmt: skip


@pytest.fixture(params=["direct", "prism"])
def runner(request: pytest.FixtureRequest) -> str:
    if request.param == "prism" and not prism.built_binary().exists() and shutil.which("go") is None:
        missing("Prism is built with Go's client: install Go")
    if request.param == "prism":
        build()
    return request.param


@in_check("*-sliding", "*-day")
@pytest.mark.parametrize("cut", CUTS)
def test_a_stream_gives_the_rankings_of_the_batch(cut: str, runner: str) -> None:
    rows = some_rows(1, 72)
    expected = batch(rows, period_of(cut))
    assert list(expected) and sorted(expected) == sorted(w.label() for w in period_of(cut).windows())
    assert stream(events_of(rows, 72), period_of(cut), runner) == expected


@pytest.mark.long
def test_rows_out_of_order_give_the_same(runner: str) -> None:
    rows = some_rows(2, 72)
    mixed = [rows[place] for place in np.argsort([row[2] + 5 * (n % 7) for n, row in enumerate(rows)])]
    period = period_of("fixed")
    assert stream(events_of(mixed, 72), period, runner) == batch(rows, period)


@pytest.mark.long
def test_limits_hold_whenever_rows_come(runner: str) -> None:
    rows = some_rows(3, 72)
    period = period_of("sliding")
    expected = batch(rows, period, max_items_per_user=2)
    assert stream(events_of(rows, 72), period, runner, max_items_per_user=2) == expected
    assert expected != batch(rows, period)


def test_repeated_rows_count_once(runner: str) -> None:
    rows = some_rows(4, 20, 500)
    period = period_of("whole")
    assert stream(events_of(sorted(rows * 5, key=lambda row: row[2]), 72), period, runner) == batch(rows, period)


def test_late_rows_are_dropped_unless_the_slack_waits_for_them(runner: str) -> None:
    rows, late = some_rows(5, 6.9, 300), [(f"late {n}", DOMAIN[11], 3.0) for n in range(200)]
    without, everything = (batch(some, period_of("fixed")) for some in (rows, rows + late))
    assert without != everything
    assert stream(late_events(rows, late), period_of("fixed"), runner) == without
    assert stream(late_events(rows, late), period_of("fixed", slack=HOUR), runner) == everything


@in_check("*-sliding")
@pytest.mark.parametrize("cut", CUTS)
def test_every_declared_window_is_published_without_any_row(cut: str, runner: str) -> None:
    found = stream(test_stream.TestStream().advance_watermark_to_infinity(), period_of(cut), runner)
    assert found == batch([], period_of(cut))
    assert len(found) == len(period_of(cut))


def test_windows_that_were_not_declared_publish_nothing(runner: str) -> None:
    rows = [("u1", DOMAIN[0], hours) for hours in (-30.0, -0.001, 71.0, 500.0)]
    assert stream(events_of(rows, 501), period_of("day"), runner) == batch([], period_of("day"))


class Look(beam.DoFn):
    """Notes how many rankings were out when an element came."""

    seen: list[int] = []

    def process(self, element: Any) -> Iterator[Any]:  # noqa: ANN401
        Look.seen.append(len(Collect.found["stream"]))
        yield element


def test_a_window_is_published_when_it_ends_and_not_before() -> None:
    """The in-process runner handles one event of a TestStream after the other."""
    rows = some_rows(6, 30, 200)
    events = test_stream.TestStream()
    for hours in (6.9, 7.1, 14.1):
        events = events.advance_watermark_to(at(hours)).add_elements([TimestampedValue(("look", DOMAIN[0]), at(70))])
    with streaming("direct") as pipeline:
        late = events.add_elements(stamped(rows[-1:])).advance_watermark_to_infinity()
        looked = pipeline | late | beam.ParDo(Look())
        _ = looked | transform(period_of("fixed")) | beam.ParDo(Collect("stream"))
    assert Look.seen[:3] == [0, 1, 2]


def test_second_firings_are_refused() -> None:
    plain = PrivateTopK(3, Joint(epsilon=2.0), DOMAIN, release=RELEASE, reveal_active_windows=True)
    for more in ({"trigger": AfterWatermark(early=AfterCount(1))}, {"trigger": AfterWatermark(late=AfterCount(1))},
                 {"trigger": AfterWatermark(), "allowed_lateness": 60}):  # fmt: skip
        windows = beam.WindowInto(FixedWindows(60), accumulation_mode=AccumulationMode.DISCARDING, **more)
        pipeline = beam.Pipeline(runner=FnApiRunner())
        rows = pipeline | beam.Create([("u", "item 1")]) | windows
        with pytest.raises(ValueError, match="every window must fire exactly once"):
            _ = rows | plain
