"""Where rows come from: what every source can say and do. tests/pipelines/sources/contract.py holds them to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import apache_beam as beam

from private_topk.pipelines.live import LiveRun
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.runners import Launch
from private_topk.transforms.errors import Refusal
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period

__all__ = ["BlockReader", "Source", "about_the_input", "horizon"]


class BlockReader(beam.PTransform):
    """Pipeline to blocks of users and items; with a period their times too, and where a log's clock decides what is
    late, `arrived`: when each row came.

    Args:
        readers: the numbers of those that mark their blocks and state what they have sent of every window
            (transforms/completeness.py), so that rows which are lost on their way are missed; None where nobody does.
        live: the run, set by whoever builds it, for a source that tells how far it has read.
    """

    readers: Sequence[int] | None = None
    live: LiveRun | None = None


class Source(Protocol):
    """Rows at a place. A frozen dataclass: two with the same fields give the same rows. It pickles."""

    @property
    def place(self) -> str:
        """The address as it was given; public."""

    @property
    def bounded(self) -> bool:
        """Whether it ends by itself; if not, it ends when the period's last window has closed."""

    @property
    def live(self) -> bool:
        """Whether it receives only while a runner that can listen is running: `Launch.listening`."""

    @property
    def columns(self) -> Columns:
        """The columns that are read."""

    def check(self, period: Period | None) -> None:
        """Look at the place, not at its rows, and change nothing. Raises Refusal, of `input` where the place is meant.

        An unbounded source needs a period: its horizon.
        """

    def check_runner(self, launch: Launch) -> None:
        """Raise Refusal where a runner, by the facts of its launch, would not read this source rightly."""

    def read(self, period: Period | None) -> BlockReader:
        """What reads the rows, all of them or those of the period at least."""

    def rows(self, period: Period | None) -> Iterator[Rows] | None:
        """The rows as they are stored, some at a time, without a pipeline; None where only a pipeline reads them."""

    def stored_bytes(self) -> int:
        """About how much there is to read, for the number of shards; 0 where nobody knows."""

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        """64 hexadecimal digits that name the input in a ledger: the same for the same, others for any other.

        May read the rows once. Raises ValueError if the key cannot be read here.
        """

    def local_places(self) -> tuple[str, ...]:
        """Paths on this machine, which workers elsewhere would not see."""


@contextmanager
def about_the_input() -> Iterator[None]:
    """What turns out wrong inside is said of the field `input`, unless it names another one."""
    try:
        yield
    except Refusal as error:
        raise error if error.field else Refusal("input", error.rule, error.remedy) from None


def horizon(period: Period | None) -> Period:
    """The period, which a source that never ends must have. Raises Refusal."""
    if period is None:
        raise Refusal("period_from", "and {period_to} must be given: a stream is published window by window of a "
                      "declared horizon")  # fmt: skip
    return period
