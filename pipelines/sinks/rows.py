"""The rows of a published ranking: one schema for every output format, by what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa

from private_topk.transforms.release import Ranking

__all__ = ["FIELDS", "Shape", "fields_of", "ranking_rows", "schema"]

_TIME = pa.timestamp("us", "UTC")

FIELDS: dict[str, tuple[pa.DataType, str]] = {
    "window_start": (_TIME, "start of the window of event time, included; null where the rows are not cut by time"),
    "window_end": (_TIME, "end of the window, excluded; null where the rows are not cut by time"),
    "rank": (pa.int64(), "1 for the best; null where the mechanism answers with a set, which has no order"),
    "item": (pa.string(), "the item"),
    "noisy_count": (
        pa.int64(),
        "users who hold the item, or the sum of amounts, with noise, where a budget was set aside for it; else null",
    ),
    "noise_stddev": (pa.float64(), "standard deviation of that noise; null without a noisy count"),
    "noise_95": (pa.int64(), "at least 95% of the time noise and rounding put the count off by no more; else null"),
    "k": (pa.int64(), "how many items were asked for"),
    "returned": (pa.int64(), "how many were returned; fewer than k only in the unknown domain, by its guarantee"),
    "release_id": (pa.string(), "the release this row belongs to"),
}


class Shape(NamedTuple):
    """What was asked that shows in the columns.

    Args:
        fractional: noisy counts are sums of amounts with a fraction.
        grouped: every group has a ranking.
        weighed: sums of weights are published, and no counts.
    """

    fractional: bool = False
    grouped: bool = False
    weighed: bool = False

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Shape:
        """From what a manifest says."""
        amounts = facts.get("amounts")
        fractional = amounts is not None and Fraction(str(amounts["value_resolution"])).denominator > 1
        return cls(fractional, facts.get("groups") is not None, "noise_stddev" in facts.get("weights", ()))


def fields_of(shape: Shape) -> dict[str, tuple[pa.DataType, str]]:
    """The columns with their types and what they mean."""
    found = {}
    for name, its in FIELDS.items():
        if name == "rank" and shape.grouped:
            found["group"] = pa.string(), "of which group of the rows the ranking is"
        found[name] = its
        if name == "item" and shape.weighed:
            found["noisy_weight"] = (
                pa.float64(),
                "sum of the weights of the users who hold the item, with the noise that decided its rank; no count",
            )
    if shape.fractional:
        found |= {name: (pa.float64(), found[name][1]) for name in ("noisy_count", "noise_95")}
    return found


_PLAIN = Shape()


def schema(shape: Shape = _PLAIN) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, (kind, _) in fields_of(shape).items()])


def ranking_rows(rankings: Iterable[Ranking], release_id: str, grouped: bool = True) -> list[dict[str, Any]]:
    """One row per released item: windows in order, then ranks, or the domain's order for a set.

    Args:
        grouped: name the group, where there is one, in a column.
    """
    rows = []
    for ranking in sorted(rankings, key=_by_window):
        for place, item in enumerate(ranking.items, 1):
            rows.append({
                "window_start": ranking.window.start,
                "window_end": ranking.window.end,
                **({"group": ranking.group} if grouped and ranking.group is not None else {}),
                "rank": place if ranking.answer == "sequence" else None,
                "item": item,
                **({} if ranking.noisy_weights is None else {"noisy_weight": ranking.noisy_weights[place - 1]}),
                "noisy_count": ranking.noisy_counts[place - 1] if ranking.noisy_counts else None,
                "noise_stddev": ranking.noise and ranking.noise.stddev,
                "noise_95": ranking.noise and ranking.noise.within_95,
                "k": ranking.k,
                "returned": len(ranking.items),
                "release_id": release_id,
            })  # fmt: skip
    return rows


def _by_window(ranking: Ranking) -> tuple[bool, datetime | None, str]:
    return ranking.window.start is not None, ranking.window.start, ranking.group or ""
