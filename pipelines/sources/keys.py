"""Columns that the folders of a file hold, as warehouses write them: dt=2026-01-05/country=DE/part-0.parquet.

A key is the same in all rows of its file. It counts for the columns that are wanted, whatever the file's own columns:
a file without a schema could not tell whether it has one of that name. Users are never read from a path.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from private_topk.pipelines.sources.columns import ROLES, Columns, Rows
from private_topk.transforms.errors import refused

Keys = dict[str, str | None]
"""The values of keys by their names; None where they stand for null."""

_NULLS = ("", "__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__")
"""How Hive, Spark and Flink write a key that is null."""


def keys_of(path: str, columns: Columns) -> Keys:
    """The wanted columns that are keys of the path.

    Raises InvalidArgument for one that is there twice or is no text.
    """
    if columns.public:  # a list, which is one file
        return {}
    wanted = {*columns.names()} - {columns.user}
    found: Keys = {}
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if not equals or (name := _decoded(name, path)) not in wanted:
            continue
        if name in found:
            raise refused(f"{path} has the key {name!r} twice: a column has one value in a file")
        found[name] = None if value in _NULLS else _decoded(value, path)
    return found


def all_keys(path: str) -> list[str]:
    """The names of all keys of a path."""
    return [_decoded(part.partition("=")[0], path) for part in path.split("/")[:-1] if "=" in part]


def _decoded(text: str, path: str) -> str:
    try:
        return unquote(text, errors="strict").encode().decode()
    except UnicodeError:
        raise refused(f"{path} has a key that is not UTF-8: rename its folder") from None


def besides(columns: Columns, keys: Keys) -> Columns:
    """The columns that are read from the file itself."""
    if not keys:
        return columns
    left = {role: tuple(name for name in columns.of(role) if name not in keys) for role in ROLES}
    one: dict[str, Any] = {role: names[0] if names else None for role, names in left.items()}
    item = left["item"] or columns.user  # which is read anyway
    return replace(columns, **one | {"item": item, "group": left["group"] or None})


def with_keys(rows: Rows, keys: Keys) -> Rows:
    """The rows of a file with the columns of its path."""
    count = len(next(iter(rows.columns.values())))
    held = {name: pa.repeat(pa.scalar(value, pa.large_string()), count) for name, value in keys.items()}
    return Rows(rows.columns | held, rows.unreadable)
