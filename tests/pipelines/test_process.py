"""The process of a command: a signal ends it, with a true sentence and nothing half done; its stderr may be JSON."""

from __future__ import annotations

import io
import json
import logging
import signal
import subprocess
import sys
import threading
import warnings
from datetime import datetime
from pathlib import Path

import pytest

from private_topk.pipelines.process import JsonLines, as_json, level
from private_topk.runners import say
from tests.pipelines.support import command, write

COMMAND = """
import os, signal, sys, time

signal.signal({sent}, signal.{heard})
from private_topk.pipelines.cli.output import exit_process, run_command
from private_topk.pipelines.process import RunFailed, check_signals, install_signal_handlers

def hit():
    os.kill(os.getpid(), {sent})
    time.sleep(0.001)

def command():
{body}

install_signal_handlers()
exit_process(run_command(command))
"""

LOST_ONCE = """
try:
    hit()
except BaseException:
    pass
hit()
time.sleep(3600)
"""
LOST_BEFORE_THE_CHARGE = """
try:
    hit()
except BaseException:
    pass
check_signals()
time.sleep(3600)
"""
ANOTHER_ERROR = """
try:
    hit()
except BaseException:
    error = ImportError("no module named x")
raise error
"""
ANOTHER_WITH_ITS_STATE = """
try:
    hit()
except BaseException:
    error = RunFailed("nothing is published")
raise error
"""
CLEARED_AWAY = """
try:
    hit()
finally:
    for _ in range(10):
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
    print("whole", flush=True)
"""
AT_THE_END = """
import atexit
atexit.register(hit)
"""


@pytest.mark.parametrize(
    ("body", "sent", "shown", "state"),
    [
        (LOST_ONCE, signal.SIGTERM, "", ""),
        (LOST_BEFORE_THE_CHARGE, signal.SIGINT, "", ""),
        (ANOTHER_ERROR, signal.SIGINT, "", ""),
        (ANOTHER_WITH_ITS_STATE, signal.SIGTERM, "", "; nothing is published"),
        (CLEARED_AWAY, signal.SIGTERM, "whole\n", ""),
        (LOST_ONCE, signal.SIGHUP, "", ""),
    ],
    ids=["sent again", "looked for", "another error", "with a state", "cleared away", "hung up"],
)
def test_a_signal_that_a_library_converts_still_ends_the_command(
    body: str, sent: signal.Signals, shown: str, state: str
) -> None:
    done = run(body, sent)
    word = {signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}.get(sent, "interrupted")
    assert (done.returncode, done.stdout) == (128 + sent, shown)
    assert done.stderr == f"private-topk: {word}{state}\n"


def test_a_signal_after_the_last_message_ends_the_process_at_once() -> None:
    done = run(AT_THE_END, signal.SIGTERM)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


def test_a_command_under_nohup_goes_on_without_its_terminal() -> None:
    """There SIGHUP is ignored from the start, and stays so to the end."""
    done = run("import atexit\natexit.register(hit)\nhit()\nprint('done', flush=True)", signal.SIGHUP, ignored=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


COMPLAINTS = """
import atexit, logging, threading

def complain():
    logging.warning("Really destroying service")
    thread = threading.Thread(target=lambda: {}["secret"])
    thread.start()
    thread.join()

atexit.register(complain)
print("kept", file=sys.stderr)
"""


def test_library_messages_during_shutdown_are_not_shown() -> None:
    """Errors of workers may hold data."""
    assert run(COMPLAINTS, signal.SIGTERM).stderr == "kept\n"


MEANWHILE = """
import threading

class Stream:
    def write(self, text):
        if text.startswith("private-topk"):
            thread = threading.Thread(target=lambda: print("KeyError: 'secret'", file=sys.stderr))
            thread.start()
            thread.join()
        sys.__stderr__.write(text)

    def flush(self):
        pass

sys.stderr = Stream()
hit()
"""


def test_thread_messages_during_shutdown_are_not_shown() -> None:
    """Beam's workers print what was raised in them, though the command is ending."""
    assert run(MEANWHILE, signal.SIGTERM).stderr == "private-topk: terminated\n"


LOOKED_FOR = """
import os, signal, sys, time
from private_topk.pipelines.cli import console

class Hit:
    def find_spec(self, name, path=None, target=None):
        if name == "dateutil":
            sys.meta_path.remove(self)
            print("hit", flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.001)

sys.meta_path.insert(0, Hit())
console()
"""


def test_a_signal_while_arrow_looks_for_modules_is_not_lost(tmp_path: Path) -> None:
    """Arrow takes whatever is raised there for the lack of the module, and the run would go on and publish."""
    write(tmp_path / "rows.csv", [{"user": f"u{row}", "item": "i1"} for row in range(50)])
    write(tmp_path / "items.txt", "i1\n")
    words = (
        f"run --input={tmp_path}/rows.csv --domain={tmp_path}/items.txt --mechanism=joint --k=1 --epsilon=1 "
        f"--output={tmp_path}/out/ranking.csv"
    ).split()
    done = subprocess.run([sys.executable, "-c", LOOKED_FOR, *words], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (143, "hit\n"), done.stderr
    assert done.stderr.startswith("private-topk: terminated") and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def run(body: str, sent: signal.Signals, ignored: bool = False) -> subprocess.CompletedProcess[str]:
    """A command of its own that is sent a signal, which a test runner's workers may have ignored."""
    indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
    heard = "SIG_IGN" if ignored else "SIG_DFL"
    # Not before the child begins: a fork that runs Python there is one of gRPC's threads too, which may abort it.
    code = COMMAND.format(body=indented, sent=f"signal.Signals({sent.value})", heard=heard)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def told(text: str) -> list[tuple[str, str]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(list(one)[:3] == ["time", "level", "message"] for one in found)
    assert all(len(one) == 3 or one["event"] == "dropped_rows" for one in found)
    assert all(datetime.fromisoformat(one["time"]).tzinfo for one in found)
    return [(one["level"], one["message"]) for one in found]


def test_lines_of_stderr_become_json_objects_once_complete(capsys: pytest.CaptureFixture) -> None:
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


def test_stderr_is_restored_after_json_output() -> None:
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
        assert name == "error" and said.startswith("--input, --output, --epsilon")


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
    asked = (
        "run --input rows.csv --domain items.txt --mechanism joint --k 2 --epsilon 0.001 --output out.csv --ledger "
        "sqlite:///b.db --dataset d --release-key file:key --release-id r --like users=200,rank1=50%,rank3=10% "
        "--overwrite --show-dropped-rows"
    ).split()
    plain, lines = command(*asked), command(*asked, "--log-format", "json", "--json")
    assert plain.status == lines.status == 0, plain.err + lines.err
    found = told(lines.err)
    assert [said for _, said in found if "ledger" not in said] == [
        line.removeprefix("private-topk: ") for line in plain.err.splitlines() if "ledger" not in line
    ]
    assert found[0][0] == "warning" and "close to noise" in found[0][1]
    assert any(said.startswith("ledger: ") for _, said in found) and not logging.root.manager.disable
    assert json.loads(lines.out)["rows"]
