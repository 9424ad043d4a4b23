"""Many lines at once mean what the standard library reads in each: every short text of letters that matter."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from functools import cache
from itertools import product

import pytest

from private_topk.pipelines.sources.csv import Header, rows_of

WIDTHS = {1: Header({"user": 0}, 1), 2: Header({"user": 0, "item": 1}, 2)}


def outcome(text: bytes, width: int) -> Counter:
    """The rows, in whatever order, and how many are unreadable."""
    columns, unreadable = rows_of(text, WIDTHS[width])
    bad = [False] * len(columns["user"]) if unreadable is None else unreadable.to_pylist()
    rows = zip(*(values.to_pylist() for values in columns.values()), strict=True)
    return Counter("unreadable" if is_bad else row for row, is_bad in zip(rows, bad, strict=True))


@cache
def alone(line: bytes, width: int) -> tuple | str | None:
    """The row of a line without its line feed, by Python's csv; None for a blank line."""
    text = line.decode("latin-1").removesuffix("\r")
    if not text:
        return None
    try:
        [row] = csv.reader([text], strict=True)
    except csv.Error:
        return "unreadable"
    if len(row) != width or text.endswith("\r"):  # which Python takes for another line end
        return "unreadable"
    return tuple(value.encode("latin-1") or None for value in row)


def by_the_line(text: bytes, width: int) -> Counter:
    return Counter(row for line in text.split(b"\n") if (row := alone(line, width)) is not None)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_text_of_up_to_five_letters(width: int) -> None:
    """9,331 of them: quotes across lines, bare carriage returns, blank lines that could make up for one another, and
    byte order marks at a text's and at a line's start.
    """
    for size in range(6):
        for letters in product((b"a", b",", b"\n", b"\r", b'"', codecs.BOM_UTF8), repeat=size):
            text = b"".join(letters)
            assert outcome(text, width) == by_the_line(text, width), text


@pytest.mark.parametrize(
    "text", [b'"a\n\nb",c\n', b'"a\r\n\r\nb",c\r\n', b'"\n",\n\n', b'"a\n",b\nc,d\re,f\n', b'a,b\n"\r\n\n",d\n']
)
def test_what_adds_a_line_and_what_takes_one_do_not_make_up_for_each_other(text: bytes) -> None:
    assert outcome(text, 2) == by_the_line(text, 2)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b"\xff\xfe", b"\xfe\xff"])
def test_bytes_that_could_be_a_mark_of_the_encoding_are_the_users(mark: bytes) -> None:
    for text in (b"%s", b"%s,", b"%sa,b", b'%s"a,b\nc,d\ne",f', b'%s"a",b\nc,d', b'%s"a,b\n%s"c,d', b"%s\nc,d", b",%s"):
        text = text.replace(b"%s", mark)
        for ending in (b"", b"\n", b"\r\n"):
            assert outcome(text + ending, 2) == by_the_line(text + ending, 2), text


@pytest.mark.parametrize("width", [999, 1000, 1001, 1002, 5000])
def test_as_many_columns_as_there_are(width: int) -> None:
    """Up to a thousand values are counted by one expression, and more by their commas."""
    header = Header({"user": 0, "item": width - 1}, width)
    line = b",".join([b"u", *[b'"x,y"'] * (width - 2), b"i"])
    for lines, bad in (([line] * 3, 0), ([line, b'"', line[2:], b"z," + line, line, line], 3)):
        columns, unreadable = rows_of(b"\n".join(lines), header)
        rows = list(zip(columns["user"].to_pylist(), columns["item"].to_pylist(), strict=True))
        assert rows == [(b"u", b"i")] * 3 + [(None, None)] * bad
        assert (unreadable.to_pylist() if unreadable else []) == ([False] * 3 + [True] * 3 if bad else [])
