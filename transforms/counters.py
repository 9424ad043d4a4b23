"""Beam counters of rows that were dropped, or left: rounded down to an order of magnitude, exact only if asked for.

Metrics are shown by a runner's pages to whoever may look at a job, who may be more than may see the data. An exact
count moves with one user's rows, so by default only the order of magnitude is told. A worker that drops everything at
the start of a bundle says why in its log.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Literal

from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricResults, MetricsFilter

from private_topk.transforms.errors import by_signature

_NAMESPACE, _DROPPED, _ROUNDED = "private_topk", "operator_only_dropped_rows_", "_at_least"
_MARKS = _DREW, _HAD_ROWS = "operator_only_workers_that_drew", "operator_only_workers_with_rows_left"
_LEFT = tuple(f"operator_only_{what}" for what in ("rows_left", "users_left", "rows_beyond_3_a_user"))
_EMPTY, _MAX_NAMED = "operator_only_rankings_of_nothing", 100
_OF_DECIMALS = "operator_only_rows_whose_decimals_are_rounded"
_SIZES = (100, 10_000, 1_000_000, 100_000_000)
_LOOKED_AT = 1000
_WHY = {
    "outside_the_period": "their times are outside the period, and so is an element without a time",
    "a_year_off": "their times are outside the period, and over a year from when they came, as in another unit",
    "late": "they came after their windows had closed",
    "amount_rounds_to_0_or_less": "their amounts are 0 or less, or round to 0",
    "not_in_groups": "their groups are missing, or not in the list",
    "not_in_domain": "their items are not in the domain",
}
_EXACT: ContextVar[bool] = ContextVar("exact counters", default=False)
_WARNINGS: ContextVar[bool] = ContextVar("warnings of workers", default=False)


def exact_counters(exact: bool = True) -> AbstractContextManager[None]:
    """Let the transforms that are made inside count exactly what they drop, which is not what a runner drops as late.
    One user's rows show in such counts: no epsilon holds.
    """
    return _inside(_EXACT, exact)


def warnings_of_workers() -> AbstractContextManager[None]:
    """Let workers of the transforms that are made inside warn in their logs: for pipelines of others, who may never ask
    for metrics. The commands and `rank` ask for them, and tell those who may know.
    """
    return _inside(_WARNINGS, True)


@contextmanager
def _inside(setting: ContextVar[bool], value: bool) -> Iterator[None]:
    before = setting.set(value)
    try:
        yield
    finally:
        setting.reset(before)


def order_of_magnitude(rows: int) -> str:
    """A number of rows as metrics show it, by the largest size that it reaches. Coarse, and not private."""
    return f"{_reached(rows):,} or more" if rows >= _SIZES[0] else f"fewer than {_SIZES[0]:,}"


class _Rows:
    """A counter of rows: unless it is exact, each worker adds 100, 10,000, 1,000,000 or 100,000,000, the largest that
    it has reached: fewer than 100 show nowhere. That is coarse, and not private: never publish it.
    """

    def __init__(self, name: str, exact: bool) -> None:
        self._exact, self._seen = exact, 0
        self._counter = Metrics.counter(_NAMESPACE, name + ("" if exact else _ROUNDED))

    def inc(self, rows: int = 1) -> None:
        """Count rows. On the worker's own thread: Beam's metrics know no other."""
        before, self._seen = self._seen, self._seen + rows
        added = rows if self._exact else _reached(self._seen) - _reached(before)
        if added:
            self._counter.inc(added)


class DroppedRows(_Rows):
    """The counter of the dropped rows for one reason: one word, public."""

    def __init__(self, reason: str) -> None:
        super().__init__(_DROPPED + reason, _EXACT.get())


class RoundedRows(_Rows):
    """The counter of the rows whose amounts lose their decimals."""

    def __init__(self) -> None:
        super().__init__(_OF_DECIMALS, _EXACT.get())


class BundleStart:
    """Warns in the worker's log of a bundle that begins with 1,000 rows or more that all drop out at a stage: once for
    each reason. The warning has the reason, and no value, user or number of rows.

    Attributes:
        watched: the bundle has dropped every row so far, and too few to warn.
    """

    def __init__(self) -> None:
        self._warns, self._warned = _WARNINGS.get(), set[str]()
        self._dropped = Counter[str]()
        self.watched = False

    def begin(self) -> None:
        self._dropped.clear()
        self.watched = self._warns

    def note(self, kept: int, dropped: Mapping[str, int]) -> None:
        """Note how many rows were kept, and how many dropped, by a reason of the counters or in words."""
        if not self.watched:
            return
        self._dropped.update(dropped)
        self.watched = not kept and self._dropped.total() < _LOOKED_AT
        if kept or self.watched:
            return
        [(reason, _)] = self._dropped.most_common(1)
        if reason not in self._warned:
            self._warned.add(reason)
            logging.getLogger(__name__).warning(
                "PrivateTopK leaves out all of the first %s elements of a bundle: %s. "
                "Without rows a ranking is pure noise",
                f"{_LOOKED_AT:,}",
                _WHY.get(reason, reason),
            )


class Mark:
    """The counter of the workers that had something to do: each adds 1, once, whatever the number of rows. Beam's own
    metrics of stages tell as much.

    Args:
        rows_left: of the workers that had a row left to rank; otherwise of those that drew.
    """

    def __init__(self, rows_left: bool) -> None:
        self._counter = Metrics.counter(_NAMESPACE, _HAD_ROWS if rows_left else _DREW)
        self._set = False

    def set(self) -> None:
        """Count this worker. On its own thread, as above."""
        if not self._set:
            self._set = True
            self._counter.inc()


class UsersLeft:
    """The counters of the rows that are left to rank, of their users, and of the rows beyond three for each user: these
    two are never exact.
    """

    def __init__(self) -> None:
        self._counters = [_Rows(name, exact=_EXACT.get() and name == _LEFT[0]) for name in _LEFT]

    def inc(self, rows: int, at_most: int, at_least: int) -> None:
        """Count rows, and their users, who are between two numbers. On the worker's own thread, as above."""
        for counter, more in zip(self._counters, (rows, at_most, rows_beyond(rows, at_least)), strict=True):
            counter.inc(more)


class EmptyRankings:
    """The names of the windows and groups in which nothing was counted: at most the first 100 of each worker, since
    there may be as many as a metric cannot hold. Not private: never publish it.
    """

    def __init__(self) -> None:
        self._names, self._metric = set[str](), Metrics.string_set(_NAMESPACE, _EMPTY)

    def add(self, name: str) -> None:
        """Name one. On the worker's own thread, as above."""
        if len(self._names) < _MAX_NAMED and name not in self._names:
            self._names.add(name)
            self._metric.add(name)


@by_signature
def read_dropped_rows(metrics: MetricResults) -> dict[str, str]:
    """The dropped rows, from the metrics of a job, by reason: an exact count, or the largest size reached."""
    return _told(metrics, _DROPPED)


def read_rounded_rows(metrics: MetricResults) -> str | None:
    """The rows whose amounts have lost their decimals, likewise; None where none are told."""
    return next(iter(_told(metrics, _OF_DECIMALS).values()), None)


def _told(metrics: MetricResults, prefix: str) -> dict[str, str]:
    counts: Counter[str] = Counter()
    for name, count in _counters(metrics):
        if name.startswith(prefix):
            counts[name.removeprefix(prefix)] += count
    return {
        name.removesuffix(_ROUNDED): order_of_magnitude(count) if name.endswith(_ROUNDED) else f"{count:,}"
        for name, count in counts.items()
    }


def read_whether_rows_are_left(metrics: MetricResults) -> bool | None:
    """Whether any row was left to rank, from the metrics of a job that has drawn; None where they do not tell."""
    names = {name for name, count in _counters(metrics) if count}
    return _HAD_ROWS in names if names & set(_MARKS) else None


AboutUsers = Literal["few", "many"]
"""What may be wrong with the user column: fewer than 100 users have 100 rows or more; or 10,000 rows or more have so
many that there are at most three rows for each, as of an id of rows or orders.
"""


def about_users(rows: int, at_most: int, at_least: int) -> AboutUsers | None:
    """What may be wrong with the users of rows, by how many these are, roughly: between two numbers."""
    return _look(*map(_reached, (rows, at_most, rows_beyond(rows, at_least))))


def rows_beyond(rows: int, users: int) -> int:
    """How many rows there are beyond three for each user."""
    return max(rows - 3 * users, 0)


def read_about_users(metrics: MetricResults) -> AboutUsers | None:
    """The same from the metrics of a job over a bounded input. Few users of each of several workers may be many."""
    counts: Counter[str] = Counter()
    for name, count in _counters(metrics):
        counts[name] += count
    look = _look(*(counts[name + _ROUNDED] or counts[name] for name in _LEFT))
    return None if look == "few" and counts[_HAD_ROWS] != 1 else look


def _look(rows: int, users: int, beyond: int) -> AboutUsers | None:
    """By the sizes that each has reached: of 10,000 rows fewer than 100, of a million fewer than 10,000, and so on."""
    if rows >= _SIZES[0] > users:
        return "few"
    return "many" if rows >= _SIZES[1] and beyond * _SIZES[1] <= rows else None


def read_empty_rankings(metrics: MetricResults) -> list[str]:
    """The windows and groups in which nothing was counted, from the metrics of a job: those that workers have named."""
    sets = metrics.query(MetricsFilter().with_namespace(_NAMESPACE)).get("string_sets", ())
    return sorted({name for entry in sets if entry.key.metric.name == _EMPTY for name in entry.committed})


def _counters(metrics: MetricResults) -> Iterator[tuple[str, int]]:
    for entry in metrics.query(MetricsFilter().with_namespace(_NAMESPACE))["counters"]:
        yield entry.key.metric.name, entry.committed


def _reached(rows: int) -> int:
    return max((size for size in _SIZES if size <= rows), default=0)
