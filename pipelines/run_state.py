"""A live run: the state that its workers in this process share with the thread that waits for its end."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam as beam

from private_topk.transforms.assign_windows import window_named
from private_topk.transforms.errors import crosses

_RUNS: dict[str, RunState] = {}
"""Every run of this process by its name, by which pickled objects of a pipeline look it up. Ended runs stay, so that a
late worker finds its run closed."""


class RunState:
    """Whether a run still publishes, which windows it has published, and how much of its input is read.

    It pickles as its name: unpickled in this process it is the same run, elsewhere a new one that nobody reads.
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
        """The publish guard: `close` waits for what is published inside, and nothing is published after it.

        Worker threads go on while a run is being ended, and once the run has reported what is published, nothing may
        follow.

        Raises:
            RuntimeError: the run is closed.
        """
        with self._guard:
            if self._closed:
                raise RuntimeError("the run has ended: nothing more is published")
            yield

    def close(self) -> None:
        with self._guard:
            self._closed = True

    def record_published(self, labels: set[str]) -> None:
        with self._lock:
            self._published |= dict.fromkeys(labels, time.time())

    def newly_published(self) -> dict[str, float]:
        """The rankings recorded since the last call: when each was published, in seconds since 1970, by its label."""
        with self._lock:
            published, self._published = self._published, {}
        return published

    def add_read(self, share: float) -> None:
        with self._lock:
            self._read += share

    @property
    def share_read(self) -> float:
        """The share of the input's bytes that is read, up to 1: no count of rows, users or items."""
        return min(self._read, 1.0)


def _run_of(name: str) -> RunState:
    return _RUNS.get(name) or RunState()


@crosses
class RecordPublished(beam.DoFn):
    """Records each ranking that a sink has written, when its bundle is finished and not before.

    For places of rankings that cannot be read back.
    """

    def __init__(self, run: RunState) -> None:
        self._run = run

    def start_bundle(self) -> None:
        self._labels: set[str] = set()

    def process(self, written: str, window: Any = beam.DoFn.WindowParam) -> None:  # noqa: ANN401 - a Beam window
        _, bar, group = written.partition("|")
        self._labels.add(window_named(None, 0, window, several=False).label(group if bar else None))

    def finish_bundle(self) -> None:
        self._run.record_published(self._labels)
