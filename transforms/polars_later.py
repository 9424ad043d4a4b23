"""Doing without polars as long as there is little to do: it takes a tenth of a second and more to load."""

from __future__ import annotations

import sys
import threading

__all__ = ["Spared"]


class Spared:
    """Whether something else does what there is to do, until a process has had so much of it that polars is loaded.

    Args:
        most: so much, in whatever it is counted.
    """

    def __init__(self, most: int) -> None:
        self._lock, self._left = threading.Lock(), most

    def for_these(self, many: int) -> bool:
        """Whether these are done without polars. False from the first that go beyond it on, and where it is loaded."""
        if "polars" in sys.modules:
            return False
        with self._lock:
            self._left -= many
            return self._left >= 0
