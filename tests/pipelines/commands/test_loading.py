"""What a run needs is loaded with the collector at rest, and it is at work again afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from private_topk.pipelines.commands.loading import load
from tests.quick import in_check

FRESH = """
import gc, sys
from private_topk.pipelines.commands.loading import load
before = sum(generation["collections"] for generation in gc.get_stats())
load({runner!r})
assert sum(generation["collections"] for generation in gc.get_stats()) == before
assert gc.isenabled() and gc.get_freeze_count() > 100_000
assert {module!r} in sys.modules and "private_topk.pipelines.run" in sys.modules
"""


RUN = """
import sys
from private_topk.pipelines.commands import main

assert main(sys.argv[1:]) == 0
print([name for name in ("polars", "sqlalchemy", "scipy", "matplotlib", "dp_accounting", "confluent_kafka", "psycopg",
                         "private_topk.testing") if name in sys.modules])
"""


@in_check("Prism*")
@pytest.mark.parametrize(
    ("runner", "module"), [("PrismRunner", "private_topk.runners.prism"), ("dierct", "private_topk.runners.direct")]
)
def test_a_fresh_process_loads_without_collecting(runner: str, module: str) -> None:
    done = subprocess.run([sys.executable, "-c", FRESH.format(runner=runner, module=module)], capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_plain_run_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """Of what takes a tenth of a second or more: polars reads texts and sorts many words, the others are for more."""
    (tmp_path / "rows.csv").write_text("user,item\na,apple\nb,pear\n")
    (tmp_path / "items.txt").write_text("apple\npear\nplum\n")
    words = ("run", "--input", "rows.csv", "--domain", "items.txt", "--mechanism", "joint", "--k", "2", "--epsilon",
             "1", "--output", "out.csv", "--quiet")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", RUN, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_process_that_has_loaded_beam_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: pytest.fail("froze what others made"))
    load(None)
    monkeypatch.delitem(sys.modules, "apache_beam")
    monkeypatch.setattr(gc, "isenabled", lambda: False)  # who has it off, wants it off
    load(None)
