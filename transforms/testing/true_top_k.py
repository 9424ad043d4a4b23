"""For tests of one's own pipeline: a mechanism without noise and a fixed release. Never for data of people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours
from private_topk.transforms.release import Release, ReleaseKey


@dataclass(frozen=True)
class TrueTopK(Mechanism):
    """The k items with the largest counts, without noise: equal counts in the order of the domain.

    It protects nobody. No command takes it, no ledger has a price for it, and every manifest of it says that the
    ranking is not private.

    Args:
        epsilon, neighbours: as of the mechanism that it stands in for; they change nothing.
    """

    about: ClassVar[About] = About(
        name="true-top-k",
        cost="a sort of the counts",
        source="none: it is no private mechanism",
        when="in tests of a pipeline, on made-up rows",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("none", "public", "sequence", "amounts", replacement_costs_one_draw=True)

    epsilon: float = 1.0
    neighbours: Neighbours = "add-remove"

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        return np.arange(k, dtype=np.int64)

    def cost(self, k: int) -> Cost:
        raise InvalidArgument(
            "mechanism", "true-top-k protects nobody, so no budget covers it", "it is for tests of pipelines"
        )


def fixed_release(release_id: str = "test") -> Release:
    """A release under a key that everybody knows: real noise, and the same in every run of a test.

    A manifest of it says that the ranking is not private, since anybody can take the noise off.
    """
    return Release(ReleaseKey.for_tests(), release_id)
