"""Whole runs and reports of the command line, killed or told to end in their midst, and started again.

Every word that was said is true, a ranking is whole, nothing is published uncharged, and the second attempt, of two
at once as well, ends in the same bytes and spends nothing more.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.cli import main as private_topk
from private_topk.pipelines.cli.output import exit_process, run_command
from private_topk.pipelines.process import install_signal_handlers
from tests.pipelines.support import command, write

ROWS = [
    {"user": f"secret user {n}", "item": f"i{n % 7}", "time": f"2026-01-{5 + n % 14:02}T12:00:00Z"} for n in range(90)
]
RUN = (
    "run --quiet --input=rows.csv --domain=items.txt --mechanism=joint --k=3 --epsilon=1 --window=7d "
    "--from=2026-01-05 --to=2026-01-19 --release-key=file:key --release-id=week --output=out/r.jsonl "
    "--ledger=sqlite:///b.db --dataset=d"
).split()
REPORT = """\
report: weekly
source: {input: rows.csv}
domain: {file: items.txt}
window: {every: week, first: 2026-01-05, horizon: 2}
mechanism: {name: joint, k: 3}
budget: {epsilon: 1}
release_key: file:key
sink: {output: "out/{start}.jsonl"}
ledger: {url: "sqlite:///b.db", dataset: d}
"""
COMMANDS = {
    "run": (RUN, ("out/r.jsonl",)),
    "report": (["report", "report.yaml", "--backfill", "--quiet"], ("out/2026-01-05.jsonl", "out/2026-01-12.jsonl")),
}
ENDS = {signal.SIGINT, signal.SIGTERM}
CHARGES = {"run": 1, "report": 2}


class Ended(NamedTuple):
    """A child that has ended: its exit status, negative for a signal that nobody caught, and what it said."""

    status: int
    said: str


def prepare(place: Path) -> None:
    """What both commands read."""
    write(place / "rows.csv", ROWS)
    write(place / "items.txt", "".join(f"i{n}\n" for n in range(7)))
    write(place / "key", "a key of the tests, which is no secret")
    write(place / "report.yaml", REPORT)
    made = command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=9")
    assert made.status == 0, made.err


def start(words: list[str], log: Path) -> int:
    """A child that runs a command with what this process has imported. A signal waits until it is heeded."""
    log.write_text("")  # on a busy machine a child is killed before it has written anything
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        return child
    try:
        out = os.open(log, os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        install_signal_handlers()
        exit_process(run_command(partial(_heeded, words)))
    finally:
        os._exit(99)


def _heeded(words: list[str]) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    exit_process(private_topk(words))


def ended(child: int, log: Path) -> Ended:
    return Ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text())


def ranking_at(path: str) -> str | None:
    """The digest of a ranking that stands with its manifest; None where there is no ranking. Raises AssertionError."""
    ranking, manifest = Path(path), Path(path).with_suffix("").with_suffix(".manifest.json")
    if not ranking.exists():
        return None
    digest = hashlib.sha256(ranking.read_bytes()).hexdigest()
    assert json.loads(manifest.read_text())["ranking_sha256"] == digest, "a ranking beside another's manifest"
    return digest


def outcomes() -> list[str]:
    return sorted(entry.outcome for entry in Ledger("sqlite:///b.db").read("d").charges)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "sent", "after", "twice"),
    [("run", signal.SIGKILL, 0.4, True), ("run", signal.SIGTERM, 0.8, False), ("report", signal.SIGKILL, 1.5, False)],
)
def test_a_killed_command_run_again_ends_with_the_same_rankings(
    name: str, sent: signal.Signals, after: float, twice: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    words, paths = COMMANDS[name]
    child = start(words, log := Path("log"))
    time.sleep(after)
    os.kill(child, sent)  # a child that has ended is there until it is waited for
    first = ended(child, log)
    found = [ranking_at(path) for path in paths]
    _check_words(first, found, sent)
    charged = outcomes()
    assert len(charged) >= sum(digest is not None for digest in found), "published before it was charged"
    assert charged.count("released") <= sum(digest is not None for digest in found), "released, and not there"
    _again(name, twice)
    after_all = [ranking_at(path) for path in paths]
    for before, now in zip(found, after_all, strict=True):
        assert now is not None and before in (None, now), "another ranking"
    assert outcomes() == ["released"] * CHARGES[name], outcomes()
    assert not [left for left in os.listdir("out") if left.endswith(".incomplete")], os.listdir("out")


def _check_words(first: Ended, found: list[str | None], sent: signal.Signals) -> None:
    number = {signal.SIGTERM: 143, signal.SIGINT: 130}.get(sent)
    assert first.status in (0, -sent, number), first
    assert "secret" not in first.said and "Traceback" not in first.said, first
    out = sum(digest is not None for digest in found)
    if "nothing is published" in first.said:
        assert len(found) > 1 or out == 0, first
    if "all is published" in first.said:
        assert out > 0, first
    if first.status == 0:
        assert out == len(found), first


def _again(name: str, twice: bool) -> None:
    words, paths = COMMANDS[name]
    logs = [Path(f"log {n}") for n in range(1 + twice)]
    children = [start(words, log) for log in logs]
    ends = [ended(child, log) for child, log in zip(children, logs, strict=True)]
    assert any(end.status == 0 for end in ends) and all(end.status in (0, 1, 2) for end in ends), ends
    assert not any("Traceback" in end.said or "secret" in end.said for end in ends), ends
