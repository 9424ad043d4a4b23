"""How a pipeline with `PrivateTopK` is tested: batch and stream without noise, and the same noise in every run."""

from typing import Any

import apache_beam as beam
import polars as pl
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.testing import test_stream as streams
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import GlobalWindows, TimestampedValue

from private_topk import Joint, Period, PrivateTopK, rank
from private_topk.transforms.testing import TrueTopK, fixed_release

ROWS = [("ana", "tea"), ("ana", "tea"), ("ana", "tea"), ("ana", "cake"), ("bo", "cake")]
PERIOD = Period.of("1970-01-01T00:00:00Z", "1970-01-01T00:00:20Z", "10s")


def top_drinks(rows: beam.PCollection, mechanism: Any) -> beam.PCollection:  # noqa: ANN401 - a mechanism or its name
    """What is tested."""
    ranked = rows | PrivateTopK(k=2, mechanism=mechanism, domain=["tea", "cake", "scone"])
    return ranked | beam.Map(lambda ranking: ranking.items)


def test_users_are_counted_and_not_rows() -> None:
    with beam.Pipeline() as pipeline:
        assert_that(top_drinks(pipeline | beam.Create(ROWS), TrueTopK()), equal_to([("cake", "tea")]))


def at(second: int, *rows: tuple[str, str]) -> list[TimestampedValue]:
    return [TimestampedValue(row, second) for row in rows]


def test_a_late_row_is_dropped() -> None:
    """`TestStream` moves the watermark by hand."""
    stream = (
        streams.TestStream()
        .add_elements(at(1, ("ana", "tea"), ("bo", "tea"), ("bo", "cake")))
        .advance_watermark_to(12)
        .add_elements(at(2, ("cy", "cake"), ("di", "cake")))  # late
        .add_elements(at(13, ("cy", "cake")))
        .advance_watermark_to_infinity()
    )
    options = PipelineOptions()
    options.view_as(StandardOptions).streaming = True
    with beam.Pipeline(options=options) as pipeline:
        top = PrivateTopK(k=1, mechanism=TrueTopK(), domain=["tea", "cake"], period=PERIOD)
        items = pipeline | stream | top | beam.Map(lambda ranking: (ranking.window.start.second, *ranking.items))
        # All windows in one assertion.
        assert_that(items | beam.WindowInto(GlobalWindows()), equal_to([(0, "tea"), (10, "cake")]))


def test_the_same_noise_in_every_run() -> None:
    rows = pl.DataFrame({"user": [f"u{n}" for n in range(60)], "item": ["tea", "tea", "cake"] * 20})
    ranked = rank(rows, k=2, mechanism=Joint(epsilon=1.0), domain=["cake", "scone", "tea"], release=fixed_release())
    assert ranked.items == ("tea", "cake")
    assert ranked.manifest.private is False
