"""What a set of processes and all that they start takes: CPU and memory, looked at while they run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def end_well_by_signal() -> None:
    """Let SIGTERM end this program as Ctrl-C does, so that servers are ended by whoever started them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class Taken(NamedTuple):
    """CPU in seconds over all processes; memory in MiB of the largest process and of all at the worst moment."""

    cpu: float
    largest: float
    together: float


class Meter:
    """Looks twice a second. What a process that ends between two looks has taken since the last one is not seen.

    Args:
        roots: gives the ids of the first processes; asked at every look.
    """

    def __init__(self, roots: Callable[[], Iterable[int]]) -> None:
        self._roots = roots
        self._cpu: dict[tuple[int, int], float] = {}
        self._before: dict[tuple[int, int], float] = {}
        self._largest = self._together = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Meter:
        self._look()
        self._before = dict(self._cpu)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def taken(self) -> Taken:
        cpu = sum(seconds - self._before.get(key, 0.0) for key, seconds in self._cpu.items())
        return Taken(cpu, self._largest, self._together)

    def memory(self) -> float:
        """Of all processes, now, in MiB."""
        return sum(size for _, _, size in self._family())

    def _watch(self) -> None:
        while not self._done.wait(0.5):
            self._look()

    def _look(self) -> None:
        found = self._family()
        for key, cpu, _ in found:
            self._cpu[key] = cpu
        self._largest = max([self._largest, *(size for _, _, size in found)])
        self._together = max(self._together, sum(size for _, _, size in found))

    def _family(self) -> list[tuple[tuple[int, int], float, float]]:
        """(id and start, CPU seconds, MiB) of the first processes and their descendants."""
        parents: dict[int, tuple[int, int, float, float]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            cpu = (int(fields[11]) + int(fields[12])) / _TICK
            parents[int(path.parent.name)] = (int(fields[1]), int(fields[19]), cpu, int(fields[21]) * _PAGE / 2**20)
        family, grown = set(self._roots()), True
        while grown:
            more = {pid for pid, (parent, *_) in parents.items() if parent in family} - family
            family, grown = family | more, bool(more)
        return [((pid, parents[pid][1]), *parents[pid][2:]) for pid in family if pid in parents]
