"""The output of a command, as lines or one JSON document, and its end: an exit status, an error that shows no data."""

from __future__ import annotations

import atexit
import errno
import io
import json
import logging
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import datetime
from fractions import Fraction
from typing import Any, NoReturn, TextIO

from private_topk.pipelines.cli.parser import flag
from private_topk.pipelines.process import (
    FAILED,
    Interrupted,
    RunFailed,
    Stopped,
    check_signals,
    level,
    received_signal,
    reset_signal_handlers,
    status_of,
)
from private_topk.transforms.errors import IncompleteDataError, InvalidArgument, printable, reason_in

DONE, NOT_YET = 0, 3
_WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
_IS_DONE = "all is done, only the printing of it was cut short"
_LOST: dict[int, OSError] = {}
"""Why something that was printed is lost, by the number of its stream."""


class _Unfailing(io.FileIO):
    """A standard stream that drops what cannot be written: its reader has gone, its disk is full, its terminal closed.

    What is published or charged is not for a stream of messages to decide, whoever prints: also a library, a thread, or
    a progress bar.
    """

    def write(self, content: Any) -> int:  # noqa: ANN401 - any buffer
        try:
            while (written := super().write(content)) is None:  # who shares it has made it non-blocking, and it is full
                select.select((), (self,), ())
            return written
        except OSError as error:
            _LOST.setdefault(self.fileno(), error)
            return memoryview(content).nbytes


def open_streams() -> None:
    """Open the standard streams such that printing never fails, neither for a character that they cannot show.

    Those that are closed, as some services leave them, are opened on the null device: Python has None in their place,
    and the next file that is opened would get their descriptor, and what a library prints to standard error.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their numbers
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, closefd=False))
    sys.stdout = sys.__stdout__ = _unfailing(sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _unfailing(sys.stderr)  # type: ignore[misc]


def _unfailing(stream: Any) -> io.TextIOWrapper:  # noqa: ANN401 - as Python has opened it
    return io.TextIOWrapper(
        io.BufferedWriter(_Unfailing(stream.fileno(), "w", closefd=False)),
        stream.encoding,
        "backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,  # unbuffered, which the buffer here is not
        write_through=stream.write_through,
    )


def run_command(command: Callable[[], object]) -> int:
    """Run a command; turn what it raises into a message and an exit status.

    0 done, 1 failed, 2 bad input, 3 not yet, 128 and its number ended by a signal.

    Args:
        command: returns whether it did more than to print. Otherwise output that is lost is a failure.
    """
    logged = logging.root.manager.disable
    did_more: object = None
    try:
        logging.disable(logging.ERROR)  # runners log what a worker raised, whose text may hold data
        try:
            did_more = command()
            if not did_more:
                check_signals()  # a library that was loaded may have swallowed one
            sys.stdout.flush()
        finally:
            logging.disable(logged)
    except (Exception, KeyboardInterrupt) as error:
        if did_more and isinstance(error, KeyboardInterrupt):
            return report_error(Interrupted(_IS_DONE, error))
        return report_error(_or_signal(error))
    lost = _LOST.get(1)
    if lost is None or lost.errno == errno.EPIPE:  # whoever read our output has seen enough
        return DONE
    done = "done, but " if did_more else ""
    with level("error"):
        print(f"private-topk: {done}standard output cannot be written: {lost.strerror}", file=sys.stderr)
    return DONE if did_more else FAILED


@contextmanager
def once_done() -> Iterator[None]:
    """Let a signal while a command tells of what it has done say that it is done."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Interrupted(_IS_DONE, stop) from None


def report_error(error: BaseException, about: str = "private-topk: ") -> int:
    """Print an error to stderr; returns the exit status.

    Meanwhile nobody else prints there: threads of Beam that are left over complain, with data maybe.
    """
    stream = sys.stderr
    with level("error"), redirect_stderr(io.StringIO()):
        _print_error(error, about, stream)
    return status_of(error)


def _print_error(error: BaseException, about: str, stream: TextIO) -> None:
    if isinstance(error, InvalidArgument):
        print(f"{about}{error.shown(flag)}", file=stream)
        return
    if isinstance(error, KeyboardInterrupt):
        number = error.number if isinstance(error, Stopped) else signal.SIGINT
        state = printable(error.state) if isinstance(error, Interrupted) else ""
        print(f"{about}{_WORDS[signal.Signals(number).name]}{'; ' if state else ''}{state}", file=stream)
        return
    state = printable(str(error)) if isinstance(error, RunFailed) else ""
    cause = error.__cause__ if state else error
    if cause is None:
        print(f"{about}{state}", file=stream)
        return
    if isinstance(cause, InvalidArgument | IncompleteDataError):
        why = (cause.shown(flag) if isinstance(cause, InvalidArgument) else str(cause)).rstrip(".")
        print(f"{about}failed: {why}. {state[:1].upper()}{state[1:]}", file=stream)
        return
    # Its text may hold data, so only its kind and place are shown.
    reason = reason_in(str(cause))
    kind = f"{type(cause).__name__} ({reason})" if reason else type(cause).__name__
    print(f"{about}failed with {kind}{'; ' if state else ''}{state}", file=stream)
    for frame in traceback.extract_tb(cause.__traceback__)[-4:]:
        print(f"  at {frame.filename}:{frame.lineno} in {frame.name}", file=stream)


def exit_process(status: int) -> NoReturn:
    """End the process with a status, without finalising the interpreter.

    Arrow's threads may just be releasing a file of ours, which aborts the process if Python is finalising.
    """
    streams = (sys.stdout, sys.stderr)
    logging.disable(logging.CRITICAL)
    with redirect_stderr(io.StringIO()):  # servers are stopped, and Beam's threads complain, with data maybe
        reset_signal_handlers()
        for stream in streams:
            stream.flush()
        atexit._run_exitfuncs()
        os._exit(status)


def _or_signal(error: BaseException) -> BaseException:
    """An error, or the signal that a library may have turned into it, such as into an error of loading a module."""
    stop = received_signal()
    if stop is None or isinstance(error, KeyboardInterrupt):
        return error
    return Interrupted(str(error) if isinstance(error, RunFailed) else "", stop)


def print_json(document: object) -> None:
    """Print a document: times as ISO 8601 in UTC, exact numbers as doubles, rounded up."""
    print(json.dumps(document, default=_plain, ensure_ascii=False, indent=2))


def _plain(value: object) -> Any:  # noqa: ANN401 - what JSON has
    from private_topk.transforms.stated import stated
    from private_topk.transforms.windows import utc_text  # loads numpy

    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, Fraction):
        return stated(value)
    raise TypeError(f"{type(value).__name__} has no place in a JSON document")
