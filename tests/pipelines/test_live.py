"""What a run and its workers in this process share: the publish guard, and windows noted once they are finished."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import apache_beam as beam
import pytest

from private_topk.pipelines.live import LiveRun, NoteWindows
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.assign import into_windows, last_moment

START = datetime(2026, 1, 5, tzinfo=timezone.utc)
PERIOD = Period(START, START + timedelta(days=3), timedelta(days=1))
LABELS = [window.label() for window in PERIOD.windows()]


def test_what_is_taken_is_gone_and_carries_the_moment() -> None:
    run = LiveRun()
    before = time.time()
    run.note_published({"a", "b"})
    taken = run.newly_published()
    assert sorted(taken) == ["a", "b"] and all(before <= moment <= time.time() for moment in taken.values())
    assert run.newly_published() == {}


def test_nothing_noted_by_many_threads_is_lost() -> None:
    run = LiveRun()
    seen: set[str] = set()

    def note(number: int) -> None:
        for one in range(500):
            run.note_published({f"{number}-{one}"})

    threads = [threading.Thread(target=note, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen |= set(run.newly_published())
    for thread in threads:
        thread.join()
    seen |= set(run.newly_published())
    assert len(seen) == 4000


def test_a_window_is_noted_by_its_label_once_its_bundle_is_finished() -> None:
    """And one whose ranking is not written is not: the second day's is not given."""
    run = LiveRun()
    with beam.Pipeline() as pipeline:
        _ = (
            pipeline
            | beam.Create([0, 2])
            | beam.Map(lambda number: beam.window.TimestampedValue("written", last_moment(PERIOD, number)))
            | into_windows(PERIOD)
            | NoteWindows(PERIOD, run)
        )
    assert set(run.newly_published()) == {LABELS[0], LABELS[2]}


def test_rankings_of_groups_are_noted_each_by_itself() -> None:
    run = LiveRun()
    noting = NoteWindows(PERIOD, run)._fn
    noting.start_bundle()
    for written in (f"{LABELS[0]}|fr", f"{LABELS[0]}|d|e"):
        noting.process(written, cell_of(0))
    noting.finish_bundle()
    assert set(run.newly_published()) == {f"{LABELS[0]}|fr", f"{LABELS[0]}|d|e"}


def cell_of(number: int) -> Any:  # noqa: ANN401 - a Beam window
    moment = beam.transforms.window.WindowFn.AssignContext(last_moment(PERIOD, number))
    return next(iter(into_windows(PERIOD).windowing.windowfn.assign(moment)))


def test_a_bundle_that_breaks_off_is_not_noted() -> None:
    run = LiveRun()
    noting = NoteWindows(PERIOD, run)._fn
    noting.start_bundle()
    noting.process("written", cell_of(1))
    assert run.newly_published() == {}
    noting.finish_bundle()
    assert set(run.newly_published()) == {LABELS[1]}


def test_nothing_is_published_after_what_is_published_was_told() -> None:
    """A worker's thread goes on for a while: it waits at the guard, or was past it before the run was closed."""
    inside, leave, events = threading.Event(), threading.Event(), list[str]()
    run = LiveRun()
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
    with pytest.raises(RuntimeError, match="nothing more is published"), workers.publishing():
        events.append("too late")
    assert len(events) == 2
    with pytest.raises(RuntimeError, match="nothing more is published"), pickle.loads(pickle.dumps(run)).publishing():
        pass
    with LiveRun().publishing():
        events.append("of another run")


def test_on_another_machine_a_run_is_one_that_nobody_closes() -> None:
    run = LiveRun()
    run.close()
    elsewhere = "import pickle, sys\nwith pickle.load(sys.stdin.buffer).publishing(): print('published')"
    done = subprocess.run([sys.executable, "-c", elsewhere], input=pickle.dumps(run), capture_output=True)
    assert done.stdout == b"published\n", done.stderr
