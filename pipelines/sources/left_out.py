"""The operator's counters of rows that a reader left out: apart from reading itself, which needs no Beam."""

from __future__ import annotations

from collections.abc import Mapping

from private_topk.transforms.counters import LeftOutRows

__all__ = ["LeftOut"]

_REASONS = ("null", "unreadable")


class LeftOut:
    """The operator's counters of rows that were left out, by reason."""

    def __init__(self) -> None:
        self._counters = {reason: LeftOutRows(reason) for reason in _REASONS}

    def add(self, missing: Mapping[str, int]) -> None:
        """Count what `block_of` has left out. On the worker's own thread: Beam's counters know no other."""
        for reason, count in missing.items():
            self._counters[reason].inc(count)
