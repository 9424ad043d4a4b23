"""What is published of a report while it runs, each window once; how far it is read; and what stands at its place."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from private_topk.pipelines import progress as watching
from private_topk.pipelines.process import Interrupted, JsonLines, RunFailed, Stopped
from private_topk.pipelines.progress import HAVE_CLOSED, Announcer, Health
from private_topk.pipelines.question import Question
from private_topk.pipelines.release import store
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.report import Report
from private_topk.pipelines.run import run
from private_topk.pipelines.run_state import RecordPublished, RunState
from private_topk.pipelines.sinks.files import ToFolder
from private_topk.pipelines.sinks.sink import Sink
from private_topk.pipelines.sources.folder import Folder
from private_topk.runners import Launch, Line, prepare
from private_topk.transforms import Release
from private_topk.transforms.errors import IncompleteDataError, InvalidArgument
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period, utc_text
from tests.pipelines.sinks.nowhere import Nowhere
from tests.pipelines.support import Terminal, wait_until

START = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = Period(START, START + timedelta(hours=8), timedelta(hours=1), timedelta(minutes=5))
LABELS = [window.label() for window in PERIOD.windows()]
FIRST_CLOSES = START.timestamp() + 3900


def test_each_window_is_told_once_with_its_lag_and_what_is_next() -> None:
    said: list[Line] = []
    announcer = Announcer(PERIOD, "out", True, said.append)
    announcer.announce({})
    announcer.announce({LABELS[0]: FIRST_CLOSES + 2.25, "no window": 1.0})
    announcer.announce({LABELS[0]: FIRST_CLOSES + 2.25})
    assert said == [
        "published 20260101T000000Z--20260101T010000Z to out, 2.2 s after it closed",
        f"7 of 8 windows are left; the next closed at 2026-01-01T02:05:00Z. All {HAVE_CLOSED}",
    ]
    assert [line.facts for line in said] == [
        {"event": "published", "window": LABELS[0], "output": "out", "lag_seconds": 2.2},
        {"event": "waiting", "next_window": LABELS[1], "closes": "2026-01-01T02:05:00Z", "left": 7, "of": 8},
    ]
    announcer.announce({label: FIRST_CLOSES + 9e4 for label in LABELS[1:]})
    lags = [9e4 - 3600 * number for number in range(1, 8)]
    assert said[2:] == [
        f"published {label} to out, {lag:.1f} s after it closed" for label, lag in zip(LABELS[1:], lags, strict=True)
    ]


def test_what_is_to_come_is_told_as_such() -> None:
    said: list[Line] = []
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    period = Period(begin, begin + timedelta(hours=2), timedelta(hours=1))
    Announcer(period, "out", True, said.append).say_what_is_next()
    assert said[0].startswith("2 of 2 windows are left; the next closes at ")


def test_a_window_of_an_earlier_run_is_announced_only_if_rewritten() -> None:
    """And a lag only where the clock is the present."""
    said: list[str] = []
    announcer = Announcer(PERIOD, "out", False, said.append, {LABELS[0]: 5.0, LABELS[1]: 5.0})
    announcer.announce({LABELS[0]: 5.0, LABELS[1]: 6.0})
    assert said == [
        f"published {LABELS[1]} to out",
        "6 of 8 windows are left; the next closes at 2026-01-01T03:05:00Z by the clock of the source",
    ]


def report(folder: Path, sink: Sink, **more: Any) -> Report:  # noqa: ANN401
    spec = Question(TopK(2, Joint(epsilon=1.0), ["a", "b", "c"], **more), period=PERIOD)
    return Report(spec, Folder(f"{folder}/in/*.jsonl", clock="event"), sink)


def publish(asked: Report, *labels: str) -> None:
    for label in labels:
        path = f"{asked.sink.uri}/{label}.jsonl"
        store.publish(path, b"", manifest_of(asked.question), overwrite=True)


@pytest.mark.parametrize("error, status", [(RunFailed("so"), 1), (Interrupted("so", Stopped(15)), 143)])
def test_a_health_file_tells_how_a_stream_ended(tmp_path: Path, error: BaseException, status: int) -> None:
    """Beside its last progress, if it had any: a launch that is refused has none, and none of an earlier one."""
    path = tmp_path / "health.json"
    health = Health(str(path))
    with pytest.raises(type(error)), health.ending_told():
        health.write(Announcer(PERIOD, "out", True, str).health())
        before = json.loads(path.read_text())
        raise error
    told = json.loads(path.read_text())
    assert before["windows"] == 8 and before["ended"] is None
    assert told == {**before, "ended": status, "time": told["time"]}
    for _ in range(2):  # where an earlier one ended, and where there is no file
        with pytest.raises(type(error)), Health(str(path)).ending_told():
            raise error
        told = json.loads(path.read_text())
        assert told["ended"] == status and told["windows"] is None and told.keys() == before.keys()
        path.unlink()


def test_a_launch_that_is_refused_leaves_files_that_are_not_its_own(tmp_path: Path) -> None:
    """That of a launcher which lives: of one that was killed it goes stale, and is its own a minute later."""
    with pytest.raises(InvalidArgument), Health(f"{tmp_path}/no/health.json").ending_told():
        raise InvalidArgument("domain", "is not there")
    assert not list(tmp_path.iterdir())
    path = tmp_path / "health.json"
    alive = {"time": utc_text(datetime.now(UTC), "seconds"), "windows": 8, "published": 1, "ended": None}
    for content, kept in (
        ("a key of enough bytes", True),
        ("[]", True),
        (json.dumps(alive), True),
        (json.dumps({**alive, "ended": 0}), False),
        (json.dumps({**alive, "time": "2026-01-01T00:00:00Z"}), False),
    ):
        path.write_text(content)
        with pytest.raises(InvalidArgument), Health(str(path)).ending_told():
            raise InvalidArgument("domain", "is not there")
        assert (path.read_text() == content) is kept, content
        health = Health(str(path))
        with health.ending_told():
            health.write({"windows": 3})
        assert json.loads(path.read_text())["ended"] == 0


@pytest.mark.long
def test_a_folder_is_looked_at_while_the_report_runs(tmp_path: Path) -> None:
    """The runner is told once every window is there, and no earlier."""
    said: list[str] = []
    folder, launch = tmp_path / "out", prepare("direct", [])
    asked = report(tmp_path, ToFolder(str(folder), "jsonl"))
    with followed(asked, launch, said.append):
        folder.mkdir()
        (folder / f"{LABELS[0]}.jsonl.tmp").write_text("half")
        (folder / f"{LABELS[0]}.manifest.json").write_text("{}")
        time.sleep(1.5)
        assert len(said) == 1 and said[0].startswith("8 of 8 windows are left")
        publish(asked, *LABELS[:-1])
        wait_until(lambda: said[-1].startswith("1 of 8"))
        assert not launch.answered.is_set()
        publish(asked, LABELS[-1])
        assert launch.answered.wait(120)
    assert [line for line in said if line.startswith("published")] == [
        f"published {label} to {folder}" for label in LABELS
    ]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_windows_of_another_release_are_not_announced_and_do_not_end_the_launch(tmp_path: Path, when: str) -> None:
    said: list[str] = []
    launch = prepare("direct", [])
    other, asked = (report(tmp_path, ToFolder(f"{tmp_path}/out", "jsonl")) for _ in range(2))
    if when == "before":
        publish(other, LABELS[0])
    with followed(asked, launch, said.append):
        publish(other, LABELS[0])
        publish(asked, *LABELS[1:])
    assert not launch.answered.is_set() and LABELS[0] not in "".join(said[1:-1])
    assert said[-1].startswith("1 of 8 windows is left")
    with followed(asked, launch, said.append):
        publish(asked, LABELS[0])
    assert launch.answered.is_set() and said[-1].startswith(f"published {LABELS[0]} to ")


@pytest.mark.long
@pytest.mark.parametrize("runner", ["direct", "prism"])
def test_where_nothing_can_be_read_back_the_workers_here_record_it(runner: str, tmp_path: Path) -> None:
    said: list[str] = []
    rows = [
        {"user": f"u{n}", "item": "abc"[n % 3], "time": (START + timedelta(minutes=20 * n)).isoformat()}
        for n in range(24)
    ]
    rows.append({"user": "u", "item": "a", "time": (START + timedelta(hours=9)).isoformat()})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    launch = prepare(runner, ["--streaming"])
    run(report(tmp_path, Nowhere()), launch, say=said.append)
    assert launch.answered.is_set()
    assert sorted(line for line in said if line.startswith("published")) == [
        f"published {label} to nowhere" for label in LABELS
    ]
    with pytest.raises(RunFailed, match="what was sent to nowhere by then stays there") as caught:
        run(report(tmp_path, Nowhere(lost=LABELS[2])), launch, say=said.append)
    lost = "the job ended without an error, but of 8 windows 7 were seen to be published to nowhere"
    assert str(caught.value.__cause__) == lost and not launch.answered.is_set()


@pytest.mark.long
def test_a_job_that_ends_well_and_has_published_less_is_told(tmp_path: Path) -> None:
    """Of a place that can be read back, once it shows all that is there; of another one only if workers here record."""
    launch = prepare("direct", [])
    with followed(report(tmp_path, Topic([LABELS[:3], [], LABELS[3:]])), launch):
        pass
    assert launch.answered.is_set()
    for shown in ([LABELS[:7]], []):
        lost = f"of 8 windows {len(shown) * 7} were seen to be published to nowhere"
        with pytest.raises(IncompleteDataError, match=lost), followed(report(tmp_path, Topic(shown)), launch):
            pass
    with pytest.raises(KeyError), followed(report(tmp_path, Topic([])), launch):
        raise KeyError  # what goes wrong before is not talked over
    with followed(report(tmp_path, Nowhere()), launch):
        pass


def test_a_window_counts_as_published_with_all_of_its_groups(tmp_path: Path) -> None:
    """At a place that tells of each ranking by itself. One that comes twice does not stand for another."""
    said: list[str] = []
    groups = ["fr", "d|e"]
    asked = report(tmp_path, Nowhere(), groups=groups)
    labels = [window.label(group) for window in PERIOD.windows() for group in groups]
    launch = prepare("direct", [])
    with followed(replace(asked, sink=Topic([labels[:3], labels[2:3], labels[3:]])), launch, said.append):
        pass
    assert launch.answered.is_set() and said[1] == f"published {LABELS[0]} to nowhere"
    twice = replace(asked, sink=Topic([labels[:-1], labels[:1]]))
    with pytest.raises(IncompleteDataError, match="of 8 windows 7 were seen"), followed(twice, launch):
        pass


def followed(report: Report, launch: Launch, say: watching.Say | None = None) -> AbstractContextManager[None]:
    return watching.followed(report, launch, RunState(), say)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_LAST_LOOKS", 1.0)


class Topic(Nowhere):
    """A place that can be read back: with each look, windows that have come since."""

    def __init__(self, shown: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.__dict__["shown"] = [[], *shown]  # at first nothing: that was there before

    def following(self, period: Period, release: Release) -> Callable[[], dict[str, float]]:
        left = iter(self.__dict__["shown"])
        return lambda: dict.fromkeys(next(left, ()), time.time())


def shown(
    monkeypatch: pytest.MonkeyPatch,
    sink: io.StringIO,
    patience: float,
    *shares: tuple[float, str],
    stream: io.TextIOBase | None = None,
) -> str:
    """What is shown, on a stream into the sink, while so much is read, once each is shown."""
    monkeypatch.setattr(watching, "_PATIENCE", patience)
    monkeypatch.setattr(watching, "_EVERY", 0.01)
    monkeypatch.setattr(sys, "stderr", stream or sink)
    live = RunState()
    with watching.progress(live):
        monkeypatch.setattr(sys, "stderr", io.StringIO())  # what Beam says goes elsewhere while it runs
        for share, text in shares:
            live.add_read(share)
            wait_until(lambda text=text: text in sink.getvalue())
    return sink.getvalue()


def test_how_far_a_run_has_come_is_shown_on_a_terminal_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, Terminal(), 0.0, (0.25, " 25%"), (0.25, " 50%"), (0.5, "100%"))
    assert "reading" in said and "counting and ranking" in said
    assert "\n" not in said and said.endswith("\r" + " " * 62 + "\r")
    assert shown(monkeypatch, Terminal(), 60.0, (0.5, "")) == "" == shown(monkeypatch, io.StringIO(), 0.0, (0.5, ""))
    lines = io.StringIO()
    said = shown(monkeypatch, lines, 60.0, (0.25, "reading: 25%"), stream=JsonLines(lines))
    assert json.loads(said.splitlines()[-1])["message"] == "reading: 25%"


def test_a_window_is_recorded_by_its_label_once_its_bundle_is_finished() -> None:
    """And one whose ranking is not written is not. What is taken is gone, and carries the moment."""
    run, before = RunState(), time.time()
    with beam.Pipeline() as pipeline:
        _ = (
            pipeline
            | beam.Create([0, 2])
            | beam.Map(lambda number: beam.window.TimestampedValue("written", FIRST_CLOSES + 3600 * number - 400))
            | beam.WindowInto(beam.window.FixedWindows(3600))
            | beam.ParDo(RecordPublished(run))
        )
    taken = run.newly_published()
    assert set(taken) == {LABELS[0], LABELS[2]} and all(before <= at <= time.time() for at in taken.values())
    assert run.newly_published() == {}
    recording = RecordPublished(run)
    recording.start_bundle()
    for written in (f"{LABELS[0]}|fr", f"{LABELS[0]}|d|e"):
        recording.process(written, window_of(0))
    assert run.newly_published() == {}, "the bundle may break off yet"
    recording.finish_bundle()
    assert set(run.newly_published()) == {f"{LABELS[0]}|fr", f"{LABELS[0]}|d|e"}


def window_of(number: int) -> Any:  # noqa: ANN401 - a Beam window
    start = START.timestamp() + 3600 * number
    return beam.window.IntervalWindow(start, start + 3600)


def test_nothing_is_published_after_what_is_published_was_told() -> None:
    """A worker's thread goes on for a while: it waits at the guard, or was past it before the run was closed."""
    inside, leave, events = threading.Event(), threading.Event(), list[str]()
    run = RunState()
    workers = pickle.loads(pickle.dumps(run))  # as in the functions of a pipeline

    def publish() -> None:
        with workers.publishing():
            inside.set()
            leave.wait(10)
            events.append("published")

    worker = threading.Thread(target=publish)
    worker.start()
    assert inside.wait(10)
    closing = threading.Thread(target=lambda: (run.close(), events.append("told")))
    closing.start()
    time.sleep(0.1)
    assert events == []
    leave.set()
    worker.join(10)
    closing.join(10)
    assert events == ["published", "told"]
    for closed in (workers, pickle.loads(pickle.dumps(run))):
        with pytest.raises(RuntimeError, match="nothing more is published"), closed.publishing():
            events.append("too late")
    assert len(events) == 2
    with RunState().publishing():
        events.append("of another run")
    elsewhere = "import pickle, sys\nwith pickle.load(sys.stdin.buffer).publishing(): print('published')"
    done = subprocess.run([sys.executable, "-c", elsewhere], input=pickle.dumps(run), capture_output=True)
    assert done.stdout == b"published\n", done.stderr
