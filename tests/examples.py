"""Settings of Hypothesis for tests that are the same ones every time."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def examples(number: int) -> settings:
    """So many examples, the same ones every time."""
    return settings(deadline=None, derandomize=True, max_examples=number, suppress_health_check=list(HealthCheck))
