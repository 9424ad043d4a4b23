"""Marks, shares and statements: what a reader states is what is cut into every window, and no other set of pieces."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import IntervalWindow

from private_topk.transforms.columnar import make_block
from private_topk.transforms.completeness import (
    IncompleteDataError,
    Sender,
    Sent,
    add_shares,
    check_whole,
    closed_in,
    mark_in,
    share_in,
    shares,
    stated,
    statement_in,
    statements,
)
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.parts import PlacedPart, with_manifest
from private_topk.transforms.plan import Layout
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import BlockCoder, _ShardDoFn
from private_topk.transforms.windows import Period, microseconds
from private_topk.transforms.windows.assign import _NumberDoFn, _SplitDoFn, beam_windows
from private_topk.transforms.windows.period import Stretches
from tests.transforms.streams import CUTS, DOMAIN, START, period_of

KEY = ReleaseKey.held(b"a key of the tests, no secret")
WHOLE = 1 << 63


def block_of(state: np.random.RandomState, rows: int, hours: float, arrived: int | None = None) -> pa.RecordBatch:
    """Rows of any time in the period, and before and after it; of items in the domain and others."""
    times = microseconds(START) + (state.uniform(-5, hours + 5, rows) * 3.6e9).astype(np.int64)
    users, items = (pa.array([f"{name} {n}" for n in state.randint(0, 15, rows)]) for name in ("u", "item"))
    block = make_block(users, items, pa.array(times))[0]
    return block if arrived is None else block.append_column("arrived", pa.array(np.full(rows, arrived)))


class Reader:
    """Marks blocks and closes windows as a source does, and cuts what it has sent."""

    def __init__(self, period: Period, number: int = 0) -> None:
        self.sender, self.sent, self.number, self.blocks = Sender(period), Sent(), number, 0
        self.cut = _SplitDoFn(period)
        self.cut.setup()
        self.pieces: dict[IntervalWindow, list[pa.RecordBatch]] = {cell: [] for cell in beam_windows(period)}
        self.said: dict[IntervalWindow, list[pa.RecordBatch]] = {cell: [] for cell in beam_windows(period)}

    def read(self, block: pa.RecordBatch) -> None:
        marked, self.sent = self.sender.mark(block, b"%d %d" % (self.number, self.blocks), self.sent)
        self.blocks += 1
        self.hand_on(marked, self.pieces)

    def close(self, windows: int) -> None:
        said, self.sent = self.sender.close(self.sent, windows, self.number)
        for block in said:
            self.hand_on(block, self.said)

    def hand_on(self, block: pa.RecordBatch, to: dict[IntervalWindow, list[pa.RecordBatch]]) -> None:
        coder = BlockCoder()
        for found in self.cut.process(coder.decode(coder.encode(block))):
            for cell in found.windows:
                to[cell].append(coder.decode(coder.encode(found.value)))


@pytest.mark.parametrize("clock", ["of arrivals", "of rows"])
@pytest.mark.parametrize("cut", CUTS)
def test_a_reader_states_of_every_window_what_is_cut_into_it(cut: str, clock: str) -> None:
    for seed in range(8):
        state, period = np.random.RandomState(seed), period_of(cut, timedelta(minutes=40))
        reader = Reader(period)
        for closed in [*sorted(state.randint(0, len(period) + 1, 6).tolist()), len(period)]:
            at = int(period.closing[min(closed, len(period) - 1)]) - 1
            for rows in state.randint(0, 60, 2).tolist():
                reader.read(block_of(state, rows, CUTS[cut][1], at if clock == "of arrivals" else None))
            reader.close(closed)
        reader.close(len(period))
        for cell in beam_windows(period):
            (said,) = (statement_in(block) for block in reader.said[cell])
            assert said.reader == 0 and len(said.sums) == 1
            assert sum(map(mark_in, reader.pieces[cell])) % WHOLE == said.sums[0]


def test_what_a_reader_reads_of_windows_that_it_has_closed_is_late_for_them() -> None:
    period = period_of("fixed")
    reader, state = Reader(period), np.random.RandomState(1)
    reader.close(3)
    reader.read(block_of(state, 500, 72))
    assert [len(pieces) > 0 for pieces in reader.pieces.values()] == [False] * 3 + [True] * (len(period) - 3)
    marked, _ = reader.sender.mark(block_of(state, 1, 72), b"", reader.sent)
    assert closed_in(marked) == 3 and closed_in(block_of(state, 1, 72)) == 0


def test_stretches_are_the_windows_of_their_times() -> None:
    for cut in CUTS:
        period, state = period_of(cut), np.random.RandomState(2)
        times = microseconds(START) + (state.uniform(-9, 90, 300) * 3.6e9).astype(np.int64)
        stretches = Stretches(period)
        stretch, first = stretches.of(times, None, 0)
        expected = period.spans(times)
        assert (first.tolist(), stretches.after[stretch].tolist()) == tuple(map(np.ndarray.tolist, expected))


def test_shares_add_up_to_their_mark_and_no_part_of_them_does() -> None:
    for mark in (0, 1, WHOLE - 1, 123456789):
        own = shares(mark, range(9))
        assert sum(own) % WHOLE == mark and own == shares(mark, range(9)) and all(0 <= share < WHOLE for share in own)
        totals = {sum(share for share, is_in in zip(own, kept, strict=True) if is_in) % WHOLE
                  for kept in itertools.product((0, 1), repeat=9)}  # fmt: skip
        assert len(totals) == 2**9 - (mark == 0)
    assert shares(7, [5]) == [7]


def pieces_of(blocks: list[pa.RecordBatch], shards: int) -> list[tuple[int, pa.RecordBatch]]:
    """What user shards are sent of blocks."""
    domain = PublicDomain.of(DOMAIN)
    fn = _ShardDoFn(domain, KEY, shards, Layout.of(domain))
    fn.setup()
    return [pair for block in blocks for pair in fn.work([block]).pairs]


def received(pieces: list[tuple[int, pa.RecordBatch]], shards: int) -> list[PlacedPart]:
    """The manifests of user shards that were sent these pieces."""
    found: Counter[int] = Counter()
    for shard, piece in pieces:
        found[shard] = add_shares(found[shard], share_in(piece))
    return [part for shard in range(shards) for part in with_manifest(shard, [], lambda shard=shard: found[shard])]


def passes(parts: list[PlacedPart], shards: int, readers: list[int]) -> bool:
    try:
        check_whole(parts, shards, readers)
    except IncompleteDataError:
        return False
    return True


def test_every_way_to_lose_or_double_a_piece_or_a_statement() -> None:
    """Each of them none, one or two times: only with each of them once a ranking may be drawn."""
    state = np.random.RandomState(3)
    items = pa.array(["item 1", "item 2", "elsewhere"] * 3)
    blocks = [make_block(pa.array([f"u{n}" for n in state.randint(0, 99, 9)]), items)[0] for _ in range(2)]
    unknown = make_block(pa.array(["u"]), pa.array(["elsewhere"]))[0]  # a block of which nothing is left
    sent = [list(stated(some, reader)) for reader, some in ((4, blocks), (9, [unknown]))]
    pieces = pieces_of([block for some in sent for block in some], 2)
    said = [part for some in sent for block in some for part in statements(block)]
    assert len(pieces) == 5 and len(said) == 2 and [len(piece) for _, piece in pieces].count(0) == 1
    for times in itertools.product((0, 1, 2), repeat=7):
        kept = [each for each, often in zip([*pieces, *said], times, strict=True) for _ in range(often)]
        its_pieces: list[Any] = [each for each in kept if isinstance(each[1], pa.RecordBatch)]
        its_statements: list[Any] = [each for each in kept if not isinstance(each[1], pa.RecordBatch)]
        assert passes([*received(its_pieces, 2), *its_statements], 2, [4, 9]) == (set(times) == {1})
    whole = [*received(pieces, 2), *said]
    assert [passes(whole, 2, readers) for readers in ([4], [4, 8], [4, 8, 9])] == [False] * 3


def test_pieces_of_one_block_do_not_stand_for_each_other() -> None:
    """Two users with as many rows: one of them lost and the other doubled leaves the number of rows as it was."""
    block = make_block(pa.array([f"u{n}" for n in range(40)]), pa.array(["item 1"] * 40))[0]
    marked, statement = stated([block], 0)
    pieces = pieces_of([marked], 8)
    for lost, doubled in itertools.permutations(range(len(pieces)), 2):
        some = [piece for place, piece in enumerate(pieces) if place != lost] + [pieces[doubled]]
        assert not passes([*received(some, 8), *statements(statement)], 8, [0])


def test_the_sentence_names_the_hop_and_no_count() -> None:
    marked, statement = stated([make_block(pa.array(["u"]), pa.array(["item 1"]))[0]], 0)
    with pytest.raises(IncompleteDataError, match="the rows that readers sent are not those that user shards received"):
        check_whole([*received([], 1), *statements(statement)], 1, [0])
    with pytest.raises(IncompleteDataError, match="of 1 readers 0 have stated what they sent, 0 times in all"):
        check_whole(received(pieces_of([marked], 1), 1), 1, [0])


def test_what_is_left_out_of_a_bounded_input_keeps_its_mark() -> None:
    period, state = period_of("fixed"), np.random.RandomState(4)
    number = _NumberDoFn(period)
    outside = make_block(pa.array(["u"]), pa.array(["item 1"]), pa.array([0]))[0]
    sent = list(stated([outside, block_of(state, 50, 72), outside.slice(0, 0)], 2))
    assert len(sent) == 3, "a block without rows is none"
    cut = [found for block in sent for found in number.process(block)]
    assert [mark_in(block) for block in cut] == [mark_in(block) for block in sent] and len(cut[0]) == 0
    (said,) = (part.table["sum"][0].as_py() for block in cut for _, part in statements(block))
    assert said == sum(mark_in(block) for block in cut[:2]) % WHOLE
    assert passes([*received(pieces_of(cut, 4), 4), *[part for block in cut for part in statements(block)]], 4, [2])


def test_a_source_that_gives_no_marks_is_not_held_to_any() -> None:
    block = make_block(pa.array(["u"]), pa.array(["item 1"]))[0]
    pieces = pieces_of([block], 2)
    assert [share_in(piece) for _, piece in pieces] == [0] and passes(received(pieces, 2), 2, [])
    check_whole(received(pieces, 2), 2)
