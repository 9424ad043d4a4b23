"""Many lines at once mean what each means alone: every short text of letters that matter, enumerated."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from unittest.mock import patch

import pytest

from private_topk.pipelines.sources import csv_lines
from private_topk.pipelines.sources.csv_lines import Header, rows_of
from tests.quick import QUICK, in_check

WIDTHS = {1: Header({"user": 0}, 1), 2: Header({"user": 0, "item": 1}, 2)}


def outcome(text: bytes, width: int) -> Counter:
    """The rows, in whatever order, and how many are unreadable."""
    columns, unreadable = rows_of(text, WIDTHS[width])
    bad = [False] * len(columns["user"]) if unreadable is None else unreadable.to_pylist()
    rows = zip(*(values.to_pylist() for values in columns.values()), strict=True)
    return Counter("unreadable" if is_bad else row for row, is_bad in zip(rows, bad, strict=True))


@cache
def alone(line: bytes, width: int) -> tuple:
    with patch.object(csv_lines, "_lines_if_tidy", lambda text: None):
        return tuple(outcome(line, width).items())


def lines(text: bytes) -> list[bytes]:
    return [part + b"\n" for part in text.split(b"\n")[:-1]] + ([last] if (last := text.split(b"\n")[-1]) else [])


@in_check("1")
@pytest.mark.parametrize("width", WIDTHS)
def test_every_text_of_up_to_five_letters(width: int) -> None:
    """3,906 of them: quotes across lines, bare carriage returns, and blank lines that could make up for one another.

    `make check` tries the 781 of up to four.
    """
    at_once = 0
    for size in range(5 if QUICK else 6):
        for letters in product((b"a", b",", b"\n", b"\r", b'"'), repeat=size):
            text = b"".join(letters)
            expected: Counter = Counter()
            for line in lines(text):
                expected.update(dict(alone(line, width)))
            assert outcome(text, width) == expected, text
            at_once += csv_lines._lines_if_tidy(text) is not None
    assert at_once > (60 if QUICK else 300)


@pytest.mark.parametrize(
    "text", [b'"a\n\nb",c\n', b'"a\r\n\r\nb",c\r\n', b'"\n",\n\n', b'"a\n",b\nc,d\re,f\n', b'a,b\n"\r\n\n",d\n']
)
def test_what_adds_a_line_and_what_takes_one_do_not_make_up_for_each_other(text: bytes) -> None:
    expected: Counter = Counter()
    for line in lines(text):
        expected.update(dict(alone(line, 2)))
    assert outcome(text, 2) == expected
