"""A runner that loses counts publishes nothing, and what is said says so: on every runner that is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_topk.pipelines.commands import main
from tests.runners.conftest import Report
from tests.runners.servers import missing
from tests.transforms.test_guard import PICKS, sabotage

LOST = (
    "private-topk: failed: counts were lost or doubled on the way to the final stage (of 16 user shards 15 were heard"
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of workers that are cut off
@pytest.mark.parametrize("runner", ["direct", "prism", "flink"])
def test_a_lost_part_is_told_and_nothing_is_published(
    runner: str, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sabotage(monkeypatch, "before adding up", PICKS["manifest"], "drops")
    output = tmp_path / "ranking.avro"
    status = main(report.arguments("--runner", runner, "--output", str(output)))
    said = capfd.readouterr().err
    if status == 2 and "needs" in said:
        missing(said)
    assert status == 1 and LOST in said, said
    assert "Nothing is published. To go on with this very release, run again" in said
    assert not list(tmp_path.iterdir()) and "user " not in said.replace("user shards", "")
