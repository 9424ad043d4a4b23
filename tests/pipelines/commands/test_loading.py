"""What a run needs is loaded with the collector at rest, and it is at work again afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from private_topk.pipelines.commands.loading import load

FRESH = """
import gc, sys
from private_topk.pipelines.commands.loading import load
before = sum(generation["collections"] for generation in gc.get_stats())
load({runner!r})
assert sum(generation["collections"] for generation in gc.get_stats()) == before
assert gc.isenabled() and gc.get_freeze_count() > 100_000
assert {module!r} in sys.modules and "private_topk.pipelines.run" in sys.modules
"""


@pytest.mark.parametrize(
    ("runner", "module"), [("PrismRunner", "private_topk.runners.prism"), ("dierct", "private_topk.runners.direct")]
)
def test_a_fresh_process_loads_without_collecting(runner: str, module: str) -> None:
    done = subprocess.run([sys.executable, "-c", FRESH.format(runner=runner, module=module)], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_process_that_has_loaded_beam_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: pytest.fail("froze what others made"))
    load(None)
    monkeypatch.delitem(sys.modules, "apache_beam")
    monkeypatch.setattr(gc, "isenabled", lambda: False)  # who has it off, wants it off
    load(None)
