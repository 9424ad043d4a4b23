"""What readers send is what user shards receive: told by 64-bit marks, with no list of blocks anywhere.

A reader gives every block a mark, a number made from its name. Where a block is split among the user shards, its mark
is split too: every piece carries a share, and the shares add up to the mark. A reader adds up the marks that it has
sent into every window, as part of the state in which it keeps how far it is, and states the sum before its clock passes
the window's end. User shards add up the shares that they received in the window. The stage that draws has both: all
readers have stated, once, and the sums are equal, or something was lost or doubled. Shares look random, so that a loss
which changes nothing in the sum has probability 2**-63.

Marks and statements travel as notes on blocks (metadata of their schema), so they take the blocks' own way.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.utils.windowed_value import PaneInfoTiming

from private_topk.transforms.columnar import Codes, Words, make_block, make_table, mix
from private_topk.transforms.parts import MANIFEST, RECEIVED, SENT, Part, PlacedPart
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.period import Stretches

__all__ = [
    "IncompleteDataError",
    "Sender",
    "Sent",
    "Statement",
    "add_shares",
    "check_pane",
    "check_whole",
    "closed_in",
    "lost",
    "mark_in",
    "mark_of_piece",
    "noted",
    "share_in",
    "shares",
    "stated",
    "statement_in",
    "statements",
    "with_mark",
    "with_share",
]

_MASK = (1 << 63) - 1
_NONE = pa.array([], pa.string())


def noted(block: pa.RecordBatch, **notes: bytes | int) -> pa.RecordBatch:
    """The block with notes in the place of those that it had."""
    return block.replace_schema_metadata({name: _bytes(note) for name, note in notes.items()})


def _bytes(note: bytes | int) -> bytes:
    return note if isinstance(note, bytes) else b"%d" % note


def _number_in(block: pa.RecordBatch, name: bytes) -> int | None:
    notes = block.schema.metadata
    return int(notes[name]) if notes and name in notes else None


def mark_in(block: pa.RecordBatch) -> int | None:
    """The mark of a block; None if its reader gives none."""
    return _number_in(block, b"mark")


def closed_in(block: pa.RecordBatch) -> int:
    """How many windows its reader had closed before it read the block."""
    return _number_in(block, b"closed") or 0


def share_in(piece: pa.RecordBatch) -> int:
    """What a piece carries of the mark of its block."""
    return _number_in(piece, b"share") or 0


def with_mark(block: pa.RecordBatch, mark: int | None) -> pa.RecordBatch:
    return block if mark is None else noted(block, mark=mark)


def with_share(piece: pa.RecordBatch, share: int) -> pa.RecordBatch:
    return noted(piece, share=share)


def add_shares(one: int, other: int) -> int:
    return (one + other) & _MASK


def shares(mark: int, shards: Iterable[int]) -> list[int]:
    """One share for each of some user shards, all different, which add up to the mark; the same whenever asked."""
    own = np.array(list(shards), np.uint64)
    found = [share & _MASK for share in mix(mix(_words([mark])) ^ own[1:]).tolist()]
    return [(mark - sum(found)) & _MASK, *found]


def mark_of_piece(mark: int, stretch: int, first: int, windows: int) -> int:
    """The mark of the rows of a block that lie in one stretch of time and are on time from one window on."""
    return int(_marks(mark, np.array([stretch * (windows + 1) + first]))[0]) & _MASK


def _marks(mark: int, codes: Codes) -> Words:
    return mix(_words([mark]) ^ codes.astype(np.uint64))


def _words(numbers: list[int]) -> Words:
    return np.array(numbers, np.uint64)


def _mark_of(name: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") & _MASK


class Statement(NamedTuple):
    """What a reader says before it closes windows.

    Args:
        first: the first of these windows.
        sums: the marks that it has sent, added up, of each.
    """

    reader: int
    first: int
    sums: list[int]

    def block(self) -> pa.RecordBatch:
        """As a block without rows."""
        empty = make_block(users=_NONE, items=_NONE, times=pa.array([], pa.int64()))[0]
        return noted(empty, reader=self.reader, first=self.first, sums=np.array(self.sums, "<i8").tobytes())


def statement_in(block: pa.RecordBatch) -> Statement | None:
    """The statement that a block is, if it is one."""
    reader = _number_in(block, b"reader")
    if reader is None:
        return None
    notes = block.schema.metadata
    return Statement(reader, int(notes[b"first"]), np.frombuffer(notes[b"sums"], "<i8").tolist())


def statements(block: pa.RecordBatch) -> Iterator[PlacedPart]:
    """What is handed to the draw of a block that is a statement on one window."""
    said = statement_in(block)
    if said is not None:
        (total,) = said.sums
        yield SENT, Part(np.array([said.reader], np.int64), make_table(sum=np.array([total], np.int64)))


def stated(blocks: Iterable[pa.RecordBatch], reader: int) -> Iterator[pa.RecordBatch]:
    """The blocks of a bounded input with marks, without those that hold no row, and the statement on all of them."""
    total = 0
    for number, block in enumerate(blocks):
        if len(block):
            mark = _mark_of(b"%d %d %d" % (reader, number, len(block)))
            total += mark
            yield with_mark(block, mark)
    yield Statement(reader, 0, [total & _MASK]).block()


class Sent(NamedTuple):
    """What a reader has sent so far: part of the state in which it keeps how far it is.

    Args:
        closed: how many windows it has stated the sums of: the first ones of the period.
        sums: of each of the others, 64-bit words; nothing while all are 0.
    """

    closed: int = 0
    sums: bytes = b""


class Sender:
    """Marks the blocks of a reader that never ends, and states what it has sent of each window.

    Cost: of a block a sort of its rows' stretches and one pass over the windows.
    """

    def __init__(self, period: Period) -> None:
        self._period = period

    @cached_property
    def _stretches(self) -> Stretches:
        return Stretches(self._period)

    def mark(self, block: pa.RecordBatch, name: bytes, sent: Sent) -> tuple[pa.RecordBatch, Sent]:
        """A block with its mark, and what has been sent with it.

        Args:
            name: no two blocks of an input have the same.
        """
        mark, windows = _mark_of(name), len(self._period)
        arrived = block["arrived"].to_numpy() if "arrived" in block.schema.names else None
        stretch, first = self._stretches.of(block["time"].to_numpy(), arrived, sent.closed)
        pieces = np.unique((stretch * (windows + 1) + first)[first < self._stretches.after[stretch]])
        stretch, first = np.divmod(pieces, windows + 1)
        marks, changes = _marks(mark, pieces) & np.uint64(_MASK), np.zeros(windows + 1, np.uint64)
        np.add.at(changes, first, marks)
        np.subtract.at(changes, self._stretches.after[stretch], marks)
        sums = self._sums(sent) + np.cumsum(changes, dtype=np.uint64)[sent.closed : windows]
        return noted(block, mark=mark, closed=sent.closed), sent._replace(sums=sums.tobytes())

    def close(self, sent: Sent, closed: int, reader: int) -> tuple[list[pa.RecordBatch], Sent]:
        """The statement on the windows that close next, if any, and what has been sent with it.

        Args:
            closed: how many windows are to be closed then.
        """
        new = closed - sent.closed
        if new <= 0:
            return [], sent
        sums = self._sums(sent)
        said = [total & _MASK for total in sums[:new].tolist()]
        return [Statement(reader, sent.closed, said).block()], Sent(closed, sums[new:].tobytes())

    def _sums(self, sent: Sent) -> Words:
        if not sent.sums:
            return np.zeros(len(self._period) - sent.closed, np.uint64)
        return np.frombuffer(sent.sums, np.uint64)


class IncompleteDataError(RuntimeError):
    """Counts of a window were lost or doubled between two stages of the job: nothing is published for it."""

    shows_no_data = True
    """Its text may be told to whoever runs the job."""


def check_whole(parts: Sequence[PlacedPart], shards: int, readers: Sequence[int] | None = None) -> None:
    """Raise IncompleteDataError unless exactly what every user shard has sent for a window is here, once, and was
    counted from exactly what the readers have sent.

    Every user shard and every place is told apart, so a loss and a duplicate do not cancel. The message holds no count:
    how many user shards and readers were heard does not depend on the rows.

    Args:
        parts: what the final stage was handed for a window, manifests among it.
        shards: how many user shards there are: 0 .. shards - 1, each of which sends a manifest for every window.
        readers: the numbers of those that state what they have sent; None where nobody does.

    Cost: a sort of (user shard, place) pairs, at most `shards` times the number of item shards.
    """
    manifests = [part for place, part in parts if place == MANIFEST]
    heard = _joined([part.sources for part in manifests])
    if not np.array_equal(np.sort(heard), np.arange(shards)):
        raise lost(f"of {shards} user shards {len(np.unique(heard))} were heard, {len(heard)} times in all")
    tables = [part.table.filter(pc.not_equal(part.table["place"], RECEIVED)) for part in manifests]
    sent = _pairs([(table["source"].to_numpy(), table["place"].to_numpy()) for table in tables])
    came = _pairs([(p.sources, np.full(len(p.sources), place)) for place, p in parts if place >= 0])
    if not np.array_equal(sent, came) or not _in_one_piece(parts):
        raise lost("every user shard was heard, but what they sent is not what came")
    if readers is not None:
        _check_received(parts, readers)


def _in_one_piece(parts: Sequence[PlacedPart]) -> bool:
    """Whether of the totals of every place all pieces are here, each once."""
    found = defaultdict[int, list[tuple[int, int]]](list)
    for place, part in parts:
        if place >= 0:
            found[place].append((part.piece, part.pieces))
    return all(sorted(its) == [(number, len(its)) for number in range(len(its))] for its in found.values())


def _check_received(parts: Sequence[PlacedPart], readers: Sequence[int]) -> None:
    heard = _joined([part.sources for place, part in parts if place == SENT])
    if not np.array_equal(np.sort(heard), np.sort(np.array(readers, np.int64))):
        known = len(np.intersect1d(heard, np.array(readers, np.int64)))
        raise lost(f"of {len(readers)} readers {known} have stated what they sent, {len(heard)} times in all")
    sent, received = (_joined([part.table["sum"].to_numpy() for at, part in parts if at == place])
                      for place in (SENT, MANIFEST))  # fmt: skip
    if (sum(sent.tolist()) - sum(received.tolist())) % (1 << 63):
        raise lost("the rows that readers sent are not those that user shards received")


def check_pane(pane: Any) -> None:  # noqa: ANN401 - Beam's pane
    """Raise RuntimeError unless it is the only firing of its window."""
    if not pane.is_first or pane.timing not in (PaneInfoTiming.ON_TIME, PaneInfoTiming.UNKNOWN):
        raise RuntimeError("a window fired twice, which would be two releases: use the default trigger and "
                           "an allowed lateness of 0")  # fmt: skip


def lost(what: str) -> IncompleteDataError:
    return IncompleteDataError(
        f"counts were lost or doubled on the way to the final stage ({what}), which is a fault of the runner or of its "
        "settings: nothing is published for their window. Run it again under the same release key and id"
    )


def _pairs(parts: Sequence[tuple[Codes, Codes]]) -> Codes:
    sources, places = (_joined(columns) for columns in (zip(*parts, strict=True) if parts else ([], [])))
    order = np.lexsort((places, sources))
    return np.stack([sources[order], places[order]])


def _joined(columns: Sequence[Codes]) -> Codes:
    return np.concatenate([np.empty(0, np.int64), *columns])
