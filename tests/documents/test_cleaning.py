"""The example that cleans rows reads times and users as a run does."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
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
    """The names that the example defines, up to where it reads files."""
    return defined(lambda script: script)


def script_of() -> str:
    return (ROOT / "examples/prepare.py").read_text("utf-8")


def defined(changed: Callable[[str], str]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["prepare.py", "2026-01-05"])
        exec(changed(script_of().partition("\ntables = ")[0]), names)
    return names


def frame(times: list[str], users: Any = "u") -> pl.DataFrame:  # noqa: ANN401
    return pl.DataFrame({"time": times}).with_columns(user=pl.lit(users), item=pl.lit("tea"), agent=pl.lit("m"))


def test_every_form_of_a_time(page: dict[str, Any]) -> None:
    hours = ["T10", " 10", "t10", "T10:30", " 10:30", "T10:30:00", " 10:30:15", "T10:30:00.25", "T10:30:00.1234567"]
    zones = ["", " UTC", "Z", "z", " Z", "+01", " +01", "+0130", " -0130", "-01:30", " -01:30"]
    times = [f"2026-01-05{hour}{zone}" for hour in hours for zone in zones]
    times += ["2026-01-05", "1767607200", "1767607200.5", "2026-02-30", "2026-01-05T25", "yesterday"]
    read = page["tidy"]("x", frame(times), "UTC", [])["time"]
    expected = to_microseconds(pa.array(times, pa.large_string()), "s").cast(pa.timestamp("us", UTC))
    assert dict(zip(times, read, strict=True)) == dict(zip(times, expected.to_pylist(), strict=True))
    assert read.null_count() == 3


@pytest.mark.parametrize("user", [7.0, True, b"ana"])
def test_users_that_a_text_would_make_other_people_of(page: dict[str, Any], user: object) -> None:
    with pytest.raises(TypeError, match="cast users and items to String, numbers to Int64"):
        page["tidy"]("x", frame(["2026-01-05"], user), "UTC", [])
    assert page["tidy"]("x", frame(["2026-01-05"], 7), "UTC", [])["user"].to_list() == ["7"]


@pytest.mark.parametrize("text", ["", "\n", "user,item\n", "User,Item,Time\nana,tea,2026-01-05\n", "user\nana\n"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.jsonl"])
def test_a_file_without_rows_or_without_the_names_stops_nothing(
    page: dict[str, Any], tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    rows = page["tidy"]("x", page["from_lines"](str(path)), "UTC", [])
    assert rows["item"].to_list() == [None] * len(rows) and rows["input"].to_list() == ["x"] * len(rows)
    assert rows["unreadable"].to_list() == [not user for user in rows["user"]]


HEADER = b"user,item,time,agent\n"
TEA, NEXT = HEADER + b"ana,tea,2026-01-05,m\n", HEADER + b"ana,tea,2026-01-12,m\n"
WEEKS = {"de-2026-01-05": TEA, "de-2026-01-12": NEXT}


LATIN = '"DE", "de-{}*", 1, 1, lambda path: from_lines(path, "latin-1"), "UTC", []'
POLARS = '"DE", "de-{}*", 1, 1, lambda path: pl.read_csv(path, infer_schema=False), "UTC", []'


MENU = "item\ntea\ncaf\u00e9\nStra\u00dfe\n"


def cleaned(
    folder: Path, files: Mapping[str, bytes], *inputs: str, names: str = "", known: float = 0
) -> subprocess.CompletedProcess[str]:
    """The example, run over such files: CSV of DE in Latin-1 if nothing else is said."""
    only = f"INPUTS = [Input({'), Input('.join(inputs or [LATIN])})]"
    script = re.sub(r"^INPUTS = \[\n.*?^\]$", lambda _: only, script_of(), flags=re.M | re.S)
    for old, new in (
        ("TITLES = 400", "TITLES = 3"),
        ("KNOWN = 0.2", f"KNOWN = {known}"),
        ('"agent"]', f'"agent"{names}]'),
    ):
        script = script.replace(old, new, 1)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    if "menu.csv" not in files:
        (folder / "menu.csv").write_text(MENU, "utf-8")
    words = [sys.executable, "-c", script, "2026-01-05"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def rows_of(*rows: str) -> bytes:
    return HEADER + "".join(f"{row},m\n" for row in rows).encode("latin-1")


UTF8 = HEADER + "u1,Caf\u00e9,2026-01-05,m\nu2,Caf\u00e9,2026-01-05,m\nu3,tea,2026-01-05,m\n".encode()
NONE, FEW = "no row is of use", "fewer than half of the rows are of use"
OF_NO_USE = {
    "the week before": (rows_of("ana,tea,2026-01-04"), NONE),
    "unreadable lines": (rows_of("ana,tea,2026-01-05", 'ana,"tea,2026-01-05', 'bo,"tea,2026-01-05'), FEW),
    "no times": (rows_of("ana,tea,2026-01-05", "ana,tea,soon", "ana,tea,late"), FEW),
    "no users": (rows_of("ana,tea,2026-01-05", ",tea,2026-01-05", " ,tea,2026-01-06"), FEW),
    "no items": (rows_of("ana,tea,2026-01-05", "ana,,2026-01-05", "ana,,2026-01-06"), FEW),
    "bots aside": (TEA + b"bo,,2026-01-05,m\ncy,,2026-01-05,m\n" + b"di,tea,2026-01-05,bot\n" * 3, FEW),
    "days and months swapped": (rows_of("ana,tea,2026-01-05", "ana,tea,2026-05-01", "ana,tea,2026-06-01"), FEW),
    "another encoding": (UTF8, "its encoding is another one"),
    "each a little": (rows_of("ana,tea,2026-01-05", "ana,tea,2026-05-01", "ana,gin,2026-01-05"), FEW),
    "cp1252": (
        rows_of("ana,tea,2026-01-05") + b"bo,tea\x92s,2026-01-05,m\n",
        "its encoding is another one",
    ),
}


@pytest.mark.parametrize(("content", "why"), OF_NO_USE.values(), ids=OF_NO_USE)
def test_nothing_is_written_where_an_input_is_of_no_use(tmp_path: Path, content: bytes, why: str) -> None:
    """Though another of the same country is."""
    (tmp_path / "plays/2026-01-05").mkdir(parents=True)
    (tmp_path / "plays/2026-01-05/_SUCCESS").touch()
    done = cleaned(tmp_path, {**WEEKS, "de-2026-01-05-more": content})
    told = f"nothing is written, as de-2026-01-05-more: {why}: the lines above tell why; move it away if another "
    told += "has its rows, have it sent again, or correct INPUTS\n"
    assert done.returncode == 1 and done.stderr == told, done
    assert not list(tmp_path.rglob("*.parquet")) and list(tmp_path.rglob("_SUCCESS"))


def test_a_row_of_another_encoding_does_not_stop_the_rest(tmp_path: Path) -> None:
    many = HEADER + b"".join(b"u%d,tea,2026-01-05,m\n" % user for user in range(999)) + b"u,tea\x92s,2026-01-05,m\n"
    done = cleaned(tmp_path, {**WEEKS, "de-2026-01-05": many})
    assert done.returncode == 0 and "de-2026-01-05, another encoding, 1\n" in done.stdout, done


def test_nothing_is_written_if_most_amounts_are_no_numbers(tmp_path: Path) -> None:
    header = b"user,item,time,agent,minutes\n"
    rows = [b"u%d,tea,2026-01-05,m,%s\n" % row for row in enumerate([b"1.5", b'"19,55"', b"NaN"])]
    done = cleaned(tmp_path, {"de-2026-01-05": header + b"".join(rows)}, names=', "minutes"')
    assert done.returncode == 1 and FEW in done.stderr and "de-2026-01-05, no amount, 2\n" in done.stdout, done
    done = cleaned(tmp_path, {"de-2026-01-05": header + b"".join(rows[:2])}, names=', "minutes"')
    assert done.returncode == 0 and "de-2026-01-05, no amount, 1\n" in done.stdout, done


def test_nothing_is_written_if_a_file_is_of_another_country(tmp_path: Path) -> None:
    """Though its local times are others there. Some rows may be in both."""
    mine = rows_of("ana,tea,2026-01-05 10:00", "bo,tea,2026-01-05 11:00")
    inputs = (LATIN, LATIN.replace('"DE", "de', '"FI", "fi').replace("UTC", "Europe/Helsinki"))
    done = cleaned(tmp_path, {"de-2026-01-05": mine, "fi-2026-01-05": mine}, *inputs)
    told = "de-2026-01-05: most rows are also in a file of another country; fi-2026-01-05: most rows are also in "
    assert done.returncode == 1 and told in done.stderr and not list(tmp_path.rglob("_SUCCESS")), done
    done = cleaned(tmp_path, {"fi-2026-01-05": rows_of("ana,tea,2026-01-05 10:00", "cy,tea,2026-01-05 11:00")}, *inputs)
    assert done.returncode == 0 and not done.stderr, done


def test_nothing_is_written_if_two_files_are_swapped(tmp_path: Path) -> None:
    """Though most users are new. All may be abroad of a country without files beside."""
    inputs = (LATIN, LATIN.replace('"DE", "de', '"FR", "fr'))
    users = {"de": ["ana", "bo"], "fr": ["cy", "di"]}

    def of(country: str, day: str) -> bytes:
        new = [f"{country}{day}{number}" for number in range(5)]
        return rows_of(*(f"{user},tea,{day}" for user in users[country] + new))

    files = {f"{each}-{day}": of(each, day) for each in users for day in ("2025-12-29", "2026-01-12")}
    mine = {f"{each}-2026-01-05": of(each, "2026-01-05") for each in users}
    swapped = dict(zip(mine, reversed(mine.values()), strict=True))
    done = cleaned(tmp_path, files | swapped, *inputs, known=0.2)
    why = "too few of its rows are by users of a week beside"
    assert done.returncode == 1 and f"as de-2026-01-05: {why}; fr-2026-01-05: {why}: the" in done.stderr, done
    assert not list(tmp_path.rglob("_SUCCESS"))
    new = inputs[1].replace('"FR", "fr', '"IE", "ie')
    mine["ie-2026-01-05"] = rows_of("ana,tea,2026-01-07")
    done = cleaned(tmp_path, files | mine, *inputs, new, known=0.2)
    assert done.returncode == 0 and not done.stderr, done
    for told in ("de-2026-01-05', 0.286, 0.286", "ie-2026-01-05', None, None"):
        assert f"\nrows by users of the weeks beside: ('{told})\n" in done.stdout, done


@pytest.mark.parametrize(("before", "after", "refused"), [(1, 1, 0), (0, 1, 1), (1, 0, 1), (0, None, 1), (None, 1, 0)])
def test_nothing_is_written_if_the_ids_of_a_file_are_others(
    tmp_path: Path, before: int | None, after: int | None, refused: int
) -> None:
    """Also if they stay so from then on. A country may begin, and bots need not be known."""
    files = {
        "de-2026-01-05": rows_of(*(f"u{user},tea,2026-01-05" for user in range(5))) + b"x,tea,2026-01-05,bot\n" * 9
    }
    for day, known in (("2025-12-29", before), ("2026-01-12", after)):
        if known is not None:
            files[f"de-{day}"] = rows_of(*(f"{'u' if user < known else 'v'}{user},tea,{day}" for user in range(9)))
    done = cleaned(tmp_path, files, known=0.2)
    why = "nothing is written, as de-2026-01-05: too few of its rows are by users of a week beside: the lines"
    assert done.returncode == refused and done.stderr.startswith(why * refused), done


def test_nothing_is_written_if_no_line_reads_a_file_of_the_week(tmp_path: Path) -> None:
    """Those of other weeks may lie there."""
    line = LATIN.replace("de-{}*", "raw/de-{}*.csv")
    files = {"raw/de-2026-01-05.csv": TEA, "raw/fr-2025-12-29.csv": TEA}
    assert cleaned(tmp_path, files, line).returncode == 0
    shutil.rmtree(tmp_path / "plays")
    done = cleaned(tmp_path, {"raw/de-2026-01-05-2.csv.gz": gzip.compress(TEA), "raw/2026-01-05.md5": b""}, line)
    told = "nothing is written, as no line of INPUTS reads raw/2026-01-05.md5, raw/de-2026-01-05-2.csv.gz: "
    told += "add one, or move it\n"
    assert done.returncode == 1 and done.stderr == told and not list(tmp_path.rglob("_SUCCESS")), done


@pytest.mark.parametrize(
    ("menu", "why"),
    [
        (b"item\ntea\nTea\ncaf\xc3\xa9\n", "it has fewer than 3 titles"),
        (MENU.encode("latin-1"), "ComputeError"),
        (b"title\ntea\n", 'unable to find column "item"; valid columns: ["title"]'),
    ],
)
def test_nothing_is_written_with_a_menu_that_is_cut_or_cannot_be_read(tmp_path: Path, menu: bytes, why: str) -> None:
    done = cleaned(tmp_path, {**WEEKS, "menu.csv": menu})
    told = f"nothing is written, as menu.csv cannot be used: {why}; "
    assert done.returncode == 1 and done.stderr.startswith(told) and done.stderr.count("\n") == 1, done
    assert done.stderr.endswith("; save it whole, in UTF-8, with a column item\n")
    assert not list(tmp_path.rglob("_SUCCESS"))


@pytest.mark.parametrize("name", WEEKS)
def test_nothing_is_written_without_a_file_of_the_week_or_with_an_empty_one(tmp_path: Path, name: str) -> None:
    """A file of the next week may be missing, which is told."""
    others = {"de-2025-12-29": TEA, **WEEKS}
    del others[name]
    done = cleaned(tmp_path, others)
    assert f"there is no {name}*\n" in done.stdout and done.returncode == (name == "de-2026-01-05"), done
    assert bool(list(tmp_path.rglob("*.parquet"))) == (done.returncode == 0)
    shutil.rmtree(tmp_path / "plays", ignore_errors=True)
    done = cleaned(tmp_path, {name: b""})
    assert done.returncode == 1 and name in done.stderr and not list(tmp_path.rglob("*.parquet")), done


def test_a_week_that_was_written_in_part_has_no_success_file(tmp_path: Path) -> None:
    (tmp_path / "plays/2026-01-05").mkdir(parents=True)
    (tmp_path / "plays/2026-01-05/_SUCCESS").touch()
    (tmp_path / "catalogue.csv").mkdir()
    done = cleaned(tmp_path, WEEKS)
    assert done.returncode == 1 and "directory" in done.stderr and not list(tmp_path.rglob("_SUCCESS")), done


def test_half_of_the_rows_may_be_of_no_use(tmp_path: Path) -> None:
    done = cleaned(tmp_path, {**WEEKS, "de-2026-01-05": rows_of("ana,tea,2026-01-05", "bo,gin,2026-01-05")})
    assert done.returncode == 0 and "de-2026-01-05, not in the menu, 1\n" in done.stdout, done
    assert "\nmost often not in the menu: ('de-2026-01-05', 'gin', 1)\n" in done.stdout


@pytest.mark.parametrize("least", [2, 3])
def test_a_file_that_was_cut_short_is_refused_also_if_it_came_twice(tmp_path: Path, least: int) -> None:
    """Rows of other weeks, and copies, do not count."""
    short = rows_of("ana,tea,2026-01-05", "bo,tea,2026-01-11", "bo,tea,2026-01-12")
    files = {"de-2026-01-05": short, "de-2026-01-05-again": short, "de-2026-01-12": NEXT}
    done = cleaned(tmp_path, files, LATIN.replace("1,", f"{least},", 1))
    told = "nothing is written, as fewer than 3 rows of the week are in de-2026-01-05*\n" * (least == 3)
    assert done.stderr == told and bool(list(tmp_path.rglob("_SUCCESS"))) == (not told), done


def test_a_user_column_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    """Such as the agent's: its rows are enough, but of few users."""
    rows = rows_of(*(f"de-00001,tea,2026-01-05 10:{minute}" for minute in range(10, 40)), "bo,tea,2026-01-12")
    for least in (1, 2):
        done = cleaned(tmp_path, {**WEEKS, "de-2026-01-05": rows}, LATIN.replace("1, 1,", f"20, {least},"))
        told = "nothing is written, as fewer than 2 users of the week are in de-2026-01-05*\n" * (least == 2)
        assert done.stderr == told and done.returncode == bool(told), done


def test_a_file_that_came_twice_may_have_an_unreadable_line(tmp_path: Path) -> None:
    """Also in another week."""
    done = cleaned(tmp_path, {**WEEKS, "de-2026-01-05": TEA + b'"bad\n', "de-2026-01-12-again": TEA + b'"bad\n'})
    assert done.returncode == 0 and not done.stderr, done
    assert "again, there twice, 1\nde-2026-01-12-again, unreadable line, 1\n" in done.stdout
    assert len(pl.read_parquet(tmp_path / "plays/2026-01-05/country=DE/plays.parquet")) == 1


def test_letters_that_look_alike_are_one(page: dict[str, Any]) -> None:
    """Also those that are invisible, in users too."""
    items = ["STRASSE", "stra\u00dfe", "Stra\u00df\u200be", "\ufeffstra\u00ad\u00dfe ", "STRA\u1e9eE"]
    rows = frame(["2026-01-05"] * 5, "u\u200b").with_columns(item=pl.Series(items))
    found = page["tidy"]("x", rows, "UTC", [])
    assert {*found["item"]} == {"strasse"} and {*found["user"]} == {"u"}


def test_turkish_letters_that_capitals_do_not_tell_apart() -> None:
    edit = re.search(r"`ITEM` with `(\.str\.replace_all\(.*?\))`", (ROOT / "docs/cleaning.md").read_text("utf-8"))
    assert edit
    items = ["\u0131l\u0131k", "ILIK", "ilik", "\u0130L\u0130K", "i\u0307l\u0131k"]
    for end, spellings in (("", 4), (edit[1], 1)):
        page = defined(lambda script, end=end: re.sub("\nITEM = .*", lambda item: item[0] + end, script))
        rows = page["tidy"]("x", frame(["2026-01-05"] * 5).with_columns(item=pl.Series(items)), "UTC", [])
        assert rows["item"].n_unique() == spellings


def test_a_header_with_a_name_twice_is_refused(page: dict[str, Any], tmp_path: Path) -> None:
    """Only of columns that are read: others may have no name at all."""
    path = tmp_path / "rows.csv"
    path.write_text("user,item,item,time,agent\nana,first,last,2026-01-05,m\n")
    with pytest.raises(ValueError, match="two columns of one name"):
        page["from_lines"](str(path))
    path.write_text("user,item,time,agent,,\nana,tea,2026-01-05,m,,\n")
    assert page["from_lines"](str(path))["item"].to_list() == ["tea"]


PARQUET = io.BytesIO()
pl.DataFrame({"user": ["ana"], "item": ["tea"], "time": ["2026-01-05"]}).write_parquet(PARQUET)
NO_AGENTS, QUOTE = b"user,item,time,ua\nana,tea,2026-01-05,m\n", HEADER + b'ana,"tea,2026-01-05,m\n'
UNREAD = [
    ("half.csv.gz", gzip.compress(TEA * 9)[:-12], LATIN, "Compressed file ended"),
    ("half.JSONL.GZ", gzip.compress(b"{}\n" * 9)[:-12], LATIN, "Compressed file ended"),
    ("plain.csv.gz", TEA, LATIN, "Not a gzipped file"),
    ("wide.csv", TEA.decode().encode("utf-16"), LATIN, "no row has: user, item, time, agent; "),
    ("wide8.csv", TEA.decode().encode("utf-16"), LATIN.replace("latin-1", "utf-8"), "'utf-8' codec can't decode"),
    ("mac.csv", TEA.replace(b"\n", b"\r"), LATIN, "new-line character"),
    ("failed.csv", b"", LATIN, "no row has: user, item, time, agent; "),
    ("header.csv", HEADER, LATIN, "no row has: user, item, time, agent; "),
    ("row.csv", HEADER + b",,,\n", LATIN, "no row has: user, item, time, agent; "),
    ("empty.csv", HEADER + b"ana,tea,2026-01-05,\nbo,tea,2026-01-05, \n", LATIN, "no row has: agent; "),
    ("empty.jsonl", b'{"user": "ana", "item": "tea", "time": "2026-01-05", "agent": ""}', LATIN, "no row has: agent; "),
    ("blank.polars", HEADER + b"ana,tea,2026-01-05, \n", POLARS, "no row has: agent; "),
    ("agents.csv", NO_AGENTS, LATIN, "no row has: agent; "),
    ("agents.jsonl", b'{"user": "ana", "item": "tea", "time": "2026-01-05", "ua": "m"}', LATIN, "no row has: agent; "),
    ("failed.polars", b"", POLARS, "NoDataError; "),
    ("header.polars", HEADER, POLARS, "no row has: user, item, time, agent; "),
    ("agents.polars", NO_AGENTS, POLARS, '"agent" not found; '),
    ("quote.polars", QUOTE, POLARS, "ComputeError; "),
    ("latin.polars", rows_of("ana,caf\u00e9,2026-01-05"), POLARS, "ComputeError; "),
    (
        "columns",
        PARQUET.getvalue(),
        POLARS.replace("csv(path, infer_schema=False", "parquet(path, columns=NAMES"),
        "unable",
    ),
    (
        "times",
        PARQUET.getvalue(),
        POLARS.replace("csv(path, infer_schema=False", "parquet(path"),
        '"agent" not found; ',
    ),
]


@pytest.mark.parametrize(("name", "content", "reader", "why"), UNREAD, ids=[row[0] for row in UNREAD])
def test_a_file_that_cannot_be_read_is_named_with_the_remedy(
    tmp_path: Path, name: str, content: bytes, reader: str, why: str
) -> None:
    """And without a word of its rows."""
    done = cleaned(tmp_path, {f"de-2026-01-05-{name}": content}, reader)
    told = f"nothing is written, as de-2026-01-05-{name} cannot be used: {why}"
    assert done.returncode == 1 and done.stderr.startswith(told) and not list(tmp_path.rglob("_SUCCESS")), done
    assert done.stderr.endswith("; read it by from_lines if polars stops\n")
    assert (
        done.stderr.count("\n") == 1
        and "tea" not in done.stderr
        and "move it away if empty; have it sent again if cut" in done.stderr
    )


def test_amounts_with_decimal_commas(tmp_path: Path) -> None:
    edit = re.search(r"`(\.with_columns\(.*\))`", (ROOT / "docs/cleaning.md").read_text("utf-8"))
    assert edit
    page = defined(lambda script: script.replace('"agent"]', '"agent", "minutes"]'))
    path = tmp_path / "rows.csv"
    path.write_text("client;titre;heure;agent;minutes\nana;tea;2026-01-05;m;1.250,50\nbo;tea;2026-01-05;m;3\n;;;;n/a\n")
    rows = page["from_lines"](str(path), delimiter=";", names=page["FRENCH"])
    rows = page["tidy"]("x", eval(f"rows{edit[1]}", page, {"rows": rows}), "UTC", [])
    assert as_numbers(rows["minutes"].to_arrow()).to_pylist() == [1250.5, 3, None]
    kept = re.search(r"^kept = .*\.select\((.*)\)$", script_of(), re.M)
    assert kept and eval(f"[{kept[1]}]", page)[-2:] == ["country", "minutes"]


def test_titles_that_are_counted_together_are_named(tmp_path: Path) -> None:
    done = cleaned(tmp_path, {**WEEKS, "menu.csv": f"{MENU}Tea\n".encode()})
    told = {line for line in done.stdout.splitlines() if "title" in line}
    assert done.returncode == 0 and told == {
        f"counted with another title of the menu: {name}" for name in ("tea", "Tea")
    }
