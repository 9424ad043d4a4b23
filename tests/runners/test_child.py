"""Servers end with whoever has started them, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from private_topk.pipelines.sample import write_sample
from private_topk.runners.child import ending_with_us
from tests.nightly import nightly
from tests.pipelines.support import wait_until
from tests.runners.servers import flink_job_server

MARK = "A_TEST_OF_CHILDREN"

STARTER = """
import signal, subprocess, sys, threading, time
from private_topk.runners.child import ending_with_us

command = ending_with_us([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"])
thread = threading.Thread(target=lambda: subprocess.Popen(command))
thread.start()
thread.join()  # what was started stays, though the thread that has done so is gone
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
time.sleep(600)
"""


def marked(mark: str) -> list[str]:
    """The command lines of all processes with a mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended meanwhile
            pass
    return [line for line in found if line]


@pytest.mark.long
def test_processes_started_by_a_thread_end_with_the_parent_process(tmp_path: Path) -> None:
    mark = str(tmp_path)
    words, environment = [sys.executable, "-c", STARTER], {**os.environ, MARK: mark}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, start_new_session=True) as starter:
        assert starter.stdout is not None and starter.stdout.readline() == b"up\n"
        time.sleep(1.5)
        assert len(marked(mark)) == 3
        os.killpg(starter.pid, signal.SIGINT)  # as a terminal's Ctrl-C, which is for the parent to answer
        assert starter.stdout.readline() == b"interrupted\n"
        time.sleep(1)
        there = len(marked(mark))
        starter.kill()
    assert there == 3
    wait_until(lambda: not marked(mark), 20)


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 7), (signal.SIGKILL, -9)])
def test_signals_and_statuses_are_passed_on(sent: signal.Signals, status: int, tmp_path: Path) -> None:
    body = "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(7)); print('up', flush=True); "
    command = ending_with_us([sys.executable, "-c", f"{body}time.sleep(600)"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, MARK: str(tmp_path)}) as child:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        child.send_signal(sent)
        assert child.wait(20) == status
    wait_until(lambda: not marked(str(tmp_path)), 20)
    assert subprocess.run(ending_with_us([sys.executable, "-c", "exit(5)"])).returncode == 5
    assert subprocess.run(ending_with_us(["/no/such/program"]), stderr=subprocess.DEVNULL).returncode == 1


def test_a_status_is_passed_on_though_the_parent_is_looked_for_at_that_moment() -> None:
    """It is looked for every half second, by a signal that must not end who waits for it."""
    ends = [f"import time; time.sleep({0.3 + 0.01 * number}); raise SystemExit(5)" for number in range(30)]
    servers = [subprocess.Popen(ending_with_us([sys.executable, "-S", "-c", body])) for body in ends]
    assert [server.wait(60) for server in servers] == [5] * len(servers)


def test_a_server_that_is_ended_before_it_answers_leaves_nothing(tmp_path: Path) -> None:
    """A signal comes while the launcher waits for Prism. Here that is a program that never answers."""
    write_sample(str(tmp_path))
    (server := tmp_path / "prism").write_text("#!/bin/sh\nexec sleep 600\n")
    server.chmod(0o755)
    (temporary := tmp_path / "temporary").mkdir()
    words = f"--input={tmp_path}/plays.avro --domain={tmp_path}/catalogue.txt --mechanism=joint --k=2 --epsilon=1"
    words = f"run {words} --output={tmp_path}/out.csv --runner=prism --prism_location={server}"
    environment = {**os.environ, MARK: str(tmp_path), "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "private_topk", *words.split()]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as launcher:
        wait_until(lambda: launcher.poll() is not None or any("sleep" in line for line in marked(str(tmp_path))))
        launcher.terminate()
        assert (launcher.wait(60), launcher.stderr.read()[:24]) == (143, "private-topk: terminated")
    assert not list(temporary.iterdir()) and not (tmp_path / "out.csv").exists()
    wait_until(lambda: not marked(str(tmp_path)), 20)


TESTS = """
import sys
from pathlib import Path
from tests.pipelines.streaming.replay import streaming

with streaming(sys.argv[2:], Path(sys.argv[1], "log")) as process:
    process.wait()
"""


def test_the_stream_of_a_killed_test_run_ends(tmp_path: Path) -> None:
    write_sample(str(tmp_path))
    words = f"--input={tmp_path}/p*.avro --domain={tmp_path}/catalogue.txt --mechanism=joint --k=2 --epsilon=1"
    words = f"{words} --window=year --from=2026-01-01 --to=2126-01-01 --output={tmp_path}/out"
    command = [sys.executable, "-c", TESTS, str(tmp_path), *words.split()]
    with subprocess.Popen(command, env={**os.environ, MARK: str(tmp_path)}) as tests:
        wait_until(lambda: (tmp_path / "log").exists() and "windows are left" in (tmp_path / "log").read_text())
        tests.kill()
    wait_until(lambda: not marked(str(tmp_path)), 20)


def launched(runner: str, folder: Path, request: pytest.FixtureRequest) -> subprocess.Popen[bytes]:
    """The command of a stream without an end, once its server is there; it writes to `folder / "log"`."""
    more = ["--flink_job_server_jar", flink_job_server()] if runner == "flink" else []
    if runner == "prism":
        request.getfixturevalue("prism_binary")
    write_sample(str(folder))
    words = [
        *(
            f"stream --input {folder}/p*.avro --domain {folder}/catalogue.txt --mechanism joint --k 2 --epsilon "
            f"1 --window year --from 2026-01-01 --to 2126-01-01 --output {folder}/out --runner {runner}"
        ).split(),
        *more,
    ]
    with open(folder / "log", "wb") as log:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "private_topk", *words],
            stdout=log,
            stderr=log,
            env={**os.environ, MARK: str(folder)},
            start_new_session=True,
        )
    word = {"prism": "--job_port", "flink": "-jar"}[runner]
    try:
        wait_until(
            lambda: (
                launcher.poll() is not None
                or any(word in line and not line.startswith(sys.executable) for line in marked(str(folder)))
            ),
            120,
        )
        assert launcher.poll() is None, (folder / "log").read_text()
    except BaseException:
        launcher.kill()
        raise
    return launcher


@pytest.mark.server
@pytest.mark.parametrize("runner", ["prism", nightly("flink")])
def test_the_server_of_a_killed_launcher_ends(runner: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    launcher = launched(runner, tmp_path, request)
    launcher.kill()  # it alone
    launcher.wait()
    wait_until(lambda: not marked(str(tmp_path)), 30)


@pytest.mark.server
@pytest.mark.parametrize("runner", ["prism", nightly("flink")])
def test_a_second_interrupt_while_a_server_stops_ends_the_command(
    runner: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whoever sees nothing happen presses Ctrl-C again."""
    launcher = launched(runner, tmp_path, request)
    time.sleep(3)  # the server answers, and its job runs: before that an interrupt ends the command in another place
    try:
        for _ in range(3):
            os.killpg(launcher.pid, signal.SIGINT)
            time.sleep(0.3)
        assert launcher.wait(30) in (130, -signal.SIGINT)
    finally:
        launcher.kill()
        launcher.wait()
    said = (tmp_path / "log").read_text()
    assert "private-topk: interrupted; nothing is published" in said and "Traceback" not in said, said
    wait_until(lambda: not marked(str(tmp_path)), 30)
