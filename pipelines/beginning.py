"""What of a report begins before Beam is there: the reading of its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from private_topk.pipelines.fields import Asked
from private_topk.pipelines.files import as_path, is_local, match_any
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.early import early
from private_topk.pipelines.sources.formats import packed_size
from private_topk.transforms.refusal import Refusal

__all__ = ["begun", "columns_of"]

_COLUMNS = {"user_column": "user", "item_column": "item", "time_column": "time", "time_unit": "time_unit",
            "value_column": "value", "group_column": "group", "csv_quoted_newlines": "quoted_line_ends"}  # fmt: skip

_MUCH = 8 << 20
"""Bytes, where rows are compressed, whose decoding is worth a process that does nothing else."""


def columns_of(asked: Asked) -> Columns:
    """The columns that were asked for, with that of the time. Raises Refusal."""
    names: dict[str, Any] = {field: asked[field] for field in _COLUMNS if field in asked}  # type: ignore[literal-required]
    if asked.get("user_column", "user") == asked.get("item_column", "item"):
        raise Refusal("user_column", "must be another column than {item_column}", "the one says who a row is of, the "
                      "other what is ranked")  # fmt: skip
    return Columns(**{_COLUMNS[field]: name for field, name in ({"time_column": "time"} | names).items()})


@contextmanager
def begun(asked: Asked) -> Iterator[None]:
    """Decode the files of a report from now on, for the reader of its pipeline in this process.

    Only what is there already and needs nobody's leave: local files, and no other file that says whether they are
    whole. What is wrong with them is left to the report's own checks to say.
    """
    try:
        place, columns = as_path(asked["input"], "input"), columns_of(asked)
    except (KeyError, Refusal):
        yield
        return
    if not is_local(place) or "complete_when" in asked:
        yield
        return
    try:
        files = match_any(place)
        much = sum(map(packed_size, files)) >= _MUCH
    except Exception:  # what cannot be listed, or has no known ending
        yield
        return
    timed = "period_from" in asked or "period_to" in asked
    with early(lambda: files, columns if timed else replace(columns, time=None), apart=much):
        yield
