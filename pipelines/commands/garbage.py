"""Python's search for garbage, which has nothing to find in what was just loaded."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["kept"]


@contextmanager
def kept() -> Iterator[None]:
    """What is loaded inside stays to the end: nobody searches it for garbage, now or later."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
