"""Keeping a Rust library's last words off standard error: its panics are exceptions here, told in one sentence."""

from __future__ import annotations

import atexit
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

__all__ = ["unprinted"]

_PANIC = re.compile(rb"\n?thread '[^\n]* panicked at [^\n]*\n[^\n]*\n"
                    rb"(?:stack backtrace:\n(?: +[^\n]*\n)*)?(?:note: [^\n]*\n)?")  # fmt: skip
_HEAD = re.compile(rb"\n?thread '[^\n]*(?: panicked at [^\n]*\n[^\n]*)?\Z")  # of a panic whose message is to come
_STDERR = 2


class _Detour:
    """Standard error, led through a file while anybody asks for it; there is one for the process."""

    def __init__(self) -> None:
        self._lock, self._users, self._passed = threading.Lock(), 0, 0
        self._ended = False
        self._true: int | None = None
        self._file: IO[bytes] | None = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1 and not self._ended:
                with suppress(OSError):  # a process without standard error prints nothing anyway
                    self._file = tempfile.TemporaryFile(buffering=0)
                    self._true = os.dup(_STDERR)
                    os.dup2(self._file.fileno(), _STDERR)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            self._lead_back(last=self._users == 0)

    def end(self) -> None:
        """Lead standard error back for good: the process ends, and some thread may be inside to the last."""
        with self._lock:
            self._ended = True
            self._lead_back(last=True)

    def _lead_back(self, last: bool) -> None:
        if self._true is None or self._file is None:
            return
        if last:
            os.dup2(self._true, _STDERR)
        self._pass_on(self._file, self._true, last)
        if last:
            self._file.close()
            os.close(self._true)
            self._true, self._file, self._passed = None, None, 0

    def _pass_on(self, file: IO[bytes], true: int, last: bool) -> None:
        """Whatever others have printed meanwhile, which another thread's panic does not concern.

        The file only grows while it is written to: to cut it short would lose what comes between a look and the cut.
        """
        said = os.pread(file.fileno(), os.fstat(file.fileno()).st_size - self._passed, self._passed)
        if not last:
            said = said[: _unfinished(said)]
        self._passed += len(said)
        rest = _PANIC.sub(b"", said)
        while rest:
            rest = rest[os.write(true, rest) :]


def _unfinished(said: bytes) -> int:
    """Where a panic or a line begins that another thread may still be printing; the length where none does."""
    whole = said.rfind(b"\n") + 1
    whole -= said[:whole].endswith(b"\n\n") or whole == 1  # a panic begins with an empty line
    begun = [panic.start() for panic in _PANIC.finditer(said) if panic.end() >= whole]
    head = _HEAD.search(_PANIC.sub(lambda panic: b"\n" * len(panic[0]), said))
    return min([whole, *begun, *([head.start()] if head else [])])


_DETOUR = _Detour()
atexit.register(_DETOUR.end)


@contextmanager
def unprinted() -> Iterator[None]:
    """Whatever a library prints of a panic inside is dropped. Other output of the process follows when it ends.

    Not for long work: what other threads print waits for it. Cost: about 30 microseconds.
    """
    _DETOUR.enter()
    try:
        yield
    finally:
        _DETOUR.leave()
