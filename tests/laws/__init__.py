"""Exact laws, and what is held to them.

A *law* is the exact probability of every answer on a small domain, written down from the mechanism's definition.
`check_law` compares it with what is drawn, and `check_neighbours` with what the mechanism states of its privacy. Each
raises AssertionError with the case that fails.
"""

from __future__ import annotations

from tests.laws.checks import check_law, check_neighbours
from tests.laws.frequencies import assert_follows, draws_to_see, frequencies
from tests.laws.laws import (
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

__all__ = [
    "SMALL_COUNTS",
    "Law",
    "assert_follows",
    "check_law",
    "check_neighbours",
    "draws_to_see",
    "frequencies",
    "hockey_stick",
    "log_ratio_range",
    "max_log_ratio",
    "neighbours",
    "permitted_neighbours",
    "renyi",
    "total",
]
