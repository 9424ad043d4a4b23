"""A run of this process while it lives: what its workers here share with whoever waits for its end."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam as beam

from private_topk.transforms.windows import Period
from private_topk.transforms.windows.assign import declared_window

__all__ = ["LiveRun", "NoteWindows"]

_RUNS: dict[str, LiveRun] = {}
"""Every run of this process by its name: the objects of a pipeline are pickled, and find their run no other way. Those
that have ended stay, so that a worker of theirs that wakes late finds them closed."""


class LiveRun:
    """Whether a run still publishes, which windows it has published, and how much of its input is read.

    Pickled it is its name: on a thread of this process it is the same run, on other machines one that nobody asks.
    """

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        self._guard, self._closed = threading.Lock(), False
        self._lock = threading.Lock()
        self._published: dict[str, float] = {}
        self._read = 0.0
        _RUNS[self.name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _run_of, (self.name,)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """The publish guard: what is done inside is done whole before the run is closed; afterwards nothing is.

        Workers on threads go on while a run is being ended, and once it has said what is published, nothing may follow.

        Raises:
            RuntimeError: the run is closed.
        """
        with self._guard:
            if self._closed:
                raise RuntimeError("the run has ended: nothing more is published")
            yield

    def close(self) -> None:
        """Wait for what is being published, and let nothing follow."""
        with self._guard:
            self._closed = True

    def note_published(self, labels: set[str]) -> None:
        """Rankings are published, now."""
        with self._lock:
            self._published |= dict.fromkeys(labels, time.time())

    def newly_published(self) -> dict[str, float]:
        """What was noted since the last call: when each ranking was published, in seconds since 1970, by its label."""
        with self._lock:
            found, self._published = self._published, {}
        return found

    def add_read(self, share: float) -> None:
        """So much more of the input's bytes is read."""
        with self._lock:
            self._read += share

    @property
    def share_read(self) -> float:
        """How much of the input's bytes is read, up to 1: no count of rows, users or items."""
        return min(self._read, 1.0)


def _run_of(name: str) -> LiveRun:
    return _RUNS.get(name) or LiveRun()


class NoteWindows(beam.PTransform):
    """What a sink gives back of each ranking, noted with the bundle: when the sink has finished it, and not before.

    For places of rankings that nobody can read back.
    """

    def __init__(self, period: Period, run: LiveRun) -> None:
        super().__init__()
        self._fn = _NoteDoFn(period, run)

    def expand(self, written: beam.PCollection) -> beam.PCollection:
        return written | beam.ParDo(self._fn).with_output_types(str)


class _NoteDoFn(beam.DoFn):
    def __init__(self, period: Period, run: LiveRun) -> None:
        self._period, self._run = period, run

    def start_bundle(self) -> None:
        self._labels: set[str] = set()

    def process(self, written: str, window: Any = beam.DoFn.WindowParam) -> None:  # noqa: ANN401 - a Beam window
        _, bar, group = written.partition("|")
        self._labels.add(declared_window(self._period, window).label(group if bar else None))

    def finish_bundle(self) -> None:
        self._run.note_published(self._labels)
