"""The hash of labels: its definition, and its proof in small."""

from __future__ import annotations

import hashlib
import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms import user_shards as user_shard_module
from private_topk.transforms.columnar import make_table
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.release import ReleaseKey
from tests.transforms.shards import shard_of

KEY = bytes(range(32))


def plain_hash(label: str, key: bytes) -> int:
    """The docstring in whole numbers of Python."""
    data = label.encode()
    if len(data) > 1024:
        own = hashlib.blake2b(b"private-topk hash 2" + key).digest()
        return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=own).digest(), "little")
    padded = data + b"\0" * (-len(data) % 8)
    characters = [1, len(data), *(int.from_bytes(padded[at : at + 4], "little") for at in range(0, len(padded), 4))]
    stream = hashlib.shake_256(b"private-topk hash 2" + key).digest(16 * len(characters))
    halves = []
    for half in range(2):
        starts = range(8 * half, len(stream), 16)
        by = [int.from_bytes(stream[start : start + 8], "little") for start in starts]
        halves.append((sum(m * s for m, s in zip(by, characters, strict=True)) & (2**64 - 1)) >> 32)
    return halves[0] << 32 | halves[1]


def random_texts(seed: int, n: int) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices("ab\0é日🎵", k=draw.randrange(30))) for _ in range(n)]


HARD = [
    *("\0" * n for n in range(40)),  # empty, zero bytes, each the start of the next
    *("a" * n for n in range(1, 40)),
    *("x" * 1000 + end for end in ("", "a", "b", "\0", "a\0")),  # long labels with one start
    *("\0" * n for n in range(1021, 1028)),  # summed up to 1,024 bytes, digested from there on
    *(f"{'y' * 100_000}{n}" for n in range(3)),
]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_the_hash_equals_its_definition(kind: pa.DataType) -> None:
    texts = HARD + random_texts(1, 300)
    assert hash_labels(pa.array(texts, kind), KEY).tolist() == [plain_hash(text, KEY) for text in texts]


def test_one_value_for_a_label_wherever_it_stands() -> None:
    """Slices share their buffers with the whole column, and columns are hashed a piece at a time."""
    texts = random_texts(2, 200) * 200
    column = pa.array(texts)
    alone = dict(zip(texts[:200], hash_labels(pa.array(texts[:200]), KEY).tolist(), strict=True))
    whole = hash_labels(column, KEY).tolist()
    assert whole == [alone[text] for text in texts] and len(whole) > 2 * 16384
    for start, length in [(0, 0), (0, 1), (3, 50), (199, 1), (16_380, 10), (40_000, 0)]:
        assert hash_labels(column.slice(start, length), KEY).tolist() == whole[start : start + length]


def test_labels_collide_exactly_as_often_as_proved_in_a_small_field() -> None:
    """Characters of 3 bits, multipliers of 6, the upper 3 bits kept: every pair of labels, over all multipliers, agrees
    with probability exactly 2**-3.
    """
    m = np.indices((64, 64, 64)).reshape(3, -1)
    labels = list(itertools.product(range(8), repeat=2))
    hashed = np.array([(m[0] + m[1] * a + m[2] * b) % 64 >> 3 for a, b in labels], np.uint8)
    for one, other in itertools.combinations(range(len(labels)), 2):
        assert np.count_nonzero(hashed[one] == hashed[other]) * 8 == m.shape[1]


@pytest.mark.parametrize("limit", [1, 2])
def test_other_users_rows_change_nothing_that_is_kept_even_if_all_hashes_are_equal(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack {A: 1000} to {B: 1001}: items with one hash, and one user's row that comes first."""
    monkeypatch.setattr(user_shard_module, "hash_labels", lambda labels, key: np.full(len(labels), 7, np.uint64))
    counter = shard_of(Partitioning(0), ReleaseKey.held(KEY), limit)
    many = make_table(
        user=np.repeat(np.arange(1000, dtype=np.uint64), 3), item=pa.array(["A", "B", "C"] * 1000, pa.large_string())
    )
    mine = make_table(user=np.array([5000], np.uint64), item=pa.array(["B"], pa.large_string()))
    counts = [
        {row["item"]: row["count"] for _, part in counter.counts(order) for row in part.to_pylist()}
        for order in ([many], [mine, many], [many, mine], [mine, counter.distinct([mine, many])])
    ]
    kept = dict.fromkeys(["A", "B", "C"][:limit], 1000)
    assert counts[0] == kept
    assert counts[1:] == [{**kept, "B": kept.get("B", 0) + 1}] * 3


@pytest.mark.parametrize("limit", [1, 2])
def test_two_users_who_share_a_hash_are_two_steps_from_one(limit: int) -> None:
    """All sets of items of both: before and after, no more is kept than of one user: so it is as if one had left
    and another had come.
    """
    counter = shard_of(Partitioning(0), ReleaseKey.held(KEY), limit)
    sets = [items for n in range(4) for items in itertools.combinations("ABC", n)]

    def kept(*items: str) -> set[str]:
        pairs = make_table(user=np.full(len(items), 5, np.uint64), item=pa.array(items, pa.large_string()))
        rows = [row for _, part in counter.counts([pairs]) for row in part.to_pylist()]
        assert all(row["count"] == 1 for row in rows)
        return {row["item"] for row in rows}

    for one, other in itertools.product(sets, repeat=2):
        assert len(kept(*one)) <= limit and len(kept(*one, *other)) <= limit


def test_short_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="hash key must have at least 16 bytes"):
        hash_labels(pa.array(["a"]), b"short")
