"""The command line: what a run writes, says and leaves behind, and its status. What is refused: ../test_refusals.py."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk.pipelines import cli
from private_topk.pipelines.cli.output import run_command
from private_topk.transforms.mechanisms import MECHANISMS
from tests.pipelines.support import WEEKLY, command, options, settled, tree, write

ITEMS = ["apple", "banana", "cherry"]
ROWS = [{"user": f"secret user {n}", "item": ITEMS[n % 3]} for n in range(30)]
SECRET = "a secret key of many bytes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PRIVATE_TOPK_TEST_KEY", SECRET)
    monkeypatch.setenv("PRIVATE_TOPK_SHORT_KEY", "hunter2")
    monkeypatch.delenv("PRIVATE_TOPK_NO_KEY", raising=False)
    write(tmp_path / "rows.avro", ROWS)
    write(tmp_path / "items.txt", "\n".join(ITEMS))
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def run(*more: str, **changes: object) -> Any:  # noqa: ANN401
    settings = {
        "input": "rows.avro",
        "domain": "items.txt",
        "mechanism": "joint",
        "k": 2,
        "epsilon": 1,
        "output": "out.avro",
    }
    return command("run", *options(**{**settings, **changes}), *more)


def test_a_weak_promise_is_told_by_whatever_decides_or_states_it(folder: Path) -> None:
    said = run(epsilon=100).err.removeprefix("private-topk: ").strip()
    assert said.startswith("Epsilon 100 is a weak promise")
    assert said in run("--dry-run", epsilon=100, output="b.avro").out
    for form in ((), ("--sign-off",), ("--registry",)):
        assert said in " ".join(command("show", "out.avro", *form).out.replace("''", "'").split()), form
    write(folder / "days.csv", "user,item,time\nu,apple,2026-01-05\n")
    days = {"input": "days.csv", "window": "day", "from": "2026-01-01", "to": "2026-03-02", "output": "days.avro"}
    daily = run(**days).err.removeprefix("private-topk: ").strip()
    assert daily == (
        "Epsilon 26.6648 at delta 1e-06, for a person who is in all windows, is a weak promise, a factor above 100: "
        "the privacy unit `user` has one total for all of them."
    )
    assert daily in run("--dry-run", **{**days, "output": "e.avro"}).out
    assert run(**{**days, "output": "total.avro", "privacy_unit": "user"}).err == ""
    for form in ((), ("--sign-off",), ("--registry",)):
        assert daily in " ".join(command("show", "days.avro", *form).out.replace("''", "'").split()), form
    opened = options(ledger="sqlite:///weak.db", dataset="d", epsilon=100)
    assert command("budget", "create", *opened, "--json").err == f"private-topk: {said}\n"
    told = run("--overwrite", mechanism="gaussian", delta=0.5).err
    assert "private-topk: Delta 0.5 is a large delta: take well below 1 / number of users, such as 1e-6.\n" in told
    assert "large delta" not in run("--overwrite", mechanism="gaussian", delta=1e-6).err


def test_times_that_may_lack_a_zone_are_told_to_be_utc_where_windows_have_one(folder: Path) -> None:
    """By the type of their column: whether a text lacks one is private."""
    week = {"window": "day", "from": "2026-01-05", "to": "2026-01-06", "k": 1, "time_zone": "Europe/Berlin"}
    told = "private-topk: times that have no zone are read as UTC, and windows are in Europe/Berlin\n"
    row = {"user": pa.array(["u"]), "item": pa.array(["apple"])}
    for kind, lacks in (
        (pa.timestamp("us"), True),
        (pa.date32(), True),
        (pa.string(), True),
        (pa.timestamp("us", "UTC"), False),
        (pa.int64(), False),
    ):
        pq.write_table(pa.table({**row, "time": pa.nulls(1, kind)}), "zones.parquet")
        unit = {"time_unit": "s"} if kind == pa.int64() else {}
        done = run("--overwrite", input="zones.parquet", **{**week, **unit})
        assert (done.status, done.err) == (0, told * lacks), kind
    assert run("--overwrite", input="zones.parquet", **{**week, **unit, "time_zone": "UTC"}).err == ""
    (folder / "zones.csv").write_text("user,item,time\nu,apple,2026-01-05T10:00:00Z\n")
    assert run("--overwrite", input="zones.csv", **week).err == told
    assert f"; {told.partition(': ')[2]}" in run("--overwrite", "--dry-run", input="zones.csv", **week).out
    assert run("--overwrite", input="zones.csv", **{**week, "time_zone": "UTC"}).err == ""


def test_an_existing_output_is_kept_byte_for_byte_unless_overwritten(folder: Path) -> None:
    for name in ("out.avro", "out.manifest.json"):
        write(folder / name, b"precious")
        before = tree(folder)
        done = run()
        assert done.status == 2 and f"{name} exists and is kept: give another path, or --overwrite" in done.err
        assert tree(folder) == before
        (folder / name).unlink()
    write(folder / "out.avro", b"precious")
    assert run("--overwrite", "--quiet").status == 0
    assert (folder / "out.avro").read_bytes().startswith(b"Obj")
    first = tree(folder)
    assert run("--overwrite").status == 0 and tree(folder).keys() == first.keys()
    (folder / "taken.manifest.json").mkdir()
    assert "taken.manifest.json is a folder" in run("--overwrite", output="taken.avro").err


def test_the_folder_of_the_output_is_made_with_it(folder: Path) -> None:
    assert run(output="new/deep/out.csv").status == 0
    assert sorted(os.listdir("new/deep")) == ["out.csv", "out.manifest.json"]


def test_the_ranking_is_printed_as_a_table(folder: Path) -> None:
    write(folder / "odd.txt", "\n".join([*ITEMS, "tab\there", "bell\a", "日本"]))
    done = run(domain="odd.txt", k=6)
    assert done.status == 0 and done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == "All rows" and [line[:4] for line in lines[1:7]] == [f"  {n} " for n in range(1, 7)]
    assert {line[5:] for line in lines[1:7]} == {*ITEMS, "tab\\there", "bell\\x07", "日本"}
    assert lines[-2:] == ["ranking:  out.avro", "manifest: out.manifest.json"]


@pytest.mark.parametrize(
    ("words", "status"), [([], 2), (["--help"], 0), (["run", "--help"], 0), (["fly"], 2), (["select", "--nope"], 2)]
)
def test_exit_status_of_the_bare_command(words: list[str], status: int) -> None:
    done = command(*words)
    assert done.status == status and (done.out if status == 0 else done.err.count("\n") == 1)


HELP = """
import sys
from private_topk.pipelines import cli
try:
    cli.main(sys.argv[1:])
except SystemExit as exit:
    assert exit.code == 0
print([name for name in ("apache_beam", "polars", "pyarrow", "sqlalchemy", "scipy") if name in sys.modules])
print(len(sys.modules))
"""


@pytest.mark.parametrize(
    "words", [["run", "--help"], ["select", "--mechanism=joint", "--epsilon=1", "--k=1", "--counts=counts.npy"]]
)
def test_commands_without_beam_load_no_heavy_module(folder: Path, words: list[str]) -> None:
    """Modules are counted, and no time is taken: some 400 today, 2,200 with Beam."""
    np.save(folder / "counts.npy", [3, 1])
    done = subprocess.run([sys.executable, "-c", HELP, *words], capture_output=True, text=True, timeout=600)
    heavy, number = done.stdout.splitlines()[-2:]
    assert heavy == "[]", "something heavy was loaded"
    assert int(number) < 600


@pytest.mark.long
def test_an_early_end_of_the_reader_is_no_failure(folder: Path) -> None:
    """Of rows in CSV: Arrow's reading threads used to abort one run in twelve while Python took itself down."""
    write(folder / "rows.csv", ROWS)
    asked = "run --input=rows.csv --domain=items.txt --mechanism=joint --k=2 --epsilon=1 --output=out.csv".split()
    words = [sys.executable, "-m", "private_topk", *asked]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        job.stdout.close()
        assert job.stderr.read() == b"" and job.wait(60) == 0
    assert (folder / "out.csv").exists()


def test_help_says_what_epsilon_is_in_each_command() -> None:
    for name, text in (("run", "of each window"), ("select", "of the draw")):
        shown = " ".join(command(name, "--help").out.split())
        assert f"--epsilon E required: {text}" in shown.replace("privacy budget: ", "").replace("privacy budget ", "")


def test_a_full_disk_is_named_and_no_data(capsys: pytest.CaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("OSError: [Errno 28] No space left on device: 'secret user 1' [while running 'Publish']")

    assert run_command(fail) == 1
    said = capsys.readouterr().err
    assert "failed with RuntimeError (No space left on device)\n" in said and "secret" not in said


def test_mechanisms_are_listed_with_their_parameters_all_or_those_that_are_named() -> None:
    whole, one = command("mechanisms").out, command("mechanisms", "joint")
    for name, mechanism in MECHANISMS.items():
        assert f"{name}\n" in whole and mechanism.guarantee.privacy in whole
    for needs in ("needs --delta, --max-items-per-user; takes --kbar", "takes --skew, --noise", "no parameters but"):
        assert f"    {needs}" in whole
    assert one.status == 0 and one.out.startswith("joint\n") and one.out in whole and len(one.out.splitlines()) == 5
    both = json.loads(command("mechanisms", "peeling", "gaussian", "--json").out)
    assert [each["name"] for each in both] == ["peeling", "gaussian"]
    assert command("mechanisms", "jiont").err.endswith("did you mean joint?\n")


def test_dropped_rows_are_reported_on_request(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("user,item\na,tea\nb,\n,tea\nc,coal\n")
    (tmp_path / "items.txt").write_text("tea\ncake\n")
    asked = (
        f"--input {tmp_path}/rows.csv --domain {tmp_path}/items.txt --mechanism joint --k 1 --epsilon 1 --output "
        f"{tmp_path}/ranking.csv"
    ).split()
    told = command("run", *asked, "--show-dropped-rows", "--exact-counters")
    assert told.status == 0
    assert "dropped rows (operator only, never publish; exact): not in domain 1, null 2; --dry-run" in told.err
    told = command("run", *asked, "--overwrite", "--show-dropped-rows")
    assert "dropped rows (operator only, never publish; fewer than 100 are not told): none" in told.err
    (tmp_path / "rows.csv").write_text("user,item\na,tea\n" + "b,\n" * 12_345 + "c,coal\n" * 99)
    told = command("run", *asked, "--overwrite", "--show-dropped-rows")
    assert "(operator only, never publish; fewer than 100 are not told): null 10,000 or more" in told.err
    assert "dropped" not in command("run", *asked, "--overwrite").err


def on_a_terminal(*words: object) -> tuple[int, str, str]:
    """The status, stdout and stderr of a command whose stderr alone is a terminal, which is read meanwhile."""
    controller, terminal = pty.openpty()
    shown = bytearray()

    def read() -> None:
        while not shown.endswith(b"end\r\n"):
            shown.extend(os.read(controller, 4096))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with os.fdopen(terminal, "w") as stderr, contextlib.redirect_stderr(stderr):
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            status = cli.main([str(word) for word in words])
        print("end", file=stderr, flush=True)
        reader.join(10)
    os.close(controller)
    told = shown.decode().replace("\r\n", "\n").removesuffix("end\n")
    return status, stdout.getvalue(), re.sub(r"\r[^\n]*\r", "", told)  # without a progress bar


def test_a_terminal_is_told_of_dropped_rows_and_nothing_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are lost, for one reason or another: status, stdout and files are those of an input without rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.txt").write_text("tea\ncake\n")
    (tmp_path / "key").write_text("a key of the tests, which is no secret")
    asked = (
        "run --input rows.jsonl --domain items.txt --mechanism joint --k 1 --epsilon 1 --release-key file:key "
        "--release-id r --output out.csv --overwrite"
    ).split()
    head = "dropped rows (operator only, never publish; fewer than 100 are not told): "
    none = "no row is left: this is pure noise; --dry-run --show-dropped-rows tells why, and of which input\n"
    an_array = json.dumps([{"user": f"u{n}", "item": "tea"} for n in range(300)]) + "\n"

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in tmp_path.glob("out.*")}

    write(tmp_path / "rows.jsonl", "")
    empty = command(*asked)
    before = files()
    assert (empty.status, empty.err) == (0, "") and len(before) == 2
    for rows, told in (
        ("", none),
        (an_array, none),
        ('{"user": "u"}\n' * 200, f"all of them: null 100 or more; {none}"),
    ):
        write(tmp_path / "rows.jsonl", rows)
        assert on_a_terminal(*asked) == (0, empty.out, head + told)
        assert command(*asked) == empty and files() == before
    assert on_a_terminal(*asked, "--quiet") == (0, "", "")
    assert on_a_terminal(*asked, "--log-format", "json")[2] == ""
    event = json.loads(on_a_terminal(*asked, "--log-format", "json", "--show-dropped-rows")[2])
    assert event["event"] == "dropped_rows" and event["dropped"] == {"null": "100 or more"}
    assert event["any_left"] is False and event["message"] == head + "all of them: null 100 or more; " + none[:-1]
    assert "dropped" not in on_a_terminal(*asked, "--dry-run")[2]
    assert "no row is left: this is pure noise\n" in on_a_terminal(*asked, "--dry-run", "--show-dropped-rows")[2]
    write(tmp_path / "rows.jsonl", an_array[1:-2].replace("}, ", "}\n"))
    asked[asked.index("r")] = "s"  # other rows are another release
    assert on_a_terminal(*asked)[2] == head + "none, or too few to tell\n"


def test_windows_and_groups_without_a_row_are_told_where_dropped_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others have rows. Files, stdout and status are the same whether it is told or not."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.txt", "tea\ncake\n")
    write(tmp_path / "lands.txt", "FR\nDE\n")
    write(
        tmp_path / "rows.csv", "user,item,time,group\nu,tea,2026-01-05,FR\nv,tea,2026-01-13,DE\nw,gin,2026-01-20,FR\n"
    )
    asked = ["--input", "rows.csv", "--domain", "items.txt", "--mechanism", "joint", "--k", "1", "--epsilon", "1"]
    period = ["--window", "7d", "--from", "2026-01-05", "--to", "2026-01-26"]
    run = ["run", *asked, *period, "--output", "out.csv", "--overwrite"]
    noise = "none, or too few to tell. Pure noise, since nothing was counted there: "
    empty = "20260119T000000Z--20260126T000000Z"
    weeks = [f"{day} to {day + 6} January 2026 (UTC)" for day in (5, 12, 19)]
    assert on_a_terminal(*run)[2].endswith(f"{noise}{weeks[2]}\n")
    assert command(*run).err == "" and on_a_terminal(*run, "--quiet")[2] == ""
    event = json.loads(command(*run, "--log-format", "json", "--show-dropped-rows").err)
    assert event["nothing_counted"] == [empty] and event["any_left"] is True
    groups = ["--group-column", "group", "--groups", "lands.txt"]
    cells = f"{weeks[0]} (DE); {weeks[1]} (FR); {weeks[2]} (DE); {weeks[2]} (FR)"
    assert on_a_terminal(*run, *groups)[2].endswith(f"{noise}{cells}\n")
    days = [*run, "--window", "1d"]
    assert on_a_terminal(*settled(days))[2].endswith("9 January 2026 (UTC); and more\n")


def test_streams_and_reports_show_dropped_rows_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of rows that were all late, and of an item that rises by nothing: there rows are left."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.txt", "tea\ncake\nscone\n")
    write(tmp_path / "key", "a key of the tests, which is no secret")
    write(
        tmp_path / "rows.csv",
        "user,item,time\n" + "".join(f"u{n},tea,2026-01-05\nu{n},tea,2026-01-12\n" for n in range(150)),
    )
    write(tmp_path / "weekly.yaml", WEEKLY)
    more = "; --dry-run --show-dropped-rows tells why, and of which input\n"  # a stream's rows were not kept
    none = f"no row is left: this is pure noise{more}"
    asked = (
        "--input rows.csv --domain items.txt --mechanism joint --k 1 --epsilon 1 --window 7d --from 2026-01-12 --to "
        "2026-01-19"
    ).split()
    outside = "outside the period 100 or more"
    late = f"all of them: late 100 or more, {outside}; no row is left: this is pure noise"
    done = on_a_terminal("stream", *asked, "--output", "stream/", "--output-format", "jsonl")
    assert done[0] == 0 and done[2].endswith(f": {late}\n"), done
    report = on_a_terminal("report", "weekly.yaml", "--window-end", "2026-01-12")
    assert report[0] == 0 and report[2].endswith(f": {outside}{more}")
    write(tmp_path / "rows.csv", "user,item,time\n")
    report = on_a_terminal("report", "weekly.yaml", "--window-end", "2026-01-19")
    assert report[0] == 0 and report[2].endswith(none)
    assert on_a_terminal("report", "weekly.yaml", "--window-end", "2026-01-26", "--quiet")[2] == ""
    assert command("report", "weekly.yaml", "--window-end", "2026-02-02").err == ""
