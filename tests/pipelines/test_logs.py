"""stderr as JSON: every line an object, whoever prints it, from a refusal to a warning of Python."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import warnings
from datetime import datetime
from pathlib import Path

import pytest

from private_topk.pipelines import announce
from private_topk.pipelines.live import LiveRun
from private_topk.pipelines.logs import JsonLines, as_json, level
from private_topk.runners import say
from tests.pipelines.support import command, write


def told(text: str) -> list[tuple[str, str]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(list(one) == ["time", "level", "message"] for one in found)
    assert all(datetime.fromisoformat(one["time"].replace("Z", "+00:00")).tzinfo for one in found)
    return [(one["level"], one["message"]) for one in found]


def test_lines_of_anybody_become_objects_and_parts_of_lines_wait(capsys: pytest.CaptureFixture) -> None:
    with as_json():
        print("private-topk: half", end=" ", file=sys.stderr)
        print('a line, "quoted" \x1b[31m\u00e9', file=sys.stderr)
        say("by Python's other name for it")
        with level("warning"):
            sys.stderr.write(warnings.formatwarning("of Python's own", UserWarning, "a.py", 1, "code"))
        print("\rreading  [##   ]\rreading  [### ]", end="", file=sys.stderr)
    found = told(capsys.readouterr().err)
    assert found[:2] == [("info", 'half a line, "quoted" \x1b[31m\u00e9'), ("info", "by Python's other name for it")]
    assert found[2:-1] == [("warning", "a.py:1: UserWarning: of Python's own"), ("warning", "code")]
    assert found[-1] == ("info", "reading  [### ]"), "of a bar that is drawn over and over its last state"


def test_what_is_there_before_is_there_again() -> None:
    before = sys.stderr, sys.__stderr__
    with pytest.raises(KeyError), as_json():
        raise KeyError
    assert (sys.stderr, sys.__stderr__) == before


def test_lines_of_many_threads_stay_whole() -> None:
    sink = io.StringIO()
    stream = JsonLines(sink)
    threads = [threading.Thread(target=lambda n=n: [stream.write(f"{n} {m}\n") for m in range(200)]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said for _, said in told(sink.getvalue())) == sorted(f"{n} {m}" for n in range(4) for m in range(200))


def test_a_refusal_is_an_error_and_the_words_stand_anywhere() -> None:
    for words in (["--log-format", "json", "run"], ["run", "--log-format=json"]):
        done = command(*words)
        assert done.status == 2 and not done.out
        [(name, said)] = told(done.err)
        assert name == "error" and said.startswith("--input, --output, --mechanism")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--log-format", "xml"], "--log-format must be one of text, json; got 'xml'"),
        (["--log-format"], "--log-format needs a value"),
        (["--log-format=json", "--log-format=text"], "--log-format must be given once, got it twice"),
    ],
)
def test_another_format_is_refused(words: list[str], said: str) -> None:
    done = command("mechanisms", *words)
    assert done.status == 2 and said in done.err


def test_a_run_says_in_json_what_it_says_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning before the charge, the ledger's line, and what is only for the operator."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", "user,item\n" + "".join(f"u{n},tea\n" for n in range(20)))
    write(tmp_path / "items.txt", "tea\n" + "".join(f"item {n}\n" for n in range(40)))
    (tmp_path / "key").write_text("a key of the tests' own")
    assert command("budget", "create", "--ledger", "sqlite:///b.db", "--dataset", "d", "--epsilon", "1").status == 0
    asked = ["run", "--input", "rows.csv", "--domain", "items.txt", "--mechanism", "joint", "--k", "2", "--epsilon",
             "0.001", "--output", "out.csv", "--ledger", "sqlite:///b.db", "--dataset", "d", "--release-key",
             "file:key", "--release-id", "r", "--like", "zipf=1,users=200,items_per_user=3", "--overwrite",
             "--show-dropped-rows"]  # fmt: skip
    plain, lines = command(*asked), command(*asked, "--log-format", "json", "--json")
    assert plain.status == lines.status == 0, plain.err + lines.err
    found = told(lines.err)
    assert [said for _, said in found if "ledger" not in said] == [
        line.removeprefix("private-topk: ") for line in plain.err.splitlines() if "ledger" not in line
    ]
    assert found[0][0] == "warning" and "close to noise" in found[0][1]
    assert any(said.startswith("ledger: ") for _, said in found) and not logging.root.manager.disable
    assert json.loads(lines.out)["rows"]


def test_how_far_a_run_has_come_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "_EVERY", 0.01)
    sink = io.StringIO()
    monkeypatch.setattr(sys, "stderr", JsonLines(sink))
    live = LiveRun()
    with announce.progress(live):
        live.add_read(0.25)
        waited = threading.Event()
        while not sink.getvalue():
            waited.wait(0.01)
    assert told(sink.getvalue())[0] in {("info", "reading: 25%"), ("info", "reading: 0%")}
