"""Elements to blocks, and blocks to user shards: nothing is lost without a word, and no piece is too large."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from private_topk.transforms import rows as rows_module
from private_topk.transforms.columnar import make_block
from private_topk.transforms.combine import CountedCoder, PartialCounts
from private_topk.transforms.completeness import Receipt, receipt_in, share_in, with_receipt
from private_topk.transforms.domain import Domain, PublicDomain
from private_topk.transforms.mechanisms import LimitDomain
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import BlockCoder, MakeBlocks, UserRows, _ShardDoFn
from private_topk.transforms.spec import TopK
from tests.transforms.pipelines import create, outcome

KEY = ReleaseKey.held(b"a key of the tests, no secret")
KNOWN = PublicDomain.of([f"item {n}" for n in range(50)])
SHARDS, BLOCKS, ROWS = 4, 9, 1_000


def test_blocks_travel_as_they_are() -> None:
    block = make_block(pa.array(["a", "é", ""]), pa.array([1, 2, 3]), pa.array([5, 6, 7]))[0]
    coder = BlockCoder()
    for part in (block, block.slice(1, 1), block.slice(0, 0)):
        assert coder.decode(coder.encode(part)).to_pylist() == part.to_pylist()
    assert beam.coders.registry.get_coder(pa.RecordBatch).__class__ is BlockCoder


def test_estimating_the_size_of_a_block_does_not_encode_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam asks for the size of many elements, for its metrics."""
    block = make_block(pa.array(["a", "é", ""]), pa.array([1, 2, 3]))[0]
    monkeypatch.setattr(BlockCoder, "encode", lambda *_: pytest.fail("encoded"))
    monkeypatch.setattr(CountedCoder, "encode", lambda *_: pytest.fail("encoded"))
    assert BlockCoder().get_impl().estimate_size(block) == block.nbytes > 0
    assert CountedCoder().get_impl().estimate_size(PartialCounts(block)) == block.nbytes


def test_pairs_gather_by_window_in_blocks_of_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_ROWS", 500)  # of 50,000
    rows = [((n, "i"), 5 if n % 3 else 15) for n in range(1200)]

    def build(p: beam.Pipeline) -> beam.PCollection:
        pairs = p | create([rows]) | beam.FlatMap(lambda all_: [TimestampedValue(*row) for row in all_])
        return (
            pairs | beam.WindowInto(FixedWindows(10)) | MakeBlocks() | beam.Map(lambda block: block["user"].to_pylist())
        )

    found = outcome(build)
    assert sorted(len(users) for _, users in found) == [300, 400, 500]
    for start, third in [(0, False), (10, True)]:
        users = [user for at, block in found for user in block if at == start * 10**6]
        assert sorted(map(int, users)) == [n for n in range(1200) if (n % 3 == 0) == third]


def blocks(users: int = 500, rows: int = ROWS) -> list[pa.RecordBatch]:
    """With marks, and what their reader states of them. Some items are in no list."""
    state = np.random.default_rng(7)
    whole = [
        make_block(
            *(
                pa.array([f"{name} {n}" for n in state.integers(0, most, rows)])
                for name, most in (("user", users), ("item", 60))
            )
        )[0]
        for _ in range(BLOCKS)
    ]
    return list(with_receipt(whole, 3))


def split(found: Iterable[pa.RecordBatch], domain: Domain, together: int, cores: int = 1) -> list[UserRows]:
    fn = _ShardDoFn(TopK(1, LimitDomain(1.0, 1e-6), domain), KEY, SHARDS, Partitioning.of(domain), cores, together)
    fn.setup()
    fn.start_bundle()
    pieces = [piece for block in found for piece in fn.process(block)]
    pieces += [windowed.value for windowed in fn.finish_bundle()]
    fn.teardown()
    return pieces


@pytest.mark.parametrize("together", [0, SHARDS << 14])
@pytest.mark.parametrize("domain", [KNOWN, PublicDomain.of(["another"])])
def test_shards_receive_exactly_the_pieces_that_a_reader_sent(together: int, domain: Domain) -> None:
    """And no piece can take the place of another: their shares differ. Also where nobody's item is in the list."""
    pieces = split(blocks(), domain, together)
    assert sum(receipt_in(piece) is not None for _, piece in pieces) == 1
    received = sum((Receipt.of_piece(piece) for _, piece in pieces), Receipt())
    assert (received.readers, received.rows) == (1, 0)
    shares = [share_in(piece) for _, piece in pieces if receipt_in(piece) is None]
    assert len(set(shares)) == len(shares) and 0 not in shares
    assert sum(len(piece) for _, piece in pieces) == (0 if domain is not KNOWN else sum(map(known, blocks())))


def known(block: pa.RecordBatch) -> int:
    return sum(int(item.split()[1]) < 50 for item in block["item"].to_pylist())


def test_a_piece_is_never_larger_than_a_block_though_all_rows_are_of_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that sorts what it groups has to hold each element whole."""
    monkeypatch.setattr(rows_module, "_LONGEST", ROWS)
    sizes = [len(piece) for _, piece in split(blocks(users=1), KNOWN, SHARDS << 14) if len(piece)]
    assert max(sizes) <= ROWS and len(sizes) == -(-sum(sizes) // ROWS)


@pytest.mark.parametrize(("together", "most"), [(SHARDS * ROWS // 2, 1 << 25), (SHARDS << 14, 60_000)])
def test_buffered_rows_are_bounded_by_rows_and_by_bytes(
    together: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4 shards 2,000 rows, two blocks; of blocks of some 31,000 bytes two: 5 times, of 9 blocks."""
    assert 30_000 < blocks()[0].nbytes < 35_000
    monkeypatch.setattr(rows_module, "_BYTES_TOGETHER", most)
    assert len(split(blocks(), KNOWN, together)) == 5 * SHARDS + 1
