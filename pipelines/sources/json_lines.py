"""JSON lines, plain or zipped: one object a line. Messages of a stream mean the same as lines (`rows_of`).

`_by_rule` defines what a text means. msgspec, which is many times faster than Python's own parser, reads those texts
that the two cannot read differently. Both read one text at a time, so no row depends on another.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NoReturn

import msgspec
import numpy as np
import pyarrow as pa

from private_topk.pipelines.files import FileInfo, open_content, unpacked_name
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.pipelines.sources.text import chunks, unreadable, whole_file
from private_topk.transforms.errors import InvalidArgument, verbatim

_ROWS = 100_000
_LOOK = 1 << 16

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> bool:
    """Raise InvalidArgument unless the file can be opened and unzipped, and for a .json file that is one array, or an
    object of several lines. No row refuses a file: a line that begins so is none.
    """
    with open_content(file.path) as source:
        first = source.read(_LOOK).removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")
    if is_json(file.path):
        how = "'.[]'" if first[:1] == b"[" else "." if first.partition(b"\n")[0].strip() == b"{" else ""
        if how:
            whole = "one array" if first[:1] == b"[" else "an object of several lines"
            raise InvalidArgument(
                "", f"{verbatim(file.path)} is {whole}, and must have one object a line", f"write it anew: jq -c {how}"
            )
    return False  # values have types of their own


def is_json(path: str) -> bool:
    """Whether a file's ending, .json, does not say that its lines are objects."""
    return unpacked_name(path).endswith(".json")


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of the whole file, up to about 100,000 at a time."""
    with open_content(path) as source:
        for number, (text, too_long) in enumerate(chunks(source)):
            if too_long:
                yield unreadable(too_long, columns)
            elif not number:
                text = text.removeprefix(codecs.BOM_UTF8)
            lines = [line for line in text.split(b"\n") if line.strip(b" \t\r")]
            for at in range(0, len(lines), _ROWS):
                yield rows_of(lines[at : at + _ROWS], columns)


_DEEPEST = 100
"""The deepest nesting of an object that is read; deeper ones are dropped, so that no parser's stack decides."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
"""A string that is not closed runs to the end of its text: otherwise each quote in it would be tried as a start."""

_BRACKET = re.compile(r"[{}\[\]]")

Values = tuple[str | int | float | None, ...]


class _Real(str):
    """The text of a number with a point or an exponent."""


class _Whole(str):
    """The digits of an integer: Python's own integers have a limit of digits."""


class _Pairs(list):
    """The keys and values of an object, doubled keys and all."""


def rows_of(texts: Iterable[bytes], columns: Columns) -> Rows:
    """The rows of some texts, in order; one is unreadable if it is not one object of JSON with values that can be read.

    Unreadable is what is no object of RFC 8259 in UTF-8, is nested deeper than 100, or has a wanted key twice; a user,
    an item or a group that is neither a string of Unicode nor an integer; a time or an amount that is neither a string
    nor a number. What other keys hold does not matter.
    """
    reader, names = _reader(columns), columns.names()
    parsed = [reader.values(text) for text in texts]
    unreadable = np.array([values is None for values in parsed], bool)
    nothing: Values = (None,) * len(names)
    rows = [nothing if values is None else values for values in parsed]
    arrays = {name: _as_texts([row[place] for row in rows]) for place, name in enumerate(names)}
    return Rows(arrays, pa.array(unreadable) if unreadable.any() else None)


def _as_texts(values: Iterable[str | int | float | None]) -> pa.Array:
    return pa.array([v if v is None or type(v) is str else str(v) for v in values], pa.large_string())


@lru_cache(maxsize=16)
def _reader(columns: Columns) -> _Reader:
    return _Reader(columns)


class _Reader:
    """Reads the values of the wanted columns from texts, in the order of their names."""

    def __init__(self, columns: Columns) -> None:
        self._names, self._labels = columns.names(), columns.labels()
        self._keys = [f'"{name}"' for name in self._names]
        self._escape = r"\u00" if all(name.isascii() and "/" not in name for name in self._names) else "\\"
        self._decode = None
        if all(name.isprintable() and not set(name) & set('"\\') for name in self._names):
            label, other = str | int | None, str | int | float | None
            fields = {f"c{place}": name for place, name in enumerate(self._names)}
            kinds = [(field, label if name in self._labels else other, None) for field, name in fields.items()]
            self._decode = msgspec.json.Decoder(msgspec.defstruct("Row", kinds, rename=fields, gc=False)).decode

    def values(self, text: bytes) -> Values | None:
        """The values, None for null or missing; None in place of all of them if the text is unreadable."""
        try:
            content = text.decode()
        except UnicodeDecodeError:
            return None
        if self._decode is not None and not self._in_doubt(content):
            try:
                return msgspec.structs.astuple(self._decode(content))
            except (msgspec.DecodeError, RecursionError):  # perhaps because of a value that is not wanted
                pass
        return self._by_rule(content)

    def _in_doubt(self, content: str) -> bool:
        """Whether a wanted key may occur twice, perhaps with escapes, or brackets may be nested too deeply."""
        for key in self._keys:
            if content.count(key) > 1:
                return True
        return self._escape in content or content.count("{") + content.count("[") > _DEEPEST

    def _by_rule(self, content: str) -> Values | None:
        if not _is_shallow(content):
            return None
        try:
            pairs = json.loads(
                content, object_pairs_hook=_Pairs, parse_int=_whole, parse_float=_Real, parse_constant=_refuse
            )
        except ValueError:
            return None
        if not isinstance(pairs, _Pairs):
            return None
        values: list[str | None] = []
        for name in self._names:
            matches = [value for key, value in pairs if key == name]
            value = matches[0] if matches else None
            if len(matches) > 1 or not _may_be(value, name in self._labels):
                return None
            values.append(None if value is None else str(value))
        return tuple(values)


def _is_shallow(content: str) -> bool:
    if content.count("{") + content.count("[") <= _DEEPEST:
        return True
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", content)):
        depth += 1 if bracket in "{[" else -1
        if depth > _DEEPEST:
            return False
    return True


def _may_be(value: Any, is_label: bool) -> bool:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, str) and not isinstance(value, _Real):
        return value.isascii() or not re.search("[\ud800-\udfff]", value)
    return value is None or (isinstance(value, _Real) and not is_label)


def _whole(digits: str) -> _Whole:
    return _Whole("0" if digits == "-0" else digits)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")
