"""What `make check` leaves out of tests that are whole in `make test`: most examples of Hypothesis's, most draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["QUICK", "examples", "few", "in_check", "smallest", "thinned", "tries"]

T = TypeVar("T")

QUICK: list[bool] = []
"""Holds True where pytest was told to leave `long` tests out, as `make check` does."""


def examples(number: int) -> settings:
    """So many examples, the same ones every time; a sixth of them, and 10 at least, in `make check`."""
    tried = max(number // 6, 10) if QUICK else number
    return settings(deadline=None, derandomize=True, max_examples=tried, suppress_health_check=list(HealthCheck))


def smallest(error: float) -> float:
    """The error of a law that draws have to show; twice as large, for a quarter of the draws, in `make check`."""
    return 2 * error if QUICK else error


def tries(number: int) -> int:
    """How often something is drawn or made at random to look at each; a quarter in `make check`."""
    return max(number // 4, 1) if QUICK else number


def thinned(values: Sequence[T]) -> Sequence[T]:
    """What a test goes through by itself, one after the other; every third in `make check`."""
    return values[::3] if QUICK else values


def few(values: Iterable[Any], quick: Iterable[int] = (0,)) -> list[Any]:
    """The values of a parameter, with the mark `long` on all but those at some places."""
    chosen, found = set(quick), []
    for place, value in enumerate(values):
        given = value if type(value) is tuple else (value,)
        found.append(pytest.param(*given, marks=[] if place in chosen else [pytest.mark.long]))
    return found


def in_check(*names: str) -> pytest.MarkDecorator:
    """Of a test with parameters those in whose brackets a name stands; a star is any text. The others are `long`."""
    return pytest.mark.in_check(*names)
