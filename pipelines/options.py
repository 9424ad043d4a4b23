"""The options of a report, by the one name that each has: read and typed, whichever way they were given.

Each door spells the names in its own way (`publish_counts` is --publish-counts, or budget.publish_counts in a report
file); behind a door nobody does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, TypedDict

from private_topk.transforms.errors import Refusal

__all__ = ["RENAMED", "Options", "names_a_file", "require"]

RENAMED = {"complete_when": "success_file", "show_left_out": "show_dropped_rows"}
"""Names that options had before, and have now."""


class Options(TypedDict, total=False):
    """The fields that were given; those that were not are absent, and the values they then have are their own rooms'.

    `parameters` are the mechanism's own, by the names of its fields. Moments without a time zone are in `time_zone`.
    """

    input: str
    success_file: str
    expect_rows_at_least: int
    user_column: str
    item_column: str
    time_column: str
    time_unit: str
    value_column: str
    max_value: Fraction | float
    value_resolution: Fraction | float
    group_column: str
    groups: str
    groups_per_user: int
    csv_quoted_newlines: bool
    payload: str
    payload_schema: str
    clock: str
    slack: timedelta
    poll: timedelta
    kafka_readers: int
    kafka_start: str
    kafka_option: tuple[tuple[str, str], ...]
    snapshot: str
    domain: str
    domain_column: str
    domain_group_column: str
    domain_range: str
    unknown_domain: bool
    mechanism: str
    k: int
    epsilon: Fraction | float
    delta: Fraction | float
    parameters: Mapping[str, Any]
    neighbours: str
    max_items_per_user: int
    max_windows_per_user: int
    against: str
    against_weight: Fraction | float
    against_from: datetime
    like: str
    publish_counts: Fraction | float
    publish_counts_delta: Fraction | float
    round_counts: int
    privacy_unit: str
    horizon: int
    ledger: str
    dataset: str
    window: timedelta | str
    every: timedelta
    time_zone: str
    period_from: datetime
    period_to: datetime
    release_key: str
    release_id: str
    output: str
    output_format: str
    partition_by: str
    overwrite: bool
    shards: int


def require(options: Mapping[str, Any], *names: str) -> None:
    """Raise Refusal unless every one of the fields was given."""
    missing = [f"{{{name}}}" for name in names if name not in options]
    if missing:
        raise Refusal("", f"{', '.join(missing)} must be given")


def names_a_file(like: object) -> bool:
    """Whether a value of `like` is the path of a ranking, and not "sample" or the numbers of a shape."""
    return like != "sample" and "=" not in str(like)
