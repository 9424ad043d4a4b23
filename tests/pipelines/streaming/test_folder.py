"""Files that arrive while the report is running, and what a stream says of itself. On Flink: `test_flink.py`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.pipelines.streaming.replay import Commits, closing, finished, published, streaming, told, wait_for
from tests.pipelines.streaming.replay import as_json as line_of
from tests.pipelines.support import command
from tests.runners.servers import kill

WINDOW = ("--window", "2d", "--slide", "1d", "--from", "2026-01-01", "--to", "2026-01-05")
SECRET = "someone whom nobody may name"
ROWS = [
    (
        SECRET if n % 9 == 0 else f"u{n % 50}",
        f"item {min(n % 7, n % 13)}",
        f"2026-01-0{1 + n // 300}T{n // 20 % 15:02}:00:00Z",
    )
    for n in range(1200)
]


@pytest.fixture
def made_up(tmp_path: Path) -> Commits:
    return Commits(tmp_path, ROWS)


def arrive(folder: Path, name: str, lines: list[bytes]) -> None:
    """Written under another name and renamed: complete or not there."""
    (folder / f"{name}.tmp").write_bytes(b"\n".join(lines) + b"\n")
    os.replace(folder / f"{name}.tmp", folder / f"{name}.jsonl")


def test_files_are_read_as_they_arrive_each_once(
    made_up: Commits, prism_runner: str, rankings: Path, tmp_path: Path
) -> None:
    incoming, log = tmp_path / "incoming", tmp_path / "log"
    incoming.mkdir()
    arrive(incoming, "day 1", [line_of(row) for row in ROWS[:300]])
    (incoming / ".hidden.jsonl").write_bytes(b"{")
    (incoming / "half.jsonl.tmp").write_bytes(b"{")
    question = made_up.question(*WINDOW)
    arguments = [
        *(
            f"--input {incoming}/* --clock event --poll 1s --output {rankings} --output-format jsonl --runner "
            f"{prism_runner} --log-format json"
        ).split(),
        *question,
    ]
    refused = command("stream", *arguments)
    assert refused.status == 2 and "no known ending" in refused.err
    arguments[1] = f"{incoming}/*.jsonl"
    with streaming(arguments, log) as process:
        for day in (2, 3):
            arrive(incoming, f"day {day}", [line_of(row) for row in ROWS[300 * (day - 1) : 300 * day]])
        wait_for(lambda: len(published(rankings)) == 1, process, log)
        arrive(incoming, "day 4", [line_of(row) for row in [*ROWS[900:], *ROWS[900:]]])
        arrive(incoming, "end", [closing()])
        said = finished(process, log)
    assert "3 windows published" in said
    assert b"".join(published(rankings).values()) == made_up.batch(tmp_path / "batch.jsonl", *question)
    check_what_was_told(said, rankings, "2026-01-03T00:00:00Z")
    assert not any("lag_seconds" in line for line in told(said, "published")), "the clock is not the present"


def test_a_killed_stream_goes_on_only_with_the_files_that_it_has_read(
    made_up: Commits, prism_runner: str, rankings: Path, tmp_path: Path
) -> None:
    """Prism, which has no checkpoints, begins anew: only the record of the killed run knows what it had read."""
    incoming, log = tmp_path / "incoming", tmp_path / "log"
    incoming.mkdir()
    question = made_up.question(*WINDOW)
    arguments = [
        *(
            f"--input {incoming}/*.jsonl --clock event --poll 1s --output {rankings} --output-format jsonl --runner "
            f"{prism_runner}"
        ).split(),
        *question,
    ]
    for number in range(6):
        arrive(incoming, f"{number}", [line_of(row) for row in ROWS[120 * number : 120 * number + 120]])
    with streaming(arguments, log) as process:
        wait_for(lambda: len(published(rankings)) == 1, process, log)
        kill(process)
    for number in range(6, 10):
        arrive(incoming, f"{number}", [line_of(row) for row in ROWS[120 * number : 120 * number + 120]])
    arrive(incoming, "end", [closing()])
    (incoming / "3.jsonl").rename(tmp_path / "away")
    done = command("stream", *arguments)
    assert done.status == 2 and f"--input {incoming}/3.jsonl is gone since an earlier run of this release" in done.err
    assert len(published(rankings)) == 1
    (tmp_path / "away").rename(incoming / "3.jsonl")
    with streaming(arguments, log) as process:
        assert "3 windows published" in finished(process, log)
    assert b"".join(published(rankings).values()) == made_up.batch(tmp_path / "batch.jsonl", *question)


def check_what_was_told(said: str, rankings: Path, closes: str) -> None:
    """Each window once, with its place; when the first one closes, before anything has come; nothing of the rows."""
    labels = [Path(name).stem for name in published(rankings)]
    lines, first = told(said, "published"), told(said, "waiting")[0]
    assert sorted(line["window"] for line in lines) == labels
    assert {line["output"] for line in lines} == {str(rankings)}
    assert (first["next_window"], first["closes"], first["left"], first["of"]) == (
        labels[0],
        closes,
        len(labels),
        len(labels),
    )
    assert "item" not in "".join(line["message"] for line in lines) and SECRET not in said


def test_a_file_is_late_for_the_windows_that_had_closed_when_it_was_written(
    made_up: Commits, rankings: Path, tmp_path: Path
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for number, (rows, written) in enumerate(
        [
            (ROWS[:900], "2026-01-03T12:00:00"),
            (ROWS[900:], "2026-01-04T12:00:00"),
            ([("x", "item 6", ROWS[0][2])] * 9, "2026-01-04T12:00:01"),
        ]
    ):
        arrive(incoming, f"{number}", [line_of((f"{user}", item, time)) for user, item, time in rows])
        at = datetime.fromisoformat(f"{written}+00:00").timestamp()
        os.utime(incoming / f"{number}.jsonl", (at, at))
    question = made_up.question("--window", "1d", "--from", "2026-01-01", "--to", "2026-01-05")
    done = command(
        *(
            f"stream --input {incoming}/*.jsonl --allowed-lateness 2d --output {rankings} --output-format jsonl "
            "--log-format json"
        ).split(),
        *question,
    )
    assert done.status == 0, done.err
    check_what_was_told(done.err, rankings, "2026-01-04T00:00:00Z")
    assert [line["published"] for line in told(done.err, "over")] == [4] and '"over"' in done.err.splitlines()[-1]
    lags = [line["lag_seconds"] for line in told(done.err, "published")]
    assert len(lags) == 4 and lags[0] - lags[3] == pytest.approx(3 * 86_400, abs=60)
    assert "s after it closed" in told(done.err, "published")[0]["message"]
    found, expected = published(rankings), made_up.batch(tmp_path / "batch.jsonl", *question)
    # The first file was on time for all of its days, the second for its own, and the third for none.
    assert b"".join(found.values()) == expected


def test_a_file_renamed_late_is_late_in_a_live_and_a_repeated_run(
    prism_runner: str, rankings: Path, tmp_path: Path
) -> None:
    """The whole way: published live on Prism, and the same bytes again by a run that finds all files there."""
    incoming, log, start = tmp_path / "incoming", tmp_path / "log", int(time.time()) + 12
    incoming.mkdir()
    at = datetime.fromtimestamp(start, UTC).isoformat()
    # The late ones are all of one item, which the first window without them is not led by, whatever the noise.
    rows = [(f"u{n}", f"item {min(n % 7, n % 13) if n < 100 else 6}", at) for n in range(300)]
    commits = Commits(tmp_path, rows)
    window = ("--window", "4s", "--from", at, "--to", datetime.fromtimestamp(start + 12, UTC).isoformat())
    arguments = [*f"--input {incoming}/*.jsonl --poll 1s --output-format jsonl".split(), *commits.question(*window)]
    late = incoming / "late.tmp"
    with streaming([*arguments, "--output", str(rankings), "--runner", prism_runner], log) as process:
        arrive(incoming, "early", [line_of(row) for row in rows[:100]])
        time.sleep(max(0.0, start + 1 - time.time()))
        late.write_bytes(b"\n".join(line_of(row) for row in rows[100:]) + b"\n")
        wait_for(lambda: len(published(rankings)) == 1, process, log)
        os.replace(late, incoming / "late.jsonl")
        finished(process, log)
    live = published(rankings)
    done = command("stream", *arguments, "--output", tmp_path / "again")
    assert done.status == 0, done.err
    assert published(tmp_path / "again") == live and len(live) == 3
    everything = commits.batch(tmp_path / "batch.jsonl", *commits.question(*window))
    assert b"".join(live.values()) != everything, "with the late file the first window would be another"
