"""Modules that are loaded quickly."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["loading"]


@contextmanager
def loading() -> Iterator[None]:
    """What is imported within is not searched for garbage, then or ever: a seventh of the time that Beam takes to load.

    Loading makes some 400,000 objects that stay to the end of the process. Where Beam is there already, nothing is
    done: a program that calls commands may hold garbage of its own, and that is not to stay.
    """
    if "apache_beam" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
