"""What `make check` leaves out of tests that are whole in `make test`: most examples of Hypothesis's, some values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["QUICK", "examples", "few"]

QUICK: list[bool] = []
"""Holds True where pytest was told to leave `long` tests out, as `make check` does."""


def examples(number: int) -> settings:
    """So many examples, the same ones every time; a quarter of them, and 12 at least, in `make check`."""
    tried = max(number // 4, 12) if QUICK else number
    return settings(deadline=None, derandomize=True, max_examples=tried, suppress_health_check=list(HealthCheck))


def few(values: Iterable[Any], quick: Iterable[int] = (0,)) -> list[Any]:
    """The values of a parameter, with the mark `long` on all but those at some places."""
    chosen, found = set(quick), []
    for place, value in enumerate(values):
        given = value if type(value) is tuple else (value,)
        found.append(pytest.param(*given, marks=[] if place in chosen else [pytest.mark.long]))
    return found
