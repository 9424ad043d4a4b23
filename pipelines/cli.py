"""The installed command `private-topk`."""

from __future__ import annotations

import gc
import os
from typing import NoReturn

from private_topk.pipelines.commands import main
from private_topk.pipelines.commands.status import leave, open_streams
from private_topk.pipelines.unfinished import heed_signals

__all__ = ["console", "main"]


def console() -> NoReturn:
    """Run the command line of this process, and end it with its status."""
    # numpy's linear algebra, which nothing here asks for, starts threads when it is loaded, and they spin for a while.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Loading Beam makes some hundred thousand objects, which all stay: to search them for garbage at Python's own pace
    # takes a sixth of a small run, 1.8 s of CPU in place of 1.5.
    gc.set_threshold(100_000, 50, 100)
    open_streams()
    heed_signals()
    leave(main())
