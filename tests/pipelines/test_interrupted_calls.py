"""A call of `rank` that is interrupted, as a notebook does it: the next one, in the same process, finishes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from private_topk.pipelines.budget import Budget, Ledger, Total

CELLS = """
import logging, os, signal, sys
import polars as pl
from private_topk import Release, ReleaseKey, rank
from private_topk.pipelines.sources import frame

logging.basicConfig()  # a handler that keeps the stderr of now, as a notebook's
moment, real = sys.argv[1], frame.block_of

def reach(name, *_):
    global moment
    if name == moment:
        moment = None
        os.kill(os.getpid(), signal.SIGINT)

class Finder:
    find_spec = staticmethod(reach)

sys.meta_path.insert(0, Finder)
frame.block_of = lambda *given: reach("reading") or real(*given)
rows = pl.DataFrame({"user": ["ann", "ben"], "item": ["tea", "tea"]})
release = Release(ReleaseKey.parse("file:key"), "weekly")
asked = {"k": 1, "epsilon": 1.0, "domain": ["tea", "cake"], "ledger": "sqlite:///b.db", "dataset": "d"}
for _ in range(2):
    try:
        print(rank(rows, **asked, release=release).items)
    except KeyboardInterrupt as stop:
        print(type(stop).__name__, stop)
"""
TOLD = (
    "Interrupted SIGINT; nothing is published. To finish this same release at no cost, make the same call again, with "
    "the same key and input; the charge to d stays"
)


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("sqlalchemy.engine.result", "KeyboardInterrupt "),
        ("apache_beam.runners.worker.opcounters", "KeyboardInterrupt "),
        ("reading", TOLD),
    ],
)
def test_the_next_call_finishes_what_an_interrupted_one_began(moment: str, told: str, tmp_path: Path) -> None:
    """Python would leave half of a package loaded, for as long as the kernel lives; and Beam logs where it was."""
    (tmp_path / "key").write_text("a key of the tests, which is no secret")
    Ledger(f"sqlite:///{tmp_path}/b.db").create(Budget("d", "user-window", Total(1)))
    words = [sys.executable, "-c", CELLS, moment]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    first, second = done.stdout.splitlines()
    assert first == told and second in ("('tea',)", "('cake',)"), done
    assert "Traceback" not in done.stderr and "ERROR" not in done.stderr, done.stderr
