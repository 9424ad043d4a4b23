"""No output takes the place of what is read or kept, by whatever name it is given; refused before anything is done."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from private_topk.pipelines.release import store
from tests.pipelines.support import command, options, tree

KEY = "a key of enough bytes, no secret"
QUESTION = {"input": "rows.csv", "domain": "items.csv", "mechanism": "joint", "k": 1, "epsilon": 1, "overwrite": True}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything is named as a ranking could be."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("user,item\nu,a\n")
    Path("items.csv").write_text("item\na\nb\n")
    Path("key.csv").write_text(KEY)
    Path("done.csv").write_text("")
    opened = command("budget", "create", "--ledger=sqlite:///budget.csv", "--dataset=d", "--epsilon=9")
    assert opened.status == 0, opened.err
    return tmp_path


GIVEN = {
    "rows.csv": {},
    "items.csv": {},
    "key.csv": {"release_key": "file:key.csv", "release_id": "r"},
    "budget.csv": {"ledger": "sqlite:///budget.csv", "dataset": "d", "release_key": "file:key.csv", "release_id": "r"},
    "done.csv": {"success_file": "done.csv"},
}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("how", ["itself", "absolute", "detour", "address", "soft link", "hard link", "linked folder"])
@pytest.mark.parametrize("taken", GIVEN)
def test_an_output_that_is_read_or_kept_is_refused(folder: Path, taken: str, how: str, check: bool) -> None:
    output = {
        "itself": taken,
        "absolute": f"{folder}/{taken}",
        "detour": f"../{folder.name}/./{taken}",
        "address": f"file://{folder}/{taken}",
        "soft link": "link.csv",
        "hard link": "link.csv",
        "linked folder": f"linked/{taken}",
    }[how]
    if how == "soft link":
        os.symlink(taken, "link.csv")
    elif how == "hard link":
        os.link(taken, "link.csv")
    elif how == "linked folder":
        os.symlink(".", "linked")
    before = tree(Path())
    words = options(**QUESTION, **GIVEN[taken], output=output) + ["--dry-run"] * check
    done = command("run", *words)
    assert done.status == 2 and "would replace" in done.err and taken in done.err, done.err
    assert tree(Path()) == before


def test_a_manifest_in_the_place_of_what_is_kept_is_refused() -> None:
    Path("done.csv").rename("ranking.manifest.json")
    done = command("run", *options(**QUESTION, output="ranking.csv", success_file="ranking.manifest.json"))
    assert done.status == 2 and "would replace" in done.err
    assert not Path("ranking.csv").exists()


def test_another_ranking_keeps_its_manifest() -> None:
    assert command("run", *options(**QUESTION, output="ranking.avro")).status == 0
    before = tree(Path())
    done = command("run", *options(**QUESTION, output="ranking.csv"))
    assert done.status == 2 and "is the manifest of ranking.avro" in done.err, done.err
    assert tree(Path()) == before
    assert command("run", *options(**QUESTION, output="ranking.avro")).status == 0


def test_streams_and_reports_refuse_outputs_that_are_read_or_kept() -> None:
    os.mkdir("out")
    name = "out/20260105T000000Z--20260112T000000Z.csv"
    Path("done.csv").rename(name)
    Path("rows.csv").write_text("user,item,time\nu,a,2026-01-06\n")
    report = f"""\
report: r
source: {{input: rows.csv, success_file: {name}}}
domain: {{file: items.csv}}
window: {{every: week, first: 2026-01-05}}
mechanism: {{name: joint, k: 1}}
budget: {{epsilon: 1}}
release_key: file:key.csv
sink: {{output: "out/{{start}}.csv", overwrite: true}}
"""
    Path("20260105.csv").write_text(report)
    Path("out/20260105.csv").hardlink_to("20260105.csv")
    before = tree(Path())
    done = command("report", "20260105.csv", "--window-end=2026-01-12")
    assert done.status != 0 and tree(Path()) == before, done.err
    asked = {**QUESTION, "window": "7d", "from_": "2026-01-05", "to": "2026-01-12"}
    done = command(
        "stream", *options(**asked, output="out", output_format="csv", release_key=f"file:{name}", release_id="r")
    )
    assert done.status == 2 and tree(Path()) == before, done.err


def test_pages_and_plots_refuse_to_replace_inputs_and_ledgers() -> None:
    assert command("run", *options(**QUESTION, output="ranking.csv")).status == 0
    before = tree(Path())
    for html in ("ranking.csv", "./ranking.manifest.json"):
        done = command("show", "ranking.csv", f"--html={html}", "--overwrite")
        assert done.status == 2 and "--html" in done.err and "would replace" in done.err, done.err
    done = command("show", ".", "--html=./ranking.manifest.json", "--overwrite")
    assert done.status == 2 and tree(Path()) == before
    Path("budget.csv").rename("budget.png")
    before = tree(Path())
    done = command("budget", "show", "--ledger=sqlite:///budget.png", "--plot=./budget.png")
    assert done.status == 2 and "would replace" in done.err and tree(Path()) == before, done.err


@pytest.mark.parametrize("url", ["sqlite:///budget.csv?mode=ro", "sqlite:///budget.csv?timeout=1", "sqlite://"])
def test_a_ledger_s_file_takes_no_options(url: str) -> None:
    for words in (
        ["budget", "show", f"--ledger={url}"],
        ["run", *options(**QUESTION, output="out.csv", ledger=url, dataset="d")],
    ):
        done = command(*words)
        assert done.status == 2 and "must be sqlite:///PATH" in done.err and "Warning" not in done.err, done.err


def ranking(**others: object) -> list[str]:
    asked = {**QUESTION, "release_key": "file:key.csv", "release_id": "r"}
    del asked["overwrite"]
    return options(**{**asked, **others})


@pytest.mark.parametrize("strange", ["pipe", "dangling link", "link to a device"])
def test_a_glob_says_what_is_no_file(strange: str) -> None:
    """What matches a glob and cannot be read is told, and not passed over: rows would be missing in silence."""
    os.mkdir("rows")
    Path("rows.csv").rename("rows/a.csv")
    make(strange, "rows/b.csv")
    os.mkdir("rows/c.csv")
    before = tree(Path())
    for pattern in ("rows/*.csv", "*/*.csv", "rows/b.csv"):
        done = command("run", *ranking(input=pattern, output="out.csv"))
        assert done.status == 2 and "rows/b.csv is a" in done.err, done.err
    assert tree(Path()) == before
    os.remove("rows/b.csv")
    assert command("run", *ranking(input="rows/*.csv", output="out.csv")).status == 0, "folders are passed over"


def make(strange: str, path: str) -> None:
    if strange == "pipe":
        os.mkfifo(path)
    else:
        os.symlink("nowhere" if strange == "dangling link" else "/dev/null", path)


@pytest.mark.parametrize("strange", ["pipe", "link to a device"])
@pytest.mark.parametrize("place", ["out.csv", "out.manifest.json", "weeks/all.csv"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_output_that_is_no_file_is_refused(strange: str, place: str, overwrite: bool) -> None:
    os.mkdir("weeks")
    make(strange, place)
    words = ranking(output="weeks/" if "/" in place else "out.csv") + ["--overwrite"] * overwrite
    if "/" in place:
        words += ["--output-format=csv"]
        os.rename(place, f"weeks/{WEEK}.csv")
        words += ["--from=2026-01-05", "--to=2026-01-12"]
        Path("rows.csv").write_text("user,item,time\nu,a,2026-01-06\n")
    done = command("run", *words)
    assert done.status == 2 and "--output" in done.err and " is a" in done.err, done.err


WEEK = "20260105T000000Z--20260112T000000Z"


def test_a_published_file_that_was_changed_counts_as_published_no_more() -> None:
    assert command("run", *ranking(output="out.csv")).status == 0
    published = Path("out.csv").read_bytes()
    assert command("run", *ranking(output="out.csv")).status == 0, "a repeat is no obstacle"
    Path("out.csv").write_bytes(published.replace(b"a", b"b"))
    before = tree(Path())
    for words in ([], ["--dry-run"]):
        done = command("run", *ranking(output="out.csv"), *words)
        assert done.status == 2 and "was changed after it was published" in done.err, done.err
    assert tree(Path()) == before
    os.remove("out.csv")
    assert command("run", *ranking(output="out.csv")).status == 0
    assert Path("out.csv").read_bytes() == published


def test_a_report_does_not_take_a_changed_file_for_a_published_one() -> None:
    Path("rows.csv").write_text("user,item,time\nu,a,2026-01-06\n")
    Path("report.yaml").write_text("""\
report: r
source: {input: rows.csv}
domain: {file: items.csv}
window: {every: week, first: 2026-01-05}
mechanism: {name: joint, k: 1}
budget: {epsilon: 1}
release_key: file:key.csv
sink: {output: "out/{start}.csv"}
""")
    words = ["report", "report.yaml", "--window-end=2026-01-12"]
    assert command(*words).status == 0 and "published before" in command(*words).out
    (path,) = Path("out").glob("*.csv")
    path.write_text(path.read_text() + "\n")
    done = command(*words)
    assert done.status != 0 and "was changed after it was published" in done.err, (done.out, done.err)


def test_no_raw_escapes_are_printed() -> None:
    hostile = "o\x1b[31mut.csv"
    done = command("run", *ranking(output=hostile))
    assert done.status == 0 and Path(hostile).exists() and "\x1b" not in done.out + done.err, (done.out, done.err)
    os.mkdir("w\x1beeks")
    Path("rows.csv").write_text("user,item,time\nu,a,2026-01-06\nu,a,2026-01-20\n")
    done = command(
        "stream",
        *ranking(
            output="w\x1beeks",
            output_format="csv",
            window="7d",
            from_="2026-01-05",
            to="2026-01-12",
            clock="event",
            poll="1s",
        ),
    )
    assert done.status == 0 and "\x1b" not in done.out + done.err, (done.out, done.err)
    for words in (["show", hostile, "--html=p\x1bage.html"], ["sample", "--folder=s\x1bample"]):
        done = command(*words)
        assert done.status == 0 and "\x1b" not in done.out + done.err, (done.out, done.err)


def test_waiting_for_a_locked_output_is_reported_and_limited(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A publisher that is suspended keeps the lock on its folder."""
    monkeypatch.setattr(store, "PATIENCE", 0.2)
    monkeypatch.setattr(store, "_LONGEST_WAIT", 2.0)
    held = os.open(".", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    done = command("run", *ranking(output="out.csv"))
    said = done.err + capfd.readouterr().err
    assert done.status != 0 and "locked by another process" in said and not Path("out.csv").exists(), said
    assert "waiting for another process" in said
    os.close(held)
    assert command("run", *ranking(output="out.csv")).status == 0
