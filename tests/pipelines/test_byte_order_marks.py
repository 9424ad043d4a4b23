"""U+FEFF is the mark of a file's encoding at its start, and a letter of somebody's value anywhere else."""

from __future__ import annotations

import csv
import gzip
import io
import json
from itertools import product
from pathlib import Path

import pytest

from private_topk.pipelines.sources import Columns
from tests.nightly import nightly, nightly_but
from tests.pipelines.support import command, read, write

MARK = "\ufeff"
MIB = 1 << 20
LINES = 300_000
"""Some 9 MiB: a reader that takes a few at a time begins at some of them, whichever those are."""


def published(folder: Path, rows: str, **asked: object) -> dict[str, int]:
    """Items and their counts, with noise that is next to none."""
    words = {
        "domain": folder / "items.txt",
        "mechanism": "laplace",
        "k": 2,
        "epsilon": 1e6,
        "publish-counts": 1e6,
        "input": folder / rows,
        "output": folder / "out.jsonl",
        **asked,
    }
    done = command("run", *(f"--{name}={value}" for name, value in words.items()), "--overwrite", "--quiet")
    assert done.status == 0 and "weak promise" in done.err and done.err.count("\n") == 1, done
    found = map(json.loads, (folder / "out.jsonl").read_text().splitlines())
    return {row["item"]: row["noisy_count"] for row in found}


@pytest.mark.parametrize(
    ("newline", "quote", "ending"),
    nightly_but(product(("\n", "\r\n"), ("", '"'), (".csv", ".csv.gz")), ("\n", '"', ".csv"), ("\r\n", "", ".csv.gz")),
)
def test_no_row_of_csv_becomes_another_user_or_swallows_one(
    tmp_path: Path, ending: str, quote: str, newline: str
) -> None:
    """Every row begins with a mark, and perhaps a quote behind it, so whatever a reader begins with is such a row."""
    write(tmp_path / "items.txt", "tea\ncake\n")
    lines = [f"{MARK}{quote}u{n:06},{'tea' if n % 3 else 'cake'},{'.' * 12}" for n in range(LINES)]
    lines += [f"u{n:06},tea," for n in range(0, LINES, 1000)]  # whom a row without its mark would become
    content = newline.join(["user,item,more", *lines, ""]).encode()
    assert len(content) > 8 * MIB
    write(tmp_path / f"rows{ending}", gzip.compress(content, 1) if ending.endswith("gz") else content)
    tea = LINES - LINES // 3 + LINES // 1000
    assert published(tmp_path, f"rows{ending}") == {"tea": tea, "cake": LINES // 3}


@pytest.mark.parametrize("first", [MARK + "m,cake", MARK + '"m,cake', MARK, MARK + '"', '"' + MARK + 'm",cake', ","])
@pytest.mark.parametrize(("last", "newline"), [nightly("", "\r\n"), ('",cake', "\n")])
def test_one_user_s_byte_order_mark_changes_no_count_of_others(
    tmp_path: Path, first: str, last: str, newline: str
) -> None:
    write(tmp_path / "items.txt", "tea\ncake\n")
    others = [f"u{n},tea" for n in range(1000)]
    write(tmp_path / "rows.csv", newline.join(["user,item", first, *others, last, ""]))
    found = published(tmp_path, "rows.csv")
    assert found["tea"] == 1000 and found["cake"] <= 2


def test_rows_are_what_the_standard_library_reads_at_every_place_of_a_mark(tmp_path: Path) -> None:
    """In the file, the header, a value, at a line's start and end; also where quoted values may hold line ends."""
    values = ["m", MARK, MARK + "m", "m" + MARK, MARK + '"', f'{MARK}"m"', MARK + MARK + "m"]
    rows = [(user, item) for user in values for item in values]
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        sink = io.StringIO()
        csv.writer(sink, quoting=quoting).writerows([("user", "item"), *rows])
        path = write(tmp_path / "rows.csv", sink.getvalue())
        for start in ("", MARK):
            write(path, start + sink.getvalue())
            assert read(path) == (rows, 0)
            assert read(path, Columns(quoted_line_ends=True)) == (rows, 0)
    write(path, f"{MARK}{MARK}user,item{MARK}\n{MARK}a,b\n")
    assert read(path, Columns(MARK + "user", "item" + MARK)).rows == [(MARK + "a", "b")]


@pytest.mark.parametrize("start", range(4 * MIB - 4, 4 * MIB + 5))
def test_a_mark_at_a_cut_of_a_file_with_quoted_line_ends(tmp_path: Path, start: int) -> None:
    filler = "u,i," + "x" * (start - len("user,item,more\n") - len("u,i,\n"))
    path = write(tmp_path / "rows.csv", f"user,item,more\n{filler}\n{MARK}a,b,\n{MARK}c,d,\n")
    assert read(path, Columns(quoted_line_ends=True)).rows[1:] == [(MARK + "a", "b"), (MARK + "c", "d")]
    assert read(path).rows[1:] == [(MARK + "a", "b"), (MARK + "c", "d")]


def test_files_that_were_joined_keep_the_marks_within(tmp_path: Path) -> None:
    """As `cat` and gzip do it. The second mark is of a row by then, whoever wrote it."""
    parts = [f"{MARK}user,item\na,x\n".encode(), f"{MARK}b,y\n".encode()]
    rows = [("a", "x"), (MARK + "b", "y")]
    assert read(write(tmp_path / "rows.csv", b"".join(parts))).rows == rows
    assert read(write(tmp_path / "rows.csv.gz", b"".join(map(gzip.compress, parts)))).rows == rows


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_a_mark_before_a_json_object_is_skipped_only_at_the_start_of_a_file(tmp_path: Path, ending: str) -> None:
    good, marked = '{"user": "a", "item": "x"}', f'{{"user": "{MARK}a", "item": "x{MARK}"}}'
    content = "\n".join([MARK + good, MARK + good, marked, MARK, good]).encode()
    path = write(tmp_path / f"rows{ending}", gzip.compress(content) if ending.endswith("gz") else content)
    assert read(path) == ([("a", "x"), (f"{MARK}a", f"x{MARK}"), ("a", "x")], 2)


@pytest.mark.parametrize("ending", [".txt", ".csv", ".jsonl", ".txt.gz"])
def test_a_mark_at_the_start_of_a_list_is_not_part_of_its_first_item(tmp_path: Path, ending: str) -> None:
    write(tmp_path / "rows.csv", f"user,item,land\na,tea,N\nb,{MARK}cake,N\nc,{MARK}cake,{MARK}S\n")
    content = {
        ".txt": f"{MARK}tea\n{MARK}cake\n",
        ".csv": f"{MARK}item\ntea\n{MARK}cake\n",
        ".jsonl": f'{MARK}{{"item": "tea"}}\n{{"item": "{MARK}cake"}}\n',
    }[ending.removesuffix(".gz")].encode()
    path = write(tmp_path / f"items{ending}", gzip.compress(content) if ending.endswith("gz") else content)
    assert published(tmp_path, "rows.csv", domain=path) == {f"{MARK}cake": 2, "tea": 1}
    write(tmp_path / "lands.txt", f"{MARK}N\n{MARK}S\n")
    published(tmp_path, "rows.csv", domain=path, **{"group-column": "land", "groups": tmp_path / "lands.txt"})
    rows = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert {(row["group"], row["item"]): row["noisy_count"] for row in rows} == {
        ("N", "tea"): 1,
        ("N", f"{MARK}cake"): 1,
        (f"{MARK}S", "tea"): 0,
        (f"{MARK}S", f"{MARK}cake"): 1,
    }
