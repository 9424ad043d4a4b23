"""CSV: files as writers make them, and many lines at once held to what the standard library reads in each."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import csv
import gzip
import io
import random
from collections import Counter
from dataclasses import replace
from encodings.aliases import aliases
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from private_topk.pipelines.sources import Columns
from private_topk.pipelines.sources.csv import Header, rows_of
from private_topk.pipelines.texts import delimiter, encoding
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.sources.contract import FormatContract
from tests.pipelines.support import Rows, command, read, reasons, to_csv, write
from tests.refusals import refused


def taken(name: str) -> str | None:
    """The name that an encoding is taken by; None if it is refused."""
    with contextlib.suppress(ValueError):
        return encoding(name)
    return None


class TestFormat(FormatContract):
    ending = ".csv"

    def content(self, rows: Rows) -> bytes:
        return to_csv([{"user": "user", "item": "item"}, *rows]).partition(b"\r\n")[2]


class TestTabs(TestFormat):
    ending = ".tsv"

    def content(self, rows: Rows) -> bytes:
        return super().content(rows).replace(b",", b"\t")


@pytest.mark.parametrize(
    ("text", "rows", "dropped"),
    [
        ("user,item\na,x\nb,y\n", [("a", "x"), ("b", "y")], 0),
        ("user,item\r\na,x\r\nb,y", [("a", "x"), ("b", "y")], 0),
        ("\ufeffuser,item\na,x\n", [("a", "x")], 0),
        ('\ufeff"user","item"\na,x\n', [("a", "x")], 0),
        ("z,item,user\n1,x,a\n", [("a", "x")], 0),
        ("user,item\n\na,x\n\n\nb,y\n", [("a", "x"), ("b", "y")], 0),
        ("\nuser,item\na,x\n", [("a", "x")], 0),
        ('user,item\n,x\na,\n"",x\n,\nb,y\n', [("b", "y")], 4),
        ('user,item\n"a\rb","x, ""y"" z"\n', [("a\rb", 'x, "y" z')], 0),
        ('user,item\na,5" pipe\nb,"7"" pipe"\n', [("a", '5" pipe'), ("b", '7" pipe')], 0),
        ("user,item\n a , x \nNULL,NA\n007,1e3\n", [(" a ", " x "), ("NULL", "NA"), ("007", "1e3")], 0),
        ("user,item\n日本,é🎵\n", [("日本", "é🎵")], 0),
        ("user,item\n", [], 0),
        ("user,item", [], 0),
        ("", [], 0),
        ("\ufeff", [], 0),
        ("\r\n\n", [], 0),
        ("user,item\nonly\n", [], 1),
        ('user,item\n"a,b\n"c,d\n', [], 2),
        ("\ufeff\nuser,item\na,x\n", [("a", "x")], 0),
        ("user,item\n\ufeffa,x\n", [("\ufeffa", "x")], 0),
        ("\ufeffuser,item\n\ufeff\n\ufeff,x\n", [("\ufeff", "x")], 1),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".CSV.GZ"])
def test_rows_of_several_dialects_are_read(tmp_path: Path, text: str, rows: list, dropped: int, ending: str) -> None:
    content = text.encode()
    path = write(tmp_path / f"rows{ending}", gzip.compress(content) if ending.lower().endswith("gz") else content)
    assert read(path) == (rows, dropped)


def test_an_unclosed_quote_takes_no_other_row_along(tmp_path: Path) -> None:
    """Unless the operator has said that quoted values may hold line ends: then it does, as the option's text says."""
    others = [(f"u{n}", "i1") for n in range(100)]
    lines = [f"{user},{item}" for user, item in others]
    text = "\n".join(["user,item", *lines[:10], 'mallory,"i2', *lines[10:], 'eve,"i3"', ""])
    path = write(tmp_path / "rows.csv", text)
    assert read(path) == ([*others, ("eve", "i3")], 1)
    assert reasons(path) == {"unreadable": 1}
    assert len(read(path, Columns(quoted_line_ends=True)).rows) < 20


@pytest.mark.parametrize("start", ["", "\ufeff", "\n\r\n"])
def test_a_header_alone_is_a_file_without_rows_with_a_line_end_or_without(tmp_path: Path, start: str) -> None:
    items = write(tmp_path / "items.txt", "a\nb\n")
    for number, end in enumerate(("", "\n", "\r\n")):
        path = write(tmp_path / "rows.csv", f"{start}user,item{end}")
        for quoted in (False, True):
            assert read(path, Columns(quoted_line_ends=quoted)) == ([], 0)
        asked = ["--input", path, "--domain", items, "--mechanism=joint", "--k=1", "--epsilon=1", "--quiet"]
        done = command("run", *asked, "--csv-quoted-newlines", f"--output={tmp_path}/{number}.csv")
        assert done.status == 0, done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" ", "must start with a line of column names"),
        (b"user,item\rsecret,b\r", "must start with a line of column names, in UTF-8, that ends with a line feed"),
        (b"user,item\r", "must start with a line of column names"),
        (b"\n\xef\xbb\xbfuser,item\n", r"'user' is no column of .*rows.csv, whose first line has 2 values, item among"),
        (b"alice,secret\nb,y\n", r"2 values .only a terminal shows it.: give user_column and item_column as the line"),
        (b"user;item\nsecret;y\n", "its first line is one name, with semicolons in it: give csv_delimiter ';'$"),
        (b"user\titem\nsecret\ty\n", "one name, with tabs in it: give csv_delimiter '.t'$"),
        (b"alice,item\nb,y\n", r"first line has 2 values, item among them .*: give user_column as the line has it"),
        (b"user,item,user\na,b,c\n", "it has 2 columns of that name: give each a name of its own$"),
        (b"user;item\na;b\n", "its first line is one name"),
        ("user,item\nsecret,b\n".encode("utf-16"), "is a CSV file in UTF-16, .* UTF-8: give csv_encoding utf-16$"),
        ("user,item\nsecret,b\n".encode("utf-32"), "is a CSV file in UTF-32, .* UTF-8: give csv_encoding utf-32$"),
        *(
            ("user,item\nsecret,b\n".encode(name), f"in {name.upper()}, .*: give csv_encoding {name}$")
            for name in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
        ),
        (b"caf\xe9,item\nsecret,b\n", "in UTF-8, .*: csv_encoding names another encoding$"),
        (gzip.compress(b"user,item\nsecret,b\n", mtime=0), r"holds gzip, .* as text: name it .*rows\.csv\.gz$"),
        (bz2.compress(b"user,item\nsecret,b\n"), "holds bzip2, and is read as text: unpack it first$"),
        (b"Obj\x01\x04\x14avro.codec\x08null\x16avro.schema", "in UTF-8|only a terminal shows it"),
    ],
)
def test_foreign_files_are_refused_without_showing_them(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        read(write(tmp_path / "rows.csv", content))
    assert "rows.csv" in str(caught.value)
    assert not any(word in str(caught.value) for word in ("secret", "alice", "caf"))


TAKEN = (
    "utf8 UTF-8-SIG U16 utf-32-be latin-1 ISO-8859-15 cp1252 mac-roman koi8-r cp500 ascii sjis gb18030 euc-kr big5hkscs"
).split()
STATEFUL = ["utf-7", "iso-2022-jp", "iso2022_kr", "hz", "idna", "punycode", "unicode_escape", "raw_unicode_escape"]


def test_stateful_and_unknown_encodings_are_refused_by_name() -> None:
    for name in TAKEN:
        codec = encoding(name)
        assert codecs.lookup(codec).name == codec and codec != "utf-8-sig"
    for name in [*STATEFUL, "base64", "rot13", "undefined"]:
        with pytest.raises(ValueError, match=f"'{name}' cannot be read line by line"):
            encoding(name)
    for name in ("klingon", "", "a\0b"):
        with pytest.raises(ValueError, match="must be an encoding that Python knows, such as utf-16 or latin-1"):
            encoding(name)


def test_no_letter_of_an_encoding_that_is_taken_holds_a_line_end() -> None:
    """Or the letters that all lines are decoded to at once would not be those of each: up to three bytes before one."""
    for name in {found for name in set(aliases.values()) if (found := taken(name))}:
        codec = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(name, name)
        end = "\n".encode(codec)
        if len(end) > 1:
            firsts = [bytes([byte]) * n + b"\xd8" * (len(end) - n) for byte in range(256) for n in range(len(end) + 1)]
        else:
            leads = [bytes([lead]) for lead in range(256)]
            firsts = [*leads, *(b"\x8f" + lead for lead in leads), *(b"\x81\x30" + lead for lead in leads)]
        for first in firsts:
            with contextlib.suppress(UnicodeDecodeError):
                assert (first + end).decode(codec) == first.decode(codec, "replace") + "\n", (name, first)


def test_a_broken_line_of_any_encoding_is_dropped_alone(tmp_path: Path) -> None:
    rows = [("a", "café"), ("b", "日本"), ("c", "x")]
    text = "user,item\n" + "".join(f"{user},{item}\n" for user, item in rows)
    for name in ("utf-16", "utf-16-be", "gb18030", "latin-1"):
        content = text.replace("日本", "Ã").encode(name)
        whole = write(tmp_path / "rows.csv", content)
        columns = Columns(encoding=encoding(name))
        expected = [(user, item.replace("日本", "Ã")) for user, item in rows]
        assert read(whole, columns) == (expected, 0)
        assert read(whole, replace(columns, quoted_line_ends=True)) == (expected, 0)
        if name != "latin-1":
            broken = b"\x00\xd8" if name == "utf-16" else b"\xd8\x00" if name == "utf-16-be" else b"\xff"
            cut = content.index("b,".encode(name.replace("utf-16", "utf-16-le") if name == "utf-16" else name))
            assert read(write(whole, content[:cut] + broken + content[cut:]), columns) == (
                [expected[0], expected[2]],
                1,
            )
            with refused("", f"holds NUL bytes or bytes that are not {name}, which CSV cannot"):
                read(whole, replace(columns, quoted_line_ends=True))
    with refused("csv_encoding", "utf-16 needs the mark of its byte order"):
        read(write(tmp_path / "rows.csv", text.encode("utf-16-le")), Columns(encoding="utf-16"))
    assert read(write(tmp_path / "rows.csv", b"\xff\xfe"), Columns(encoding="utf-16")) == ([], 0)


@pytest.mark.parametrize("name", ["utf-16", "utf-16-be", "utf-32"])
def test_a_text_that_has_lost_a_byte_of_a_letter_is_refused(tmp_path: Path, name: str) -> None:
    """All rows behind it would be unreadable."""
    content = "user,item\na,b\na,c\n".encode(name)
    for place in (-1, -9):
        path = write(tmp_path / "rows.csv", content[:place] + content[place:][1:])
        with refused("", f"rows.csv is damaged: in {name.upper()} its bytes would be a multiple of"):
            read(path, Columns(encoding=name))


@pytest.mark.parametrize("sign", [",", ";", "|", "\t", " ", "\x01", "^", "]", "\\", "-", "."])
def test_any_delimiter_separates_values(tmp_path: Path, sign: str) -> None:
    assert delimiter(sign) == sign
    draw = random.Random(2)
    for quoted, quoting in product((False, True), (csv.QUOTE_ALL, csv.QUOTE_MINIMAL)):
        letters = f'ab,"é🎵 {sign}' + "\n" * quoted
        rows = [tuple("".join(draw.choices(letters, k=draw.randrange(1, 9))) for _ in range(3)) for _ in range(500)]
        sink = io.StringIO()
        writer = csv.writer(sink, delimiter=sign, escapechar=None, quoting=quoting)
        writer.writerows([("user", "z", "item"), *rows])
        found = read(write(tmp_path / "rows.csv", sink.getvalue()), Columns(delimiter=sign, quoted_line_ends=quoted))
        assert found == ([(user, item) for user, _, item in rows], 0)
    with pytest.raises(InvalidArgument, match="rows.tsv has no column 'user'|of .*rows.tsv"):
        read(write(tmp_path / "rows.tsv", "user,item\na,b\n"), Columns(delimiter=","))


def test_an_invalid_delimiter_is_refused() -> None:
    assert (delimiter(r"\t"), delimiter(r"\x01")) == ("\t", "\x01")
    for text in ("", ";;", "§", '"', "\n", "\r", "\0", r"\x0a", r"\n", "tab"):
        with pytest.raises(ValueError, match="must be one character of ASCII such as ';', or .t for a tab"):
            delimiter(text)


def test_rows_that_cannot_be_read_are_dropped_each_by_itself(tmp_path: Path) -> None:
    lines = ["a,b", "secret,2,3", "only", "c\0,d", "e,f", '"g"h,i', "j\rk,l", '"m\rn",o', "", '"p', "q,", "r,s"]
    content = "\n".join(["user,item", *lines]).encode() + b"\ncaf\xe9,t\nu,v"
    path = write(tmp_path / "rows.csv", content)
    assert read(path).rows == [("a", "b"), ("e", "f"), ("m\rn", "o"), ("r", "s"), ("u", "v")]
    assert reasons(path) == {"unreadable": 7, "null": 1}


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
@pytest.mark.parametrize("quoted_line_ends", [False, True])
def test_a_nul_byte_takes_no_other_row_along(tmp_path: Path, ending: str, quoted_line_ends: bool) -> None:
    """Where values are long on average, Arrow skips over them in steps, and overlooks what follows a NUL in a step."""
    others = [(f"{'listener' * (n % 3)}{n}", f"{'item' * (n % 7)}{n}") for n in range(40_000)]
    for length in range(8):
        rows = [*others[:20_000], ("e" * 5, "i" * length + "\0"), ("a", "tea"), *others[20_000:]]
        content = ("user,item\n" + "".join(f"{user},{item}\n" for user, item in rows)).encode()
        path = write(tmp_path / f"rows{ending}", gzip.compress(content, 1) if ending.endswith("gz") else content)
        if not quoted_line_ends:
            assert read(path) == ([*others[:20_000], ("a", "tea"), *others[20_000:]], 1)
            continue
        with refused("", "holds NUL bytes, which CSV cannot carry") as found:
            read(path, Columns(quoted_line_ends=True))
        assert "tea" not in str(found.value)


WIDTHS = {1: Header({"user": 0}, 1), 2: Header({"user": 0, "item": 1}, 2)}


def outcome(text: bytes, width: int) -> Counter:
    """The rows, in whatever order, and how many are unreadable."""
    columns, unreadable, *_ = rows_of(text, WIDTHS[width])
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


def test_more_columns_than_can_be_matched_are_refused(tmp_path: Path) -> None:
    names = ["user", "item", *(f"c{n}" for n in range(19_998))]
    assert read(write(tmp_path / "rows.csv", ",".join(names) + "\n" + "a," * 19_999 + "b\n")).rows == [("a", "a")]
    with refused("", "has 20,001 columns, and 20,000 can be read: write it with fewer"):
        read(write(tmp_path / "rows.csv", ",".join([*names, "z"])))


@pytest.mark.parametrize("width", [2, 999, 1000, 1001, 2500])
def test_a_line_with_another_number_of_columns_is_dropped(width: int) -> None:
    header = Header({"user": 0, "item": width - 1}, width)
    line = b",".join([b"u", *[b'"x,y"'] * (width - 2), b"i"])
    for lines, bad in (([line] * 3, 0), ([line, b'"', line[2:], b"z," + line, line, line], 3)):
        columns, unreadable, *_ = rows_of(b"\n".join(lines), header)
        rows = list(zip(columns["user"].to_pylist(), columns["item"].to_pylist(), strict=True))
        assert rows == [(b"u", b"i")] * 3 + [(None, None)] * bad
        assert (unreadable.to_pylist() if unreadable else []) == ([False] * 3 + [True] * 3 if bad else [])
