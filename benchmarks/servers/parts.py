"""Fetched and built parts of other projects: a job server, Flink, Kafka, Prism. Each is made once and then kept."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from pathlib import Path


def made_once(target: Path, make: Callable[[Path], Path]) -> Path:
    """The target, made unless it stands: complete or not there, whoever is interrupted and however many ask at once.

    Args:
        target: a file or folder in the cache.
        make: makes it in the empty folder that it is given and tells where. It runs in one process at a time, and what
            it leaves when it fails is removed.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # The lock is released by the system with the process that holds it, so a killed one stops nobody.
    with open(target.parent / f".{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as folder:
                make(Path(folder)).rename(target)
    return target
