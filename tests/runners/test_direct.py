"""Local runs with several workers, which pass data through gRPC."""

from __future__ import annotations

import time

import apache_beam as beam
from apache_beam.coders import Coder, registry
from apache_beam.testing.util import assert_that, equal_to

from private_topk.runners import prepare


class Slow:
    """Something that takes longer to encode than Beam lets elements wait."""

    def __init__(self, number: int) -> None:
        self.number = number


class SlowCoder(Coder):
    def encode(self, value: Slow) -> bytes:
        time.sleep(1.2)
        return b"%d" % value.number

    def decode(self, encoded: bytes) -> Slow:
        return Slow(int(encoded))

    def is_deterministic(self) -> bool:
        return True


def test_an_element_is_sent_whole_however_long_it_takes_to_encode() -> None:
    """Beam's clock would send the half of it that is written by then: what comes next is no beginning of an element."""
    registry.register_coder(Slow, SlowCoder)
    launch = prepare("direct", ["--direct_num_workers=2"])
    with beam.Pipeline(runner=launch.runner, options=launch.options) as pipeline:
        slow = pipeline | beam.Create([3]) | beam.Map(lambda n: (n, Slow(n))).with_output_types(tuple[int, Slow])
        found = slow | beam.GroupByKey() | beam.Map(lambda pair: (pair[0], [its.number for its in pair[1]]))
        assert_that(found, equal_to([(3, [3])]))
