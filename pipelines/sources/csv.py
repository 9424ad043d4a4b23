"""CSV files with a header line, plain or zipped. Every value is read as text; an empty one is missing.

Every line is a row, read independently of all others. The rule is one regular expression: a line has as many values as
the header, with a delimiter between them. A value is bare, without a quote at its start, or in quotes, with every quote
inside doubled. Arrow parses the lines that match, many at once.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import IO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from private_topk.pipelines.files import FileInfo, open_content, packing_of, unpacked_name
from private_topk.pipelines.process import is_read_along
from private_topk.pipelines.sources.columns import Columns, Rows, Types, null_if_empty
from private_topk.pipelines.sources.names import check_names
from private_topk.pipelines.sources.text import (
    LONGEST,
    chunks,
    codec_of,
    encoding_of,
    in_utf8,
    lines_of,
    refuse_packed,
    unreadable,
    whole_file,
)
from private_topk.transforms.errors import InvalidArgument, refused, verbatim

_BYTES = 4 << 20
_LOOK = 16
_OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
"""Separators, as spreadsheets of other countries write them."""

_WIDTHS = {"utf-16": 2, "utf-32": 4}
"""How many bytes the number of bytes of a text is a multiple of, by the start of its encoding."""

_MAX_REPEATED = 1000
"""The most repetitions that RE2 supports of one expression."""
_MAX_COLUMNS = 20_000
"""For more its expressions become too large."""

_BLANK = (b"\n", b"\r\n", b"\r")

pieces = whole_file


def has_tabs(path: str) -> bool:
    """Whether the values of a file stand between tabs by its ending, .tsv."""
    return unpacked_name(path).endswith(".tsv")


def check(file: FileInfo, columns: Columns) -> Types:
    """Raise InvalidArgument unless the header line names the columns. No row makes a file refused, nor is an empty
    file: some writers write no header where there are no rows.
    """
    width = _WIDTHS.get(columns.encoding[:6], 1)
    if file.size % width and not packing_of(file.path):
        rule = f"{file.path} is damaged: in {columns.encoding.upper()} its bytes would be a multiple of {width}"
        raise refused(f"{rule}. Write or copy it again")
    try:
        with open_content(file.path) as source:
            _header(_in_utf8(source, file.path, columns), file.path, columns)
    except InvalidArgument:
        with open_content(file.path) as source:
            refuse_packed(file.path, source.read(_LOOK))
        raise
    return {}  # values have no types


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of the whole file, a few MiB of text at a time."""
    with open_content(path) as source:
        content = _in_utf8(source, path, columns)
        header = _header(content, path, columns)
        if header is None:
            return
        if columns.quoted_line_ends:
            yield from _across_lines(content, path, header, columns)
            return
        for text, too_long in chunks(content):
            if too_long:
                yield unreadable(too_long, columns)
            if text:
                yield rows_of(text, header)


def _in_utf8(source: IO[bytes], path: str, columns: Columns) -> IO[bytes]:
    codec, name = codec_of(source, columns.encoding), columns.encoding
    if codec is None:
        raise InvalidArgument(
            "csv_encoding",
            f"{name} needs the mark of its byte order at the start of a file, and {verbatim(path)} has none",
            f"give {name}-le or {name}-be",
        )
    return source if codec == "utf-8" else in_utf8(source, codec)


def _header(content: IO[bytes], path: str, columns: Columns) -> Header | None:
    """The header, in the first line that is not blank, which is read; None if there is none. Raises InvalidArgument if
    that line is no header.
    """
    line = content.readline(LONGEST).removeprefix(codecs.BOM_UTF8)
    while line and not line.strip(b"\r\n"):
        line = content.readline(LONGEST)
    if not line:
        return None
    parsed = header_of(line.lstrip(b"\r\n"), columns, "\t" if has_tabs(path) else columns.delimiter)
    seen = encoding_of(line) if columns.encoding == "utf-8" else None
    if parsed is None and seen:
        rule = f"{path} is a CSV file in {seen.upper()}, and is read as UTF-8"
        raise InvalidArgument(
            "", verbatim(rule), "write it in UTF-8" if columns.public else f"give {{csv_encoding}} {seen}"
        )
    return _checked(parsed, path, columns)


def _checked(parsed: tuple[list[str], Header] | None, path: str, columns: Columns) -> Header:
    if parsed is None:
        rule = (
            f"{path} is not a CSV file that can be read: it must start with a line of column names, in "
            f"{columns.encoding.upper()}, that ends with a line feed"
        )
        raise InvalidArgument("", verbatim(rule), "" if columns.public else "{csv_encoding} names another encoding")
    names, header = parsed
    if len(names) > _MAX_COLUMNS:
        raise refused(f"{path} has {len(names):,} columns, and {_MAX_COLUMNS:,} can be read: write it with fewer")
    other = next((sign for sign in _OTHERS if len(names) == 1 and sign in names[0] and sign != header.delimiter), None)
    name = next((name for name in columns.names() if name not in names), None)
    if other is not None and name is not None:
        rule = f"{path} has no column {name!r}: its first line is one name, with {_OTHERS[other]} in it"
        raise InvalidArgument("", verbatim(rule), _remedy(path, other, columns))
    # The first line may be a row, which is shown to the operator alone.
    hint = "" if columns.public else "if these are no names, let the file start with a line of names"
    check_names(path, columns, names, private=not (columns.public or is_read_along()), hint=hint)
    return header


def _remedy(path: str, other: str, columns: Columns) -> str:
    if has_tabs(path):
        return f"a .tsv file has tabs between its values, and this one {_OTHERS[other]}: name it .csv"
    if columns.public:  # a list, which no option is for
        return f"save it with commas in place of {_OTHERS[other]}: {{csv_delimiter}} is for the input only"
    shown = "\\t" if other == "\t" else other
    return f"give {{csv_delimiter}} '{shown}'"


def _across_lines(content: IO[bytes], path: str, header: Header, columns: Columns) -> Iterator[Rows]:
    """Rows whose quoted values may hold line ends: where a row ends then depends on every quote before it.

    A row that cannot be read refuses the file: nobody can say where the next one begins.
    """
    places = {name: f"{index}" for name, index in header.indices.items()}
    try:
        for batch in pa_csv.open_csv(
            cast(IO[bytes], _WithoutNul(content, path, header, columns.encoding)),
            pa_csv.ReadOptions(block_size=_BYTES),
            pa_csv.ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(places.values(), pa.large_binary()), include_columns=[*places.values()]
            ),
        ):
            yield Rows({name: null_if_empty(batch[place]) for name, place in places.items()})
    except pa.ArrowException as error:
        raise refused(
            f"{path} is not a CSV file that can be read ({type(error).__name__}): check that every "
            "line has the columns of the header, with closed quotes"
        ) from None


class _WithoutNul(io.RawIOBase):
    """The rows of a file behind a header of numbers, refused at their first NUL byte: after one, Arrow ignores commas
    and line ends in up to 15 bytes, so that one user's label could swallow another's row.
    """

    def __init__(self, source: IO[bytes], path: str, header: Header, encoding: str) -> None:
        self._source, self._path, self._encoding = source, path, encoding
        self._head = header.delimiter.join(map(str, range(header.width))).encode() + b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        text, self._head = self._head or self._source.read(size), b""
        if b"\0" in text:
            others = "" if self._encoding == "utf-8" else f" or bytes that are not {self._encoding}"
            raise refused(
                f"{self._path} holds NUL bytes{others}, which CSV cannot carry: write it in UTF-8, and labels "
                "with NUL bytes as JSON lines, Parquet or Avro"
            )
        return text


class Header(NamedTuple):
    """The indices of the wanted columns, by name, how many columns there are in all, and what stands between them."""

    indices: dict[str, int]
    width: int
    delimiter: str = ","


def header_of(line: bytes, columns: Columns, delimiter: str = ",") -> tuple[list[str], Header] | None:
    """The names in a header line, and the index of the first of each wanted name; None if the line is not CSV."""
    text = line.removesuffix(b"\r\n").removesuffix(b"\n")
    try:
        names = next(csv.reader([text.decode()], delimiter=delimiter, strict=True))
    except (UnicodeDecodeError, csv.Error, StopIteration):
        return None
    if not text.strip() or b"\r" in text or b"\0" in text:
        return None
    indices = {name: names.index(name) for name in columns.names() if name in names}
    return names, Header(indices, len(names), delimiter)


@lru_cache(maxsize=16)
def _row(width: int, delimiter: str) -> str:
    """The rule of lines that are rows of so many values, for RE2."""
    d = f"\\x{ord(delimiter):02x}"
    value = rf'(?:"(?:[^"\x00]|"")*"|[^"{d}\r\n\x00][^{d}\r\n\x00]*)?'
    thousands, rest = divmod(width - 1, _MAX_REPEATED)
    repeated = [_MAX_REPEATED] * thousands + [rest]
    return "^" + "".join(f"(?:{value}{d}){{{number}}}" for number in repeated) + rf"{value}\r?\n?$"


def rows_of(text: bytes, header: Header) -> Rows:
    """The rows of whole lines as bytes, null where empty. Blank lines are skipped; invalid ones become unreadable."""
    lines, unreadable = lines_of(text), []
    fits = pc.match_substring_regex(lines, _row(header.width, header.delimiter))
    if not pc.all(fits).as_py():
        others = lines.filter(pc.invert(fits)).to_pylist()
        unreadable = [line for line in others if line not in _BLANK]
        text = b"".join(lines.filter(fits).to_pylist())
    table = _parsed(text, header)
    columns = {name: _with_nulls(table[f"{index}"], len(unreadable)) for name, index in header.indices.items()}
    if not unreadable:
        return Rows(columns)
    bad = pa.array(np.arange(len(table) + len(unreadable)) >= len(table))
    return Rows(columns, bad, lambda: Counter(_cause(line, header) for line in unreadable))


def _cause(line: bytes, header: Header) -> str:
    """What is wrong with a line that is no row."""
    if line.count(b'"') % 2:
        return (
            "have a quote that is not closed in its line: if values hold line ends, --csv-quoted-newlines reads them "
            "(docs/formats.md)"
        )
    if b"\0" in line:
        return "hold a NUL byte, or bytes that are not in the encoding (--csv-encoding)"
    with suppress(csv.Error):  # which a carriage return is, and a value of 128 KiB
        values = next(csv.reader([line.decode("latin-1")], delimiter=header.delimiter))
        if len(values) != header.width:
            remedy = "quote values that hold the delimiter, and write all rows with the same one"
            return f"have another number of values than the first line: {remedy}"
    return "have text behind a closed quote, or a carriage return within"


def _parsed(text: bytes, header: Header) -> pa.Table:
    """Lines that are rows, as Arrow reads them."""
    names = [f"{index}" for index in sorted(set(header.indices.values()))]
    if text[:1] in (b"", b"\r", b"\n") and not text.strip(b"\r\n"):  # what Arrow takes for an empty file
        return pa.table({name: pa.nulls(0, pa.large_binary()) for name in names})
    columns = [f"{index}" for index in range(header.width)]
    return pa_csv.read_csv(
        # Arrow removes a byte order mark at the start. A blank line, which it skips, keeps a row's first bytes from
        # being taken for one.
        pa.BufferReader(b"\n" + text),
        pa_csv.ReadOptions(column_names=columns, block_size=len(text) + 2, use_threads=False),
        # Quoted carriage returns are values; quoted line feeds do not occur, since every line has been looked at.
        pa_csv.ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
        pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.large_binary()), include_columns=names),
    )


def _with_nulls(values: pa.ChunkedArray, more: int) -> pa.Array:
    array = null_if_empty(values.combine_chunks())
    return pa.concat_arrays([array, pa.nulls(more, array.type)]) if more else array
