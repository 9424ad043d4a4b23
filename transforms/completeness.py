"""Completeness checks: sums that show whether all that was read was counted, and all that was counted is drawn from.

A runner may drop an element behind the watermark, or deliver one twice. Three sums detect that, without a list of
elements:

- rows: a reader gives every block a *checksum*, a 63-bit number made from its name; without such a reader it is 0.
  Where a block is split among user shards, so is its checksum: every piece carries a share, and the shares add up
  to it. A reader adds up the checksums that it has sent into every window, as part of its checkpointed state, and
  reports them before its clock passes the window's end.
- receipts: every reader and every user shard gives one, with a number made from its name, so that one that came twice
  cannot stand in for another that was lost.
- counts: the sum of count times a keyed hash of window and item, over what user shards hand on, and over what is drawn
  from. The two agree if the histograms do.

All sums are modulo 2**63. A loss goes unnoticed with a probability of about 2**-63, or 2**(n - 63) if all counts that
were lost are multiples of 2**n.

Checksums travel as schema metadata of the blocks, and so along with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.utils.windowed_value import PaneInfoTiming

from private_topk.transforms.columnar import Codes, Words, make_block, mix
from private_topk.transforms.errors import IncompleteDataError
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.period import TimeSlices

_MASK = (1 << 63) - 1
_NO_TEXTS = pa.array([], pa.string())
_OF_USER_SHARDS, _OF_READERS = 0, 1


def incomplete(what: str) -> IncompleteDataError:
    return IncompleteDataError(
        f"counts were lost or doubled on the way to the final stage ({what}), which is a fault of the runner or of its "
        "settings, such as waits_for_timers of PrivateTopK on a runner that does not wait: nothing is published for "
        "their window. Run it again under the same release key and id"
    )


class Counted:
    """Partial counts or a receipt: the output of user shards, with one coder (`combine.CountedCoder`)."""


@dataclass(frozen=True)
class Receipt(Counted):
    """A receipt: which user shards and readers have answered, and the checksums of what they handed on. Receipts add
    up; the empty one is zero.

    Args:
        user_shards, readers: how many have answered.
        names: the sum of the hashes of their names.
        rows: the sum of the shares that came, minus the checksums that readers sent: 0 if nothing is missing.
        counts: the fingerprint of the counts that were handed on.
    """

    user_shards: int = 0
    readers: int = 0
    names: int = 0
    rows: int = 0
    counts: int = 0

    def __add__(self, other: Receipt) -> Receipt:
        return Receipt(
            self.user_shards + other.user_shards,
            self.readers + other.readers,
            self.names + other.names & _MASK,
            self.rows + other.rows & _MASK,
            self.counts + other.counts & _MASK,
        )

    @classmethod
    def of_user_shard(cls, shard: int, group: int, counts: int) -> Receipt:
        """The receipt of a user shard for a window group."""
        return cls(user_shards=1, names=_names([shard], _OF_USER_SHARDS, group), counts=counts & _MASK)

    @classmethod
    def of_piece(cls, piece: pa.RecordBatch) -> Receipt:
        """The receipt of a piece: its share of a checksum; or, where it is a reader's receipt, the checksums sent."""
        sent = receipt_in(piece)
        if sent is None:
            return cls(rows=share_in(piece))
        (total,) = sent.sums
        return cls(readers=1, names=_names([sent.reader], _OF_READERS), rows=-total & _MASK)


NOTHING = Receipt()


def _names(ids: Sequence[int], stage: int, group: int = 0) -> int:
    words = np.array(ids, np.uint64) ^ mix(_words([stage]))
    return int(mix(mix(words) ^ _words([group])).sum(dtype=np.uint64)) & _MASK


class Fingerprint:
    """A linear checksum of tables of counts: the same however the rows are split over tables."""

    def __init__(self, key: ReleaseKey) -> None:
        self._key = key

    @cached_property
    def _secret(self) -> np.uint64:
        return np.uint64(int.from_bytes(self._key.derive("fingerprint of counts")[:8], "little"))

    @cached_property
    def _of_items(self) -> bytes:
        return self._key.derive("item hash")

    def of(self, table: pa.RecordBatch) -> int:
        """The fingerprint of a table {item: code or label, count: int64}, perhaps with `window`, modulo 2**63.

        Cost: some 10 ns a row; for labels also that of hashing them.
        """
        items = table["item"]
        coded = pa.types.is_integer(items.type)
        words = items.to_numpy().astype(np.uint64) if coded else hash_labels(items, self._of_items)
        windows = table["window"].to_numpy().astype(np.uint64) if "window" in table.schema.names else _words([0])
        words = mix(words ^ mix(windows ^ self._secret))
        return int((words * table["count"].to_numpy().view(np.uint64)).sum(dtype=np.uint64)) & _MASK


def check_complete(receipt: Receipt, counts: int, group: int, user_shards: int, readers: Sequence[int]) -> None:
    """Raise IncompleteDataError unless every user shard and reader has answered for a window group, once, what readers
    sent was counted, and what was counted is here.

    The message holds no count of rows: how many answered does not depend on them.

    Args:
        receipt: the sum of all receipts that came.
        counts: the fingerprint of the counts that came.
        user_shards: how many there are: 0 .. user_shards - 1.
        readers: the numbers of the readers that state what they have sent.
    """
    if receipt.user_shards != user_shards:
        raise incomplete(f"{receipt.user_shards} receipts of {user_shards} user shards")
    if receipt.readers != len(readers):
        raise incomplete(f"{receipt.readers} receipts of {len(readers)} readers")
    names = _names(range(user_shards), _OF_USER_SHARDS, group) + _names(list(readers), _OF_READERS)
    if receipt.names != names & _MASK:
        raise incomplete("a receipt came twice, and another not at all")
    if receipt.rows:
        raise incomplete("the rows that were sent are not those that user shards received")
    if receipt.counts != counts & _MASK:
        raise incomplete("the counts that user shards sent are not those that came")


def check_pane(pane: Any) -> None:  # noqa: ANN401 - Beam's pane
    """Raise RuntimeError unless the pane is the only firing of its window."""
    if not pane.is_first or pane.timing not in (PaneInfoTiming.ON_TIME, PaneInfoTiming.UNKNOWN):
        raise RuntimeError(
            "a window fired twice, which would be two releases: use the default trigger and an allowed lateness of 0"
        )


def noted(block: pa.RecordBatch, **notes: bytes | int) -> pa.RecordBatch:
    """The block with these notes as its schema metadata, in place of any that it had."""
    written = {name: note if isinstance(note, bytes) else b"%d" % note for name, note in notes.items()}
    return block.replace_schema_metadata(written)


def _number_in(block: pa.RecordBatch, name: bytes) -> int | None:
    notes = block.schema.metadata
    return int(notes[name]) if notes and name in notes else None


def checksum_in(block: pa.RecordBatch) -> int | None:
    """The checksum of a block; None if its reader gives none."""
    return _number_in(block, b"checksum")


def closed_in(block: pa.RecordBatch) -> int:
    """How many windows its reader had closed before it read the block."""
    return _number_in(block, b"closed") or 0


def share_in(piece: pa.RecordBatch) -> int:
    """A piece's share of the checksum of its block."""
    return _number_in(piece, b"share") or 0


def with_checksum(block: pa.RecordBatch, checksum: int | None) -> pa.RecordBatch:
    return block if checksum is None else noted(block, checksum=checksum)


def shares(checksum: int, pieces: int, seed: int = 0) -> list[int]:
    """One share for each of so many pieces, all different, which add up to the checksum. Deterministic.

    Args:
        seed: distinguishes blocks without a checksum, whose shares add up to 0.
    """
    others = np.arange(1, pieces, dtype=np.uint64)
    rest = [share & _MASK for share in mix(mix(_words([(checksum ^ seed) & _MASK])) ^ others).tolist()]
    return [(checksum - sum(rest)) & _MASK, *rest]


def checksum_of_piece(checksum: int, time_slice: int, first: int, windows: int) -> int:
    """The checksum of the rows of a block that lie in one slice of time and are on time from one window on."""
    return int(_checksums(checksum, np.array([time_slice * (windows + 1) + first]))[0]) & _MASK


def _checksums(checksum: int, codes: Codes) -> Words:
    return mix(_words([checksum]) ^ codes.astype(np.uint64))


def _words(numbers: list[int]) -> Words:
    return np.array(numbers, np.uint64)


def _checksum_of(name: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") & _MASK


class ReaderReceipt(NamedTuple):
    """A reader's receipt for some windows, sent before it closes them.

    Args:
        first: the first of these windows.
        sums: for each window, the sum of the checksums that the reader has sent.
    """

    reader: int
    first: int
    sums: list[int]

    def block(self) -> pa.RecordBatch:
        """The receipt as a block without rows."""
        return with_receipt_of(make_block(user=_NO_TEXTS, item=_NO_TEXTS, time=pa.array([], pa.int64()))[0], self)


def receipt_in(block: pa.RecordBatch) -> ReaderReceipt | None:
    """The reader's receipt that a block holds, or None if it holds rows."""
    reader = _number_in(block, b"reader")
    if reader is None:
        return None
    notes = block.schema.metadata
    return ReaderReceipt(reader, int(notes[b"first"]), np.frombuffer(notes[b"sums"], "<i8").tolist())


def with_receipt_of(empty: pa.RecordBatch, receipt: ReaderReceipt) -> pa.RecordBatch:
    """A block without rows that is the receipt of a reader."""
    sums = np.array(receipt.sums, "<i8").tobytes()
    return noted(empty, reader=receipt.reader, first=receipt.first, sums=sums)


def with_receipt(blocks: Iterable[pa.RecordBatch], reader: int) -> Iterator[pa.RecordBatch]:
    """The blocks of a bounded input with checksums, without those that hold no row, and the receipt for all of them."""
    total = 0
    for number, block in enumerate(blocks):
        if len(block):
            checksum = _checksum_of(b"%d %d %d" % (reader, number, len(block)))
            total += checksum
            yield with_checksum(block, checksum)
    yield ReaderReceipt(reader, 0, [total & _MASK]).block()


class SentChecksums(NamedTuple):
    """The checksums that a reader has sent so far: part of its checkpointed state.

    Args:
        closed: how many windows it has given receipts for: the first ones of the period.
        sums: for each of the other windows a 64-bit word; empty while all are 0.
    """

    closed: int = 0
    sums: bytes = b""


class BlockChecksums:
    """Checksums of the blocks of an unbounded reader, and its receipts for each window.

    Cost: for each block a sort of its rows' slices and one pass over the windows.
    """

    def __init__(self, period: Period) -> None:
        self._period = period

    @cached_property
    def _slices(self) -> TimeSlices:
        return TimeSlices(self._period)

    def add(self, block: pa.RecordBatch, name: bytes, sent: SentChecksums) -> tuple[pa.RecordBatch, SentChecksums]:
        """A block with its checksum, and the checksums sent so far, this block's included.

        Args:
            name: unique among the blocks of an input.
        """
        checksum, windows = _checksum_of(name), len(self._period)
        arrived = block["arrived"].to_numpy() if "arrived" in block.schema.names else None
        time_slice, first = self._slices.of(block["time"].to_numpy(), arrived, sent.closed)
        pieces = np.unique((time_slice * (windows + 1) + first)[first < self._slices.after[time_slice]])
        time_slice, first = np.divmod(pieces, windows + 1)
        checksums, changes = _checksums(checksum, pieces) & np.uint64(_MASK), np.zeros(windows + 1, np.uint64)
        np.add.at(changes, first, checksums)
        np.subtract.at(changes, self._slices.after[time_slice], checksums)
        sums = self._sums(sent) + np.cumsum(changes, dtype=np.uint64)[sent.closed : windows]
        return noted(block, checksum=checksum, closed=sent.closed), sent._replace(sums=sums.tobytes())

    def close(self, sent: SentChecksums, closed: int, reader: int) -> tuple[list[pa.RecordBatch], SentChecksums]:
        """The receipt for the windows that close next, if any, and the checksums sent so far without theirs.

        Args:
            closed: how many windows will then be closed.
        """
        new = closed - sent.closed
        if new <= 0:
            return [], sent
        sums = self._sums(sent)
        totals = [total & _MASK for total in sums[:new].tolist()]
        return [ReaderReceipt(reader, sent.closed, totals).block()], SentChecksums(closed, sums[new:].tobytes())

    def _sums(self, sent: SentChecksums) -> Words:
        if not sent.sums:
            return np.zeros(len(self._period) - sent.closed, np.uint64)
        return np.frombuffer(sent.sums, np.uint64)
