"""CSV text to rows where every line is a row: what one line holds is never any other's business.

The rule is one regular expression: a line is as many values as the header has, between commas. A value is bare, without
a quote at its start, or in quotes, with every quote inside doubled. Arrow parses the lines that fit, many at once.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.pipelines.sources.text import lines_of

__all__ = ["Header", "header_of", "null_if_empty", "rows_of", "width_is"]

_VALUE = r'(?:"(?:[^"\x00]|"")*"|[^",\r\n\x00][^,\r\n\x00]*)?'
_LINE = f"^{_VALUE}(?:,{_VALUE})*\r?\n?$"
_QUOTED = r'(^|,)"(?:[^"]|"")*"'
_MOST_REPEATED = 1000
"""RE2 counts no repetition further; up to there it takes a fraction of the time of counting commas."""

_BLANK = (b"\n", b"\r\n", b"\r")
_EACH = re.compile(r'(?:^|,)(?:"((?:[^"]|"")*)"|([^,\r\n]*))')


class Header(NamedTuple):
    """Where the wanted columns are, by name, and how many there are in all."""

    places: dict[str, int]
    width: int


def header_of(line: bytes, columns: Columns) -> tuple[list[str], Header] | None:
    """The names in a header line, and the place of the first with each wanted name; None if it is no line of CSV."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None
    text = text.removesuffix("\r\n").removesuffix("\n")
    if not text.strip() or not re.fullmatch(f"{_VALUE}(?:,{_VALUE})*", text):
        return None
    names = [quoted.replace('""', '"') or bare for quoted, bare in _EACH.findall(text)]
    return names, Header({name: names.index(name) for name in columns.names() if name in names}, len(names))


def width_is(lines: pa.Array, width: int) -> pa.Array:
    """Which of the lines (binary) are rows of so many values."""
    if width <= _MOST_REPEATED:
        return pc.match_substring_regex(lines, f"^(?:{_VALUE},){{{width - 1}}}{_VALUE}\r?\n?$")
    commas = pc.count_substring(pc.replace_substring_regex(lines, _QUOTED, r"\1"), ",")
    return pc.and_(pc.match_substring_regex(lines, _LINE), pc.equal(commas, width - 1))


def rows_of(text: bytes, header: Header) -> Rows:
    """The rows of whole lines as bytes, null where empty. Blank lines are none; what is no row stands as unreadable."""
    table, unreadable = None, 0
    count = _lines_if_tidy(text)
    if count is not None:
        table = _parsed(text, header)
    if table is None or len(table) != count:
        lines = lines_of(text)
        fits = width_is(lines, header.width)
        if not pc.all(fits).as_py():
            others = lines.filter(pc.invert(fits)).to_pylist()
            unreadable = sum(line not in _BLANK for line in others)
            text = b"".join(lines.filter(fits).to_pylist())
        table = _parsed(text, header)
    assert table is not None, "every line has been looked at"
    columns = {name: _with_nulls(table[f"{place}"], unreadable) for name, place in header.places.items()}
    if not unreadable:
        return Rows(columns)
    return Rows(columns, pa.array(np.arange(len(table) + unreadable) >= len(table)))


def _lines_if_tidy(text: bytes) -> int | None:
    """How many lines are not blank, where every quote opens or closes a value and there is no odd letter; else None.

    A quoted value may still hold a line feed. Then Arrow finds fewer rows than there are lines: the first line end in a
    value has a letter of the value or its quote before it, so it is not taken for a blank line.
    """
    if b"\0" in text:
        return None
    letters = np.frombuffer(text, np.uint8)
    feeds = letters == ord("\n")
    blank = feeds[1:] & feeds[:-1]
    if b"\r" in text:
        returns = letters == ord("\r")
        if np.any(returns[:-1] > feeds[1:]) or returns[-1]:
            return None
        blank[1:] |= feeds[2:] & returns[1:-1] & feeds[:-2]
    if b'"' in text and not _quotes_are_tidy(letters):
        return None
    first = text[:1] == b"\n" or text[:2] == b"\r\n"
    return int(np.count_nonzero(feeds) - np.count_nonzero(blank) - first + (not text.endswith(b"\n")))


def _quotes_are_tidy(letters: np.ndarray) -> bool:
    """Whether every quote opens or closes a value, with none inside."""
    quotes = np.flatnonzero(letters == ord('"'))
    opening, closing = quotes[::2], quotes[1::2]
    if len(opening) != len(closing):
        return False
    last = int(closing[-1] + 1 == len(letters))
    before, behind = letters[opening[int(opening[0] == 0) :] - 1], letters[closing[: len(closing) - last] + 1]
    return bool(
        np.all((before == ord(",")) | (before == ord("\n")))
        and np.all((behind == ord(",")) | (behind == ord("\n")) | (behind == ord("\r")))
    )


def _parsed(text: bytes, header: Header) -> pa.Table | None:
    """The lines as Arrow reads them; None if any has another number of values.

    Its handler of such rows is of no use here: it cannot be called for one that is no UTF-8.
    """
    names = [f"{place}" for place in sorted(set(header.places.values()))]
    if text[:1] in (b"", b"\r", b"\n") and not text.strip(b"\r\n"):  # what Arrow takes for an empty file
        return pa.table({name: pa.nulls(0, pa.large_binary()) for name in names})
    columns = [f"{place}" for place in range(header.width)]
    try:
        return pa_csv.read_csv(
            # Arrow takes the first three bytes for a byte order mark, if they look like one. Those of a row never come
            # first: a blank line, which is no row, stands before them.
            pa.BufferReader(b"\n" + text),
            pa_csv.ReadOptions(column_names=columns, block_size=len(text) + 2, use_threads=False),
            # Quoted carriage returns are values; quoted line feeds do not occur, since every line has been looked at.
            pa_csv.ParseOptions(newlines_in_values=True),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.large_binary()), include_columns=names),
        )
    except pa.ArrowInvalid:
        return None


def null_if_empty(values: pa.Array) -> pa.Array:
    """Empty values are missing."""
    empty = pc.equal(pc.binary_length(values), 0)
    return pc.if_else(empty, pa.scalar(None, values.type), values) if pc.any(empty).as_py() else values


def _with_nulls(values: pa.ChunkedArray, more: int) -> pa.Array:
    array = null_if_empty(values.combine_chunks())
    return pa.concat_arrays([array, pa.nulls(more, array.type)]) if more else array
