"""What workers of this process note of published windows: each once, with its bundle, and only what is finished."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import apache_beam as beam

from private_topk.pipelines.notes import NOTES, NoteWindows
from private_topk.transforms.cut import enter_cells, last_moment
from private_topk.transforms.windows import Period

START = datetime(2026, 1, 5, tzinfo=timezone.utc)
PERIOD = Period(START, START + timedelta(days=3), timedelta(days=1))
LABELS = [window.label() for window in PERIOD.windows()]


def test_what_is_taken_is_gone_and_carries_the_moment() -> None:
    NOTES.taken()
    before = time.time()
    NOTES.note({"a", "b"})
    taken = NOTES.taken()
    assert sorted(taken) == ["a", "b"] and all(before <= moment <= time.time() for moment in taken.values())
    assert NOTES.taken() == {}


def test_nothing_noted_by_many_threads_is_lost() -> None:
    NOTES.taken()
    seen: set[str] = set()
    threads = [threading.Thread(target=lambda n=n: [NOTES.note({f"{n}-{m}"}) for m in range(500)]) for n in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen |= set(NOTES.taken())
    for thread in threads:
        thread.join()
    seen |= set(NOTES.taken())
    assert len(seen) == 4000


def test_a_window_is_noted_by_its_label_once_its_bundle_is_finished() -> None:
    """And one whose ranking is not written is not: the second day's is not given."""
    NOTES.taken()
    with beam.Pipeline() as pipeline:
        _ = (
            pipeline
            | beam.Create([0, 2])
            | beam.Map(lambda number: beam.window.TimestampedValue("written", last_moment(PERIOD, number)))
            | enter_cells(PERIOD)
            | NoteWindows(PERIOD)
        )
    assert set(NOTES.taken()) == {LABELS[0], LABELS[2]}


def test_rankings_of_groups_are_noted_each_by_itself() -> None:
    NOTES.taken()
    noting = NoteWindows(PERIOD)._fn
    noting.start_bundle()
    for written in (f"{LABELS[0]}|fr", f"{LABELS[0]}|d|e"):
        noting.process(written, cell_of(0))
    noting.finish_bundle()
    assert set(NOTES.taken()) == {f"{LABELS[0]}|fr", f"{LABELS[0]}|d|e"}


def cell_of(number: int) -> Any:  # noqa: ANN401 - a Beam window
    moment = beam.transforms.window.WindowFn.AssignContext(last_moment(PERIOD, number))
    return next(iter(enter_cells(PERIOD).windowing.windowfn.assign(moment)))


def test_a_bundle_that_breaks_off_is_not_noted() -> None:
    NOTES.taken()
    noting = NoteWindows(PERIOD)._fn
    noting.start_bundle()
    noting.process("written", cell_of(1))
    assert NOTES.taken() == {}
    noting.finish_bundle()
    assert set(NOTES.taken()) == {LABELS[1]}
