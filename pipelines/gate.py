"""Whether this process still publishes: once it has said what is published, nothing may follow."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["GATE"]


class _Gate:
    """Workers of the Direct runner publish from threads of this process, which go on while it is being ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def passed(self) -> Iterator[None]:
        """What is done inside is done whole before the gate is closed; afterwards nothing is.

        Raises:
            RuntimeError: the gate is closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the run has ended: nothing more is published")
            yield

    def close(self) -> None:
        """Wait for what is being published, and let nothing follow."""
        with self._lock:
            self._closed = True

    def open(self) -> None:
        """Let another run publish."""
        with self._lock:
            self._closed = False


GATE = _Gate()
