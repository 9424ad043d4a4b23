"""The process of a command: the signals that end it, the errors of a run that ends early, stderr as JSON.

Nothing here imports Beam, so that commands are quick.
"""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any, TextIO

from private_topk.runners import Line, as_object
from private_topk.transforms.errors import InvalidArgument

FAILED, _OF_A_SIGNAL = 1, 128
LOG_FORMATS = ("text", "json")
PATIENCE = 5.0
"""Seconds without an answer from a store, a ledger or another process before a message is printed."""
_PROGRAM = "private-topk: "
_QUIET = ContextVar("quiet", default=False)
_RECEIVED: list[int] = []
"""The signals that asked this process to end: they are the process's own, whatever runs in it."""


class RunFailed(Exception):
    """The error of a run that failed; its text tells what is published and how to go on, its cause is the failure."""


class Stopped(KeyboardInterrupt):
    """A signal that asks this process to end."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class Interrupted(Stopped):
    """The error of a run that was ended from outside, with what is published and how to go on."""

    def __init__(self, state: str, cause: KeyboardInterrupt) -> None:
        super().__init__(getattr(cause, "number", signal.SIGINT))
        self.state = state
        self.args = (f"{self}; {state}",) if state else self.args  # what a notebook shows


def status_of(error: BaseException) -> int:
    """The exit status of a command that an error ends: 2 or 3 where nothing was done, 128 and the number of a signal, 1
    for all else.
    """
    if isinstance(error, InvalidArgument):
        return error.status
    if isinstance(error, KeyboardInterrupt):
        return _OF_A_SIGNAL + (error.number if isinstance(error, Stopped) else signal.SIGINT)
    return FAILED


def install_signal_handlers() -> None:
    """Let SIGTERM, or a terminal that is closed, end a command as Ctrl-C does: with a message, and leaving nothing half
    done.
    """
    _handle_ends(_receive)


def reset_signal_handlers() -> None:
    """Let a signal end the process at once from now on, as by default: all is done and reported."""
    _handle_ends(signal.SIG_DFL)


def _handle_ends(how: Any) -> None:  # noqa: ANN401 - a handler
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # not every system has all
        if number is not None and not (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):  # under nohup
            signal.signal(number, how)


def received_signal() -> Stopped | None:
    """The signal that asked this process to end, also if a library turned it into another error; or None."""
    return Stopped(_RECEIVED[0]) if _RECEIVED else None


def check_signals() -> None:
    """Raise the signal that was received, if any, before something starts that should no longer start."""
    stop = received_signal()
    if stop is not None:
        raise stop


def _receive(number: int, frame: FrameType | None) -> None:
    """End the command wherever its main thread is; a clean-up that has begun is completed."""
    if _RECEIVED and sys.exc_info()[0] is not None:
        return
    _RECEIVED.append(number)
    raise Stopped(_RECEIVED[0])


class JsonLines(io.TextIOBase):
    """A stream that writes each line as an object of `time` (UTC), `level` and `message`, whoever prints it.

    The facts of a `Line` become further fields.

    It replaces stderr, so that warnings of Python and lines of libraries become objects too. It is no terminal, so
    progress bars are not drawn to it.

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
            self._put(line)

    def flush(self) -> None:
        """Do nothing: a line is written when it ends, and half a line is no object."""

    def close(self) -> None:
        """Write an unfinished last line. The stream below stays open: it is not ours."""
        with self._lock:
            self._put(self._rest)
            self._rest = ""

    def _put(self, line: str) -> None:
        message = line.rsplit("\r", 1)[-1].strip().removeprefix(_PROGRAM)
        if message:
            self._sink = self._sink or sys.stderr
            facts = line.facts if isinstance(line, Line) else {}
            self._sink.write(as_object(Line(message, **facts), self.level) + "\n")
            self._sink.flush()


def is_read_along() -> bool:
    """Whether a person reads stderr along: it is a terminal, or the process a notebook's. A JSON log is neither."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or hasattr(shell, "kernel")


@contextmanager
def as_json() -> Iterator[None]:
    """Write everything that goes to stderr inside, by either of Python's names for it, as JSON."""
    before, original = sys.stderr, sys.__stderr__
    stream = JsonLines(before)
    sys.stderr = sys.__stderr__ = stream  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        stream.close()
        sys.stderr, sys.__stderr__ = before, original  # type: ignore[misc]


@contextmanager
def told_if_slow(line: str, seconds: float) -> Iterator[None]:
    """Print a line to stderr if the block takes longer than so many seconds."""
    teller = threading.Timer(seconds, _warn, [line])
    teller.daemon = True
    teller.start()
    try:
        yield
    finally:
        teller.cancel()


def _warn(line: str) -> None:
    with suppress(OSError, ValueError), level("warning"):  # a terminal that is gone
        print(line, file=sys.stderr, flush=True)


@contextmanager
def quietly(quiet: bool | None = True) -> Iterator[None]:
    """Inside, nothing is said of what goes as it should (`speaks`): whoever is mailed a line reads that it does not."""
    before = _QUIET.set(bool(quiet))
    try:
        yield
    finally:
        _QUIET.reset(before)


def speaks() -> bool:
    """Whether to say what is no warning and no error."""
    return not _QUIET.get()


@contextmanager
def level(name: str) -> Iterator[None]:
    """Mark what is printed to stderr inside as a `warning` or an `error`: only JSON shows it."""
    stream = sys.stderr
    if not isinstance(stream, JsonLines):
        yield
        return
    before, stream.level = stream.level, name
    try:
        yield
    finally:
        stream.level = before
