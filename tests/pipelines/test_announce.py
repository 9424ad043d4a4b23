"""What is said of a stream while it runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from private_topk.pipelines import announce
from private_topk.pipelines.announce import Announcer
from private_topk.pipelines.live import LiveRun
from private_topk.pipelines.report import Report
from private_topk.pipelines.report_spec import resolve
from private_topk.pipelines.run import run
from private_topk.pipelines.sinks.files import ToFolder
from private_topk.pipelines.sinks.sink import Sink
from private_topk.pipelines.sources.folder import Folder
from private_topk.pipelines.unfinished import Unfinished
from private_topk.runners import Launch, Line, prepare
from private_topk.transforms import Release
from private_topk.transforms.completeness import IncompleteDataError
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
PERIOD = Period(START, START + timedelta(hours=8), timedelta(hours=1), timedelta(minutes=5))
LABELS = [window.label() for window in PERIOD.windows()]
FIRST_CLOSES = START.timestamp() + 3900


def test_each_window_is_told_once_with_its_lag_and_what_is_next() -> None:
    said: list[str] = []
    announcer = Announcer(PERIOD, "out", True, said.append)
    announcer.look({})
    announcer.look({LABELS[0]: FIRST_CLOSES + 2.25, "no window": 1.0})
    announcer.look({LABELS[0]: FIRST_CLOSES + 2.25})
    assert said == [
        "published 20260101T000000Z--20260101T010000Z to out, 2.2 s after it closed",
        "7 of 8 windows are left; the next closes at 2026-01-01T02:05:00+00:00",
    ]
    announcer.look({label: FIRST_CLOSES + 9e4 for label in LABELS[1:]})
    lags = [9e4 - 3600 * number for number in range(1, 8)]
    assert said[2:] == [f"published {label} to out, {lag:.1f} s after it closed"
                        for label, lag in zip(LABELS[1:], lags, strict=True)]  # fmt: skip


def test_what_is_told_stands_in_fields_too() -> None:
    said: list[Line] = []
    announcer = Announcer(PERIOD, "out", True, said.append)  # type: ignore[arg-type]
    announcer.look({LABELS[0]: FIRST_CLOSES + 2.25})
    assert [line.facts for line in said] == [
        {"event": "published", "window": LABELS[0], "place": "out", "lag_seconds": 2.2},
        {"event": "waiting", "next_window": LABELS[1], "closes": "2026-01-01T02:05:00+00:00", "left": 7, "of": 8},
    ]


def test_a_lag_is_told_only_where_the_clock_is_the_present() -> None:
    said: list[str] = []
    announcer = Announcer(PERIOD, "out", False, said.append)
    announcer.look({LABELS[0]: time.time()})
    assert said == [f"published {LABELS[0]} to out",
                    "7 of 8 windows are left; the next closes at 2026-01-01T02:05:00+00:00 by the clock of the source",
                    ]  # fmt: skip


def test_what_was_there_before_is_told_only_if_it_is_published_again() -> None:
    said: list[str] = []
    announcer = Announcer(PERIOD, "out", False, said.append)
    announcer.start_after({LABELS[0]: 5.0, LABELS[1]: 5.0})
    announcer.look({LABELS[0]: 5.0, LABELS[1]: 6.0})
    assert said[0] == f"published {LABELS[1]} to out" and "6 of 8" in said[1]


def report(folder: Path, sink: Sink) -> Report:
    spec = resolve(TopK(2, Joint(epsilon=1.0), ["a", "b", "c"]), period=PERIOD)
    return Report(spec, Folder(f"{folder}/in/*.jsonl", clock="event"), sink)


def publish(folder: Path, label: str) -> None:
    """Complete or not there, as sinks do it."""
    folder.mkdir(exist_ok=True)
    (folder / f"{label}.jsonl.tmp").write_text("whole")
    os.replace(folder / f"{label}.jsonl.tmp", folder / f"{label}.jsonl")


@pytest.mark.long
def test_a_folder_is_looked_at_while_the_report_runs(tmp_path: Path) -> None:
    """The runner is told once every window is there, and no earlier."""
    said: list[str] = []
    folder, launch = tmp_path / "out", prepare("direct", [])
    with followed(report(tmp_path, ToFolder(str(folder), "jsonl")), launch, said.append):
        folder.mkdir()
        (folder / f"{LABELS[0]}.jsonl.tmp").write_text("half")
        (folder / f"{LABELS[0]}.manifest.json").write_text("{}")
        time.sleep(1.5)
        assert said == [
            "8 of 8 windows are left; the next closes at 2026-01-01T01:05:00+00:00 by the clock of the source"
        ]
        for number, label in enumerate(LABELS[:-1]):
            publish(folder, label)
            if number == 0:
                wait_until(lambda: len(said) == 3)
                assert said[1] == f"published {LABELS[0]} to {folder}" and said[2].startswith("7 of 8")
        wait_until(lambda: said[-1].startswith("1 of 8"))
        assert not launch.answered.is_set()
        publish(folder, LABELS[-1])
        assert launch.answered.wait(120)
    assert [line for line in said if line.startswith("published")] == [
        f"published {label} to {folder}" for label in LABELS
    ]


def test_what_an_earlier_run_has_left_ends_nothing(tmp_path: Path) -> None:
    folder, launch = tmp_path / "out", prepare("direct", [])
    publish(folder, LABELS[0])
    with followed(report(tmp_path, ToFolder(str(folder), "jsonl")), launch, None):
        for label in LABELS[1:]:
            publish(folder, label)
    assert not launch.answered.is_set()
    with followed(report(tmp_path, ToFolder(str(folder), "jsonl")), launch, None):
        time.sleep(0.02)
        for label in LABELS:
            publish(folder, label)
    assert launch.answered.is_set()


@pytest.mark.long
@pytest.mark.parametrize("runner", ["direct", "prism"])
def test_where_nothing_can_be_read_back_the_workers_here_take_notes(runner: str, tmp_path: Path) -> None:
    said: list[str] = []
    rows = [{"user": f"u{n}", "item": "abc"[n % 3], "time": (START + timedelta(minutes=20 * n)).isoformat()}
            for n in range(24)]  # fmt: skip
    rows.append({"user": "u", "item": "a", "time": (START + timedelta(hours=9)).isoformat()})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    launch = prepare(runner, ["--streaming"])
    run(report(tmp_path, Nowhere()), launch, say=said.append)
    assert launch.answered.is_set()
    assert sorted(line for line in said if line.startswith("published")) == [
        f"published {label} to nowhere" for label in LABELS
    ]
    with pytest.raises(Unfinished, match="what was sent to nowhere by then stays there") as caught:
        run(report(tmp_path, Nowhere(lost=LABELS[2])), launch, say=said.append)
    lost = "the job ended as if it were whole, and of 8 windows 7 were seen to be published to nowhere"
    assert str(caught.value.__cause__) == lost and not launch.answered.is_set()


@pytest.mark.long
def test_a_job_that_ends_well_and_has_published_less_is_told(tmp_path: Path) -> None:
    """Of a place that can be read back, once it shows all that is there; of another one only if workers here note."""
    launch = prepare("direct", [])
    with followed(report(tmp_path, Topic([LABELS[:3], [], LABELS[3:]])), launch, None):
        pass
    assert launch.answered.is_set()
    for shown in ([LABELS[:7]], []):
        with (
            pytest.raises(
                IncompleteDataError, match=f"of 8 windows {len(shown) * 7} were seen to be published to nowhere"
            ),
            followed(report(tmp_path, Topic(shown)), launch, None),
        ):
            pass
    with pytest.raises(KeyError), followed(report(tmp_path, Topic([])), launch, None):
        raise KeyError  # what goes wrong before is not talked over
    with followed(report(tmp_path, Nowhere()), launch, None):
        pass


def test_a_window_is_there_when_all_of_its_groups_are(tmp_path: Path) -> None:
    """At a place that tells of each ranking by itself. One that comes twice does not stand for another."""
    said: list[str] = []
    groups = ["fr", "d|e"]
    spec = resolve(TopK(2, Joint(epsilon=1.0), ["a", "b", "c"], groups=groups), period=PERIOD)
    asked = replace(report(tmp_path, Nowhere()), spec=spec)
    labels = [window.label(group) for window in PERIOD.windows() for group in groups]
    launch = prepare("direct", [])
    with followed(replace(asked, sink=Topic([labels[:3], labels[2:3], labels[3:]])), launch, said.append):
        pass
    assert launch.answered.is_set() and said[1] == f"published {LABELS[0]} to nowhere"
    with (
        pytest.raises(IncompleteDataError, match="of 8 windows 7 were seen"),
        followed(replace(asked, sink=Topic([labels[:-1], labels[:1]])), launch, None),
    ):
        pass


def followed(report: Report, launch: Launch, say: announce.Say | None) -> AbstractContextManager[None]:
    return announce.followed(report, launch, LiveRun(), say)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "_LAST_LOOKS", 1.0)


@dataclass(frozen=True)
class Nowhere:
    """A place of rankings that nobody can read back."""

    lost: str = ""
    place = "nowhere"

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        pass

    def write(self, facts: dict[str, Any], release: Release, live: LiveRun | None = None) -> beam.PTransform:
        kept = beam.Filter(lambda label: label != self.lost)
        return beam.Map(lambda ranking: ranking.window.label()).with_output_types(str) | kept

    def files(self, period: Period | None) -> None:
        return None

    def following(self, period: Period, release: Release) -> None:
        return None

    def local_places(self) -> tuple[str, ...]:
        return ()

    def published(self) -> None:
        return None


class Topic(Nowhere):
    """A place that can be read back: with each look, windows that have come since."""

    def __init__(self, shown: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.__dict__["shown"] = [[], *shown]  # at first nothing: that was there before

    def following(self, period: Period, release: Release) -> Callable[[], dict[str, float]]:
        left = iter(self.__dict__["shown"])
        return lambda: dict.fromkeys(next(left, ()), time.time())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
