"""A runner that loses rows or counts publishes nothing, and what is said says so: on every runner that is here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from private_topk.pipelines.cli import main
from private_topk.transforms import top_k
from private_topk.transforms.assign_windows import AssignWindows
from private_topk.transforms.completeness import checksum_in, receipt_in
from private_topk.transforms.rows import ShardByUser, UserRows
from tests.nightly import nightly
from tests.runners.conftest import Report
from tests.runners.servers import missing
from tests.transforms.sabotage import PICKS, Sabotage, sabotage

LOST = "private-topk: failed: counts were lost or doubled on the way to the final stage ("
NO_RECEIPT = f"{LOST}15 receipts of 16 user shards"
NO_ROWS = f"{LOST}the rows that were sent are not those that user shards received)"
NO_READER = " receipts of 1 readers)"

pytestmark = pytest.mark.filterwarnings(  # of workers that are cut off
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)


@pytest.mark.parametrize("runner", ["direct", "flink"])
def test_a_lost_part_fails_the_job_and_publishes_nothing(
    runner: str, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sabotage(monkeypatch, "before combining", PICKS["receipt"], "drops")
    output = tmp_path / "ranking.avro"
    said = refused(report.arguments("--runner", runner, "--output", str(output), *ONCE.get(runner, ())), capfd)
    assert NO_RECEIPT in said, said
    assert "Nothing is published. To finish this same release, run again" in said
    assert not list(tmp_path.iterdir())


def refused(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """What a command says that fails; it holds no user."""
    status = main(words)
    said = capfd.readouterr().err
    if status == 2 and "needs" in said:
        missing(said)
    assert status == 1 and "user " not in said.replace("user shards", ""), said
    return said


ONCE = {"flink": ("--number_of_execution_retries", "0")}
"""Flink would start a job again and again until somebody has looked at it, which takes long on a busy machine."""


def of_a_shard(piece: UserRows) -> bool:
    return piece[0] == 1 and len(piece[1]) > 0


def summed(block: pa.RecordBatch) -> bool:
    return checksum_in(block) is not None


def a_receipt_of_a_reader(block: pa.RecordBatch) -> bool:
    return receipt_in(block) is not None


def sabotage_rows(patch: pytest.MonkeyPatch, what: str, does: str) -> None:
    """A runner that loses or doubles what readers send, on one of the two hops to the user shards."""

    def hurt(elements: beam.PCollection, picks: Callable[[Any], bool], kind: Any) -> beam.PCollection:  # noqa: ANN401
        return elements | "Sabotage" >> beam.ParDo(Sabotage(picks, does)).with_output_types(kind)

    class Sharded(ShardByUser):
        def expand(self, blocks: beam.PCollection) -> beam.PCollection:
            return hurt(super().expand(blocks), of_a_shard, UserRows)

    class Cut(AssignWindows):
        def expand(self, blocks: beam.PCollection) -> beam.PCollection:
            return super().expand(hurt(blocks, a_receipt_of_a_reader if what == "receipts" else summed, pa.RecordBatch))

    patch.setattr(top_k, *(("ShardByUser", Sharded) if what == "pieces" else ("AssignWindows", Cut)))


CASES = [
    ("direct", "run", "blocks", "drops"),
    ("direct", "run", "pieces", "doubles"),
    nightly("direct", "run", "receipts", "drops"),
    nightly("direct", "stream", "blocks", "doubles"),
    ("direct", "stream", "pieces", "drops"),
    ("direct", "stream", "receipts", "doubles"),
    ("prism", "stream", "pieces", "doubles"),
    nightly("flink", "stream", "pieces", "drops"),
]


@pytest.mark.parametrize(("runner", "command", "what", "does"), CASES)
def test_rows_lost_before_their_user_shard_fail_the_job_and_publish_nothing(
    runner: str,
    command: str,
    what: str,
    does: str,
    report: Report,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if runner == "prism":
        request.getfixturevalue("prism_binary")
    sabotage_rows(monkeypatch, what, does)
    words = report.arguments("--runner", runner, "--output", f"{tmp_path}/out.avro")
    if command == "stream":
        words = streamed(words, report, tmp_path)
        words += ONCE.get(runner, ())
    said = refused(words, capfd)
    if runner != "prism":  # which may find its own books in disorder first, and end the job with a text of its own
        assert (NO_READER if what == "receipts" else NO_ROWS) in said, said
    assert not list(tmp_path.rglob("*Z.avro")) and not (tmp_path / "out.avro").exists()


def streamed(words: list[str], report: Report, folder: Path) -> list[str]:
    """The same report of files that arrive. Its last week is left out, whose rows tell that the others are over."""
    place = {"--input": f"{report.folder}/plays*.avro", "--output": f"{folder}/out", "--to": "2026-01-26"}
    changed = [place.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    return ["stream", *(word for word in changed[1:] if word != "--quiet"), "--clock", "event"]


def test_with_nothing_lost_the_stream_publishes(report: Report, tmp_path: Path) -> None:
    """What the cases above have in common is not what makes them fail."""
    assert main(streamed(report.arguments("--output", ""), report, tmp_path)) == 0
    assert len(list((tmp_path / "out").glob("*Z.avro"))) == 3
