"""Blocks that are split together: the same pairs as one by one, in fewer pieces, and nothing lost without a word."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms import rows
from private_topk.transforms.columnar import make_block
from private_topk.transforms.completeness import add_shares, share_in, stated, statement_in
from private_topk.transforms.domain import Domain, PublicDomain
from private_topk.transforms.plan import Layout
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import STATEMENTS, ShardedPairs, _ShardDoFn

KEY = ReleaseKey.held(b"a key of the tests, no secret")
KNOWN = PublicDomain.of([f"item {n}" for n in range(50)])
SHARDS, BLOCKS, ROWS = 4, 9, 1_000


def blocks(users: int = 500, rows: int = ROWS) -> list[pa.RecordBatch]:
    """With marks, and what their reader states of them. Some items are in no list."""
    state = np.random.default_rng(7)
    whole = [
        make_block(*(pa.array([f"{name} {n}" for n in state.integers(0, most, rows)])
                     for name, most in (("user", users), ("item", 60))))[0]
        for _ in range(BLOCKS)
    ]  # fmt: skip
    return list(stated(whole, 3))


def split(found: Iterable[pa.RecordBatch], domain: Domain, together: bool, cores: int = 1) -> list[ShardedPairs]:
    fn = _ShardDoFn(domain, KEY, SHARDS, Layout.of(domain), cores, waking=3, together=together)
    fn.setup()
    fn.start_bundle()
    pieces = [piece for block in found for piece in fn.process(block)]
    pieces += [windowed.value for windowed in fn.finish_bundle()]
    fn.teardown()
    return pieces


@pytest.mark.parametrize("together", [False, True])
def test_what_is_stated_is_what_the_shards_receive(together: bool) -> None:
    """And no piece can take the place of another: their shares differ."""
    pieces = split(blocks(), KNOWN, together)
    (said,) = (statement_in(piece) for shard, piece in pieces if shard == STATEMENTS)
    shares = [share_in(piece) for shard, piece in pieces if shard >= 0 and len(piece)]
    received = 0
    for share in shares:
        received = add_shares(received, share)
    assert said is not None and said.sums == [received]
    assert len(set(shares)) == len(shares)


def test_rows_that_no_piece_holds_are_accounted_for() -> None:
    """Nobody's item is in the list: the marks go on with an empty piece."""
    pieces = split(blocks(), PublicDomain.of(["another"]), together=True)
    (said,) = (statement_in(piece) for shard, piece in pieces if shard == STATEMENTS)
    assert said is not None and said.sums == [sum(share_in(piece) for shard, piece in pieces if shard >= 0)]


def test_a_piece_is_never_larger_than_a_block_though_all_rows_are_of_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that sorts what it groups has to hold each element whole."""
    monkeypatch.setattr(rows, "_LONGEST", ROWS)
    pieces = split(blocks(users=1), KNOWN, together=True)
    sizes = [len(piece) for shard, piece in pieces if shard >= 0 and len(piece)]
    assert max(sizes) <= ROWS and len(sizes) == -(-sum(sizes) // ROWS)
    shares = {share_in(piece) for shard, piece in pieces if shard >= 0 and len(piece)}
    assert len(shares) == len(sizes)


@pytest.mark.parametrize(("name", "bound"), [("_ROWS_OF_A_PIECE", ROWS // 2), ("_BYTES_TOGETHER", 60_000)])
def test_what_waits_is_bounded_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch, name: str, bound: int) -> None:
    """Of 4 shards 2,000 rows, two blocks; of blocks of some 31,000 bytes two: 5 times, of 9 blocks."""
    assert 30_000 < blocks()[0].nbytes < 35_000
    monkeypatch.setattr(rows, name, bound)
    assert len(split(blocks(), KNOWN, together=True)) == 5 * SHARDS + 1 + SHARDS
