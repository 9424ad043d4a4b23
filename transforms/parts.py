"""What flows between counting and drawing: counts that name the user shards they come from.

An element is (place, part). A place is where counts of the same items meet: an item shard of a group of windows. One
more place, `MANIFEST`, takes from every user shard the list of places that it has sent counts to, and what it received;
and `SENT` takes from every reader what that should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder, registry

from private_topk.transforms.columnar import Codes, joined, make_table
from private_topk.transforms.plan import Layout

__all__ = [
    "HEARTBEAT",
    "MANIFEST",
    "RECEIVED",
    "SENT",
    "BlockCoder",
    "Part",
    "PartCoder",
    "PlacedPart",
    "by_group",
    "heartbeat",
    "in_pieces",
    "manifest_of",
    "with_manifest",
]

MANIFEST = -1
"""The place where the lists of the user shards meet. Places of counts are 0 and above."""

HEARTBEAT = -2
"""The place of what makes a window reach the draw even if everything else of it is lost."""

SENT = -4
"""The place where the statements of the readers meet: transforms/completeness.py."""

RECEIVED = -5
"""In a manifest, in the place of a place: the sum of the shares that a user shard received."""

_MOST_ROWS = 1 << 16
_SOURCE_BITS = 20


class Part(NamedTuple):
    """Counts, and where they come from.

    Args:
        sources: the user shards whose counts are in it, (n,) int64: each once, if nothing was handed over twice; of a
            slice of a large table with its number in the bits above. Of totals the first piece names all.
        table: columns item and count; of a manifest, columns source, place and sum, which is 0 of places; of what was
            sent, the column sum.
        piece, pieces: of totals that are cut, the number of this piece, and how many there are.
    """

    sources: Codes
    table: pa.RecordBatch
    piece: int = 0
    pieces: int = 1


PlacedPart = tuple[int, Part]


class BlockCoder(beam.coders.Coder):
    """Blocks between workers: Arrow IPC, no pickle."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        return sink.getvalue().to_pybytes()

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        return pa.ipc.open_stream(encoded).read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """In bytes, for Beam's metrics: by itself it would encode every block once more to know."""
        return value.nbytes

    def is_deterministic(self) -> bool:
        return False


registry.register_coder(pa.RecordBatch, BlockCoder)


class PartCoder(beam.coders.Coder):
    """Parts between workers: the sources as 64-bit words, the table as Arrow IPC, no pickle."""

    _ALL = TupleCoder([BytesCoder(), BlockCoder(), VarIntCoder(), VarIntCoder()])

    def encode(self, value: Part) -> bytes:
        return self._ALL.encode((value.sources.astype("<i8").tobytes(), *value[1:]))

    def decode(self, encoded: bytes) -> Part:
        sources, *others = self._ALL.decode(encoded)
        return Part(np.frombuffer(sources, "<i8").astype(np.int64), *others)

    def estimate_size(self, value: Part) -> int:
        """In bytes, for Beam's metrics."""
        return value.sources.nbytes + value.table.nbytes

    def is_deterministic(self) -> bool:
        return False


registry.register_coder(Part, PartCoder)


def with_manifest(
    source: int, counted: Iterable[tuple[int, pa.RecordBatch]], received: Callable[[], int] = int
) -> Iterator[PlacedPart]:
    """The counts of one user shard by place, and last of all the list of these places, empty or not.

    A large table is cut, since what groups elements may not take any size of them (Flink: what it can sort in memory);
    its slices are as if they came from sources of their own, so that none can stand for another.

    Args:
        received: the sum of the shares of all that was counted, asked for at the end.
    """
    sources, places = [], []
    for place, table in counted:
        for number, start in enumerate(range(0, max(len(table), 1), _MOST_ROWS)):
            sources.append(source + (number << _SOURCE_BITS))
            places.append(place)
            yield place, Part(np.array([sources[-1]], np.int64), table.slice(start, _MOST_ROWS))
    yield _manifest([source], [*sources, source], [*places, RECEIVED], [*[0] * len(places), received()])


def in_pieces(placed: PlacedPart) -> Iterator[PlacedPart]:
    """Totals, cut where their table is large."""
    place, (sources, table, *_) = placed
    starts = range(0, max(len(table), 1), _MOST_ROWS) if place >= 0 else [0]
    for number, start in enumerate(starts):
        rows = table.slice(start, _MOST_ROWS) if len(starts) > 1 else table
        yield place, Part(sources if number == 0 else sources[:0], rows, number, len(starts))


def manifest_of(silent: Codes) -> PlacedPart:
    """The manifest of user shards of which none has sent anything."""
    return _manifest(silent, [], [], [])


def _manifest(shards: Sequence[int] | Codes, sources: list[int], places: list[int], sums: list[int]) -> PlacedPart:
    columns = {"source": np.array(sources, np.int64), "place": np.array(places, np.int64)}
    return MANIFEST, Part(np.array(shards, np.int64), make_table(**columns, sum=np.array(sums, np.int64)))


def heartbeat() -> PlacedPart:
    return HEARTBEAT, Part(np.empty(0, np.int64), make_table(item=np.empty(0, np.int64)))


def by_group(placed: PlacedPart, layout: Layout) -> Iterator[tuple[int, PlacedPart]]:
    """What is of a place to the group of windows that it is of; to every group what the manifests say of it."""
    place, part = placed
    if place >= 0:
        yield layout.group_of(place), placed
    elif place == MANIFEST and layout.groups > 1:
        groups = part.table["place"].to_numpy() // layout.item_shards
        order = np.argsort(groups, kind="stable")
        edges, table = np.searchsorted(groups[order], np.arange(layout.groups + 1)), part.table.take(pa.array(order))
        received = _summed(table.slice(0, int(edges[0])))  # of no group, as its place is none
        for group, (start, end) in enumerate(pairwise(edges.tolist())):
            yield group, (place, Part(part.sources, joined([received, table.slice(start, end - start)])))
    else:
        yield from ((group, placed) for group in range(layout.groups))


def _summed(received: pa.RecordBatch) -> pa.RecordBatch:
    """What some user shards received, as if it were one."""
    total = sum(received["sum"].to_pylist()) % (1 << 63)
    return make_table(source=np.zeros(1, np.int64), place=np.full(1, RECEIVED), sum=np.array([total], np.int64))
