"""Unbounded inputs: which rows are late, when a window is published, and in which window its ranking lies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue

from private_topk.transforms import Period, PrivateTopK
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.plan import Execution
from private_topk.transforms.spec import TopK
from private_topk.transforms.testing import TrueTopK
from private_topk.transforms.top_k import RankBlocks
from tests.nightly import nightly, nightly_but
from tests.transforms.pipelines import create, direct
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
)


@pytest.mark.parametrize("runner", ["direct", nightly("prism")])
def test_late_rows_are_dropped_unless_allowed_lateness_waits_for_them(
    runner: str, request: pytest.FixtureRequest
) -> None:
    if runner == "prism":
        request.getfixturevalue("prism_binary")
    rows, late = some_rows(5, 6.9, 300), [(f"late {n}", DOMAIN[11], 3.0) for n in range(200)]
    without, everything = (batch(some, period_of("fixed")) for some in (rows, rows + late))
    assert without != everything
    assert stream(late_events(rows, late), period_of("fixed"), runner) == without
    assert stream(late_events(rows, late), period_of("fixed", allowed_lateness=HOUR), runner) == everything


def stages(readers: tuple[int, ...], unbounded: bool) -> list[str]:
    """The names of a ranking's stages, in the order in which they are built."""

    class Look(beam.pipeline.PipelineVisitor):
        def __init__(self) -> None:
            self.names: list[str] = []

        def enter_composite_transform(self, node: Any) -> None:  # noqa: ANN401 - Beam's own
            self.names.append(node.full_label.rpartition("/")[2])

    pipeline, spec = streaming("direct"), TopK(2, Joint(epsilon=1.0), PublicDomain.of(DOMAIN))
    rows = pipeline | (test_stream.TestStream() if unbounded else create([]))
    blocks = rows | beam.Map(lambda row: row).with_output_types(pa.RecordBatch)
    _ = blocks | RankBlocks(spec, RELEASE, period_of("fixed"), Execution(readers=readers))
    pipeline.visit(look := Look())
    return look.names


def test_late_blocks_are_dropped_whole_before_their_rows_are_parted() -> None:
    """A runner whose subtasks have watermarks of their own could drop one piece of a late block and count another:
    their checksums would not cancel, and the job would end. Where readers state what they sent, nothing is late so.
    """
    names = stages((), unbounded=True)
    dropped = names.index("Drop late blocks")
    assert names.index("Assign windows") < dropped < names.index("Every window") < names.index("Shard by user")
    assert "Drop late blocks" not in stages((0,), unbounded=True) + stages((), unbounded=False)


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ([beam.WindowInto(FixedWindows(3600)), beam.Distinct()], True),
        ([beam.WindowInto(FixedWindows(3600)), beam.Distinct(), beam.Map(tuple)], True),
        ([beam.WindowInto(FixedWindows(3600)), beam.Map(tuple)], False),
        ([beam.Reshuffle()], False),
    ],
    ids=["grouped", "grouped before", "windows", "reshuffled"],
)
def test_rows_of_a_grouping_that_come_late_in_process_are_told(
    before: list[beam.PTransform], told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the same rows come on Prism in time: a test of one's own would pass on an empty ranking."""
    for rows in (test_stream.TestStream(), create([("ana", "tea")])):
        caplog.clear()
        elements = streaming("direct") | rows
        for number, step in enumerate(before):
            elements |= f"{number}" >> step
        _ = elements | transform(period_of("fixed"))
        said = any("drops them as late" in record.getMessage() for record in caplog.records)
        assert said == (told and not elements.is_bounded)


class Note(beam.DoFn):
    """Notes what came, its window and its timestamp."""

    seen: list[tuple[Any, ...]] = []

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam, time: Any = beam.DoFn.TimestampParam) -> None:  # noqa: ANN401, B008
        Note.seen.append((element, window, time))


@pytest.mark.parametrize("cut", nightly_but(CUTS, "sliding"))
@pytest.mark.parametrize("streamed", [False, True], ids=["batch", "stream"])
def test_rankings_are_in_the_declared_windows(cut: str, streamed: bool) -> None:
    """Whatever the windows of the input were."""
    Note.seen.clear()
    with streaming("direct") if streamed else direct() as pipeline:
        rows = events_of(some_rows(1, 72), 72) if streamed else create(stamped(some_rows(1, 72)))
        ranked = pipeline | rows | beam.WindowInto(FixedWindows(86_400)) | transform(period_of(cut))
        _ = ranked | beam.ParDo(Note())
    declared = [IntervalWindow(at(hours(window.start)), at(hours(window.end))) for window in period_of(cut).windows()]
    assert sorted(window for _, window, _ in Note.seen) == declared
    for ranking, window, time in Note.seen:
        assert window.start.to_utc_datetime(has_tz=True) == ranking.window.start and time == window.max_timestamp()


def hours(moment: Any) -> float:  # noqa: ANN401 - a datetime
    return (moment - period_of("whole").start) / HOUR


@pytest.mark.parametrize(
    ("runner", "lateness"), nightly_but(product(("direct", "prism"), (0, 13)), ("direct", 13), ("prism", 0))
)
def test_rankings_meet_another_stream_in_its_windows(
    runner: str, lateness: int, request: pytest.FixtureRequest
) -> None:
    """The watermark stays before a window's end until its ranking is out, however long the lateness is."""
    if runner == "prism":
        request.getfixturevalue("prism_binary")
    Note.seen.clear()
    events = test_stream.TestStream()
    for second in (1, 5, 9, 9.999, 10, 10.001, 12, 15, 19, 19.999, 20, 21, 23, 24, 25, 33):
        events = events.advance_watermark_to(second)
        if second in (1, 12):
            events = events.add_elements([TimestampedValue((str(second), "tea" if second == 1 else "cake"), second)])
    with streaming(runner) as pipeline:
        both = pipeline | events.advance_watermark_to_infinity() | beam.Map(tuple).with_output_types(tuple[str, str])
        period = Period.of("1970-01-01", "1970-01-01T00:00:20", "10s", allowed_lateness=timedelta(seconds=lateness))
        rank = PrivateTopK(1, TrueTopK(), ["tea", "cake"], period=period, waits_for_timers=runner != "direct")
        ranked = both | rank | beam.Map(lambda ranking: ("x", *ranking.items))
        prices = both | beam.Map(lambda row: ("x", row[0])) | beam.WindowInto(FixedWindows(10))
        _ = {"ranked": ranked, "price": prices} | beam.CoGroupByKey() | beam.ParDo(Note())
    assert sorted((window.start, element) for element, window, _ in Note.seen) == [
        (0, ("x", {"ranked": ["tea"], "price": ["1"]})),
        (10, ("x", {"ranked": ["cake"], "price": ["12"]})),
    ]


@pytest.mark.parametrize("cut", nightly_but(CUTS, "sliding", "whole"))
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
