"""How far a stream has come, and when it is over. docs/streaming.md says why the choice touches privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from private_topk.transforms.windows import Period

__all__ = ["Clock"]


@dataclass(frozen=True)
class Clock:
    """Which clock closes windows.

    Args:
        kind: "log": the source's own, of arrivals. "event": the rows' times, for logs that are in order.
        until: when the last window of the horizon closes, microseconds since 1970 UTC: the source ends there.
    """

    kind: str
    until: int

    @classmethod
    def of(cls, kind: str, period: Period) -> Clock:
        return cls(kind, int(period.closing[-1]))

    @property
    def by_rows(self) -> bool:
        return self.kind == "event"

    def advance(self, estimator: Any, micros: int | None) -> None:  # noqa: ANN401 - Beam's watermark estimator
        """Move the watermark on to a time, never back. Runners count whole milliseconds."""
        if micros is not None:
            reached = Timestamp(micros=micros // 1000 * 1000)
            if reached > now_of(estimator):
                estimator.set_watermark(reached)

    def is_over(self, estimator: Any) -> bool:  # noqa: ANN401
        return now_of(estimator).micros >= self.until


def now_of(estimator: Any) -> Timestamp:  # noqa: ANN401
    """The watermark of a source: an event time for what it gives."""
    return estimator.current_watermark() or MIN_TIMESTAMP
