"""What an operator sees of rows that were left out: whether they are many, and exact counts only if asked for.

Metrics are shown by a runner's pages to whoever may look at a job, who may be more than may see the data. An exact
count moves with one user's rows, so by default only the order of magnitude is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricResults, MetricsFilter

__all__ = ["LEFT_OUT", "NAMESPACE", "LeftOutRows", "exact_counters", "read_left_out", "told_roughly"]

NAMESPACE, LEFT_OUT = "private_topk", "operator_only_rows_left_out_"

_SIZES = (100, 10_000, 1_000_000, 100_000_000)
_EXACT: ContextVar[bool] = ContextVar("exact counters", default=False)


@contextmanager
def exact_counters(exact: bool = True) -> Iterator[None]:
    """Let the transforms that are made inside count exactly. One user's rows show in such counts: no epsilon holds."""
    before = _EXACT.set(exact)
    try:
        yield
    finally:
        _EXACT.reset(before)


def told_roughly(rows: int) -> str:
    """How many rows, as metrics tell it: the largest size that is reached. Coarse, and not private."""
    reached = [size for size in _SIZES if size <= rows]
    return f"{reached[-1]:,} or more" if reached else f"fewer than {_SIZES[0]:,}"


class LeftOutRows:
    """The rows left out for one reason.

    By default a set of words says that some worker has left out at least 100, 10,000, 1,000,000 or 100,000,000: fewer
    than 100 show nowhere, and workers' counts do not add up. That is coarse, and not private: never publish it.

    Args:
        reason: one word, public.
    """

    def __init__(self, reason: str) -> None:
        self._exact, self._seen = _EXACT.get(), 0
        self._words = Metrics.string_set(NAMESPACE, LEFT_OUT + reason)
        self._counter = Metrics.counter(NAMESPACE, LEFT_OUT + reason)

    def inc(self, rows: int = 1) -> None:
        """Count rows. On the worker's own thread: Beam's metrics know no other."""
        if self._exact:
            self._counter.inc(rows)
            return
        before, self._seen = self._seen, self._seen + rows
        for size in _SIZES:
            if before < size <= self._seen:
                self._words.add(f"{size:,} or more")


def read_left_out(metrics: MetricResults) -> dict[str, str]:
    """What the metrics of a job tell of rows left out, by reason: an exact count, or the largest size reached."""
    found = metrics.query(MetricsFilter().with_namespace(NAMESPACE))
    told: dict[str, str] = {}
    for entry in found["string_sets"]:
        _note(told, entry.key.metric.name, [*entry.committed], {f"{size:,} or more": size for size in _SIZES})
    for entry in found["counters"]:
        told[entry.key.metric.name.removeprefix(LEFT_OUT)] = f"{entry.committed:,}"
    return told


def _note(told: dict[str, str], name: str, words: list[str], sizes: Mapping[str, int]) -> None:
    reason = name.removeprefix(LEFT_OUT)
    largest = max(
        [*words, *([told[reason]] if reason in told else [])], key=lambda word: sizes.get(word, 0), default=""
    )
    if largest:
        told[reason] = largest
