"""The page on cleaning reads times and users as a run does."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from datetime import UTC
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from private_topk.pipelines.sources.columns import to_microseconds
from private_topk.transforms.metric import as_numbers
from tests.documents.reading import ROOT


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the page defines, up to where it reads files."""
    found = re.search(r"```python\n(.*?)^rows = ", (ROOT / "docs/cleaning.md").read_text("utf-8"), re.M | re.S)
    assert found
    names: dict[str, Any] = {}
    exec(found[1], names)
    return names


def frame(times: list[str], users: Any = "u") -> pl.DataFrame:  # noqa: ANN401
    return pl.DataFrame({"time": times}).with_columns(user=pl.lit(users), item=pl.lit("tea"), agent=pl.lit("m"))


def test_every_form_of_a_time(page: dict[str, Any]) -> None:
    hours = ["T10", " 10", "t10", "T10:30", " 10:30", "T10:30:00", " 10:30:15", "T10:30:00.25", "T10:30:00.1234567"]
    zones = ["", " UTC", "Z", "z", " Z", "+01", " +01", "+0130", " -0130", "-01:30", " -01:30"]
    times = [f"2026-01-05{hour}{zone}" for hour in hours for zone in zones]
    times += ["2026-01-05", "1767607200", "1767607200.5", "2026-02-30", "2026-01-05T25", "yesterday"]
    read = page["source"]("x", "DE", frame(times), "UTC", [])["time"]
    expected = to_microseconds(pa.array(times, pa.large_string()), "s").cast(pa.timestamp("us", UTC))
    assert dict(zip(times, read, strict=True)) == dict(zip(times, expected.to_pylist(), strict=True))
    assert read.null_count() == 3


@pytest.mark.parametrize("user", [7.0, True, b"ana"])
def test_users_that_a_text_would_make_other_people_of(page: dict[str, Any], user: object) -> None:
    with pytest.raises(TypeError, match="cast users and items to String, numbers to Int64"):
        page["source"]("x", "DE", frame(["2026-01-05"], user), "UTC", [])
    assert page["source"]("x", "DE", frame(["2026-01-05"], 7), "UTC", [])["user"].to_list() == ["7"]


@pytest.mark.parametrize("text", ["", "\n", "user,item\n", "User,Item,Time\nana,tea,2026-01-05\n", "user\nana\n"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.jsonl"])
def test_a_file_without_rows_or_without_the_names_stops_nothing(
    page: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    rows = page["source"]("x", "DE", page["from_lines"](str(path)), "UTC", [])
    assert capsys.readouterr().out == f"x, rows, {len(rows)}\n"
    assert rows["item"].to_list() == [None] * len(rows) and rows["country"].to_list() == ["DE"] * len(rows)
    assert rows["unreadable"].to_list() == [not user for user in rows["user"]]


def cleaned(folder: Path, **inputs: bytes) -> subprocess.CompletedProcess[str]:
    """The page, run over such CSV files of DE in Latin-1."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "docs/cleaning.md").read_text("utf-8"), re.S)
    assert found
    only = f'[source(name, "DE", from_lines(name, "latin-1"), "UTC", []) for name in {[*inputs]}]'
    script = re.sub(r"^rows = pl\.concat\(\n.*?^\)\n", f"rows = pl.concat({only})\n", found[1], flags=re.M | re.S)
    for name, content in inputs.items():
        (folder / name).write_bytes(content)
    (folder / "menu.csv").write_text("item\ntea\ncaf\u00e9\nStra\u00dfe\n", "utf-8")
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)


HEADER = b"user,item,time,agent\n"
TEA = HEADER + b"ana,tea,2026-01-05,m\n"


@pytest.mark.parametrize("text", [b"", HEADER, HEADER + b",,,\n"])
def test_nothing_is_written_where_an_input_is_empty(tmp_path: Path, text: bytes) -> None:
    """As of an export that failed."""
    done = cleaned(tmp_path, empty=text, raw=TEA)
    assert done.returncode == 1 and done.stderr == "no row is kept of empty\n", done
    assert not list(tmp_path.rglob("*.parquet"))


def test_nothing_is_written_where_an_input_is_read_in_another_encoding(tmp_path: Path) -> None:
    rows = [HEADER, *(f"u{n},Caf\u00e9,2026-01-05,m\n".encode() for n in range(3)), b"u,tea,2026-01-05,m\n"]
    done = cleaned(tmp_path, raw=TEA, utf8=b"".join(rows))
    assert "utf8, kept, not in the menu, 3\n" in done.stdout and "raw, kept, 1\n" in done.stdout, done
    assert done.returncode == 1 and done.stderr == "most rows have items that are not in the menu: utf8\n", done
    assert not list(tmp_path.rglob("*.parquet"))
    (tmp_path / "half").mkdir()
    done = cleaned(tmp_path / "half", utf8=b"".join([HEADER, *rows[-2:]]))
    assert done.returncode == 0 and "utf8, kept, not in the menu, 1\n" in done.stdout, done


def test_a_file_that_came_twice_may_have_an_unreadable_line(tmp_path: Path) -> None:
    done = cleaned(tmp_path, one=TEA + b'"bad\n', two=TEA + b'"bad\n')
    assert done.returncode == 0 and not done.stderr, done
    assert "two, there twice, 1\ntwo, unreadable line, 1\n" in done.stdout
    assert len(pl.read_parquet(tmp_path / "plays.parquet")) == 1


def test_letters_that_look_alike_are_one(page: dict[str, Any]) -> None:
    """Also those that are invisible, in users too."""
    items = ["STRASSE", "stra\u00dfe", "Stra\u00df\u200be", "\ufeffstra\u00ad\u00dfe ", "STRA\u1e9eE"]
    rows = frame(["2026-01-05"] * 5, "u\u200b").with_columns(item=pl.Series(items))
    found = page["source"]("x", "DE", rows, "UTC", [])
    assert {*found["item"]} == {"strasse"} and {*found["user"]} == {"u"}


def test_a_header_with_a_name_twice_is_refused(page: dict[str, Any], tmp_path: Path) -> None:
    """Only of columns that are read: others may have no name at all."""
    path = tmp_path / "rows.csv"
    path.write_text("user,item,item,time,agent\nana,first,last,2026-01-05,m\n")
    with pytest.raises(SystemExit, match=r"rows\.csv cannot be read: two columns of one name"):
        page["from_lines"](str(path))
    path.write_text("user,item,time,agent,,\nana,tea,2026-01-05,m,,\n")
    assert page["from_lines"](str(path))["item"].to_list() == ["tea"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("half.csv.gz", gzip.compress(b"user,item,time,agent\n" * 9)[:-12]),
        ("half.JSONL.GZ", gzip.compress(b"{}\n" * 9)[:-12]),
        ("plain.csv.gz", b"user,item,time,agent\n"),
        ("wide.csv", "user,item,time,agent\n".encode("utf-16")),
        ("mac.csv", b"user,item,time,agent\rana,tea,2026-01-05,m\r"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_cannot_be_read_is_named(page: dict[str, Any], tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SystemExit, match=f"{re.escape(name)} cannot be read: "):
        page["from_lines"](str(path))


def test_amounts_with_decimal_commas(tmp_path: Path) -> None:
    text = (ROOT / "docs/cleaning.md").read_text("utf-8")
    script, edit = re.search(r"```python\n(.*?)```", text, re.S), re.search(r"`(\.with_columns\(.*\))`", text)
    assert script and edit
    page: dict[str, Any] = {}
    exec(script[1].partition("\nrows = ")[0].replace('"agent"]', '"agent", "minutes"]'), page)
    path = tmp_path / "rows.csv"
    path.write_text("client;titre;heure;agent;minutes\nana;tea;2026-01-05;m;1.250,50\nbo;tea;2026-01-05;m;3\n;;;;n/a\n")
    rows = page["from_lines"](str(path), delimiter=";", names=page["FRENCH"])
    rows = page["source"]("x", "FR", eval(f"rows{edit[1]}", page, {"rows": rows}), "UTC", [])
    assert as_numbers(rows["minutes"].to_arrow()).to_pylist() == [1250.5, 3, None]
    kept = re.search(r"^kept = kept\.select\((.*)\)$", script[1], re.M)
    assert kept and eval(f"[{kept[1]}]", page)[-2:] == ["country", "minutes"]
