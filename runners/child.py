"""A process that ends with the one that started it, also where that is killed.

Whoever starts a server ends it too, as long as it can. A killed process cannot, and its server would go on for good.
So a server is started by this program, which passes signals on to it, ends with its status, and ends it once their
parent is gone. It is run as a file, by the bare interpreter, and loads nothing of this package.

Linux could do so by itself (PR_SET_PDEATHSIG), but there "parent" is the thread that has started the process, which may
end long before. Here that is used between this program and its server, in case this program itself is killed.

Both are in a session of their own: Ctrl-C goes to every process of a terminal's foreground group, and a server that it
ended first would fail whoever has started it before that can say how it stands.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

_EVERY = 0.5  # seconds between two looks at the parent
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1


def ending_with_us(command: Sequence[object]) -> list[str]:
    """A command that runs another one, and ends it when this process ends, however it does."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *map(str, command)]


def _run(parent: int, command: Sequence[str]) -> int:
    """Run a command till it ends or the parent is gone; returns a status for the shell."""
    for number in (signal.SIGALRM, signal.SIGCHLD):  # for these only wake us up
        signal.signal(number, lambda *_: None)
    if os.getpgrp() != os.getpid():  # otherwise there is one already
        os.setsid()
    server = subprocess.Popen(command, preexec_fn=_killed_with_parent())
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: server.send_signal(number))
    signal.setitimer(signal.ITIMER_REAL, _EVERY, _EVERY)
    while server.poll() is None and os.getppid() == parent:
        signal.pause()
    signal.setitimer(signal.ITIMER_REAL, 0)  # at its end Python lets go of handlers, and a signal would be the status
    server.kill()  # if it is still there
    status = server.wait()
    return status if status >= 0 else 128 - status


def _killed_with_parent() -> Callable[[], object] | None:
    """What a child calls to be killed with this process's main thread; None where the system knows no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    try:
        sys.exit(_run(int(sys.argv[1]), sys.argv[2:]))
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error.strerror}")
