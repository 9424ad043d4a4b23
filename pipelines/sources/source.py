"""The interface of every source of rows. tests/pipelines/sources/contract.py tests them against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa

from private_topk.pipelines.release.identity import fingerprint
from private_topk.pipelines.release.input_record import InputRecord
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sources.columns import Columns, Rows, Types
from private_topk.runners import Launch
from private_topk.transforms.counters import DroppedRows
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period


@beam.typehints.with_output_types(pa.RecordBatch)
class BlockReader(beam.PTransform):
    """Pipeline to blocks of users and items; with a period also of times, and where a log's clock decides what is
    late, of `arrived`: when each row came.

    Args:
        read: makes the blocks of a pipeline and this.
        readers: the numbers of the readers that mark their blocks and state what they have sent of every window
            (transforms/completeness.py), so that lost rows are noticed; None if no reader does.

    Attributes:
        live: the run, set by whoever builds it, for a source that reports how far it has read.
        record: where a stream writes down what it has read, set by whoever builds it; None if nobody will ask.
    """

    live: RunState | None = None
    record: InputRecord | None = None

    def __init__(
        self, read: Callable[[beam.Pipeline, BlockReader], beam.PCollection], readers: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        self._read, self.readers = read, readers

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        return self._read(pipeline, self)


class Source(ABC):
    """Rows at an address. A frozen dataclass: two with the same fields give the same rows. It pickles.

    Attributes:
        uri: the address as it was given; public.
        columns: the columns that are read.
        bounded: whether it ends by itself; if not, it ends when the period's last window has closed.
        live: whether it receives only while a runner that can listen is running: `Launch.listening`.
        types: of each file, or of all rows, the types that its schema states, which is known at the launch.
    """

    uri: str
    columns: Columns
    bounded: ClassVar[bool]
    live: ClassVar[bool] = False

    @property
    def types(self) -> Sequence[Types]:
        return ({},)

    @property
    def integer_items(self) -> bool:
        """Whether items are integers of 64 bits, by the schemas of all rows."""
        return all(part.types and all(map(part.columns.has_integers, part.types)) for part in self.parts())

    @property
    def may_lack_zone(self) -> bool:
        """Whether a time may have no zone, by the schemas of all rows."""
        return any(any(map(part.columns.may_lack_zone, part.types)) for part in self.parts())

    @property
    def closes_by_arrivals(self) -> bool:
        """Whether windows close by when rows arrive, and not by the times in them."""
        return not self.bounded and getattr(self, "clock", "log") == "log"

    def parts(self) -> Sequence[Source]:
        """The inputs that it is made of, each with columns of its own."""
        return (self,)

    def stated_groups(self) -> set[str | None] | None:
        """The groups of its rows, if its place states them; None where each row has its own. Raises InvalidArgument."""
        constants, (name, *more) = dict(self.columns.constants), self.columns.of("group") or ("",)
        return {constants[name]} if name in constants and not more else None

    @abstractmethod
    def check(self, period: Period | None) -> None:
        """Check the place, not its rows, without changing anything.

        Raises InvalidArgument, of `input` if the place is wrong.

        An unbounded source needs a period: its horizon.
        """

    def manner(self, period: Period | None) -> dict[str, Any]:
        """How the columns are read, where that is not the default: public, as they are."""
        return self.columns.within(period).manner()

    def check_runner(self, launch: Launch) -> None:
        """Raise InvalidArgument if a runner, by the facts of its launch, would not read this source correctly."""
        return None

    def check_record(self, record: InputRecord) -> None:
        """Raise InvalidArgument if an earlier run of the same release has read what is no longer there as it was."""
        return None

    @abstractmethod
    def read(self, period: Period | None) -> BlockReader:
        """The transform that reads the rows: all of them, or at least those of the period."""

    def rows(self, period: Period | None) -> Iterator[Rows] | None:
        """The rows of one of the `parts` as they are stored, some at a time, without a pipeline; None where only a
        pipeline reads them.
        """
        return None

    def stored_bytes(self) -> int:
        """About how many bytes there are to read, which decides the number of shards; 0 if unknown."""
        return 0

    def asked(self) -> Any:  # noqa: ANN401 - a value with an identity
        """All that is asked of it, known without asking its place."""
        return self

    def identified(self) -> Any:  # noqa: ANN401 - a value with an identity
        """What identifies the input where its contents do not, as of a stream."""
        return self.asked()

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        """64 hexadecimal digits that identify the input in a ledger: the same for the same input, different for others.

        May read the rows once. Raises ValueError if the key cannot be read here.
        """
        return fingerprint(self.identified(), key)

    def local_paths(self) -> tuple[str, ...]:
        """Paths on this machine, which workers elsewhere would not see."""
        return ()


def horizon(period: Period | None) -> Period:
    """The period, which an unbounded source must have. Raises InvalidArgument."""
    if period is None:
        raise InvalidArgument(
            "period_from", "and {period_to} must be given: a stream is published window by window of a declared horizon"
        )
    return period


_REASONS = ("null", "unreadable")


class DroppedRowsByReason:
    """The operator's counters of rows that were dropped, by reason."""

    def __init__(self) -> None:
        self._counters = {reason: DroppedRows(reason) for reason in _REASONS}

    def add(self, missing: Mapping[str, int]) -> None:
        """Count what `block_of` has dropped. On the worker's own thread: Beam's counters know no other."""
        for reason, count in missing.items():
            self._counters[reason].inc(count)
