"""What a run needs is loaded with the collector at rest, and it is at work again afterwards."""

from __future__ import annotations

import gc
import json
import os
import platform
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from private_topk.pipelines.commands.loading import load, reading_early
from private_topk.pipelines.fields import Asked
from tests.pipelines.support import WEEKLY, command, write
from tests.quick import in_check

FRESH = """
import gc, sys
from private_topk.pipelines.commands.loading import load, reading_early
from private_topk.pipelines.fields import Asked
from tests.pipelines.support import command, write
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

EARLY = """
import json, sys
from private_topk.pipelines.commands import main
from private_topk.pipelines.sources import early

taken, threads = [], __import__("threading").enumerate
whole = early.Early.take

def noted(self, pieces, columns):
    found = whole(self, pieces, columns)
    taken.append(found is not None)
    return found

early.Early.take = noted
status = main(sys.argv[1:])
print(json.dumps([status, taken, [thread.name for thread in threads() if "early" in thread.name]]))
"""


@in_check("Prism*")
@pytest.mark.parametrize(
    ("runner", "module"), [("PrismRunner", "private_topk.runners.prism"), ("dierct", "private_topk.runners.direct")]
)
def test_a_fresh_process_loads_without_collecting(runner: str, module: str) -> None:
    done = subprocess.run([sys.executable, "-c", FRESH.format(runner=runner, module=module)], capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("ending", "rows", "more"), [("csv", 2, []), ("avro", 20_000, []), ("avro", 20_001, ["polars"])]
)
def test_a_plain_run_loads_no_more_than_it_needs(tmp_path: Path, ending: str, rows: int, more: list[str]) -> None:
    """Of what takes a tenth of a second or more: polars reads many rows, and times; the others are for more."""
    write(tmp_path / f"rows.{ending}", [{"user": f"u{row % 9}", "item": "apple"} for row in range(rows)])
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


def in_a_fresh_process(folder: Path, *words: str) -> tuple[list[object], str]:
    done = subprocess.run([sys.executable, "-c", EARLY, *words], cwd=folder, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def a_run(folder: Path) -> list[str]:
    rows = [{"user": f"u{row % 40}", "item": f"i{row * row % 11}"} for row in range(400)]
    for number in range(3):
        write(folder / f"rows-{number}.jsonl", rows[number::3])
    (folder / "items.txt").write_text("".join(f"i{item}\n" for item in range(11)))
    (folder / "key").write_bytes(bytes(range(32)))
    return ["run", "--input", "rows-*.jsonl", "--domain", "items.txt", "--mechanism", "joint", "--k", "4", "--epsilon",
            "1", "--release-key", "file:key", "--release-id", "early", "--quiet", "--output"]  # fmt: skip


def test_a_fresh_process_reads_early_and_publishes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = a_run(tmp_path)
    found, told = in_a_fresh_process(tmp_path, *words, "early.csv")
    assert found == [0, [True], []], told
    monkeypatch.chdir(tmp_path)
    assert command(*words, "plain.csv").status == 0  # in this process Beam is loaded
    assert (tmp_path / "early.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()


@pytest.mark.long
def test_a_refused_run_leaves_nothing_of_what_it_began(tmp_path: Path) -> None:
    found, told = in_a_fresh_process(tmp_path, *a_run(tmp_path), "early.csv", "--epsilon=-1")
    assert found == [2, [], []] and "--epsilon" in told and len(told.splitlines()) == 1
    assert not (tmp_path / "early.csv").exists()


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


def test_a_scheduled_report_reads_early_and_publishes_the_same(weekly: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the first period that lacks its file, be it asked for alone or caught up; none where nothing does."""
    for asked, taken in (
        (("--window-end", "2026-01-12"), [True]),
        (("--window-end", "2026-01-12"), []),  # it is published
        (("--catch-up", "--until", "2026-01-19"), [True]),
        (("--catch-up", "--until", "2026-01-19"), []),
    ):
        found, told = in_a_fresh_process(weekly, "report", "weekly.yaml", *asked, "--quiet")
        assert found == [0, taken, []], told
    early = {place.name: place.read_bytes() for place in (weekly / "out").glob("*.csv")}
    assert len(early) == 2
    shutil.rmtree(weekly / "out")
    monkeypatch.chdir(weekly)
    assert command("report", "weekly.yaml", "--catch-up", "--until", "2026-01-19", "--quiet").status == 0
    assert early == {place.name: place.read_bytes() for place in (weekly / "out").glob("*.csv")}


@pytest.mark.long
def test_a_look_at_a_report_reads_nothing_early(weekly: Path) -> None:
    for asked in (("--missed", "--until", "2026-01-19"), ("--check",), ("--check", "--window-end", "2026-01-12")):
        code = EARLY.replace("taken, threads = [],", "early.early = None; taken, threads = [],")  # to begin would fail
        words = [sys.executable, "-c", code, "report", "weekly.yaml", *asked]
        done = subprocess.run(words, cwd=weekly, capture_output=True, text=True)
        assert json.loads(done.stdout.splitlines()[-1])[0] == 0, done.stderr


@pytest.mark.long
def test_a_local_report_loads_no_client_of_a_cloud(weekly: Path) -> None:
    words = ("report", "weekly.yaml", "--window-end", "2026-01-12", "--quiet")
    done = subprocess.run([sys.executable, "-c", RUN, *words], cwd=weekly, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize(("runner", "words"), [("prism", []), (None, ["--direct_num_workers=2"])])
def test_nothing_is_read_early_for_a_pipeline_of_another_process(
    monkeypatch: pytest.MonkeyPatch, runner: str | None, words: list[str]
) -> None:
    asked = Asked(input="rows.csv")
    assert isinstance(reading_early(asked, None, []), nullcontext)  # Beam is loaded
    monkeypatch.delitem(sys.modules, "apache_beam")
    monkeypatch.setattr(gc, "freeze", lambda: None)
    assert not isinstance(reading_early(asked, None, []), nullcontext)
    assert isinstance(reading_early(asked, runner, words), nullcontext)


@pytest.mark.long
def test_a_run_that_publishes_nothing_reads_nothing_early(tmp_path: Path) -> None:
    words = a_run(tmp_path)
    for others, status in ((("out.csv", "--check"), 0), (("out.csv", "--config", "none.yaml"), 2)):
        found, told = in_a_fresh_process(tmp_path, *words, *others)
        assert found == [status, [], []], told
