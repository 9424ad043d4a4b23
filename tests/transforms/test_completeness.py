"""Rows, receipts or counts that are lost or doubled: no ranking comes out. Every way of losing one is tried."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, IntervalWindow

from private_topk.transforms import PrivateTopK, combine, contributions, top_k
from private_topk.transforms.assign_windows import SplitDoFn, _NumberDoFn, beam_windows
from private_topk.transforms.columnar import make_block, make_table
from private_topk.transforms.combine import Combiner, CountedCoder, KeyedCounts, PartialCounts
from private_topk.transforms.completeness import (
    NOTHING,
    BlockChecksums,
    Counted,
    Fingerprint,
    Receipt,
    SentChecksums,
    check_complete,
    checksum_in,
    closed_in,
    receipt_in,
    shares,
    with_receipt,
)
from private_topk.transforms.contributions import ShardCounter
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import IncompleteDataError
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.plan import ITEM_SHARD_BITS, Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import BlockCoder, UserRows, _ShardDoFn
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period, microseconds
from private_topk.transforms.windows.period import TimeSlices
from tests.transforms.pipelines import create
from tests.transforms.sabotage import PICKS, a_receipt, sabotage
from tests.transforms.shards import shard_of
from tests.transforms.streams import (
    CUTS,
    DOMAIN,
    RELEASE,
    START,
    Collect,
    batch,
    events_of,
    period_of,
    some_rows,
    stamped,
    stream,
    transform,
)

KEY = ReleaseKey.held(b"a key of the tests, no secret")
WHOLE = 1 << 63
TWO_ITEM_SHARDS, LABELS = Partitioning(2 << ITEM_SHARD_BITS), Partitioning(0, residues=2)
PUBLIC, UNKNOWN = Combiner(TWO_ITEM_SHARDS, None), Combiner(LABELS, 2, 0, Fingerprint(KEY))


def answers(shard: int, pieces: Sequence[pa.RecordBatch], partitioning: Partitioning) -> list[KeyedCounts]:
    """What a user shard hands on."""
    return list(ShardCounter(shard_of(partitioning, KEY), partitioning, KEY).counted(shard, pieces))


def of_three_shards(partitioning: Partitioning) -> list[KeyedCounts]:
    """Of the first items of both item shards, of the second of one, and of the last none."""
    found = []
    for shard, codes in enumerate(([0, 1 << ITEM_SHARD_BITS], [1 << ITEM_SHARD_BITS] * 2, [])):
        users = np.arange(len(codes), dtype=np.uint64)
        items = (
            np.array(codes, partitioning.code_type)
            if partitioning.size
            else pa.array(map(str, codes), pa.large_string())
        )
        found += answers(shard, [make_table(user=users, item=items)], partitioning)
    return found


def combined(counted: Sequence[KeyedCounts], combiner: Combiner) -> list[Counted]:
    """The stage in the middle: what it makes of whatever reaches it."""
    found: list[Counted] = [NOTHING]
    for key in sorted({key for key, _ in counted}):
        table, receipt = combiner.totals(key, [its for at, its in counted if at == key])
        found += [*PartialCounts.cut(table), *[receipt] * (receipt != NOTHING)]
    return found


def passes(counted: Sequence[Counted], user_shards: int = 3, readers: Sequence[int] = ()) -> bool:
    receipt = sum((its for its in counted if isinstance(its, Receipt)), NOTHING)
    counts = sum(Fingerprint(KEY).of(its.table) for its in counted if isinstance(its, PartialCounts))
    try:
        check_complete(receipt, counts, 0, user_shards, readers)
    except IncompleteDataError:
        return False
    return True


def repeated(elements: Sequence[Any], times: Sequence[int]) -> list[Any]:
    return [element for element, often in zip(elements, times, strict=True) for _ in range(often)]


@pytest.mark.parametrize("combiner", [PUBLIC, UNKNOWN])
class TestEveryWayToLoseOrDouble:
    """Each element none, one or two times: only with each of them once a ranking may come out."""

    def test_a_lost_or_doubled_answer_of_a_user_shard_is_detected(self, combiner: Combiner) -> None:
        sent = of_three_shards(combiner.partitioning)
        assert sum(isinstance(counted, PartialCounts) for _, counted in sent) == 3 and len(sent) == 6
        for times in itertools.product((0, 1, 2), repeat=len(sent)):
            assert passes(combined(repeated(sent, times), combiner)) == (set(times) == {1})

    def test_a_lost_or_doubled_piece_of_combined_counts_is_detected(
        self, combiner: Combiner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also of totals of which the smallest go no further, and of one that is handed on in pieces."""
        labels = pa.array([f"item {n}" for n in range(5)] * 2 + ["item 0", "item 1"], pa.large_string())
        items = labels if combiner is UNKNOWN else np.arange(12, dtype=np.uint32) % 5
        piece = make_table(user=np.arange(12, dtype=np.uint64), item=items)
        sent = [counted for shard in range(3) for counted in answers(shard, [piece], combiner.partitioning)]
        monkeypatch.setattr(combine, "MAX_ROWS", 2)
        whole = combined(sent, combiner)[1:]
        assert 3 <= len(whole) <= 5
        for times in itertools.product((0, 1, 2), repeat=len(whole)):
            came = repeated(whole, times)
            assert passes(came) == passes(came[::-1]) == (set(times) == {1})

    def test_more_or_fewer_user_shards_than_there_are_is_detected(self, combiner: Combiner) -> None:
        sent = [counted for shard in range(3) for counted in answers(shard, [], combiner.partitioning)]
        assert [passes(combined(sent, combiner), shards) for shards in (2, 3, 4)] == [False, True, False]


def test_a_receipt_or_count_of_another_window_group_or_item_is_detected() -> None:
    assert not passes([Receipt.of_user_shard(0, 1, 0)], 1) and passes([Receipt.of_user_shard(0, 0, 0)], 1)
    table, other = (make_table(item=[item], count=[3]) for item in (5, 6))
    receipt = Receipt.of_user_shard(0, 0, Fingerprint(KEY).of(table))
    assert passes([PartialCounts(table), receipt], 1) and not passes([PartialCounts(other), receipt], 1)
    windows = [make_table(window=np.array([n], np.uint32), item=[5], count=[3]) for n in (0, 1)]
    assert len({Fingerprint(KEY).of(some) for some in windows}) == 2


def test_the_error_names_the_loss_and_the_remedy_and_survives_pickling() -> None:
    sentence = "0 receipts of 3 user shards.*nothing is published for their window. Run it again"
    with pytest.raises(IncompleteDataError, match=sentence) as caught:
        check_complete(NOTHING, 0, 0, 3, ())
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_counts_and_receipts_travel_as_they_are() -> None:
    coder = beam.coders.registry.get_coder(Counted)
    assert isinstance(coder, CountedCoder) and not coder.is_deterministic()
    for counted in (PartialCounts(make_table(item=[1], count=[2])), Receipt(1, 2, WHOLE - 1, 4, WHOLE - 3), NOTHING):
        assert coder.decode(coder.encode(counted)) == counted


class TestReaders:
    """What a reader says that it has sent is what reaches every window, and no other set of pieces."""

    @pytest.mark.parametrize("clock", ["of arrivals", "of rows"])
    @pytest.mark.parametrize("cut", CUTS)
    def test_receipts_of_a_reader_match_the_rows_of_every_window(self, cut: str, clock: str) -> None:
        for seed in range(4):
            state, period = np.random.RandomState(seed), period_of(cut, timedelta(minutes=40))
            reader = Reader(period)
            for closed in [*sorted(state.randint(0, len(period) + 1, 6).tolist()), len(period)]:
                at = int(period.closing[min(closed, len(period) - 1)]) - 1
                for rows in state.randint(0, 60, 2).tolist():
                    reader.read(block_of(state, rows, CUTS[cut][1], at if clock == "of arrivals" else None))
                reader.close(closed)
            for window in beam_windows(period):
                (receipt,) = (receipt_in(block) for block in reader.receipts[window])
                assert receipt.reader == 0 and len(receipt.sums) == 1
                assert sum(map(checksum_in, reader.pieces[window])) % WHOLE == receipt.sums[0]

    def test_rows_read_after_their_window_closed_are_late(self) -> None:
        period = period_of("fixed")
        reader, state = Reader(period), np.random.RandomState(1)
        reader.close(3)
        reader.read(block_of(state, 500, 72))
        assert [len(pieces) > 0 for pieces in reader.pieces.values()] == [False] * 3 + [True] * (len(period) - 3)
        summed, _ = reader.checksums.add(block_of(state, 1, 72), b"", reader.sent)
        assert closed_in(summed) == 3 and closed_in(block_of(state, 1, 72)) == 0

    def test_every_lost_or_doubled_piece_or_receipt_is_detected(self) -> None:
        state = np.random.RandomState(3)
        items = pa.array(["item 1", "item 2", "elsewhere"] * 3)
        blocks = [make_block(pa.array([f"u{n}" for n in state.randint(0, 99, 9)]), items)[0] for _ in range(2)]
        unknown = make_block(pa.array(["u"]), pa.array(["elsewhere"]))[0]  # a block of which nothing is left
        sent = [block for reader, some in ((4, blocks), (9, [unknown])) for block in with_receipt(some, reader)]
        pieces = pieces_of(sent, 2)
        assert len(pieces) == 7 and [len(piece) for _, piece in pieces].count(0) == 3
        for times in itertools.product((0, 1, 2), repeat=7):
            assert passes(received(repeated(pieces, times), 2), 2, [4, 9]) == (set(times) == {1})
        assert [passes(received(pieces, 2), 2, readers) for readers in ([4], [4, 8], [4, 8, 9])] == [False] * 3

    @pytest.mark.parametrize("reader", [True, False])
    def test_a_piece_in_place_of_another_is_detected(self, reader: bool) -> None:
        """Two users with as many rows: one of them lost and the other doubled leaves the number of rows as it was."""
        block = make_block(pa.array([f"u{n}" for n in range(40)]), pa.array(["item 1"] * 40))[0]
        pieces = pieces_of(
            list(with_receipt([block], 0)) if reader else [block, block.slice(0, 7), block.slice(9, 1)], 8
        )
        readers = [0] if reader else []
        assert passes(received(pieces, 8), 8, readers)
        for lost, doubled in itertools.permutations(range(len(pieces)), 2):
            kept = [piece for place, piece in enumerate(pieces) if place != lost]
            assert not passes(received(kept, 8), 8, readers)
            assert not passes(received([*kept, pieces[doubled]], 8), 8, readers)
        for shard in {shard for shard, _ in pieces}:
            assert not passes(received([its for its in pieces if its[0] != shard], 8), 8, readers)

    def test_the_sentence_names_the_hop_and_no_count(self) -> None:
        receipt = sum((Receipt.of_user_shard(shard, 0, 0) for shard in range(2)), NOTHING)
        with pytest.raises(IncompleteDataError, match="0 receipts of 1 readers"):
            check_complete(receipt, 0, 0, 2, [0])
        with pytest.raises(
            IncompleteDataError, match="the rows that were sent are not those that user shards received"
        ):
            check_complete(receipt + Receipt(rows=5), 0, 0, 2, [])
        with pytest.raises(IncompleteDataError, match="the counts that user shards sent are not those that came"):
            check_complete(receipt, 5, 0, 2, [])

    def test_dropped_rows_of_a_bounded_input_stay_in_the_checksum(self) -> None:
        period, state = period_of("fixed"), np.random.RandomState(4)
        number = _NumberDoFn(period)
        outside = make_block(pa.array(["u"]), pa.array(["item 1"]), pa.array([0]))[0]
        sent = list(with_receipt([outside, block_of(state, 50, 72), outside.slice(0, 0)], 2))
        assert len(sent) == 3, "a block without rows is none"
        numbered = [found for block in sent for found in number.process(block)]
        assert [checksum_in(block) for block in numbered] == [checksum_in(block) for block in sent]
        assert len(numbered[0]) == 0 and passes(received(pieces_of(numbered, 4), 4), 4, [2])


def test_shares_add_up_to_their_checksum_and_no_part_of_them_does() -> None:
    for checksum in (0, 1, WHOLE - 1, 123456789):
        own = shares(checksum, 9)
        assert sum(own) % WHOLE == checksum and own == shares(checksum, 9) and all(0 <= share < WHOLE for share in own)
        assert own != shares(checksum, 9, 7) and sum(shares(checksum, 9, 7)) % WHOLE == checksum
        totals = {
            sum(share for share, is_in in zip(own, kept, strict=True) if is_in) % WHOLE
            for kept in itertools.product((0, 1), repeat=9)
        }
        assert len(totals) == 2**9 - (checksum == 0)
    assert shares(7, 1) == [7]


def test_time_slices_have_the_windows_of_their_times() -> None:
    for cut in CUTS:
        period, state = period_of(cut), np.random.RandomState(2)
        times = microseconds(START) + (state.uniform(-9, 90, 300) * 3.6e9).astype(np.int64)
        slices = TimeSlices(period)
        time_slice, first = slices.of(times, None, 0)
        expected = period.spans(times)
        assert (first.tolist(), slices.after[time_slice].tolist()) == tuple(map(np.ndarray.tolist, expected))


def block_of(state: np.random.RandomState, rows: int, hours: float, arrived: int | None = None) -> pa.RecordBatch:
    """Rows of any time in the period, and before and after it; of items in the domain and others."""
    times = microseconds(START) + (state.uniform(-5, hours + 5, rows) * 3.6e9).astype(np.int64)
    users, items = (pa.array([f"{name} {n}" for n in state.randint(0, 15, rows)]) for name in ("u", "item"))
    block = make_block(users, items, pa.array(times))[0]
    return block if arrived is None else block.append_column("arrived", pa.array(np.full(rows, arrived)))


class Reader:
    """Sums blocks and closes windows as a source does, and splits what it has sent by window."""

    def __init__(self, period: Period) -> None:
        self.checksums, self.sent, self.blocks = BlockChecksums(period), SentChecksums(), 0
        self.split = SplitDoFn(period)
        self.split.setup()
        self.pieces: dict[IntervalWindow, list[pa.RecordBatch]] = {window: [] for window in beam_windows(period)}
        self.receipts: dict[IntervalWindow, list[pa.RecordBatch]] = {window: [] for window in beam_windows(period)}

    def read(self, block: pa.RecordBatch) -> None:
        summed, self.sent = self.checksums.add(block, b"0 %d" % self.blocks, self.sent)
        self.blocks += 1
        self.emit(summed, self.pieces)

    def close(self, windows: int) -> None:
        receipts, self.sent = self.checksums.close(self.sent, windows, 0)
        for block in receipts:
            self.emit(block, self.receipts)

    def emit(self, block: pa.RecordBatch, to: dict[IntervalWindow, list[pa.RecordBatch]]) -> None:
        coder = BlockCoder()
        for found in self.split.process(coder.decode(coder.encode(block))):
            for window in found.windows:
                to[window].append(coder.decode(coder.encode(found.value)))


def pieces_of(blocks: list[pa.RecordBatch], shards: int) -> list[UserRows]:
    """What user shards are sent of blocks."""
    domain = PublicDomain.of(DOMAIN)
    fn = _ShardDoFn(TopK(1, Joint(1.0), domain), KEY, shards, Partitioning.of(domain))
    fn.setup()
    return [piece for block in blocks for piece in fn.work([block]).rows]


def received(pieces: list[UserRows], shards: int) -> list[Counted]:
    """The receipts of user shards that were sent these pieces."""
    found = [Receipt.of_user_shard(shard, 0, 0) for shard in range(shards)]
    for shard, piece in pieces:
        found[shard] += Receipt.of_piece(piece)
    return list[Counted](found)


ROWS = some_rows(21, 13.9, 600)
NOT_WHOLE = "counts were lost or doubled on the way to the final stage"
WITHOUT_ROWS: set[str] = {w.label() for w in period_of("fixed").windows()[3:]}
"""Windows from hour 21 on, of which counts cannot be lost; what comes a window late spoils the third at most."""


class TestNoRankingComesOut:
    @pytest.mark.parametrize(
        ("hop", "picked", "does"),
        [
            ("before combining", "counts", "drops"),
            ("before combining", "receipt", "doubles"),
            ("before combining", "counts", "delays"),
            ("before the draw", "receipts", "drops"),
            ("before the draw", "counts", "doubles"),
            ("before the draw", "receipts", "delays"),
        ],
    )
    def test_a_loss_in_a_stream_publishes_nothing(
        self, hop: str, picked: str, does: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sabotage(monkeypatch, hop, PICKS[picked], does)
        with pytest.raises(Exception, match=NOT_WHOLE):
            stream(events_of(ROWS, 72, 600), period_of("fixed"), "direct")
        assert {r.window.label() for r in Collect.found["stream"]} <= WITHOUT_ROWS

    @pytest.mark.parametrize(
        ("hop", "picked", "does"),
        [
            ("before combining", "counts", "doubles"),
            ("before combining", "receipt", "drops"),
            ("before the draw", "counts", "drops"),
            ("before the draw", "receipts", "doubles"),
        ],
    )
    def test_a_loss_in_a_batch_publishes_nothing(
        self, hop: str, picked: str, does: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sabotage(monkeypatch, hop, PICKS[picked], does)
        with pytest.raises(Exception, match=NOT_WHOLE):
            batch(ROWS, period_of("whole"))
        assert Collect.found["batch"] == []

    @pytest.mark.parametrize(
        ("rows", "lost", "sentence"),
        [
            ([], (2, "starts"), "3 receipts of 4 user shards"),
            (ROWS, (1, "both"), "3 receipts of 4 user shards"),
            (ROWS, (1, "rows"), "the rows that were sent are not those that user shards received"),
        ],
    )
    def test_of_a_user_shard_that_gets_nothing(
        self,
        rows: list[Any],
        lost: tuple[int, str],
        sentence: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        shard, what = lost

        class Lost(contributions.BoundContributions):
            def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
                return super().expand((inputs[0] | beam.Filter(lambda its: its[0] != shard), inputs[1]))

        if what in ("rows", "both"):
            monkeypatch.setattr(top_k, "BoundContributions", Lost)
        if what in ("starts", "both"):
            starts = contributions._no_rows
            some = lambda *given: [its for its in starts(*given) if its[0] != shard]  # noqa: E731
            monkeypatch.setattr(contributions, "_no_rows", some)
        with pytest.raises(Exception, match=sentence):
            batch(rows, period_of("whole"))
        assert Collect.found["batch"] == []


@pytest.mark.parametrize("runner", [FnApiRunner, BundleBasedDirectRunner])
def test_a_lost_receipt_fails_the_windows_of_the_input(runner: type, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = transform(period_of("fixed")).top_k.mechanism
    plain = PrivateTopK(3, mechanism, DOMAIN, release=RELEASE, shards=4, reveal_active_windows=True)
    few = [row for row in ROWS if row[0] == "u7"]  # of one user shard alone

    def run() -> None:
        with beam.Pipeline(runner=runner()) as pipeline:
            rows = pipeline | create(stamped(few)) | beam.WindowInto(FixedWindows(7 * 3600))
            _ = rows | plain | beam.ParDo(Collect("undeclared"))

    run()
    assert len(Collect.found["undeclared"]) >= 2
    sabotage(monkeypatch, "before combining", a_receipt, "drops")
    with pytest.raises(Exception, match="3 receipts of 4 user shards"):
        run()
    assert Collect.found["undeclared"] == []
