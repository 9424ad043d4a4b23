"""Runners that lose, double or delay elements between stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pytest

from private_topk.transforms import top_k
from private_topk.transforms.combine import CombineCounts, KeyedCounts, PartialCounts
from private_topk.transforms.completeness import Receipt
from private_topk.transforms.contributions import BoundContributions


class Sabotage(beam.DoFn):
    """A runner that does to certain elements what it should not."""

    def __init__(self, picks: Callable[[Any], bool], does: str) -> None:
        self._picks, self._does = picks, does

    def process(self, element: Any, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:  # noqa: ANN401
        picked = self._picks(element)
        if not picked:
            yield element
        elif self._does == "doubles":
            yield from (element, element)
        elif self._does == "delays":  # until after its window, where it is an element too many
            yield beam.window.TimestampedValue(element, time + 7 * 3600)


def some_counts(element: KeyedCounts) -> bool:
    return element[0] == 0 and isinstance(element[1], PartialCounts)


def a_receipt(element: KeyedCounts) -> bool:
    return isinstance(element[1], Receipt) and element[1].names == Receipt.of_user_shard(1, 0, 0).names


def any_receipt(element: KeyedCounts) -> bool:
    return isinstance(element[1], Receipt) and element[1].user_shards > 0


PICKS = {"counts": some_counts, "receipt": a_receipt, "receipts": any_receipt}
HOPS = {
    "before combining": ("BoundContributions", BoundContributions),
    "before the draw": ("CombineCounts", CombineCounts),
}


def sabotage(patch: pytest.MonkeyPatch, hop: str, picks: Callable[[KeyedCounts], bool], does: str) -> None:
    name = HOPS[hop][0]

    class Sabotaged(HOPS[hop][1]):
        def expand(self, inputs: Any) -> beam.PCollection:  # noqa: ANN401
            done = super().expand(inputs)
            hurt = done | "Sabotage" >> beam.ParDo(Sabotage(picks, does)).with_output_types(KeyedCounts)
            return hurt | "As it was" >> beam.WindowInto(done.windowing)

    patch.setattr(top_k, name, Sabotaged)
