"""The columns of a file by their names: whether the wanted ones are there, what a refusal shows of those that are, and
which ones its folders hold, as warehouses write them: dt=2026-01-05/country=DE/part-0.parquet.

A key of a path is the same in all rows of its file, and so is a constant of an input. It counts for the columns that
are wanted, whatever the file's own columns: a file without a schema could not tell whether it has one of that name.
Users are never read from a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from private_topk.pipelines.sources.columns import ROLES, Columns, Rows
from private_topk.transforms.composite import as_a_list
from private_topk.transforms.errors import InvalidArgument, did_you_mean, refused, verbatim
from private_topk.transforms.stated import some

_MAX = 50
"""The most names that are listed: a table may have thousands."""


def check_names(
    where: str, columns: Columns, known: Iterable[object], *, private: bool = False, hint: str = ""
) -> None:
    """Raise InvalidArgument unless every wanted column is there, once: with the columns that are, and the arguments to
    name them by.

    Args:
        where: the file, the table or the schema.
        known: the names of all columns, but for keys of a path, which are looked up.
        private: they may be the values of a row, so that only their number is told, and which of the wanted ones are
            there.
        hint: what else helps.
    """
    known = list(known)
    missing: dict[str, str] = {}
    for role, name in columns.each():
        if name not in known:
            missing.setdefault(name, role)
        elif (count := known.count(name)) > 1:
            rule = f"must name one column of {where}, got {name!r}: it has {count} columns of that name"
            raise InvalidArgument(f"{role}_column", verbatim(rule), "give each a name of its own")
    if held := [name for name, _ in columns.constants if name in known]:
        rule = f"must not have {held[0]!r}, which is a column of {where}"
        raise InvalidArgument("constants", verbatim(rule), "leave it out, or read another column in its place")
    if not missing:
        return
    named = {name: f"{role}_column" for name, role in missing.items()}
    name, role = next(iter(missing.items()))
    if role == "user" and name in all_keys(where):
        raise InvalidArgument(
            named[name],
            verbatim(f"{name!r} is a key of the path {where}, and users are read from rows alone"),
            "write them into a column",
        )
    if private:
        there = [name for name in columns.names() if name not in missing]
        among = f", {', '.join(there)} among them" if there else ""
        rule = (
            f"{name!r} is no column of {where}, whose first line has {len(known)} values{among} (only a "
            "terminal shows it)"
        )
        remedy = f"give {_and(named.values())} as the line has it"
    else:
        keys = set(all_keys(where)) if {*missing.values()} != {"user"} and not columns.public else set()
        told = sorted({*map(str, known)} | keys)
        rule = f"{name!r} is no column of {where}: it has {some([*map(_listed, told)], _MAX) or 'none'}"
        remedy = as_a_list([name] if role in ("item", "group") else []) or _with_names(named, told) if told else ""
    raise InvalidArgument(named[name], verbatim(rule), "; ".join(filter(None, (remedy, hint))))


def _with_names(named: dict[str, str], told: list[str]) -> str:
    near = [did_you_mean(name, told) for name in named]
    return verbatim(near[0]) if len(near) == 1 and near[0] else f"give {_and(named.values())} from these names"


def _listed(name: str) -> str:
    return f'"{name}"' if "," in name else name


def _and(fields: Iterable[str]) -> str:
    *first, last = dict.fromkeys(f"{{{field}}}" for field in fields)
    return f"{', '.join(first)} and {last}" if first else last


Keys = dict[str, str | None]
"""The values of keys by their names; None where they stand for null."""

_NULLS = ("", "__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__")
"""How Hive, Spark and Flink write a key that is null."""


def keys_of(path: str, columns: Columns) -> Keys:
    """The wanted columns that are keys of the path, or constants.

    Raises InvalidArgument for one that is there twice or is no text.
    """
    if columns.public:  # a list, which is one file
        return {}
    wanted = {*columns.names()} - {columns.user}
    found: Keys = {name: value for name, value in columns.constants if name in wanted}
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if not equals or (name := _decoded(name, path)) not in wanted:
            continue
        if name in found:
            what = "twice" if name not in dict(columns.constants) else "and that constant"
            raise refused(f"{path} has the key {name!r} {what}: a column has one value in a file")
        found[name] = None if value in _NULLS else _decoded(value, path)
    return found


def all_keys(path: str) -> list[str]:
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
    count = len(next(iter(rows.columns.values())))
    held = {name: pa.repeat(pa.scalar(value, pa.large_string()), count) for name, value in keys.items()}
    return rows._replace(columns=rows.columns | held)
