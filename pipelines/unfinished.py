"""A run that ends early: the signals that ask for it, and the errors that say what is published by then.

Nothing here imports Beam, so that commands are quick.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

__all__ = ["Interrupted", "Stopped", "Unfinished", "check_signals", "heard", "heed_signals", "unheed_signals"]

_ENDS = (signal.SIGINT, signal.SIGTERM)
_HEARD: list[int] = []
"""The signals that asked this process to end: they are the process's own, whatever runs in it."""


class Unfinished(Exception):
    """A run failed; its cause is this error's, and its text what is published and how to go on."""


class Stopped(KeyboardInterrupt):
    """A signal that asks this process to end."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class Interrupted(Stopped):
    """A run was ended from outside, with what is published and how to go on."""

    def __init__(self, state: str, cause: KeyboardInterrupt) -> None:
        super().__init__(getattr(cause, "number", signal.SIGINT))
        self.state = state


def heed_signals() -> None:
    """Let SIGTERM end a command as Ctrl-C does: with a sentence, and leaving nothing half done."""
    for end in _ENDS:
        signal.signal(end, _hear)


def unheed_signals() -> None:
    """Let a signal end the process from now on, as where nobody heeds it: all is done and told."""
    for end in _ENDS:
        signal.signal(end, signal.SIG_DFL)


def heard() -> Stopped | None:
    """The signal that asked this process to end, also where a library made another error of it, or nothing."""
    return Stopped(_HEARD[0]) if _HEARD else None


def check_signals() -> None:
    """Raise what was heard, before something begins that should not begin any more."""
    stop = heard()
    if stop is not None:
        raise stop


def _hear(number: int, frame: FrameType | None) -> None:
    """End the command wherever its main thread just is; what is being cleared away by then is cleared away whole."""
    if _HEARD and sys.exc_info()[0] is not None:
        return
    _HEARD.append(number)
    raise Stopped(_HEARD[0])
