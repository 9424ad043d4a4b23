"""Settings of Hypothesis for tests that are the same ones every time."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

PART = 1
"""Of so many examples one is tried: by day fewer than at night (`conftest.pytest_configure`)."""


def examples(number: int) -> settings:
    """So many examples at night and a third of them by day, the same ones every time."""
    checks = list(HealthCheck)
    return settings(deadline=None, derandomize=True, max_examples=number // PART, suppress_health_check=checks)
