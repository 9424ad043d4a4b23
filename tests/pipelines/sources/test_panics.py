"""What is printed while a library's panics are kept off standard error: the panics go, everything else stays."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading

import pytest

from private_topk.pipelines.sources.panics import unprinted

PANIC = b"\nthread 'x' (7) panicked at crates/y.rs:1:2:\nrange end\nnote: run with `RUST_BACKTRACE=1`\n"


def test_no_line_of_any_thread_is_lost(capfd: pytest.CaptureFixture) -> None:
    """A look at what has been printed and another thread's printing come in any order: 4,000 lines."""

    def say(thread: int) -> None:
        for n in range(200):
            with unprinted():
                os.write(2, PANIC)
                os.write(2, b"line %d of %d\n" % (n, thread))

    threads = [threading.Thread(target=say, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = sorted(capfd.readouterr().err.splitlines())
    assert said == sorted(f"line {n} of {thread}" for n in range(200) for thread in range(20))


@pytest.mark.parametrize("cut", range(1, len(PANIC)))
def test_a_panic_printed_in_two_parts_is_one(cut: int, capfd: pytest.CaptureFixture) -> None:
    """Another thread comes and goes between the parts."""
    with unprinted():
        os.write(2, b"before\n" + PANIC[:cut])
        with unprinted():
            pass
        os.write(2, PANIC[cut:] + b"after\n")
    assert capfd.readouterr().err == "before\nafter\n"


def test_a_finished_line_does_not_wait_for_the_last_thread(capfd: pytest.CaptureFixture) -> None:
    with unprinted():
        with unprinted():
            os.write(2, b"a line\nand half")
        assert capfd.readouterr().err == "a line\n"
    assert capfd.readouterr().err == "and half"


_ENDS_MEANWHILE = f"""
import os, sys, threading, time
from private_topk.pipelines.commands.status import leave
from private_topk.pipelines.sources.panics import unprinted

def decode():
    with unprinted():
        inside.set()
        time.sleep(600)

inside = threading.Event()
threading.Thread(target=decode, daemon=True).start()
inside.wait()
os.write(2, {PANIC!r})
print("what is wrong", file=sys.stderr)
leave(2)
"""


def test_what_is_said_last_is_not_lost_with_a_thread_that_is_still_inside() -> None:
    """A run that is refused, or ended by a signal, while a thread decodes a block that takes seconds."""
    done = subprocess.run([sys.executable, "-c", _ENDS_MEANWHILE], stderr=subprocess.PIPE, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (2, "what is wrong\n")


def test_no_handle_is_left_where_there_is_no_room_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    before = os.listdir("/dev/fd")
    for _ in range(9):
        with unprinted():
            pass
    assert os.listdir("/dev/fd") == before
