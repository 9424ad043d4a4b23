"""Which rankings workers of this process have published, for places of rankings that nobody can read back."""

from __future__ import annotations

import threading
import time
from typing import Any

import apache_beam as beam

from private_topk.transforms.cut import bounds_of_cell
from private_topk.transforms.windows import Period

__all__ = ["NOTES", "NoteWindows"]


class _Notes:
    """Workers on threads of this process write here; one run at a time reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: dict[str, float] = {}

    def note(self, labels: set[str]) -> None:
        """Rankings are published, now."""
        with self._lock:
            self._noted |= dict.fromkeys(labels, time.time())

    def taken(self) -> dict[str, float]:
        """What was noted since the last call: when each ranking was published, in seconds since 1970, by its label."""
        with self._lock:
            found, self._noted = self._noted, {}
        return found


NOTES = _Notes()


class NoteWindows(beam.PTransform):
    """What a sink gives back of each ranking, noted with the bundle: when the sink has finished it, and not before."""

    def __init__(self, period: Period) -> None:
        super().__init__()
        self._fn = _NoteDoFn(period)

    def expand(self, written: beam.PCollection) -> beam.PCollection:
        return written | beam.ParDo(self._fn).with_output_types(str)


class _NoteDoFn(beam.DoFn):
    def __init__(self, period: Period) -> None:
        self._period = period

    def start_bundle(self) -> None:
        self._labels: set[str] = set()

    def process(self, written: str, window: Any = beam.DoFn.WindowParam) -> None:  # noqa: ANN401 - a Beam window
        _, bar, group = written.partition("|")
        self._labels.add(bounds_of_cell(self._period, window).label(group if bar else None))

    def finish_bundle(self) -> None:
        NOTES.note(self._labels)
