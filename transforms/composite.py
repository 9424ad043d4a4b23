"""Composite labels: several columns as one item or one group, such as country and title.

Between reading and publishing a composite is one label like any other: a JSON array of its parts, in which only quotes
and backslashes are escaped. Two lists of parts never have the same text, whatever the parts hold, since each ends at
the first quote that is not escaped. The rule of labels (`labels.py`) is that of every part and of the whole text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from private_topk.transforms.errors import InvalidArgument, kind_shown, verbatim

if TYPE_CHECKING:
    import pyarrow as pa

_PUBLISHED = frozenset(
    """answer group item items k noise_95 noise_stddev noisy_count noisy_counts noisy_weight noisy_weights
    rank release_id returned window window_end window_start""".split()
)
"""The names that something has in published rows and messages, whatever is asked for."""


def names_of(field: str, role: str, given: object, what: str = "column") -> tuple[str, ...]:
    """The names of the columns that are a label together: one or several, checked.

    Args:
        field: of a refusal.
        role: "item" or "group", whose own name is free where several columns are published in its place; "" where
            none is published.
        what: a column is called in a refusal.

    Raises:
        InvalidArgument: a name is no text or given twice, or that of another published column.
    """
    names = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not names or not all(isinstance(name, str) and name for name in names):
        rule = f"must be the name of a {what}, got {kind_shown(given)}"
        raise InvalidArgument(field, rule, "give its name as a text")
    if len(set(names)) < len(names):
        raise InvalidArgument(field, f"must name every {what} once")
    taken = [name for name in names if role and len(names) > 1 and name.lower() in _PUBLISHED - {role}]
    if taken:
        raise InvalidArgument(
            field,
            f"has a {what} {verbatim(taken[0])}, and what is published has something else of that name",
            "rename it",
        )
    return names


def as_a_list(names: Sequence[str]) -> str:
    """The remedy where nothing has a name of these that may be several, written with commas; empty without one."""
    written = next((name for name in names if "," in name), "")
    return f"several are a list: {[part.strip() for part in written.split(',')]}" if written else ""


def published(role: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the columns in which items or groups are published: their role, or those of several columns."""
    return names if len(names) > 1 else (role,)


def composite(parts: Sequence[str]) -> str:
    """The one label of several parts, perhaps too long for a label."""
    return '["' + '","'.join(part.replace("\\", "\\\\").replace('"', '\\"') for part in parts) + '"]'


def composite_column(columns: Sequence[pa.Array]) -> pa.Array:
    """The labels of several columns of labels, row by row, perhaps too long; null where one is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = columns
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"')):
        parts = [pc.replace_substring(part, sign, escaped) for part in parts]
    text = pa.large_string()
    joined = pc.binary_join_element_wise(*parts, pa.scalar('","', text))
    return pc.binary_join_element_wise(pa.scalar('["', text), joined, pa.scalar('"]', text), pa.scalar("", text))


def parts_of(label: str) -> tuple[str, ...]:
    """The parts of a composite."""
    return tuple(json.loads(label, strict=False))


def are_composite(labels: pa.Array, parts: int) -> bool:
    """Whether all labels are composites of so many parts."""
    import pyarrow.compute as pc

    part = r'"(?:[^"\\]|\\["\\])+"'
    return bool(pc.all(pc.match_substring_regex(labels, rf"\A\[{part}(?:,{part}){{{parts - 1}}}\]\z")).as_py())


def alike(labels: pa.Array, part: str) -> str:
    """A label of as many columns as these have, which all hold the same."""
    try:
        number = len(json.loads(labels[0].as_py(), strict=False))
    except (ValueError, TypeError):  # a text, or a number
        return part
    return composite((part,) * number) if number > 1 and are_composite(labels, number) else part
