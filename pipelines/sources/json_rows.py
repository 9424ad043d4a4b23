"""JSON objects to rows, each text by itself: the lines of a file and the messages of a stream mean the same.

`row_of` is the rule. Polars reads many lines at once, several times faster; what it reads counts only where it is
proved to be what the rule says, and every other line is read by the rule.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.sources.columns import Columns, Rows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DEEPEST", "decode", "row_of"]

DEEPEST = 100
"""How deep an object may be nested; deeper ones are left out, so that no decoder's stack decides."""

_LEAST = 1024
_SPACE = r"[ \t\r]*"
_LABEL = rf'(?:"|null|-?[0-9]+{_SPACE}[,}}])'
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
"""One that is not closed runs to the end of its text: otherwise each quote in it would be tried for a beginning."""

_BRACKET = re.compile(r"[{}\[\]]")


class _Whole(str):
    """The digits of an integer: Python's own integers have a limit of digits."""


class _Real(str):
    """The text of a number with a point or an exponent."""


class _Pairs(list):
    """The keys and values of an object, doubled keys and all."""


def row_of(text: bytes, columns: Columns) -> list[str | None] | None:
    """The columns' values in one JSON object, as text, None for null or missing; None if the row is unreadable.

    Unreadable is what is no object of RFC 8259 in UTF-8, is nested deeper than 100, or has a wanted key twice; a user
    or an item that is neither a string of Unicode nor an integer; a time that is neither a string nor a number. What
    other keys hold does not matter.
    """
    try:
        content = text.decode()
        if not _is_shallow(content):
            return None
        pairs = json.loads(
            content, object_pairs_hook=_Pairs, parse_int=_whole, parse_float=_Real, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(pairs, _Pairs):
        return None
    values: list[str | None] = []
    for name in columns.names():
        found = [value for key, value in pairs if key == name]
        value = found[0] if found else None
        if len(found) > 1 or not _may_be(value, _is_label(name, columns)):
            return None
        values.append(None if value is None else str(value))
    return values


def decode(texts: pa.Array, columns: Columns, alone: np.ndarray | None = None) -> Rows:
    """The rows of some texts, in order.

    Args:
        texts: large binary, each ending with its only line feed; the last may lack it.
        alone: which of them are to be read by the rule alone, since they hold line feeds of their own.
    """
    odd = ~pc.starts_with(texts, b"{").to_numpy(zero_copy_only=False) | _deep(texts)
    if alone is not None:
        odd |= alone
    plain = pc.if_else(pa.array(odd), pa.scalar(b"{}\n", texts.type), texts) if odd.any() else texts
    found = _at_once(plain, columns)
    if found is None and len(texts) > _LEAST:  # one bad line makes no more than a thousand slow
        cuts = range(0, len(texts), _LEAST)
        return _joined([decode(texts.slice(at, _LEAST), columns, odd[at : at + _LEAST]) for at in cuts], columns)
    if found is None:
        arrays = {name: pa.nulls(len(texts), pa.large_string()) for name in columns.names()}
        odd = np.ones(len(texts), bool)
    else:
        arrays, doubtful = found
        odd |= doubtful
    return _with_odd_rows(texts, columns, arrays, odd) if odd.any() else Rows(arrays)


def _with_odd_rows(texts: pa.Array, columns: Columns, arrays: dict[str, pa.Array], odd: np.ndarray) -> Rows:
    mask = pa.array(odd)
    rows = [row_of(text, columns) for text in texts.filter(mask).to_pylist()]
    unreadable = np.zeros(len(texts), bool)
    unreadable[odd] = [row is None for row in rows]
    for place, name in enumerate(columns.names()):
        values = pa.array([None if row is None else row[place] for row in rows], pa.large_string())
        arrays[name] = pc.replace_with_mask(arrays[name], mask, values)
    return Rows(arrays, pa.array(unreadable))


def _joined(parts: list[Rows], columns: Columns) -> Rows:
    masks = [
        pa.array(np.zeros(len(part.columns[columns.user]), bool)) if part.unreadable is None else part.unreadable
        for part in parts
    ]
    arrays = {name: pa.concat_arrays([part.columns[name] for part in parts]) for name in columns.names()}
    return Rows(arrays, pa.concat_arrays(masks))


def _at_once(texts: pa.Array, columns: Columns) -> tuple[dict[str, pa.Array], np.ndarray] | None:
    """The columns as polars reads them, and which rows it may have read otherwise than the rule; None if it gives up.

    All texts start with a brace and none holds another line feed. So none can be the inside of an object that begins
    in an earlier one: behind it there would have to be a comma or a bracket, not a line feed and a brace.
    """
    import polars as pl  # loads as long as the rest of this package

    text = _letters(texts, _offsets(texts)).tobytes()
    schema = dict.fromkeys(columns.names(), pl.String)
    try:
        lines = pl.Series("line", texts.cast(pa.large_string()))
        frame = pl.read_ndjson(text, schema=schema) if text else pl.DataFrame(schema=schema)
    except (pa.ArrowInvalid, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    if len(frame) != len(texts) or any(_has_quotes(name) for name in columns.names()):
        return None
    escaped = _escaped(text, lines, columns)
    doubtful = escaped
    for name in columns.names():
        literal = not escaped.any() and not frame[name].null_count()
        doubtful |= _doubled_or_mistyped(text, lines, name, literal, _is_label(name, columns))
    arrays = {name: frame[name].to_arrow(compat_level=pl.CompatLevel.oldest()) for name in columns.names()}
    return arrays, doubtful


def _doubled_or_mistyped(text: bytes, lines: pl.Series, name: str, literal: bool, is_label: bool) -> np.ndarray:
    """Where a key stands twice, perhaps in an inner object, or a label is neither a string nor an integer.

    Polars takes the first of doubled keys, and gives 5.0 and true as the texts "5" and "true". A key without escapes
    stands literally behind a brace or a comma; no string can hold that, since it would end at the quote.

    Args:
        literal: whether every line has the key without escapes, so that counting all of them shows each to be alone.
    """
    key, count = f'"{name}"'.encode(), len(lines)
    once = literal and text.count(key) == count
    behind = text.find(key) + len(key)
    forms = [form for form in (b': "', b':"') if text.startswith(form, behind)]  # a writer has one form for all
    if once and (not is_label or any(text.count(key + form) == count for form in forms)):
        return np.zeros(count, bool)
    pattern = f'[{{,]{_SPACE}"{_literally(name)}"{_SPACE}:{_SPACE}'
    if once:
        return ~lines.str.contains(pattern + _LABEL).to_numpy()
    keys = lines.str.count_matches(pattern).to_numpy()
    return (keys > 1) | (keys != lines.str.count_matches(pattern + _LABEL).to_numpy()) if is_label else keys > 1


def _escaped(text: bytes, lines: pl.Series, columns: Columns) -> np.ndarray:
    """Where a key may be written with escapes, or a string holds half a surrogate pair, for which polars gives NUL."""
    if b"\\" not in text:  # one letter is found much faster than two
        return np.zeros(len(lines), bool)
    if not all(name.isascii() for name in columns.names()):
        return lines.str.contains(r"\\u").to_numpy()
    doubtful = lines.str.contains(r"\\u(?:00[2-7]|[dD][89a-fA-F])").to_numpy()
    if not doubtful.any():
        return doubtful
    halves = lines.str.count_matches(r"\\u[dD][89a-fA-F]").to_numpy()
    whole = lines.str.count_matches(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]").to_numpy()
    return doubtful & ~((halves == 2 * whole) & ~lines.str.contains(r"\\u00[2-7]|\\\\").to_numpy())


def _deep(texts: pa.Array) -> np.ndarray:
    """Where there are enough brackets for too deep an object: each has to be closed, so a short line cannot be one.

    Polars is not to see them: its version 2.0 runs out of stack, which ends the process.
    """
    offsets, deep = _offsets(texts), np.zeros(len(texts), bool)
    sizes = np.diff(offsets)
    if sizes.max(initial=0) > 2 * DEEPEST:
        letters = _letters(texts, offsets)
        opened = (letters == ord("{")) | (letters == ord("["))
        starts = (offsets[:-1] - offsets[0])[sizes > 0]
        deep[sizes > 0] = np.add.reduceat(opened, starts, dtype=np.int64) > DEEPEST
    return deep


def _offsets(texts: pa.Array) -> np.ndarray:
    return np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]


def _letters(texts: pa.Array, offsets: np.ndarray) -> np.ndarray:
    data = texts.buffers()[2]
    return np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def _is_shallow(content: str) -> bool:
    if content.count("{") + content.count("[") <= DEEPEST:
        return True
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", content)):
        depth += 1 if bracket in "{[" else -1
        if depth > DEEPEST:
            return False
    return True


def _may_be(value: Any, is_label: bool) -> bool:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, str) and not isinstance(value, _Real):
        return value.isascii() or not re.search("[\ud800-\udfff]", value)
    return value is None or (isinstance(value, _Real) and not is_label)


def _is_label(name: str, columns: Columns) -> bool:
    return name in (columns.user, columns.item, columns.group)


def _has_quotes(name: str) -> bool:
    """Whether the key is written with escapes: polars cannot be held to the rule then."""
    return json.dumps(name, ensure_ascii=False) != f'"{name}"'


def _literally(name: str) -> str:
    return "".join(f"\\x{{{ord(letter):x}}}" for letter in name)


def _whole(digits: str) -> _Whole:
    return _Whole("0" if digits == "-0" else digits)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")
