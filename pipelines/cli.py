"""The installed command `private-topk`."""

from __future__ import annotations

import os
from typing import NoReturn

from private_topk.pipelines.commands import main
from private_topk.pipelines.commands.status import heed_signals, leave, open_streams

__all__ = ["console", "main"]


def console() -> NoReturn:
    """Run the command line of this process, and end it with its status."""
    # numpy's linear algebra, which nothing here asks for, starts threads when it is loaded, and they spin for a while.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_streams()
    heed_signals()
    leave(main())
