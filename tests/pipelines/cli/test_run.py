"""The command line: what is refused, with which sentence, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import gzip
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

import pytest

from private_topk.pipelines import cli
from private_topk.pipelines.cli.output import run_command
from private_topk.transforms.mechanisms import MECHANISMS
from tests.pipelines.support import WEEKLY, avro_schema, command, options, settled, to_avro, write

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


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


FILES: dict[str, bytes] = {
    "cut.avro": to_avro(ROWS)[:-20],
    "foreign.avro": b"GIF89a" + b"\0" * 500,
    "cut.parquet": b"PAR1" + b"\0" * 100,
    "cut.csv.gz": gzip.compress(b"user,item\n" + b"secret user 1,apple\n" * 500)[:-30],
    "headerless.csv": b"secret user 1,apple\nsecret user 2,banana\n",
    "noitem.avro": to_avro([], avro_schema(user="string")),
    "rows.xlsx": b"PK",
    "blank.csv": b" ",
    "items.csv": b"item,land\napple,banana\n",
    "double.txt": b"apple\nbanana\napple\n",
    "blank.txt": b"apple\n\nbanana\n",
    "nothing.txt": b"",
    "latin.txt": b"caf\xe9\n",
    "short.key": b"hunter2\n",
}

BAD: list[tuple[dict[str, object], str]] = [
    ({"k": 4}, "--k must be at most the number of items, got k = 4 and 3 items"),
    ({"k": 0}, "--k must be a whole number of at least 1, got 0"),
    ({"k": -1}, "--k must be a whole number of at least 1, got -1"),
    ({"k": "1.5"}, "--k must be a whole number, got '1.5'$"),
    ({"epsilon": 0}, "--epsilon must be a positive finite number, got 0.0"),
    ({"epsilon": -1}, "--epsilon must be a positive finite number"),
    ({"epsilon": "nan"}, "--epsilon must be a positive finite number, got nan"),
    ({"epsilon": "inf"}, "--epsilon must be a positive finite number"),
    ({"epsilon": "1,5"}, "--epsilon must be a number, got '1,5'"),
    ({"epsilon": None}, "--epsilon must be given"),
    ({"k": None}, "--k must be given for joint: how many items to publish"),
    ({"input": None, "epsilon": None}, "--input, --epsilon must be given"),
    ({"mechanism": "jiont"}, "--mechanism must be one of joint.*: did you mean joint.$"),
    ({"delta": 0.1}, "--delta does not apply to joint: leave it out"),
    ({"beta": 0.1}, "--beta does not apply to joint"),
    ({"skew": 2}, "--skew must be a number from 1/2 to 1"),
    ({"skew": "1/0"}, "--skew must be a number such as 0.6 or 3/5"),
    ({"noise": "loud"}, "--noise must be one of"),
    ({"neighbours": "nextdoor"}, "--neighbours must be one of add-remove, replace-one; got 'nextdoor'"),
    ({"max_items_per_user": 0}, "--max-items-per-user must be a whole number of at least 1, got 0"),
    ({"domain": None}, "give --domain or --found, public lists of items, --domain-range, consecutive integers"),
    ({"unknown_domain": True}, "joint needs a public domain: .* give the public list of items, or use"),
    ({"domain": None, "unknown_domain": True}, "joint needs a public domain: .* give the public list of items, or use"),
    ({"domain_range": "0:9"}, "give --domain or --found, public lists of items, --domain-range, consecutive integers"),
    ({"domain": None, "domain_range": "0-9"}, "--domain-range must be a text START:STOP, got 0-9: give"),
    ({"domain": None, "domain_range": "9:9"}, "--domain-range must hold 1 to 2[*][*]40 items, got 9:9"),
    ({"domain": None, "domain_range": f"0:{2**41}"}, "--domain-range must hold 1 to 2[*][*]40 items, got 0:2199023"),
    ({"domain": None, "domain_range": "0:9", "domain_column": "x"}, "--domain-column is of a --domain file"),
    ({"domain": None, "domain_range": "0:1"}, "--k must be at most the number of items"),
    ({"domain": "none.txt"}, "--domain none.txt does not exist"),
    ({"domain": "double.txt"}, "--domain double.txt must hold every item once, got 1 repeated"),
    ({"domain": "blank.txt"}, "--domain blank.txt must not hold empty items, got 1: remove them"),
    ({"domain": "nothing.txt"}, "--domain nothing.txt must hold at least one item"),
    ({"domain": "latin.txt"}, "--domain latin.txt is not UTF-8"),
    ({"input": "none-*.avro"}, "--input none-.*avro matches no file: check the path, and quote a glob"),
    ({"input": "."}, "--input . is a folder: name its files"),
    ({"input": "cut.avro"}, "cut.avro is truncated: .* Write or copy it again"),
    ({"input": "foreign.avro"}, "foreign.avro is not an Avro file"),
    ({"input": "cut.parquet"}, "cut.parquet is not a Parquet file, or it is truncated"),
    ({"input": "cut.csv.gz"}, "cut.csv.gz is not a whole gzip file"),
    ({"input": "headerless.csv"}, "--user-column 'user' is no column of headerless.csv, whose first line"),
    ({"input": "blank.csv"}, "blank.csv is not a CSV file"),
    ({"input": "rows.xlsx"}, "rows.xlsx has no known ending: use one of .avro"),
    ({"input": "noitem.avro"}, "--item-column 'item' is no column of noitem.avro"),
    ({"user_column": "who"}, "--user-column 'who' is no column of rows.avro: it has item, user: give --user-column"),
    ({"window": "7d"}, "--window needs --from and --to: .* inferred from the data would tell"),
    ({"from_": "2026-01-01"}, "--from and --to go together"),
    ({"window": "7d", "to": "2026-01-01"}, "--from and --to go together"),
    ({"from_": "2026-01-02", "to": "2026-01-02"}, "--from and --to: period must end after it starts, got 2026-01-02"),
    ({"from_": "2026-01-02", "to": "2026-01-01"}, "period must end after it starts"),
    ({"from_": "soon", "to": "2026-01-01"}, "--from must be a date or time such as 2026-01-05"),
    ({"from_": "2026-01-01", "to": "2026-13-01"}, "--to must be a date or time"),
    ({"window": "7 days"}, "--window must be a number and one of s, m, h, d, w"),
    ({"window": "0d"}, "--window must be"),
    ({"window": "-1d"}, "--window must be"),
    ({"window": "1.5d"}, "--window must be"),
    ({"window": "1s", "from_": "2020-01-01", "to": "2026-01-01"}, "at most 100,000 windows"),
    ({"from_": "2026-01-01", "to": "2026-02-01"}, "--time-column 'time' is no column of rows.avro"),
    ({"release_id": "r"}, "--release-id needs --release-key"),
    ({"release_key": SECRET, "release_id": "r"}, "--release-key must be given as file:PATH"),
    ({"release_key": "file:none.key", "release_id": "r"}, "--release-key file:none.key cannot be read"),
    ({"release_key": "file:short.key", "release_id": "r"}, "must have at least 16 bytes, got 7"),
    ({"release_key": "env:PRIVATE_TOPK_SHORT_KEY", "release_id": "r"}, "must have at least 16 bytes, got 7"),
    ({"release_key": "env:PRIVATE_TOPK_NO_KEY", "release_id": "r"}, "PRIVATE_TOPK_NO_KEY is not set: export"),
    ({"release_key": "env:PRIVATE_TOPK_TEST_KEY", "release_id": "a\nb"}, "1 to 500 printable characters"),
    ({"epsilon": "abc"}, "--epsilon must be a number, got 'abc'"),
    ({"epsilon": "1_5"}, "--epsilon must be a number, got '1_5'"),
    ({"user_col": "x"}, "--user-col is no argument of `private-topk run` or of Beam: did you mean --user-column.$"),
    ({"zzz": "x"}, "--zzz is no argument of `private-topk run` or of Beam: `private-topk run --help` lists"),
    ({"runner": "flnik"}, "--runner must be one of direct.*, got flnik: did you mean flink.$"),
    ({"shards": 3}, "--shards must be a power of two from 1 to 65536, got 3"),
    ({"shards": 0}, "--shards must be a power of two"),
    ({"output": "out.xlsx"}, "--output out.xlsx must end with one of .avro"),
    ({"output": "out"}, "--output out must end with one of"),
    ({"output": "rows.avro/out.avro"}, "--output rows.avro/out.avro cannot be written: Not a directory"),
    ({"output": "/proc/nowhere/out.avro"}, "--output /proc/nowhere/out.avro cannot be written"),
    ({"output": "x" * 300 + ".avro"}, "cannot be written: File name too long"),
    ({"output": "rows.avro", "overwrite": True}, "--output rows.avro would replace .*rows.avro, which is read: give"),
    ({"runner": "spork"}, "--runner must be one of direct"),
    ({"inptu": "rows.avro"}, "--inptu is no argument of `private-topk run` or of Beam: did you mean --input.$"),
    ({"direct num_wrokers": 2}, "--direct_num_wrokers is no argument .* of Beam: did you mean --direct_num_workers.$"),
    ({"direct num_workers": "two"}, "argument --direct_num_workers: invalid int value: 'two'"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[" ".join(options(**change)) for change, _ in BAD])
def test_bad_input_is_one_sentence_before_any_work(folder: Path, change: dict[str, object], message: str) -> None:
    for name, content in FILES.items():
        write(folder / name, content)
    before = tree(folder)
    done = run(**change)
    assert done.status == 2 and done.out == ""
    assert re.search(message, done.err), done.err
    assert done.err.startswith("private-topk: ") and done.err.count("\n") == 1
    assert not any(word in done.err for word in ("Traceback", "secret user", SECRET, "hunter2")), (
        "a message that shows data"
    )
    assert tree(folder) == before, "something was written"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epsilon=2"], "--epsilon must be given once, got it twice"),
        (["--delta"], "--delta needs a value; one that starts with a dash is given as --delta=-1"),
        (["--delta", "--shards", "2"], "--delta needs a value"),
        (["--overwrite=true"], "--overwrite stands alone: it takes no value"),
        (["2"], "'2' stands alone: values follow their argument"),
        (["--skew=1/2", "1"], "'1' stands alone: values follow their argument"),
    ],
)
def test_words_that_are_no_argument_and_its_value(folder: Path, words: list[str], message: str) -> None:
    before = tree(folder)
    done = run(*words)
    assert done.status == 2 and done.err.startswith(f"private-topk: {message}") and done.err.count("\n") == 1
    assert tree(folder) == before


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


def test_damage_that_shows_while_reading_leaves_nothing(folder: Path) -> None:
    rows = [{"user": f"secret user {n}", "item": ITEMS[n % 3]} for n in range(20_000)]
    content = bytearray(to_avro(rows, codec="deflate", sync_interval=2000))
    middle = len(content) // 2
    content[middle : middle + 40] = b"\xff" * 40
    write(folder / "bad.avro", bytes(content))
    before = tree(folder)
    done = run(input="bad.avro", output="new/out.avro")
    assert done.status == 1 and re.search("failed: bad.avro is (truncated or )?damaged", done.err), done.err
    assert done.err.count("\n") == 1 and "secret" not in done.err and tree(folder) == before


def test_a_failure_shows_its_kind_and_place_and_no_data(folder: Path) -> None:
    def fail() -> None:
        raise RuntimeError("secret user 7 holds apple")

    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert run_command(fail) == 1
    assert "private-topk: failed with RuntimeError\n" in said.getvalue() and "in fail" in said.getvalue()
    assert "secret" not in said.getvalue() and "apple" not in said.getvalue()


def test_the_ranking_is_printed_as_a_table(folder: Path) -> None:
    write(folder / "odd.txt", "\n".join([*ITEMS, "tab\there", "bell\a", "日本"]))
    done = run(domain="odd.txt", k=6)
    assert done.status == 0 and done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == "All rows" and [line[:4] for line in lines[1:7]] == [f"  {n} " for n in range(1, 7)]
    assert {line[5:] for line in lines[1:7]} == {*ITEMS, "tab\\there", "bell\\x07", "日本"}
    assert lines[-2:] == ["ranking:  out.avro", "manifest: out.manifest.json"]


def test_mechanisms_lists_them_all() -> None:
    done = command("mechanisms")
    assert done.status == 0
    for name, mechanism in MECHANISMS.items():
        assert f"{name}\n" in done.out and mechanism.guarantee.privacy in done.out


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
    "words",
    [
        ["run", "--help"],
        ["plan", "--mechanism=joint", "--epsilon=1", "--windows=4"],
        ["select", "--mechanism=joint", "--epsilon=1", "--k=1", "--counts=counts.csv"],
    ],
)
def test_what_needs_no_beam_loads_nothing_heavy(folder: Path, words: list[str]) -> None:
    """Modules are counted, and no time is taken: some 400 today, 2,200 with Beam."""
    write(folder / "counts.csv", "item,count\napple,3\nbanana,1\n")
    done = subprocess.run([sys.executable, "-c", HELP, *words], capture_output=True, text=True, timeout=600)
    heavy, number = done.stdout.splitlines()[-2:]
    assert heavy == "[]", "something heavy was loaded"
    assert int(number) < 600


@pytest.mark.long
def test_an_early_end_of_the_reader_is_no_failure(folder: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "private_topk",
        "run",
        "--input=rows.avro",
        "--domain=items.txt",
        "--mechanism=joint",
        "--k=2",
        "--epsilon=1",
        "--output=out.csv",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        job.stdout.close()
        assert job.stderr.read() == b"" and job.wait(60) == 0
    assert (folder / "out.csv").exists()


@pytest.mark.long
def test_the_process_ends_with_its_status_every_time(folder: Path) -> None:
    """Arrow's reading threads used to abort one run in twelve while Python took itself down."""
    write(folder / "rows.csv", ROWS)
    words = [
        sys.executable,
        "-m",
        "private_topk",
        "run",
        "--domain=items.txt",
        "--mechanism=joint",
        "--k=2",
        "--epsilon=1",
        "--output=out.csv",
        "--overwrite",
    ]
    for source, status in [("rows.csv", 0), ("headerless.csv", 2)] * 2:
        write(folder / "headerless.csv", FILES["headerless.csv"])
        done = subprocess.run([*words, f"--input={source}"], capture_output=True, text=True, timeout=600)
        assert done.returncode == status and (done.stderr == "") == (status == 0)


def test_help_says_what_epsilon_is_in_each_command() -> None:
    for name, text in (("run", "of each window"), ("select", "of the draw"), ("plan", "the total over all windows")):
        shown = " ".join(command(name, "--help").out.split())
        assert f"--epsilon E required: {text}" in shown.replace("privacy budget ", "")


def test_a_window_that_lacks_something_is_told_once(folder: Path) -> None:
    done = run("--slide=1d", "--from=2026-01-05", "--to=2026-01-12")
    assert done.status == 2 and done.err.startswith("private-topk: --slide needs --window")


def test_a_full_disk_is_named_and_no_data(capsys: pytest.CaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("OSError: [Errno 28] No space left on device: 'secret user 1' [while running 'Publish']")

    assert run_command(fail) == 1
    said = capsys.readouterr().err
    assert "failed with RuntimeError (No space left on device)\n" in said and "secret" not in said


def test_mechanisms_names_the_parameters_of_each() -> None:
    shown = command("mechanisms").out
    for needs in ("needs --delta, --max-items-per-user; takes --kbar", "takes --skew, --noise", "no parameters but"):
        assert f"    {needs}" in shown


def test_dropped_rows_are_told_to_who_asks(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("user,item\na,tea\nb,\n,tea\nc,coal\n")
    (tmp_path / "items.txt").write_text("tea\ncake\n")
    asked = [
        "--input",
        f"{tmp_path}/rows.csv",
        "--domain",
        f"{tmp_path}/items.txt",
        "--mechanism",
        "joint",
        "--k",
        "1",
        "--epsilon",
        "1",
        "--output",
        f"{tmp_path}/ranking.csv",
    ]
    told = command("run", *asked, "--show-dropped-rows", "--exact-counters")
    assert told.status == 0
    assert "dropped rows (operator only, never publish; exact): not in domain 1, null 2" in told.err
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
    asked = [
        "run",
        "--input",
        "rows.jsonl",
        "--domain",
        "items.txt",
        "--mechanism",
        "joint",
        "--k",
        "1",
        "--epsilon",
        "1",
        "--release-key",
        "file:key",
        "--release-id",
        "r",
        "--output",
        "out.csv",
        "--overwrite",
    ]
    head = "dropped rows (operator only, never publish; fewer than 100 are not told): "
    none = "; no row is left: this is pure noise\n"
    an_array = json.dumps([{"user": f"u{n}", "item": "tea"} for n in range(300)]) + "\n"

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in tmp_path.glob("out.*")}

    write(tmp_path / "rows.jsonl", "")
    empty = command(*asked)
    before = files()
    assert (empty.status, empty.err) == (0, "") and len(before) == 2
    for rows, told in (
        ("", "all of them"),
        (an_array, "all of them"),
        ('{"user": "u"}\n' * 200, "all of them: null 100 or more"),
    ):
        write(tmp_path / "rows.jsonl", rows)
        assert on_a_terminal(*asked) == (0, empty.out, head + told + none)
        assert command(*asked) == empty and files() == before
    assert on_a_terminal(*asked, "--quiet") == (0, "", "")
    assert on_a_terminal(*asked, "--log-format", "json")[2] == ""
    event = json.loads(on_a_terminal(*asked, "--log-format", "json", "--show-dropped-rows")[2])
    assert event["event"] == "dropped_rows" and event["dropped"] == {"null": "100 or more"}
    assert event["any_left"] is False and event["message"] == head + "all of them: null 100 or more" + none[:-1]
    assert "dropped" not in on_a_terminal(*asked, "--dry-run")[2]
    assert "no row is left: this is pure noise\n" in on_a_terminal(*asked, "--dry-run", "--show-dropped-rows")[2]
    write(tmp_path / "rows.jsonl", an_array[1:-2].replace("}, ", "}\n"))
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
    weeks = ["--window", "7d", "--from", "2026-01-05", "--to", "2026-01-26"]
    run = ["run", *asked, *weeks, "--output", "out.csv", "--overwrite"]
    noise = "none, or too few to tell; pure noise, as nothing was counted there: "
    empty = "20260119T000000Z--20260126T000000Z"
    assert on_a_terminal(*run)[2].endswith(f"{noise}{empty}\n")
    assert command(*run).err == "" and on_a_terminal(*run, "--quiet")[2] == ""
    event = json.loads(command(*run, "--log-format", "json", "--show-dropped-rows").err)
    assert event["nothing_counted"] == [empty] and event["any_left"] is True
    groups = ["--group-column", "group", "--groups", "lands.txt"]
    first, second = "20260105T000000Z--20260112T000000Z", "20260112T000000Z--20260119T000000Z"
    cells = f"{first}|DE, {second}|FR, {empty}|DE, {empty}|FR"
    assert on_a_terminal(*run, *groups)[2].endswith(f"{noise}{cells}\n")
    days = [*run, "--window", "1d"]
    assert on_a_terminal(*settled(days))[2].endswith("20260116T000000Z--20260117T000000Z and more\n")


def test_a_stream_and_a_report_tell_a_terminal_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of rows that were all late, and of an item that rises by nothing: there rows are left."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.txt", "tea\ncake\nscone\n")
    write(tmp_path / "key", "a key of the tests, which is no secret")
    write(tmp_path / "rows.csv", "user,item,time\n" + "u,tea,2026-01-05\nu,tea,2026-01-12\n" * 150)
    write(tmp_path / "weekly.yaml", WEEKLY)
    none, some = "all of them; no row is left: this is pure noise\n", "none, or too few to tell\n"
    asked = [
        "--input",
        "rows.csv",
        "--domain",
        "items.txt",
        "--mechanism",
        "joint",
        "--k",
        "1",
        "--epsilon",
        "1",
        "--window",
        "7d",
        "--from",
        "2026-01-12",
        "--to",
        "2026-01-19",
    ]
    outside = "outside the period 100 or more"
    late = f"all of them: late 100 or more, {outside}; no row is left: this is pure noise"
    done = on_a_terminal("stream", *asked, "--output", "stream/", "--output-format", "jsonl")
    assert done[0] == 0 and done[2].endswith(f": {late}\n"), done
    assert on_a_terminal("run", *asked, "--against", "previous", "--output", "rise.csv")[2].endswith(some)
    report = on_a_terminal("report", "weekly.yaml", "--window-end", "2026-01-12")
    assert report[0] == 0 and report[2].endswith(f": {outside}\n")
    write(tmp_path / "rows.csv", "user,item,time\n")
    report = on_a_terminal("report", "weekly.yaml", "--window-end", "2026-01-19")
    assert report[0] == 0 and report[2].endswith(none)
    assert on_a_terminal("report", "weekly.yaml", "--window-end", "2026-01-26", "--quiet")[2] == ""
    assert command("report", "weekly.yaml", "--window-end", "2026-02-02").err == ""
