"""What a stream says of itself on every runner, as lines and as fields. On Flink: `test_flink.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.streaming.replay import Commits, as_json, closing, told
from tests.pipelines.support import command

WINDOW = ("--window", "1d", "--from", "2026-01-01", "--to", "2026-01-05")
LABELS = [f"2026010{day}T000000Z--2026010{day + 1}T000000Z" for day in range(1, 5)]
SECRET = "someone whom nobody may name"
ROWS = [(SECRET if n % 9 == 0 else f"u{n % 50}", f"item {min(n % 7, n % 13)}",
         f"2026-01-0{1 + n // 300}T{n // 20 % 15:02}:00:00Z") for n in range(1200)]  # fmt: skip


@pytest.fixture
def made_up(tmp_path: Path) -> Commits:
    found = Commits(tmp_path, ROWS)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.jsonl").write_bytes(b"".join(line + b"\n" for line in [*map(as_json, ROWS), closing()]))
    return found


@pytest.mark.parametrize("runner", ["direct", "prism"])
def test_every_window_is_told_and_when_the_next_one_closes(
    runner: str, made_up: Commits, rankings: Path, request: pytest.FixtureRequest
) -> None:
    """Once each, with its place, on every runner; the first window before anything has come; nothing of the rows."""
    if runner == "prism":
        request.getfixturevalue("prism_runner")
    place = ["--job_endpoint", "embed"] if runner == "portable" else []
    done = command("stream", "--input", f"{made_up.folder}/in/*.jsonl", "--clock", "event", "--output", rankings,
                   "--runner", runner, "--log-format", "json", *place, *made_up.question(*WINDOW))  # fmt: skip
    assert done.status == 0, done.err
    published = told(done.err, "published")
    assert sorted(line["window"] for line in published) == LABELS
    assert {line["place"] for line in published} == {str(rankings)}
    assert all("lag_seconds" not in line and line["message"].startswith("published ") for line in published)
    first, *_ = told(done.err, "waiting")
    assert (first["next_window"], first["closes"], first["left"], first["of"]) == (
        LABELS[0], "2026-01-02T00:00:00+00:00", 4, 4,
    )  # fmt: skip
    assert "item" not in "".join(line["message"] for line in published) and SECRET not in done.err


def test_of_a_clock_that_is_the_present_the_lag_is_told(made_up: Commits, rankings: Path) -> None:
    """All files are there when it starts, and their windows closed long ago: the lag is since then."""
    done = command("stream", "--input", f"{made_up.folder}/in/*.jsonl", "--output", rankings, "--log-format", "json",
                   *made_up.question(*WINDOW))  # fmt: skip
    assert done.status == 0, done.err
    lags = [line["lag_seconds"] for line in told(done.err, "published")]
    assert len(lags) == 4 and lags[0] - lags[3] == pytest.approx(3 * 86_400, abs=60)
    assert "s after it closed" in told(done.err, "published")[0]["message"]
