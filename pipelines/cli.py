"""The installed command `private-topk`."""

from __future__ import annotations

from typing import NoReturn

from private_topk.pipelines.commands import main
from private_topk.pipelines.commands.status import heed_signals, leave, open_streams

__all__ = ["console", "main"]


def console() -> NoReturn:
    """Run the command line of this process, and end it with its status."""
    open_streams()
    heed_signals()
    leave(main())
