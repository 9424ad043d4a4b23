"""What a run needs is loaded with the collector at rest, and it is at work again afterwards."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from private_topk.pipelines.commands.loading import load
from tests.pipelines.support import WEEKLY, write

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
from private_topk.pipelines.commands.clients import CLIENTS

assert main(sys.argv[1:]) == 0
print([name for name in ("polars", "sqlalchemy", "scipy", "matplotlib", "dp_accounting", "confluent_kafka", "psycopg",
                         "private_topk.testing", *CLIENTS) if name in sys.modules and name != "google.cloud"])
"""


@pytest.mark.parametrize(
    ("runner", "module"), [("PrismRunner", "private_topk.runners.prism"), ("dierct", "private_topk.runners.direct")]
)
def test_a_fresh_process_loads_without_collecting(runner: str, module: str) -> None:
    done = subprocess.run([sys.executable, "-c", FRESH.format(runner=runner, module=module)], capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("ending", "more"), [("csv", []), ("avro", ["polars"])])
def test_a_plain_run_loads_no_more_than_it_needs(tmp_path: Path, ending: str, more: list[str]) -> None:
    """Of what takes a tenth of a second or more: polars reads Avro, and times; the others are for more."""
    write(tmp_path / f"rows.{ending}", [{"user": f"u{row}", "item": "apple"} for row in range(2)])
    (tmp_path / "items.txt").write_text("apple\npear\nplum\n")
    words = ("run", "--input", f"rows.{ending}", "--domain", "items.txt", "--mechanism", "joint", "--k", "2",
             "--epsilon", "1", "--output", "out.csv", "--quiet")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", RUN, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == str(more), done.stderr


def test_the_command_has_numpy_start_no_threads() -> None:
    """Asked for before numpy is loaded, which would not look again."""
    code = """
import atexit, os, sys
from private_topk.pipelines import cli
assert "numpy" not in sys.modules
atexit.register(lambda: print("numpy" in sys.modules, os.environ["OPENBLAS_NUM_THREADS"]))
sys.argv = ["private-topk", "mechanisms"]
cli.console()
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    for given, found in (({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment | given)
        assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"True {found}", done.stderr


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_the_command_keeps_the_memory_of_arrays_that_come_and_go() -> None:
    """In every thread: each of these arrays has 610 pages, which the system finds and clears where they are new."""
    code = """
import resource, sys, threading
from private_topk.pipelines import cli
if sys.argv[1] == "suited":
    cli._suit_the_process()
import numpy as np
ones = np.ones(312_500, bool)

def come_and_go():
    for _ in range(50):
        numbers = ones.astype(np.int64)
        ends = np.cumsum(numbers)
        both = numbers + ends
        del numbers, ends, both

threads = [threading.Thread(target=come_and_go) for _ in range(2)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
come_and_go()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    suited, plain = (int(subprocess.run([sys.executable, "-c", code, word], capture_output=True, text=True).stdout)
                     for word in ("suited", "plain"))  # fmt: skip
    assert suited < 3 * 3 * 620 * 2 < plain, (suited, plain)  # twice what three arrays in three places have


def test_a_process_that_has_loaded_beam_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: pytest.fail("froze what others made"))
    load(None)
    monkeypatch.delitem(sys.modules, "apache_beam")
    monkeypatch.setattr(gc, "isenabled", lambda: False)  # who has it off, wants it off
    load(None)


@pytest.fixture
def weekly(tmp_path: Path) -> Path:
    """The folder of a report, with two weeks of rows."""
    rows = [f"u{n % 40},i{n * n % 11},2026-01-{5 + n % 14:02}T10:00:00" for n in range(400)]
    for number in range(2):
        (tmp_path / f"rows-{number}.csv").write_text("\n".join(["user,item,time", *rows[number::2]]) + "\n")
    (tmp_path / "items.txt").write_text("".join(f"i{item}\n" for item in range(11)))
    (tmp_path / "key").write_bytes(bytes(range(32)))
    (tmp_path / "weekly.yaml").write_text(WEEKLY.replace("rows", "rows-*"))
    return tmp_path


@pytest.mark.long
def test_a_local_report_loads_no_client_of_a_cloud(weekly: Path) -> None:
    words = ("report", "weekly.yaml", "--window-end", "2026-01-12", "--quiet")
    done = subprocess.run([sys.executable, "-c", RUN, *words], cwd=weekly, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stderr
