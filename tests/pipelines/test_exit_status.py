"""Nothing but the ranking hangs on rows: exit status, messages and the files written are those of any other rows.

Each case is an input without a row that can be read, held against the same input with a good row among its rows.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk import rank
from private_topk.transforms import Period
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.metric import Amounts
from tests.nightly import nightly
from tests.pipelines.support import avro_schema, command, options, to_avro, to_parquet, write

GOOD = {"user": "u", "item": "tea", "time": "2026-01-05", "paid": 1.5}
CSV = b"user,item,time,paid\n"
CSV_ROWS = [
    *(b"", b"u", b"u,tea,2026-01-05,1,more", b'"u,tea,2026-01-05,1'),
    *(b"\xff,tea,2026-01-05,1", b"u,te\0a,2026-01-05,1", b"u\rv,tea,2026-01-05,1", b"u,tea,never,1"),
    *(b"u,tea,2026-01-05,nan", b"u,tea," + b"9" * 5000 + b",1", b"u,tea,2026-01-05," + b"9" * 5000 + b"e", b",,,"),
]
JSON_ROWS = [
    b"",
    b"x",
    b"[]",
    b"{}",
    b"\xff",
    b'{"user": 1.5, "item": "tea", "time": "2026-01-05", "paid": 1}',
    b'{"user": NaN, "item": "tea", "time": "2026-01-05", "paid": 1}',
    b'{"user": "\\ud800", "item": "tea", "time": "2026-01-05", "paid": 1}',
    b'{"user": "u", "item": "tea", "time": ' + b"9" * 5000 + b', "paid": 1}',
    b'{"user": "u", "item": "tea", "time": "2026-01-05", "paid": [1]}',
    b'{"user": "u", "item": "tea", "time": "2026-01-05", "z": ' + b"[" * 100_000,
    b'{"z": ' + b"[" * 101 + b'"' + b'\\"' * 200_000,
    b'{"name": "u", "item": "tea", "time": "2026-01-05", "paid": 1}',
]
TYPES = {"user": pa.string(), "item": pa.string(), "time": pa.string(), "paid": pa.float64()}
RECORDS = [
    {**GOOD, "user": None},
    {**GOOD, "time": "never"},
    {**GOOD, "time": "9" * 5000},
    {**GOOD, "paid": float("nan")},
    dict.fromkeys(GOOD),
]


def lines_of(good: bool, ending: str, rows: list[bytes]) -> bytes:
    if ending == ".csv":
        return CSV + b"\n".join([*rows, *[b"u,tea,2026-01-05,1.5"] * good, b""])
    return b"\n".join([*rows, *[json.dumps(GOOD).encode()] * good, b""])


def records_of(good: bool, ending: str, rows: list[dict[str, Any]]) -> bytes:
    rows = [*rows, *[GOOD] * good]
    if ending == ".avro":
        kinds = {name: ["null", "double" if name == "paid" else "string"] for name in GOOD}
        return to_avro(rows, avro_schema(**kinds))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(TYPES)), sink)
    return sink.getvalue().to_pybytes()


CONTENTS = {
    ".csv": (lines_of, [[], *([row] for row in CSV_ROWS), CSV_ROWS * 100]),
    ".jsonl": (lines_of, [[], *([row] for row in JSON_ROWS), JSON_ROWS[:10] * 100]),
    ".avro": (records_of, [[], *([row] for row in RECORDS), RECORDS * 300]),
    ".parquet": (records_of, [[], *([row] for row in RECORDS), RECORDS * 300]),
}
"""By ending what writes rows, and rows that hold none to be read: none, one of each kind, and more than a thousand."""


class Ended(NamedTuple):
    status: int
    out: str
    err: str
    files: list[str]
    facts: list[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.txt", "tea\ncake\n")
    write(tmp_path / "key", "a key of the tests, which is no secret")
    return tmp_path


def ended(name: str, content: bytes, *words: str, verb: str = "run", **more: object) -> Ended:
    folder = Path.cwd()
    write(folder / name, gzip.compress(content, 1) if name.endswith("gz") else content)
    asked = {
        "domain": "items.txt",
        "mechanism": "joint",
        "k": 1,
        "epsilon": 1,
        "output": "out/ranking.jsonl",
        "window": "7d",
        "from": "2026-01-05",
        "to": "2026-01-12",
        "release-key": "file:key",
        "release-id": "r",
        "input": name,
        "value-column": "paid",
        "max-value": 60,
        "value-resolution": 1,
        "overwrite": True,
    }
    done = command(verb, *options(**{**asked, **more}), *words)
    files = sorted(str(path) for path in folder.joinpath("out").rglob("*"))
    manifests = [json.loads(Path(path).read_text()) for path in files if path.endswith(".json")]
    return Ended(*done, files, sorted(name for manifest in manifests for name in manifest))


@pytest.mark.parametrize("singly", [False, nightly(True)], ids=["all at once", "one by one"])
@pytest.mark.parametrize("ending", CONTENTS)
def test_a_run_ends_the_same_whether_or_not_a_row_can_be_read(ending: str, singly: bool) -> None:
    content, inputs = CONTENTS[ending]
    inputs = inputs if singly else [inputs[0], inputs[-1]]
    with_a_row = ended(f"rows{ending}", content(True, ending, []), "--quiet")
    assert (with_a_row.status, with_a_row.out, with_a_row.err) == (0, "", "") and with_a_row.files
    for rows in inputs:
        assert ended(f"rows{ending}", content(False, ending, rows), "--quiet") == with_a_row, rows
    assert ended(f"rows{ending}.gz", content(False, ending, inputs[-1]), "--quiet") == with_a_row


@pytest.mark.parametrize("ending", CONTENTS)
def test_a_check_says_the_same_whether_or_not_a_row_can_be_read(ending: str) -> None:
    content, inputs = CONTENTS[ending]
    with_a_row = ended(f"rows{ending}", content(True, ending, []), "--dry-run")
    for rows in (inputs[0], inputs[-1]):
        assert ended(f"rows{ending}", content(False, ending, rows), "--dry-run") == with_a_row
        assert ended(f"rows{ending}", content(False, ending, rows), "--dry-run", "--show-dropped-rows").status == 0


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_stream_ends_the_same_whether_or_not_a_row_can_be_read(ending: str) -> None:
    Path("in").mkdir()
    content, inputs = CONTENTS[ending]
    asked = {"verb": "stream", "input": f"in/*{ending}", "output": "out", "output-format": "jsonl"}
    with_a_row = ended(f"in/rows{ending}", content(True, ending, []), **asked)
    assert with_a_row.status == 0 and with_a_row.files
    for rows in (inputs[0], inputs[-1]):
        assert ended(f"in/rows{ending}", content(False, ending, rows), **asked) == with_a_row


def test_a_csv_file_is_empty_or_has_a_header(folder: Path) -> None:
    """Some writers leave the header out where there are no rows: whether a file has any must not show."""
    header_alone = ended("rows.csv", CSV, "--quiet")
    for content in (b"", b"\n", b"\r\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"):
        assert ended("rows.csv", content, "--quiet") == header_alone
    # Where lines end with carriage returns alone, every row is of the first line, which is refused without any too.
    for content in (b"user,item,time,paid\r", b"user,item,time,paid\ru,tea,2026-01-05,1\r"):
        assert ended("rows.csv", content, "--quiet").status == 2


def test_more_columns_than_a_thousand(folder: Path) -> None:
    header = b"user,item,time,paid" + b",x" * 1500 + b"\n"
    good = b"u,tea,2026-01-05,1.5" + b"," * 1500 + b"\n"
    for rows in (b"", good, b'"\n', good + b'"\n', b"u\n"):
        done = ended("rows.csv", header + rows, "--quiet")
        assert (done.status, done.err) == (0, "")


NULLS = dict.fromkeys(GOOD, [None])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(columns=list(GOOD)),
        pd.DataFrame(NULLS),
        pd.DataFrame({**NULLS, "time": ["never"]}),
        pl.DataFrame(NULLS),
        pl.DataFrame({name: [] for name in GOOD}),
        pa.table({name: pa.nulls(0) for name in GOOD}),
        pa.table({**{name: pa.nulls(2) for name in GOOD}, "user": pa.array([b"\xff", b"\xff"]).view(pa.string())}),
    ],
    ids=range(7),
)
def test_a_table_without_a_row_that_can_be_read_is_ranked(table: Any) -> None:  # noqa: ANN401
    period = Period.of("2026-01-05", "2026-01-12", "7d")
    found = rank(table, 1, Joint(1.0), ["tea"], period=period, amounts=Amounts(60, 1), value="paid")
    assert list(found.items) == ["tea"]


def test_a_column_of_only_nulls_is_accepted_for_any_type() -> None:
    """Writers that guess a type from the rows give such a column one of its own."""
    write(Path("rows.parquet"), to_parquet([dict.fromkeys(GOOD)] * 3))
    assert ended("rows.parquet", Path("rows.parquet").read_bytes(), "--quiet").status == 0
