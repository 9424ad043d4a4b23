"""Unbounded inputs against bounded ones: the same release of the same rows, whenever and however often they come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue

from tests.transforms.streams import (
    CUTS,
    DOMAIN,
    HOUR,
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


@pytest.mark.parametrize("cut", CUTS)
def test_a_stream_gives_the_rankings_of_the_batch(cut: str) -> None:
    rows = some_rows(1, 72)
    expected = batch(rows, period_of(cut))
    assert list(expected) and sorted(expected) == sorted(w.label() for w in period_of(cut).windows())
    assert stream(events_of(rows, 72), period_of(cut), "direct") == expected


def test_rows_out_of_order_give_the_same() -> None:
    rows = some_rows(2, 72)
    mixed = [rows[place] for place in np.argsort([row[2] + 5 * (n % 7) for n, row in enumerate(rows)])]
    period = period_of("fixed")
    assert stream(events_of(mixed, 72), period, "direct") == batch(rows, period)


def test_limits_hold_whenever_rows_come() -> None:
    rows = some_rows(3, 72)
    period = period_of("sliding")
    expected = batch(rows, period, max_items_per_user=2)
    assert stream(events_of(rows, 72), period, "direct", max_items_per_user=2) == expected
    assert expected != batch(rows, period)


def test_late_rows_are_dropped_unless_the_slack_waits_for_them() -> None:
    rows, late = some_rows(5, 6.9, 300), [(f"late {n}", DOMAIN[11], 3.0) for n in range(200)]
    without, everything = (batch(some, period_of("fixed")) for some in (rows, rows + late))
    assert without != everything
    assert stream(late_events(rows, late), period_of("fixed"), "direct") == without
    assert stream(late_events(rows, late), period_of("fixed", slack=HOUR), "direct") == everything


def test_prism_streams_as_the_in_process_runner_does(prism_binary: Path) -> None:
    """Windows that overlap, a bound, rows out of order and late ones: in one stream."""
    rows, late = some_rows(3, 72), [(f"late {n}", DOMAIN[11], 3.0) for n in range(200)]
    period, bound = period_of("sliding"), {"max_items_per_user": 2}
    mixed = [rows[place] for place in np.argsort([row[2] + 2 * (n % 3) for n, row in enumerate(rows)])]
    assert stream(events_of(mixed, 72), period, "prism", **bound) == batch(rows, period, **bound)
    early = [row for row in some_rows(5, 72) if row[2] < 6.9]
    assert stream(late_events(early, late), period_of("fixed"), "prism") == batch(early, period_of("fixed"))


@pytest.mark.parametrize("cut", CUTS)
def test_every_declared_window_is_published_without_any_row(cut: str) -> None:
    found = stream(test_stream.TestStream().advance_watermark_to_infinity(), period_of(cut), "direct")
    assert found == batch([], period_of(cut))
    assert len(found) == len(period_of(cut))


def test_windows_that_were_not_declared_publish_nothing() -> None:
    rows = [("u1", DOMAIN[0], hours) for hours in (-30.0, -0.001, 71.0, 500.0)]
    assert stream(events_of(rows, 501), period_of("day"), "direct") == batch([], period_of("day"))


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
