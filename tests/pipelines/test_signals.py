"""A signal that asks a command to end ends it, with a true sentence and nothing half done."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.support import write

COMMAND = """
import os, signal, sys, time
from private_topk.pipelines.cli.output import guarded, leave
from private_topk.pipelines.unfinished import Unfinished, check_signals, heed_signals

def hit():
    os.kill(os.getpid(), {sent})
    time.sleep(0.001)

def command():
{body}

heed_signals()
leave(guarded(command))
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
    error = Unfinished("nothing is published")
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


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("body", "shown", "state"),
    [(LOST_ONCE, "", ""), (LOST_BEFORE_THE_CHARGE, "", ""), (ANOTHER_ERROR, "", ""),
     (ANOTHER_WITH_ITS_STATE, "", "; nothing is published"), (CLEARED_AWAY, "whole\n", "")],
    ids=["sent again", "looked for", "another error", "with a state", "cleared away"],
)  # fmt: skip
def test_what_a_library_makes_of_a_signal_ends_the_command_all_the_same(
    body: str, shown: str, state: str, sent: signal.Signals
) -> None:
    done = run(body, sent)
    word = "terminated" if sent == signal.SIGTERM else "interrupted"
    assert (done.returncode, done.stdout) == (128 + sent, shown)
    assert done.stderr == f"private-topk: {word}{state}\n"


def test_a_signal_when_all_is_told_ends_the_process_at_once() -> None:
    done = run(AT_THE_END, signal.SIGTERM)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


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
    words = ["run", f"--input={tmp_path}/rows.csv", f"--domain={tmp_path}/items.txt", "--mechanism=joint", "--k=1",
             "--epsilon=1", f"--output={tmp_path}/out/ranking.csv"]  # fmt: skip
    done = subprocess.run([sys.executable, "-c", LOOKED_FOR, *words], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (143, "hit\n"), done.stderr
    assert done.stderr.startswith("private-topk: terminated") and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def run(body: str, sent: signal.Signals) -> subprocess.CompletedProcess[str]:
    indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
    code = COMMAND.format(body=indented, sent=f"signal.Signals({sent.value})")
    hearing = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **hearing)
