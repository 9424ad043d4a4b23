"""Signals that ask this process to end: raised wherever its main thread just is, and again where that got lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

__all__ = ["Stopped", "check_signals", "heard", "heed_signals", "unheed_signals"]

_ENDS = (signal.SIGINT, signal.SIGTERM)
_BETWEEN_LOOKS = 0.1  # seconds


class Stopped(KeyboardInterrupt):
    """A signal that asks this process to end."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class _Hearing:
    """What was heard, and whether it still is on its way to whoever ends the command.

    Libraries lose what is raised in them: a look for a module that is not needed takes every error for the lack of it,
    as Arrow does, and a callback of the garbage collector can raise nothing at all. So from the signal on
    a timer looks whether the main thread handles an exception, or clears away after one. Where it does neither, twice
    in a row, the signal was lost, and is raised again.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._at_rest = False

    def hear(self, number: int, frame: FrameType | None) -> NoReturn:
        self.number, self._at_rest = number, False
        if hasattr(signal, "setitimer"):
            _listen(signal.SIG_IGN)  # what is being cleared away is cleared away whole
            signal.signal(signal.SIGALRM, self._look)
            signal.setitimer(signal.ITIMER_REAL, _BETWEEN_LOOKS, _BETWEEN_LOOKS)
        raise Stopped(number)

    def _look(self, number: int, frame: FrameType | None) -> None:
        at_rest, self._at_rest = self._at_rest, sys.exc_info()[0] is None
        if at_rest and self._at_rest and self.number is not None:
            self._at_rest = False
            raise Stopped(self.number)


_HEARING = _Hearing()


def heed_signals() -> None:
    """Let SIGTERM end a command as Ctrl-C does: with a sentence, and leaving nothing half done."""
    others = sys.unraisablehook

    def unheard(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, Stopped):  # which is raised again
            others(lost)

    sys.unraisablehook = unheard
    _listen(_HEARING.hear)


def unheed_signals() -> None:
    """Let a signal end the process from now on, as where nobody heeds it: all is done and told."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
    _listen(signal.SIG_DFL)


def heard() -> Stopped | None:
    """The signal that asked this process to end, also where what was raised of it became another error, or nothing."""
    return None if _HEARING.number is None else Stopped(_HEARING.number)


def check_signals() -> None:
    """Raise what was heard, before something begins that should not begin any more."""
    stop = heard()
    if stop is not None:
        raise stop


def _listen(to: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for end in _ENDS:
        signal.signal(end, to)
