"""JSON lines, plain or zipped: one object a line. Messages of a stream mean the same as lines (`rows_of`).

msgspec reads one text at a time, so no row depends on another.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from private_topk.pipelines.files import FileInfo, open_content, unpacked_name
from private_topk.pipelines.sources.columns import Columns, Rows, Types
from private_topk.pipelines.sources.text import chunks, encoding_of, refuse_packed, unreadable, whole_file
from private_topk.transforms.errors import InvalidArgument, refused, verbatim

_ROWS = 100_000
_LOOK = 1 << 16
_LEVELS = 100
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = bytes({"[": 1, "{": 1, "]": 255, "}": 255}.get(chr(sign), 0) for sign in range(256))
"""One level down and one up, as bytes of numbers with a sign."""
_NOT_WHOLE = "are not one whole object of JSON in UTF-8 a line"
_OTHER_TYPE = (
    "are no object, or have a user or an item that is neither a text nor a whole number, or a time that is neither a "
    "text nor a number (docs/formats.md)"
)
_STATED = "have a column that `constants` states for all rows of the input: leave it out there, or in the rows"

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> Types:
    """Raise InvalidArgument unless the file can be opened and unzipped, for one in UTF-16 or UTF-32 or that is packed
    otherwise, and for a .json file that is one array, or an object of several lines. No row refuses a file: a line that
    begins so is none.
    """
    decoder_of(columns)
    with open_content(file.path) as source:
        first = source.read(_LOOK)
    refuse_packed(file.path, first)
    if seen := encoding_of(first):
        rule = f"{verbatim(file.path)} is in {seen.upper()}, and JSON lines are in UTF-8"
        raise InvalidArgument("", rule, "write it in UTF-8, as iconv does")
    first = first.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")
    if unpacked_name(file.path).endswith(".json"):  # which does not say that its lines are objects
        how = "'.[]'" if first[:1] == b"[" else "." if first.partition(b"\n")[0].strip() == b"{" else ""
        if how:
            whole = "one array" if first[:1] == b"[" else "an object of several lines"
            raise InvalidArgument(
                "", f"{verbatim(file.path)} is {whole}, and must have one object a line", f"write it anew: jq -c {how}"
            )
    return {}  # values have types of their own


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


def rows_of(texts: Iterable[bytes], columns: Columns) -> Rows:
    """The rows of some texts, in order, each read by itself: a text that is not one object of JSON with values that can
    be read is an unreadable row. Of a key that is there twice the last value counts.

    A user, an item or a group is a string or an integer; a time or a value may be any number. A row that has a column
    of `constants` too is unreadable.
    """
    decode = decoder_of(columns)
    rows: list[Any] = []
    causes: Counter[str] = Counter()
    for text in texts:
        try:
            row = decode(text)
            if len(text) > 2 * _LEVELS and _is_too_deep(text):
                raise RecursionError
            rows.append(row)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            rows.append(None)
            cause = _OTHER_TYPE if isinstance(error, msgspec.ValidationError) else _NOT_WHOLE
            causes[_STATED if f"{error}".startswith("Expected `null`,") else cause] += 1
    unreadable = np.array([row is None for row in rows], bool)
    nothing = decode(b"{}")
    rows = [nothing if row is None else row for row in rows] if unreadable.any() else rows
    arrays = {name: _as_texts([*map(attrgetter(field), rows)]) for field, name in _fields(columns).items()}
    return Rows(arrays, pa.array(unreadable) if unreadable.any() else None, lambda: causes)


def _is_too_deep(text: bytes) -> bool:
    """Whether a value of an object of JSON has more than 100 levels. The parser's own limit is the rest of Python's
    stack, of which every runner leaves another one.
    """
    if text.count(b"[") + text.count(b"{") <= _LEVELS + 1:
        return False
    steps = np.frombuffer(_TEXT.sub(b"", text).translate(_STEPS), np.int8)
    return int(steps.cumsum(dtype=np.int32).max()) > _LEVELS + 1


def _as_texts(values: list[str | int | float | None]) -> pa.Array:
    try:
        return pa.array(values, pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # there are numbers
        return pa.array([v if v is None or type(v) is str else str(v) for v in values], pa.large_string())


def _fields(columns: Columns) -> dict[str, str]:
    return {f"c{place}": name for place, name in enumerate(columns.names())}


@lru_cache(maxsize=16)
def decoder_of(columns: Columns) -> Callable[[bytes], Any]:
    """Decodes a text to an object with the fields c0, c1, ..., and s0, s1, ... of constants, which must be null. Raises
    InvalidArgument for a name that it cannot look for.
    """
    label, other, fields = str | int | None, str | int | float | None, _fields(columns)
    kinds: list[Any] = [(field, label if name in columns.labels() else other, None) for field, name in fields.items()]
    stated = {f"s{place}": name for place, (name, _) in enumerate(columns.constants)}
    kinds += [(field, None, None) for field in stated]
    fields |= stated
    try:
        return msgspec.json.Decoder(msgspec.defstruct("Row", kinds, rename=fields, gc=False)).decode
    except ValueError:
        name = next(name for name in fields.values() if {*name} & {'"', "\\"} or min(name) < " ")
        rule = f"column {name!r} cannot be read from JSON: its name has a quote, a backslash or a control character"
        raise refused(rule) from None
