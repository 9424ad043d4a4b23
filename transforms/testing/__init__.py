"""For tests of pipelines that rank, and of mechanisms of your own.

`TrueTopK` draws no noise and `fixed_release` the same in every run: docs/beam.md tests a pipeline with them.

What our own tests hold every mechanism to, for a mechanism of yours: docs/own-mechanism.md shows the use.

A *law* is the exact probability of every answer on a small domain, written down from the mechanism's definition. With
one, `check_law` compares it with what is drawn and `check_neighbours` with what the mechanism states of its privacy;
`check_contract` needs none. Each raises AssertionError with the case that fails.
"""

from __future__ import annotations

from private_topk.transforms.testing.checks import check_law, check_neighbours
from private_topk.transforms.testing.contract import check_contract
from private_topk.transforms.testing.frequencies import assert_follows, draws_to_see, frequencies
from private_topk.transforms.testing.laws import (
    SMALL_COUNTS,
    Law,
    hockey_stick,
    log_ratio_range,
    max_log_ratio,
    neighbours,
    permitted_neighbours,
    renyi,
    total,
)
from private_topk.transforms.testing.true_top_k import TrueTopK, fixed_release

__all__ = [
    "SMALL_COUNTS",
    "Law",
    "TrueTopK",
    "assert_follows",
    "check_contract",
    "check_law",
    "check_neighbours",
    "draws_to_see",
    "fixed_release",
    "frequencies",
    "hockey_stick",
    "log_ratio_range",
    "max_log_ratio",
    "neighbours",
    "permitted_neighbours",
    "renyi",
    "total",
]
