"""How a command ends: what is said is true, whatever ended it, and nothing half done is left."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import msgspec
import pytest

from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.cli.output import run_command
from private_topk.pipelines.process import Interrupted, RunFailed, Stopped
from private_topk.pipelines.question import Question
from private_topk.pipelines.report import Report
from private_topk.pipelines.sinks.files import ToFolder
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files
from private_topk.pipelines.standing import how_it_stands
from private_topk.runners.child import ending_with_us
from private_topk.transforms import Period, Release, ReleaseKey
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.release import Ranking
from private_topk.transforms.spec import TopK
from tests.nightly import nightly, nightly_but
from tests.pipelines.support import WEEKLY, command, write

ROWS = [{"user": f"secret user {n}", "item": "abc"[n % 3], "time": f"2026-01-{5 + n % 14:02}"} for n in range(60)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "rows.csv", ROWS)
    (tmp_path / "items.txt").write_text("a\nb\nc\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    assert command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=9").status == 0
    return tmp_path


def endless(*more: str) -> list[str]:
    """A stream whose horizon ends in a hundred years."""
    asked = [
        *(
            "--input=./in/*.csv --domain=items.txt --mechanism=joint --k=2 --epsilon=1 --output=out --window=year "
            "--from=2026-01-01 --to=2126-01-01"
        ).split(),
        *more,
    ]
    return [sys.executable, "-m", "private_topk", "stream", *asked]


def after(statements: str, command: Sequence[str]) -> list[str]:
    """A command that a process of its own becomes after these. Not by `preexec_fn`, whose fork takes gRPC's threads of
    the tests along, which end the child now and then.
    """
    become = "os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", f"import fcntl, os, signal, sys, termios; {statements}; {become}", *command]


HEARING = "signal.signal(signal.SIGINT, signal.SIG_DFL)"
"""A test runner's workers ignore SIGINT, which a child would inherit."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("sent", "status", "word"), [("SIGTERM", 143, "terminated"), nightly("SIGINT", 130, "interrupted")]
)
def test_a_signal_ends_a_run_with_status_and_how_to_resume(folder: Path, sent: str, status: int, word: str) -> None:
    kept = ["--release-key=file:key", "--release-id=the id", "--ledger=sqlite:///b.db", "--dataset=d"]
    before = {path.name for path in folder.iterdir()}
    command = after(HEARING, ending_with_us(endless(*kept)))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not Ledger("sqlite:///b.db").read().charges:
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.Signals[sent])
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (status, ""), err
    go_on = "To finish this same release at no cost, run again with the same arguments, --release-id the id, with "
    assert f"private-topk: {word}; nothing is published. {go_on}" in err
    assert err.endswith("the same key and input; the charge to d stays\n") and "secret" not in err
    assert [entry.outcome for entry in Ledger("sqlite:///b.db").read().charges] == ["failed"]
    # What was read may be on record already, beside the rankings.
    assert {path.name for path in folder.iterdir()} - {"out"} == before and not list(folder.glob("out/[!.]*"))


@pytest.mark.parametrize("closed", nightly_but([">&-", "2>&-", "<&- >&- 2>&-"], "<&- >&- 2>&-"))
def test_a_run_publishes_the_same_with_closed_standard_streams(folder: Path, closed: str) -> None:
    """As below some services: what is printed goes nowhere, and not into a file that has got the stream's number."""
    asked = "--input in/rows.csv --domain items.txt --mechanism joint --k 2 --epsilon 1 --release-key file:key"
    words = f"run {asked} --release-id r --output"
    assert command(*words.split(), "plain.jsonl").status == 0
    shell = f"{sys.executable} -m private_topk {words} out.jsonl {closed}"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True)
    assert done.returncode == 0 and "rror" not in done.stderr, done.stderr
    assert (folder / "out.jsonl").read_bytes() == (folder / "plain.jsonl").read_bytes()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_message_is_out_when_its_line_ends(unbuffered: str) -> None:
    """Also where Python leaves its streams without a buffer: what is killed has told its charges."""
    told = "import os, sys; print('charged', file=sys.stderr); os._exit(9)"
    code = f"from private_topk.pipelines.cli.output import open_streams; open_streams(); {told}"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (9, "charged\n")


ASKED = "--domain=items.txt --k=2 --epsilon=1 --window=7d --from=2026-01-05 --to=2026-01-19 --output=out"
PUBLISHING = {
    "run": ["run", "--input=in/rows.csv", *ASKED.split()[:-1], "--output=out/r.jsonl"],
    "stream": ["stream", "--input=./in/*.csv", *ASKED.split()],
    "report": ["report", "weekly.yaml", "--backfill", "--until=2026-01-19"],
}
"""Commands that publish two windows, and print to stderr which mechanism is chosen, before the charge and after it."""
CHARGED = "--ledger=sqlite:///b.db", "--dataset=d"
HOWS = ["gone", "full"] if Path("/dev/full").exists() else ["gone"]


@contextlib.contextmanager
def that_fails(how: str) -> Iterator[int]:
    """A stream to which nothing can be written: a file on a full disk, or a pipe whose reader has gone."""
    if how == "full":
        with open("/dev/full", "w") as sink:
            yield sink.fileno()
        return
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize(
    ("name", "log_format", "how"),
    nightly_but(product(PUBLISHING, ("text", "json"), HOWS), ("run", "text", "gone"), ("stream", "json", HOWS[-1])),
)
def test_messages_that_cannot_be_written_decide_nothing(folder: Path, name: str, log_format: str, how: str) -> None:
    charged = how == "gone"
    report = WEEKLY.replace("rows.csv", "in/rows.csv").replace("name: joint", "name: auto")
    ledger = "ledger: {url: 'sqlite:///b.db', dataset: d}\n" if charged else ""
    write(folder / "weekly.yaml", report.replace("{report}-", "") + ledger)
    words = [*PUBLISHING[name], f"--log-format={log_format}", *(CHARGED if charged and name != "report" else ())]
    with that_fails(how) as stream:
        done = subprocess.run([sys.executable, "-m", "private_topk", *words], stdout=stream, stderr=stream)
    published = [path for path in folder.glob("out/[!.]*") if path.suffix != ".json" and path.is_file()]
    assert (done.returncode, len(published)) == (0, 1 if name == "run" else 2)
    outcomes = {entry.outcome for entry in Ledger("sqlite:///b.db").read().charges}
    assert outcomes == ({"released"} if charged else set())


@pytest.mark.parametrize(("how", "verb", "status"), [("gone", "show", 2), (HOWS[-1], "mechanisms", 0)])
def test_a_refusal_that_cannot_be_written_keeps_its_status(how: str, verb: str, status: int) -> None:
    with that_fails(how) as stream:
        assert subprocess.run([sys.executable, "-m", "private_topk", verb], stderr=stream).returncode == status


@pytest.mark.parametrize("how", HOWS)
def test_output_is_lost_in_silence_only_if_its_reader_has_left(how: str) -> None:
    """As in `private-topk mechanisms | head`. For who reads a file, less than all is a failure."""
    status = int(how == "full")
    for words in (["completion", "bash"], ["--help"]):
        with that_fails(how) as stream:
            command = [sys.executable, "-m", "private_topk", *words]
            done = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, text=True)
        lost = "private-topk: standard output cannot be written: No space left on device\n"
        assert (done.returncode, done.stderr) == (status, lost if status else ""), words


@pytest.mark.skipif("full" not in HOWS, reason="this system has no device that is full")
@pytest.mark.parametrize("more", [[], nightly(["--json"])])
def test_a_ranking_that_cannot_be_printed_is_published_and_said_to_be(folder: Path, more: list[str]) -> None:
    """Standard output is a file on a full disk. To run again would be another release, which costs once more."""
    words = [sys.executable, "-m", "private_topk", *PUBLISHING["run"], *more]
    with that_fails("full") as stream:
        done = subprocess.run(words, stdout=stream, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and (folder / "out" / "r.jsonl").exists()
    lost = "private-topk: done, but standard output cannot be written: No space left on device\n"
    assert done.stderr.endswith(lost), done.stderr


def test_characters_that_a_stream_cannot_show_are_escaped(folder: Path) -> None:
    """Otherwise a stream that has published everything ends with an error, for the name of its folder."""
    words = [sys.executable, "-m", "private_topk", *PUBLISHING["stream"][:-1], "--output=gr\u00fc\u00dfe"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii:strict"})
    assert done.returncode == 0 and "2 windows published to gr\\xfc\\xdfe" in done.stdout, done.stderr


def test_a_terminal_that_is_closed_ends_a_run_with_its_charge_on_record(folder: Path) -> None:
    """It sends SIGHUP, and nothing can be written to it any more."""
    kept = ["--release-key=file:key", "--release-id=the id", *CHARGED]
    terminal, its_end = pty.openpty()

    # Tests under nohup ignore SIGHUP, which a child inherits.
    sit_down = "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    process = subprocess.Popen(after(sit_down, endless(*kept)), stdin=its_end, stdout=its_end, stderr=its_end)
    os.close(its_end)
    while not Ledger("sqlite:///b.db").read().charges:
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    os.close(terminal)
    assert process.wait(timeout=600) == 128 + signal.SIGHUP
    assert [entry.outcome for entry in Ledger("sqlite:///b.db").read().charges] == ["failed"]


_HIT_IN_A_ROW = """
import os, signal, sys
from private_topk.pipelines.cli import main
from private_topk.pipelines.cli.output import exit_process
from private_topk.pipelines.process import install_signal_handlers
from private_topk.transforms import rows

def hit(self, block):
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    yield from ()

if sys.argv[2] == "ours":
    install_signal_handlers()
rows._ShardDoFn.process = hit
exit_process(main(sys.argv[3:]))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("sent", "heard", "status"), [nightly("SIGTERM", "ours", 143), ("SIGINT", "ours", 130), ("SIGINT", "Python's", 130)]
)
def test_a_signal_in_the_midst_of_a_row_is_no_failure(folder: Path, sent: str, heard: str, status: int) -> None:
    """Beam makes an error of its own of whatever is raised in a DoFn."""
    words = (
        "run --input=in/rows.csv --domain=items.txt --mechanism=joint --k=2 --epsilon=1 --output=out.avro "
        "--release-key=file:key"
    ).split()
    command = after(HEARING, [sys.executable, "-c", _HIT_IN_A_ROW, sent, heard, *words])
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    word = "terminated" if sent == "SIGTERM" else "interrupted"
    assert f"private-topk: {word}; nothing is published." in done.stderr and "secret" not in done.stderr


_HIT_WHILE = """
import importlib, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
from private_topk.pipelines.cli import main
from private_topk.pipelines.cli.output import exit_process
from private_topk.pipelines.process import install_signal_handlers

where = importlib.import_module("private_topk.pipelines." + sys.argv[1])
name, swallowed = sys.argv[2], sys.argv[3] == "swallowed"
original = getattr(where, name)

def hit(*given):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        if not swallowed:
            raise
    return original(*given)

install_signal_handlers()
setattr(where, name, hit)
exit_process(main(sys.argv[4:]))
"""


@pytest.mark.parametrize(
    ("hit", "charged", "said"),
    [
        ("run weak_promise swallowed", [], "this run has charged and published nothing"),
        ("run check_all_published raised", ["failed"], "all is published in out.avro. To finish"),
        ("cli.show show_rows raised", ["released"], "all is done, only the printing of it was cut short"),
    ],
)
def test_a_signal_says_what_was_charged_and_published_by_then(
    folder: Path, hit: str, charged: list[str], said: str
) -> None:
    words = "run --input=in/rows.csv --domain=items.txt --mechanism=joint --k=2 --epsilon=1 --output=out.avro".split()
    command = [sys.executable, "-c", _HIT_WHILE, *hit.split(), *words, *CHARGED, "--release-key=file:key"]
    done = subprocess.run([*command, "--release-id=x"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 130 and f"private-topk: interrupted; {said}" in done.stderr, done.stderr
    assert [entry.outcome for entry in Ledger("sqlite:///b.db").read().charges] == charged
    assert (folder / "out.avro").exists() is ("all is" in said)


@pytest.mark.parametrize(
    ("hit", "words"),
    [
        ("cli.budget _ledger", "budget create --ledger=sqlite:///new.db --dataset=plays --epsilon=1"),
        ("cli.show print_json", "mechanisms --json"),
    ],
)
def test_a_signal_that_a_library_swallows_is_heard(folder: Path, hit: str, words: str) -> None:
    command = [sys.executable, "-c", _HIT_WHILE, *hit.split(), "swallowed", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (130, "private-topk: interrupted\n")
    assert not (folder / "new.db").exists()


def test_a_signal_before_anything_has_begun_says_no_more_than_that() -> None:
    def stop() -> None:
        raise Stopped(signal.SIGTERM)

    assert run_command(stop) == 143


def report(folder: Path, release: Release) -> Report:
    start = datetime(2026, 1, 5, tzinfo=UTC)
    period = Period(start, start + timedelta(days=14), timedelta(days=7))
    spec = Question(TopK(2, Joint(epsilon=1.0), ["a", "b", "c"]), period=period, release=release)
    return Report(spec, Files(str(folder / "in" / "rows.csv"), Columns(time="time")), ToFolder(str(folder / "out")))


def test_only_published_windows_of_the_release_are_counted(folder: Path) -> None:
    """Of this release only, and only where the ranking stands beside its manifest."""
    asked = report(folder, Release(ReleaseKey.parse("file:key"), "r"))

    def told(of: Report = asked, before: int = 0) -> str:
        return how_it_stands(of, "run it again", before)

    out, content = folder / "out", b"of a ranking"
    windows = list(asked.question.period.windows())
    assert told() == "nothing is published. To finish this same release, run it again"
    out.mkdir()

    def put(number: int, ranking: bool = True, **facts: object) -> None:
        window, key = windows[number], asked.question.release.key.key_id()
        answered = asked.manifest.with_answer([Ranking(window, ("a", "b"), 2, "sequence")])
        of_it = msgspec.structs.replace(answered, **{"key_id": key, **facts})
        (out / f"{window.label()}.manifest.json").write_bytes(of_it.at("r.avro", content).encode())
        if ranking:
            (out / f"{window.label()}.avro").write_bytes(content)

    put(0, ranking=False)
    assert told().startswith("nothing is published.")
    put(0)
    assert told().startswith(f"1 of 2 windows is published in {out}, 1 is not. To finish")
    assert told(before=1).startswith(f"1 of 2 windows is published in {out}, as before this run, 1 is not.")
    for facts, said in (
        ({"release_id": "another"}, "exists and is kept"),
        ({"key_id": "another"}, "was published under another release key"),
        ({"k": 3}, "is of r with k 3 (now 2)"),
    ):
        put(1, **facts)
        assert told().startswith(f"1 of 2 windows is published in {out}, 1 is not. This release cannot be finished: ")
        assert said in told() and "run it again" not in told()
    put(1)
    assert told().startswith(f"all is published in {out}.")
    assert told(before=1).startswith(f"all is published in {out}, 1 of these windows as before this run.")
    assert told(before=2).startswith(f"all is published in {out}, as before this run.")
    assert "Its random key is gone" in told(report(folder, Release.fresh()))


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (RunFailed("1 of 2 periods are not published"), 1, "private-topk: 1 of 2 periods are not published\n"),
        (Interrupted("nothing is published", KeyboardInterrupt()), 130, "private-topk: interrupted; nothing is "),
        (KeyboardInterrupt(), 130, "private-topk: interrupted\n"),
    ],
)
def test_every_kind_of_error_has_its_exit_status(
    capsys: pytest.CaptureFixture, error: BaseException, status: int, said: str
) -> None:
    def end() -> None:
        raise error

    assert run_command(end) == status
    assert capsys.readouterr().err.startswith(said)


def test_an_interrupted_call_in_python_says_how_it_stands() -> None:
    assert str(Interrupted("nothing is published", KeyboardInterrupt())) == "SIGINT; nothing is published"


def test_a_failed_run_says_what_is_published_and_shows_no_data(capsys: pytest.CaptureFixture) -> None:
    def end() -> None:
        try:
            raise OSError(28, "secret user 7 fills the disk")
        except OSError as error:
            raise RunFailed("3 of 7 windows are published") from error

    assert run_command(end) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "private-topk: failed with OSError (No space left on device); 3 of 7 windows are published\n"
    )
    assert "secret" not in said and " in end\n" in said
