"""A look at the words begins to decode what a run will read, and changes nothing else."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from private_topk.pipelines.commands.peeking import peeked
from tests.pipelines.commands.test_loading import EARLY, a_run

PEEKED = """
import sys
from private_topk.pipelines.commands import peeking
from private_topk.pipelines.sources import early

peeking._MUCH = 1
begin = early.Early.__init__

def noted(self, *given, **more):
    print("begun before the mechanisms:", "private_topk.transforms.mechanisms" not in sys.modules, file=sys.stderr)
    begin(self, *given, **more)

early.Early.__init__ = noted
"""


@pytest.mark.parametrize(
    ("more", "status", "taken"),
    [
        ([], 0, [True]),
        (["--item-column=item", "--user-column", "user"], 0, [True]),
        (["--epsilon=-1"], 2, []),  # refused when the words are read
        (["--user-column", "nobody"], 2, []),  # and when the files are looked at
        (["--input"], 2, []),
    ],
)
def test_large_files_are_read_before_the_words_are(
    tmp_path: Path, more: list[str], status: int, taken: list[bool]
) -> None:
    words = a_run(tmp_path)
    command = [sys.executable, "-c", PEEKED + EARLY, *words, "early.csv", *more]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [status, taken, []], done.stderr
    begun = [line for line in done.stderr.splitlines() if line.startswith("begun")]
    assert begun == ([] if "--input" in more else ["begun before the mechanisms: True"]), "begun once"
    assert (tmp_path / "early.csv").exists() == (status == 0)


def test_words_are_looked_at_for_large_local_files_that_are_read_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "apache_beam")
    monkeypatch.setattr(gc, "freeze", lambda: None)
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(8 << 20)
    with (tmp_path / "small.csv").open("wb") as file:
        file.truncate((8 << 20) - 1)
    large = ["--input", str(tmp_path / "large.csv")]
    assert not isinstance(peeked(large), nullcontext)
    assert not isinstance(peeked([*large, "--runner", "DirectRunner", "--direct-num", "--k", "-3"]), nullcontext)
    for words in (["--input", str(tmp_path / "small.csv")], ["--input", str(tmp_path / "none.csv")],
                  ["--input", "gs://bucket/large.csv"], ["--input"], large[1:], [*large, "--check"],
                  [*large, "--config", "run.yaml"], [*large, "--runner=flink"], [*large, "--runner", "dierct"],
                  [*large, "--direct_num_workers=2"]):  # fmt: skip
        assert isinstance(peeked(words), nullcontext), words
