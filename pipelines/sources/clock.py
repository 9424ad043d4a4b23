"""The clock of a stream, which closes windows and ends the stream. docs/streaming.md says why it matters to privacy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.windows import Period


@dataclass(frozen=True)
class Clock:
    """The clock that closes the windows of a period.

    Args:
        kind: "log": the source's own clock, of arrivals. "event": the rows' times, for logs that are in order.
    """

    kind: str
    period: Period

    @property
    def by_rows(self) -> bool:
        return self.kind == "event"

    @property
    def until(self) -> int:
        """When the last window of the horizon closes, microseconds since 1970 UTC: the source ends there."""
        return int(self.period.closing[-1])

    def closes_between(self, one: int, other: int) -> bool:
        """Whether a window closes after `one` and not after `other`: on time by the one, late by the other."""
        return self.closed_by(one) < self.closed_by(other)

    def closed_by(self, micros: int) -> int:
        """How many windows have closed at a time: the first ones of the period."""
        return int(np.searchsorted(self.period.closing, micros, side="right"))

    def catch_up(self, estimator: Any, closed: int) -> None:  # noqa: ANN401
        """Advance the watermark to where so many windows are closed. It may lag behind if the runner split off the
        rest of the work when a reader was about to advance it.
        """
        if closed:
            self.advance(estimator, int(self.period.closing[closed - 1]))

    def advance(self, estimator: Any, micros: int | None) -> None:  # noqa: ANN401 - Beam's watermark estimator
        """Advance the watermark to a time, never back. Runners count whole milliseconds."""
        if micros is not None:
            reached = Timestamp(micros=micros // 1000 * 1000)
            if reached > now_of(estimator):
                estimator.set_watermark(reached)

    def is_over(self, estimator: Any) -> bool:  # noqa: ANN401
        return now_of(estimator).micros >= self.until


def now_of(estimator: Any) -> Timestamp:  # noqa: ANN401
    """The watermark of a source, as the event time of its elements."""
    return estimator.current_watermark() or MIN_TIMESTAMP


def this_moment() -> str:
    """The time of the launch, as text: rows that arrive from now on are read, which no other launch reads."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def moment_of(text: str) -> int:
    """Milliseconds since 1970 UTC of a time in ISO 8601, in UTC where it has no zone. Raises InvalidArgument."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        rule = f"must be earliest, latest or a time such as 2026-01-01, got {verbatim(text)}"
        raise InvalidArgument("kafka_start", rule) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class StreamTracker(RestrictionTracker):
    """The restriction tracker of an unbounded reader. Restrictions are its states, NamedTuples with a field `over`:
    whether this part of the work is done. The only split gives the rest back, since a stream has no middle.
    """

    def __init__(self, state: Any) -> None:  # noqa: ANN401
        self._state = state

    def current_restriction(self) -> Any:  # noqa: ANN401
        return self._state

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=1.0 if self._state.over else 0.0)

    def try_claim(self, state: Any) -> bool:  # noqa: ANN401
        """Claim all up to a state. False if the rest was given back: then it is read again."""
        if self._state.over:
            return False
        self._state = state
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[Any, Any] | None:
        if self._state.over or fraction_of_remainder != 0:
            return None
        rest, self._state = self._state, self._state._replace(over=True)
        return self._state, rest

    def check_done(self) -> None:
        if not self._state.over:
            raise ValueError("the stream is still to be read")

    def is_bounded(self) -> bool:
        return False
