"""What a command loads, and how."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from private_topk.pipelines.commands.loading import loading

ALONE = """
import gc
from private_topk.pipelines.commands.loading import loading

kept = []
try:
    with loading():
        assert not gc.isenabled()
        kept = [[] for _ in range(1000)]
        raise KeyError
except KeyError:
    pass
assert gc.isenabled() and gc.get_freeze_count() > 1000
"""
RUN = """
import gc, sys
from private_topk.pipelines.commands import main

assert main(sys.argv[1:]) == 0 and gc.isenabled()
print([name for name in ("polars", "sqlalchemy", "scipy", "matplotlib", "dp_accounting", "confluent_kafka", "psycopg",
                         "private_topk.testing") if name in sys.modules], gc.get_freeze_count() > 100_000)
"""


def python(code: str, *words: str, folder: Path | None = None) -> str:
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_is_collected_meanwhile_and_all_of_it_stays() -> None:
    python(ALONE)


def test_where_beam_is_there_nothing_is_kept() -> None:
    before = gc.get_freeze_count()
    with loading():
        assert gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() <= before


@pytest.mark.long
def test_a_plain_run_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """Of what takes a tenth of a second or more: polars reads texts, the others are for charged runs and for tests."""
    (tmp_path / "rows.csv").write_text("user,item\na,apple\nb,pear\n")
    (tmp_path / "items.txt").write_text("apple\npear\nplum\n")
    words = ("run", "--input", "rows.csv", "--domain", "items.txt", "--mechanism", "joint", "--k", "2", "--epsilon",
             "1", "--output", "out.csv", "--quiet")  # fmt: skip
    assert python(RUN, *words, folder=tmp_path).splitlines()[-1] == "[] True"
