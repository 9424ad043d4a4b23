"""A charged stream has one answer for each window: what is free is to finish it, and never to hear another."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.arguments import options_of
from private_topk.pipelines.dry_run import dry_run
from private_topk.pipelines.release.store import sole_launcher
from private_topk.pipelines.report import report_of
from private_topk.pipelines.run import run
from private_topk.runners import prepare
from tests.nightly import nightly
from tests.pipelines.sinks.nowhere import Nowhere
from tests.pipelines.streaming.replay import streaming, wait_for
from tests.pipelines.support import Done, command, options, write
from tests.refusals import refused
from tests.runners.servers import kill

ROWS = [{"user": f"u{n}", "item": "abc"[n % 3], "time": f"2026-01-0{5 + n % 3}T12:00:00Z"} for n in range(60)]
END = {"user": "u", "item": "a", "time": "2026-01-09T00:00:00Z"}
ASKED = {
    "input": "in/*.jsonl",
    "clock": "event",
    "domain": "items.txt",
    "mechanism": "joint",
    "k": 3,
    "epsilon": 8,
    "window": "1d",
    "from_": "2026-01-05",
    "to": "2026-01-08",
    "release_key": "file:key",
    "release_id": "r",
    "shards": 4,
    "output": "out",
    "output_format": "jsonl",
}
BOOKS = {"ledger": "sqlite:///b.db", "dataset": "d"}


FREE = {"ledger": None, "dataset": None}
Released = Callable[..., dict[str, bytes]]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder to stream in, and what is in it before the first stream and after one that is charged or free."""
    found = {name: tmp_path_factory.mktemp(name) for name in ("here", "before", "charged", "free")}
    here = found["here"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        (here / "in").mkdir()
        (here / "items.txt").write_text("a\nb\nc\nd\ne\n")
        (here / "key").write_text("a key of enough bytes")
        start()
        assert command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=99").status == 0
        shutil.copytree(here, found["before"], dirs_exist_ok=True)
        for name, books in (("charged", {}), ("free", FREE)):
            _empty(here)
            shutil.copytree(found["before"], here, dirs_exist_ok=True)
            done = stream(**books)
            assert done.status == 0, done.err
            shutil.copytree(here, found[name], dirs_exist_ok=True)
    return found


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(autouse=True)
def released(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Released:
    """Goes back to where one stream has published its three windows, and gives these files."""
    monkeypatch.chdir(places["here"])

    def again(name: str = "charged") -> dict[str, bytes]:
        _empty(places["here"])
        shutil.copytree(places[name], places["here"], dirs_exist_ok=True)
        return files()

    again("before")
    return again


def stream(**change: Any) -> Done:  # noqa: ANN401
    return command("stream", *options(**{**ASKED, **BOOKS, **change}))


def start() -> None:
    write(Path("in", "a.jsonl"), [*ROWS, END])


def junk(number: int = 0) -> None:
    """A file more, which makes another item the first of every window; read before the one that closes them."""
    rows = [{"user": f"junk {number} {n}", "item": "e", "time": row["time"]} for n in range(60) for row in ROWS[:3]]
    path = write(Path("in", f"0 junk {number}.jsonl"), rows)
    os.utime(path, (1, 1))


def files(place: str = "out") -> dict[str, bytes]:
    """What readers see: the record of what was read is hidden."""
    return {path.name: path.read_bytes() for path in sorted(Path(place).glob("[!.]*"))}


def charges() -> list[dict[str, Any]]:
    return json.loads(command("budget", "history", "--ledger=sqlite:///b.db", "--json").out)["charges"]


def killed(*windows: int) -> None:
    """As a kill midway leaves it: these windows are not published, and the ledger knows of no end."""
    for number in windows:
        for path in Path("out").glob(f"2026010{5 + number}T*--*"):
            path.unlink()
    with sqlite3.connect("b.db") as database:
        database.execute("UPDATE private_topk_charges SET outcome = 'started', finished = NULL")


def test_rows_that_came_later_are_no_second_answer_in_another_place(released: Released) -> None:
    """A file more and another output, however it is asked for, or another input: one release for one charge."""
    released()
    junk()
    another = {"output": "out2"}
    for change in (another, {**another, "output_format": "csv"}, {**another, "dry_run": True}):
        done = stream(**change)
        assert done.status == 2 and re.search(r"release-id r was used on \S+ with output \S+/out/\S+ \(", done.err)
        assert not Path("out2").exists() and len(files()) == 6
    Path("in").rename("elsewhere")
    done = stream(input="elsewhere/*.jsonl")
    assert done.status == 2 and re.search(r"with input \S+/in/\S+ \(now \S+/elsewhere/\S+\)", done.err), done.err
    assert len(charges()) == 1


@pytest.mark.parametrize(
    ("overwrite", "books"), [(None, {}), (True, FREE), nightly(True, {}), nightly(None, FREE)], ids=range(4)
)
def test_a_repeated_stream_keeps_its_published_files(
    released: Released, overwrite: bool | None, books: dict[str, Any]
) -> None:
    once = released("free" if books else "charged")
    junk()
    done = stream(output="./out/", overwrite=overwrite, **books)
    assert done.status == 0, done.err
    assert files() == once and len(once) == 6
    assert len(charges()) == (0 if books else 1)


def test_another_release_overwrites_it_and_costs(released: Released) -> None:
    once = released()
    junk()
    assert stream(release_id="s", epsilon=9).status == 2
    assert files() == once
    done = stream(release_id="s", overwrite=True)
    assert done.status == 0, done.err
    assert files() != once and len(charges()) == 2
    again = stream(overwrite=True)
    assert again.status == 2 and "has 0 of the 3 windows that r had published" in again.err


def test_a_deleted_window_is_refused_and_not_drawn_again(released: Released) -> None:
    once = released()
    next(Path("out").glob("20260106*.jsonl")).unlink()
    junk()
    for check in ({}, {"dry_run": True}):
        done = stream(**check)
        assert done.status == 2 and "--output out has 2 of the 3 windows that r had published" in done.err, done.err
        assert "another --release-id, which costs" in done.err
    assert {**once, **files()} == once and len(charges()) == 1
    assert charges()[0]["outcome"] == "released"


def test_a_crashed_stream_resumes_without_charge_and_redraws_no_window(released: Released) -> None:
    """Also where rows have come since: what is out stays, and what is not is drawn for the first time."""
    once = released()
    killed(1)
    left = files()
    junk()
    done = stream()
    assert done.status == 0 and "resuming r" in done.err, done.err
    assert len(files()) == 6 and {**files(), **left} == files()
    first = {name: json.loads(rows.splitlines()[0])["item"] for name, rows in files().items() if "manifest" not in name}
    assert [item == "e" for item in first.values()] == [False, True, False], "what is drawn now counts all rows"
    assert files() != once
    assert [charge["outcome"] for charge in charges()] == ["released"]


def test_the_same_rows_are_resumed_to_the_same_bytes(released: Released) -> None:
    once = released()
    manifest = next(text for name, text in once.items() if "manifest" in name)
    assert json.loads(manifest)["columns"] == {"user": "user", "item": "item", "time": "time"}
    killed(0, 1, 2)
    assert stream().status == 0
    assert files() == once and len(charges()) == 1


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _edit(path: Path) -> None:
    """At the same size, and seen by its time alone."""
    path.write_bytes(path.read_bytes().replace(b"u7", b"u8"))


OTHER_THAN_READ: dict[str, Callable[[Path], object]] = {
    "is gone": Path.unlink,
    "was changed": _edit,
    "was changed, cut": _cut,
    "was changed, touched": lambda path: os.utime(path, (5, 5)),
    "is gone, renamed": lambda path: path.rename("in/b.jsonl"),
}


@pytest.mark.parametrize(
    ("what", "books"),
    [(what, {} if n % 2 else FREE) for n, what in enumerate(OTHER_THAN_READ)],
)
def test_a_folder_that_holds_other_files_than_were_read_is_no_input_to_go_on_with(
    released: Released, what: str, books: dict[str, Any]
) -> None:
    """Whatever a crash has left: nothing more is published from other rows. Brought back, it ends as it would have."""
    once, path = released("free" if books else "charged"), Path("in", "a.jsonl")
    shutil.copy2(path, "kept")
    killed(1, 2)
    left = files()
    OTHER_THAN_READ[what](path)
    said = what.partition(",")[0]
    for check in (True, None):
        done = stream(dry_run=check, **books)
        assert done.status == 2 and f"--input {Path.cwd()}/in/a.jsonl {said} since an earlier run of this" in done.err
        assert done.err.endswith("or take another --release-id, which costs\n") and files() == left
    Path("in", "b.jsonl").unlink(missing_ok=True)
    shutil.copy2("kept", path)
    assert stream(**books).status == 0
    assert files() == once


def test_a_complete_release_is_repeated_without_its_input(released: Released) -> None:
    once = released()
    Path("in", "a.jsonl").unlink()
    write(Path("in", "b.jsonl"), [END])
    assert stream().status == 0 and stream(dry_run=True).status == 0
    assert files() == once


def test_a_complete_release_says_so_and_reads_nothing(released: Released, capfd: pytest.CaptureFixture) -> None:
    """Also of a run that was killed before it could note in the ledger that all is published."""
    once = released()
    killed()
    done = stream(health_file="health.json", show_dropped_rows=True)
    assert done.status == 0 and "dropped rows" not in done.err, done.err
    assert "all 3 windows are published in out: nothing is left to do" in done.err + capfd.readouterr().err
    assert "3 windows published to out" in done.out and files() == once
    assert json.loads(Path("health.json").read_text())["published"] == 3
    assert [charge["outcome"] for charge in charges()] == ["released"]


def test_another_release_has_a_record_of_its_own(released: Released) -> None:
    """The next horizon in the same folder, over other files; and a key that nobody keeps is never resumed."""
    released()
    Path("in", "a.jsonl").unlink()
    write(Path("in", "b.jsonl"), [*ROWS, END])
    assert stream(release_id="s", overwrite=True).status == 0
    assert stream(release_id=None, release_key=None, output="out2", ledger=None, dataset=None).status == 0
    assert len(list(Path("out").glob(".private-topk-input/*/*"))) == 2
    assert not Path("out2", ".private-topk-input").exists()


def test_a_record_names_the_files_that_were_read_and_seals_their_sizes_and_times(released: Released) -> None:
    released()
    junk()
    killed(1)
    assert stream().status == 0
    pages = list(Path("out").glob(".private-topk-input/*/*"))
    lines = [json.loads(line) for page in pages for line in page.read_text().splitlines()]
    entries = [line for line in lines if "asked" not in line]
    assert len(pages) == 2 and len(lines) == 3, "a page of each run, and what was asked once"
    there = [Path("in", name).resolve() for name in ("0 junk 0.jsonl", "a.jsonl")]
    assert sorted(entry["path"] for entry in entries) == [str(path) for path in there]
    assert all(set(entry) == {"path", "state"} and len(entry["state"]) == 16 for entry in entries)
    Path("other key").write_text("another key of enough bytes")
    assert stream(release_key="file:other key", release_id="r2", output="elsewhere").status == 0
    sealed = "".join(page.read_text() for page in Path("elsewhere").glob(".private-topk-input/*/*"))
    assert len(sealed.splitlines()) == 3 and not any(entry["state"] in sealed for entry in entries)
    pages[0].write_bytes(b"{")
    killed(1)
    done = stream()
    assert done.status == 2 and "the record of what this release has read, is damaged" in done.err


@pytest.mark.parametrize("books", [{}, FREE])
def test_a_release_without_the_record_of_its_input_is_not_finished(released: Released, books: dict[str, Any]) -> None:
    """Its other windows could be of other rows. With its record brought back, it ends as it would have."""
    once, record = released("free" if books else "charged"), Path("out", ".private-topk-input")
    record.rename("kept")
    assert stream(**books).status == 0 and files() == once, "all is published already"
    shutil.rmtree(record, ignore_errors=True)
    killed(1)
    left = files()
    for check in (True, None):
        done = stream(dry_run=check, **books)
        assert done.status == 2, done
        assert "--output out has 2 of the 3 windows of r, and out/.private-topk-input/" in done.err
        assert "bring it back from a copy, or take another --release-id, which costs" in done.err
        assert files() == left and not record.exists()
    Path("kept").rename(record)
    assert stream(**books).status == 0 and files() == once


def test_a_record_of_nothing_is_a_record(released: Released) -> None:
    """A stream of a folder without files publishes empty windows, and can be finished."""
    Path("in", "a.jsonl").unlink()
    assert stream(clock="log", **FREE).status == 0 and len(files()) == 6
    killed(1)
    assert stream(clock="log", **FREE).status == 0 and len(files()) == 6


def test_a_folder_that_is_being_published_to_has_no_second_launcher(released: Released) -> None:
    """Its end would tell of a failure while the first goes on; under another id it would be charged for windows of the
    first. The death of the first frees its place.
    """
    write(Path("in", "a.jsonl"), ROWS)
    words, log = options(**{**ASKED, **BOOKS}), Path("log")
    with streaming(words, log) as first:
        wait_for(charges, first, log)
        seen = Path("out", ".private-topk-launcher").stat().st_mtime
        end = threading.Timer(60, write, (Path.cwd() / "in" / "b.jsonl", [END]))  # for a second that is let in
        end.start()
        for again in ({}, {"release_id": "s"}, {"release_id": None, "release_key": None, **FREE}):
            for dry_run in (True, None):
                done = stream(**{**BOOKS, **again}, dry_run=dry_run)
                told = re.search(rf"--output {Path.cwd()}/out is the folder of a live stream, process (\d+) ", done.err)
                assert done.status == 2 and told, done
                assert f"PPid:\t{first.pid}\n" in Path(f"/proc/{told[1]}/status").read_text(), done.err
                assert "that launcher has ended, or end it; another --release-id can go to another folder" in done.err
                assert Path("out", ".private-topk-launcher").stat().st_mtime == seen
        end.cancel()
        assert [charge["outcome"] for charge in charges()] == ["started"], "what it says of the first is still true"
        write(Path("in", "b.jsonl"), [END])
        assert stream(release_id="s", output="out2").status == 0, "another folder is none of its business"
        kill(first)
    assert stream().status == 0
    assert [charge["outcome"] for charge in charges()] == ["released"] * 2


@pytest.mark.parametrize("books", [{}, FREE])
def test_other_questions_under_one_id_are_no_answers_to_each_other(released: Released, books: dict[str, Any]) -> None:
    """What stands is kept as an answer to its own question only, and nobody is told that it may be overwritten."""
    once = released("free" if books else "charged")
    for change in ({}, {"overwrite": True}):
        done = stream(k=2, **books, **change)
        assert done.status == 2 and "of r with k 3 (now 2): ask the same again" in done.err, done.err
    Path("fewer.txt").write_text("a\nb\nc\n")
    for change in ({"domain": "fewer.txt"}, {"publish_counts": 1}, {"max_items_per_user": 1}):
        done = stream(**{**books, **change})
        assert done.status == 2 and "--release-id is taken: " in done.err, done.err
    assert files() == once


@pytest.mark.parametrize(
    "change, said",
    [
        ({"allowed_lateness": "5s"}, "allowed_lateness 0s (now 5s)"),
        ({"clock": "log"}, "clock event (now log)"),
        ({"input": "others/*.jsonl"}, "/in/*.jsonl (now "),
        ({"window": "12h"}, "other windows"),
        ({"slide": "12h"}, "other windows"),
        ({"to": "2026-01-09"}, "other windows"),
        ({"to": "2026-01-07"}, "other windows"),
    ],
)
def test_a_stream_that_no_ledger_knows_goes_on_as_it_has_begun(
    released: Released, change: dict[str, Any], said: str
) -> None:
    """Its windows would be of other rows, or come on top of those that are there; also where all are published."""
    once = released("free")
    shutil.copytree("in", "others")
    finished = stream(dry_run=True, **FREE, **change)
    killed(1)
    left = files()
    for done in (finished, *(stream(dry_run=check, **FREE, **change) for check in (True, None))):
        assert done.status == 2 and "--release-id is taken: out" in done.err and said in done.err, done.err
    assert files() == left
    assert stream(**FREE, window="24h", poll="1s", shards=8).status == 0 and files() == once


def test_a_record_that_does_not_say_what_was_asked_is_gone_on_with_and_says_it_then(released: Released) -> None:
    once = released("free")
    (page,) = Path("out").glob(".private-topk-input/*/*")
    asked, *read = page.read_bytes().splitlines(keepends=True)
    page.write_bytes(b"".join(read))
    killed(1)
    assert stream(**FREE).status == 0 and files() == once
    assert asked in b"".join(each.read_bytes() for each in page.parent.iterdir())


def test_another_question_is_seen_in_every_window_before_it_is_charged() -> None:
    """Also where the first window is not out: what is noticed when it is published has been charged for."""
    counted = {"publish_counts": 1, "round_counts": 10}
    assert stream(**counted).status == 0
    killed(0)
    left = files()
    for change in ({"round_counts": 5}, {"user_column": "item", "item_column": "user"}):
        for check in (True, None):
            done = stream(**{**counted, **change}, dry_run=check)
            assert done.status == 2 and re.search(r"is taken: out/20260106\S* is of r with", done.err), done.err
    assert files() == left and len(charges()) == 1
    assert stream(**counted).status == 0 and len(files()) == 6


@pytest.mark.parametrize("overwrite", [None, True])
def test_another_key_is_told_and_overwrites_nothing(released: Released, overwrite: bool | None) -> None:
    once = released()
    write(Path("key"), "another key of enough bytes")
    for check in (None, True):
        done = stream(overwrite=overwrite, dry_run=check)
        assert done.status == 2 and done.err.endswith(
            "was published under another release key: give that --release-key, or another --release-id and --output\n"
        ), done.err
    assert files() == once and len(charges()) == 1


def test_an_output_that_is_a_file_is_refused_by_the_file_that_it_cannot_hold() -> None:
    assert re.search(r"--output key/\d+T.*\.jsonl cannot be written: Not a directory", stream(output="key").err)


def test_a_monitor_sees_how_far_it_is() -> None:
    key = Path("key").read_bytes()
    assert "health-file key would replace" in stream(health_file="key").err and Path("key").read_bytes() == key
    for check, place in product((True, None), ("no/h.json", "in", "key/h.json")):
        assert f"health-file {place} cannot be written" in stream(health_file=place, dry_run=check).err
    assert stream(health_file="health.json").status == 0
    found = json.loads(Path("health.json").read_text())
    assert (found["windows"], found["published"], found["next_closes"], found["ended"]) == (3, 3, None, 0)
    assert stream(health_file="health.json", release_id="s").status == 2
    found = json.loads(Path("health.json").read_text())
    assert (found["windows"], found["ended"]) == (None, 2), "a horizon that does not start is no well ended one"


def test_a_charged_stream_to_an_unreadable_sink_is_not_repeated() -> None:
    """As to a topic: which windows are out is not known, whether it has ended well or not."""
    report = dataclasses.replace(report_of({**_plain(), **BOOKS}, watch=True), sink=Nowhere())
    run(report, prepare("direct", ["--streaming"]))
    for outcome in ("released", "started"):
        with sqlite3.connect("b.db") as database:
            database.execute(f"UPDATE private_topk_charges SET outcome = '{outcome}'")
        with refused("output", "nowhere cannot be asked which windows of r it has"):
            run(report, prepare("direct", ["--streaming"]))
    assert [charge["outcome"] for charge in charges()] == ["started"]


def test_jobs_of_a_release_are_looked_for_by_its_only_launcher() -> None:
    """Beside a live one its job would be told to be cancelled."""
    report, named = report_of({**_plain(), **BOOKS}, watch=True), []
    launch = dataclasses.replace(prepare("direct", ["--streaming"]), name_after=named.append)
    with sole_launcher(report.sink.files(report.windows)[0]):
        for ask in (lambda: run(report, launch), lambda: list(dry_run(report, launch))):
            with refused("output", "is the folder of a live stream"):
                ask()
    assert named == []
    list(dry_run(report, launch)), run(report, launch)
    assert named == ["r", "r"]


def test_a_stream_is_not_handed_over_to_a_launcher() -> None:
    """Its charge would be booked as released once its job is written, and nobody could finish it."""
    report, launch = report_of({**_plain(), **BOOKS}, watch=True), prepare("direct", ["--streaming"])
    with refused("runner", "would hand this stream over", "let a flex template rank files"):
        run(report, dataclasses.replace(launch, deferred=True))
    assert charges() == [] and not Path("out").exists()


def _plain() -> dict[str, Any]:
    return dict(options_of(parser_of("stream").read(options(**ASKED))[0]))
