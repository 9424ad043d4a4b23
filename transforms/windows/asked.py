"""The declared period and its windows, from what a door was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from private_topk.transforms.refusal import Refusal
from private_topk.transforms.windows.period import Period

__all__ = ["period_of"]


def period_of(asked: Mapping[str, Any]) -> Period | None:
    """The declared period, or None where all rows are ranked together.

    Args:
        asked: the fields period_from, period_to, window, every, time_zone and slack, read; those that were given.

    Raises:
        Refusal: half of a period was given, or it breaks a rule.
    """
    start, end, zone = asked.get("period_from"), asked.get("period_to"), asked.get("time_zone", "UTC")
    if start is None and end is None:
        if "window" in asked:
            raise Refusal("window", "needs {period_from} and {period_to}", "windows that are inferred from the data "
                          "would tell of a user who is alone in one, so the period must be public")  # fmt: skip
        return None
    if start is None or end is None:
        raise Refusal("period_from", "and {period_to} go together", "give both, so that the period is public")
    slack = asked.get("slack", timedelta(0))
    return Period.of(start, end, asked.get("window"), every=asked.get("every"), time_zone=zone, slack=slack)
