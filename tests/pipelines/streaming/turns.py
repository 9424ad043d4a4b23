"""A source read turn by turn as a runner does it, in one process: what came, and where the clock stood by then."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC
from traceback import format_exception
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator

from private_topk.pipelines.sources.clock import now_of
from private_topk.transforms.assign_windows import SplitDoFn, beam_windows
from private_topk.transforms.completeness import checksum_in, receipt_in
from private_topk.transforms.errors import WorkerRefusal, told_in
from private_topk.transforms.windows import Period


class Reading:
    """A splittable DoFn and one element of it, read for as long as asked.

    `blocks` are what came, each with where the clock stood by then.
    """

    def __init__(self, fn: Any, element: Any) -> None:  # noqa: ANN401 - any of the sources'
        self._fn, self._element = fn, element
        self._rest = fn.initial_restriction(element)
        self.estimator = ManualWatermarkEstimator(None)
        self.blocks: list[tuple[pa.RecordBatch, int]] = []
        self.over = False

    @property
    def clock(self) -> int:
        return now_of(self.estimator).micros

    @property
    def rows(self) -> list[tuple[str, int, int | None, int]]:
        """(user, time, arrived or None, where the clock stood when they were given)."""
        found = []
        for block, clock in self.blocks:
            arrived = block["arrived"].to_pylist() if "arrived" in block.schema.names else [None] * len(block)
            users, times = block["user"].to_pylist(), block["time"].to_pylist()
            found += [(*row, clock) for row in zip(users, times, arrived, strict=True)]
        return found

    def turn(self) -> None:
        """One call of `process`, with what a runner keeps between two of them."""
        tracker = _View(self._fn.create_tracker(self._rest))
        try:
            for element in self._fn.process(self._element, tracker, self.estimator):
                self.blocks.append((element.value, self.clock))
        except WorkerRefusal as error:  # comes to the launcher as a text, and holds the refusal as a value
            raise told_in("".join(format_exception(error))) or error from None
        self._rest = tracker.rest()
        self.over = self._rest.over

    def until(self, condition: Callable[[], object], patience: float = 60) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < deadline, "nothing came of it"
            self.turn()

    def to_the_end(self, patience: float = 120) -> Counter[tuple[int, str]]:
        self.until(lambda: self.over, patience)
        self._fn.teardown()
        self.check_receipts()
        return self.counted()

    def check_receipts(self) -> None:
        """For every window the reader has given a receipt, once, before its clock had passed."""
        period = self._fn._clock.period
        cut = SplitDoFn(period)
        cut.setup()
        sent, said = Counter[Any](), dict[Any, int]()
        for block, clock in self.blocks:
            for found in cut.process(block):
                receipt = receipt_in(found.value)
                for cell in found.windows:
                    if receipt is None:
                        sent[cell] += checksum_in(found.value)
                    else:
                        assert cell not in said, "a window has two receipts"
                        said[cell] = receipt.sums[0]
                        assert clock <= cell.max_timestamp().micros, "the receipt is late for its own window"
        assert list(said) == beam_windows(period), "every window has a receipt, in their order"
        assert said == {cell: sent[cell] % (1 << 63) for cell in said}

    def counted(self) -> Counter[tuple[int, str]]:
        """How often every user counts in every window: what had not closed by the row's arrival, nor by the clock."""
        period, found = self._fn._clock.period, Counter()
        for user, moment, arrived, clock in self.rows:
            first, after = (int(place[0]) for place in period.spans(np.array([moment])))
            for number in range(first, after):
                closing = int(period.closing[number])
                if closing > max(clock, arrived if arrived is not None else clock):
                    found[number, user] += 1
        return found


class _View:
    """What Beam hands to `process` in a tracker's place."""

    def __init__(self, tracker: Any) -> None:  # noqa: ANN401
        self._tracker, self._rest = tracker, None

    def current_restriction(self) -> Any:  # noqa: ANN401
        return self._tracker.current_restriction()

    def try_claim(self, position: Any) -> bool:  # noqa: ANN401
        return self._tracker.try_claim(position)

    def defer_remainder(self, wait: Any = None) -> None:  # noqa: ANN401
        _, self._rest = self._tracker.try_split(0)
        time.sleep(min(float(wait or 0), 0.1))

    def rest(self) -> Any:  # noqa: ANN401
        return self._rest if self._rest is not None else self._tracker.current_restriction()


def in_the_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def short_windows(start: float, length: float, count: int) -> Period:
    """So many windows of so many seconds from a moment on."""
    from datetime import datetime, timedelta

    first = datetime.fromtimestamp(int(start * 1000) / 1000, UTC)
    return Period(first, first + count * timedelta(seconds=length), timedelta(seconds=length))
