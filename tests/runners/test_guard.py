"""A runner that loses rows or counts publishes nothing, and what is said says so: on every runner that is here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import polars
import pyarrow as pa
import pytest

from private_topk.pipelines import run
from private_topk.pipelines.cli import main
from private_topk.transforms import top_k
from private_topk.transforms.completeness import mark_in, statement_in
from private_topk.transforms.rows import ShardByUser, ShardedPairs
from private_topk.transforms.windows.assign import AssignWindows
from tests.runners.conftest import Report
from tests.runners.servers import missing
from tests.transforms.test_guard import PICKS, Sabotage, sabotage

LOST = "private-topk: failed: counts were lost or doubled on the way to the final stage ("
NO_MANIFEST = f"{LOST}of 16 user shards 15 were heard"
NO_ROWS = f"{LOST}the rows that readers sent are not those that user shards received)"
NO_STATEMENT = f"{LOST}of 1 readers "

pytestmark = pytest.mark.filterwarnings(  # of workers that are cut off
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)


@pytest.mark.parametrize("runner", ["direct", "flink"])
def test_a_lost_part_is_told_and_nothing_is_published(
    runner: str, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sabotage(monkeypatch, "before adding up", PICKS["manifest"], "drops")
    output = tmp_path / "ranking.avro"
    said = refused(report.arguments("--runner", runner, "--output", str(output)), capfd)
    assert NO_MANIFEST in said, said
    assert "Nothing is published. To go on with this very release, run again" in said
    assert not list(tmp_path.iterdir())


def refused(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """What a command says that fails; it holds no user."""
    status = main(words)
    said = capfd.readouterr().err
    if status == 2 and "needs" in said:
        missing(said)
    assert status == 1 and "user " not in said.replace("user shards", ""), said
    return said


def of_a_shard(piece: ShardedPairs) -> bool:
    return piece[0] == 1 and len(piece[1]) > 0


def waking(piece: ShardedPairs) -> bool:
    return piece[0] == 1 and not len(piece[1])


def marked(block: pa.RecordBatch) -> bool:
    return mark_in(block) is not None


def stating(block: pa.RecordBatch) -> bool:
    return statement_in(block) is not None


def sabotage_rows(patch: pytest.MonkeyPatch, what: str, does: str) -> None:
    """A runner that loses or doubles what readers send, on one of the two hops to the user shards."""

    def hurt(elements: beam.PCollection, picks: Callable[[Any], bool], kind: Any) -> beam.PCollection:  # noqa: ANN401
        return elements | "Sabotage" >> beam.ParDo(Sabotage(picks, does)).with_output_types(kind)

    class Sharded(ShardByUser):
        def expand(self, blocks: beam.PCollection) -> beam.PCollection:
            return hurt(super().expand(blocks), waking if what == "woken" else of_a_shard, ShardedPairs)

    class Cut(AssignWindows):
        def expand(self, blocks: beam.PCollection) -> beam.PCollection:
            return super().expand(hurt(blocks, stating if what == "statements" else marked, pa.RecordBatch))

    if what in ("pieces", "woken"):
        patch.setattr(top_k, "ShardByUser", Sharded)
    else:
        patch.setattr(run, "AssignWindows", Cut)


CASES = [("direct", "run", "blocks", "drops"), ("direct", "run", "pieces", "doubles"),
         ("direct", "run", "statements", "drops"), ("direct", "stream", "blocks", "doubles"),
         ("direct", "stream", "pieces", "drops"), ("direct", "stream", "statements", "doubles"),
         ("prism", "stream", "pieces", "doubles"), ("flink", "stream", "pieces", "drops")]  # fmt: skip


@pytest.mark.parametrize(("runner", "command", "what", "does"), CASES)
def test_rows_that_do_not_all_reach_their_user_shards_are_told_and_nothing_is_published(
    runner: str,
    command: str,
    what: str,
    does: str,
    report: Report,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    sabotage_rows(monkeypatch, what, does)
    words = report.arguments("--runner", runner, "--output", f"{tmp_path}/out.avro")
    if command == "stream":
        words = streamed(words, report, tmp_path)
        words += ["--number_of_execution_retries", "0"] if runner == "flink" else []
    said = refused(words, capfd)
    assert (NO_STATEMENT if what == "statements" else NO_ROWS) in said, said
    assert not list(tmp_path.rglob("*Z.avro")) and not (tmp_path / "out.avro").exists()


def streamed(words: list[str], report: Report, folder: Path) -> list[str]:
    """The same report of files that arrive. Its last week is left out, whose rows tell that the others are over."""
    place = {"--input": f"{report.folder}/plays*.avro", "--output": f"{folder}/out", "--to": "2026-01-26"}
    changed = [place.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    return ["stream", *(word for word in changed[1:] if word != "--quiet"), "--clock", "event"]


def test_a_user_shard_that_nobody_wakes_and_that_has_no_rows_is_told(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sabotage_rows(monkeypatch, "woken", "drops")
    rows = polars.read_avro(f"{report.folder}/plays.avro").filter(polars.col("user") == "listener-00072")
    rows.write_parquet(tmp_path / "few.parquet")
    words = report.arguments("--output", f"{tmp_path}/out.avro", "--input", f"{tmp_path}/few.parquet")
    assert NO_MANIFEST in refused(words, capfd) and not (tmp_path / "out.avro").exists()


def test_with_nothing_lost_the_stream_publishes(report: Report, tmp_path: Path) -> None:
    """What the cases above have in common is not what makes them fail."""
    assert main(streamed(report.arguments("--output", ""), report, tmp_path)) == 0
    assert len(list((tmp_path / "out").glob("*Z.avro"))) == 3
