"""The installed command `private-topk`."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from typing import NoReturn

from private_topk.pipelines.commands import main
from private_topk.pipelines.commands.status import leave, open_streams
from private_topk.pipelines.signals import heed_signals

__all__ = ["console", "main"]

_ALLOCATIONS = (100_000, 50, 100)
_KEPT = {-1: 1 << 28, -2: 1 << 24, -3: 1 << 25}
"""mallopt's M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD, in bytes."""


def console() -> NoReturn:
    """Run the command line of this process, and end it with its status."""
    _suit_the_process()
    open_streams()
    heed_signals()
    leave(main())


def _suit_the_process() -> None:
    """Settings that a library may not choose for whoever imports it, and a process of our own may."""
    # numpy's linear algebra, which nothing here asks for, starts threads when it is loaded, and they spin for a while.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Nearly all that is made in Python's own memory comes of loading modules, and stays.
    gc.set_threshold(*_ALLOCATIONS)
    # Arrays of some megabytes come and go in every thread. glibc hands each back to the system, which stops the other
    # threads for it, and has it cleared when it is asked for again.
    with suppress(AttributeError, OSError, TypeError):  # other systems have no mallopt
        for setting, size in _KEPT.items():
            ctypes.CDLL(None).mallopt(setting, size)
