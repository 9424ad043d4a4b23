"""What is said on stderr as JSON: every line one object, for whatever collects logs. What is said stays the same."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TextIO

from private_topk.runners import Line

__all__ = ["FORMATS", "JsonLines", "as_json", "level"]

FORMATS = ("text", "json")
_PROGRAM = "private-topk: "


class JsonLines(io.TextIOBase):
    """A stream that writes each line as an object of `time` (UTC), `level` and `message`, whoever prints it.

    What is said as a `Line` has its facts as further fields.

    It stands in for stderr, so that warnings of Python and lines of libraries become objects too. It is no terminal:
    bars that are drawn over and over are not for it.

    Args:
        sink: takes the objects; by default the stderr of the moment.
    """

    def __init__(self, sink: TextIO | None = None) -> None:
        self._sink, self._lock, self._rest = sink, threading.RLock(), ""
        self.level = "info"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._put(line)
        return len(text)

    def say(self, line: str) -> None:
        """Write one whole line, with its facts if it has any."""
        with self._lock:
            self._put(line, line.facts if isinstance(line, Line) else {})

    def flush(self) -> None:
        """Nothing: a line goes out when it ends, and half a line is no object."""

    def close(self) -> None:
        """Write what has not been ended. The stream below stays open: it is not ours."""
        with self._lock:
            self._put(self._rest)
            self._rest = ""

    def _put(self, line: str, facts: Mapping[str, object] = MappingProxyType({})) -> None:
        message = line.rsplit("\r", 1)[-1].strip().removeprefix(_PROGRAM)
        if message:
            now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            told = {"time": now, "level": self.level, "message": message, **facts}
            self._sink = self._sink or sys.stderr
            self._sink.write(json.dumps(told, ensure_ascii=False) + "\n")
            self._sink.flush()


@contextmanager
def as_json() -> Iterator[None]:
    """Let all that goes to stderr inside, by either of the names that Python has for it, go there as JSON."""
    before, own = sys.stderr, sys.__stderr__
    stream = JsonLines(before)
    sys.stderr = sys.__stderr__ = stream  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        stream.close()
        sys.stderr, sys.__stderr__ = before, own  # type: ignore[misc]


@contextmanager
def level(name: str) -> Iterator[None]:
    """What is printed to stderr inside is a `warning`, or an `error`: only JSON shows it."""
    stream = sys.stderr
    if not isinstance(stream, JsonLines):
        yield
        return
    before, stream.level = stream.level, name
    try:
        yield
    finally:
        stream.level = before
