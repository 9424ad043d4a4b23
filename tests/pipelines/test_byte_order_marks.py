"""U+FEFF is the mark of a file's encoding at its start, and a letter of somebody's value anywhere else."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from private_topk.pipelines.sources import Columns
from tests.pipelines.support import command, read, write

MARK = "\ufeff"
MIB = 1 << 20


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
