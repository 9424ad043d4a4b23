"""How far a local run has come, as a share of the input's bytes: no count of rows, users or items."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from private_topk.pipelines.logs import JsonLines

__all__ = ["PROGRESS"]

_PATIENCE = 2.0
_EVERY = 10.0
"""Seconds between two lines where each is kept."""


class _Progress:
    """Workers of the Direct runner add to it from their threads; elsewhere nobody looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._share = 0.0

    def add(self, share: float) -> None:
        with self._lock:
            self._share += share

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the share on the terminal, from the third second on, or as JSON every ten. Elsewhere nothing."""
        self._share = 0.0
        terminal = sys.stderr
        as_lines = isinstance(terminal, JsonLines)
        if not (as_lines or terminal.isatty()):
            yield
            return
        done = threading.Event()
        ticker = threading.Thread(target=self._tell if as_lines else self._tick, args=(done, terminal), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            done.set()
            ticker.join()

    def _tick(self, done: threading.Event, terminal: TextIO) -> None:
        if done.wait(_PATIENCE):
            return
        while not done.wait(0.2):
            stage, share = self._stage()
            bar = "#" * round(30 * share)
            print(f"\r{stage:<22}[{bar:<30}] {share:4.0%}", end="", file=terminal, flush=True)
        print("\r" + " " * 62 + "\r", end="", file=terminal, flush=True)

    def _tell(self, done: threading.Event, stream: TextIO) -> None:
        while not done.wait(_EVERY):
            stage, share = self._stage()
            print(f"{stage}: {share:.0%}", file=stream)

    def _stage(self) -> tuple[str, float]:
        share = min(self._share, 1.0)
        return ("reading" if share < 0.999 else "counting and ranking"), share


PROGRESS = _Progress()
