"""The columnar kernels against plain Python, on seeded random columns and crafted collisions."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms.columnar import as_labels, kept_pairs, make_block, mix, sorted_pairs
from tests.transforms.reference import reference_mix

MASK = (1 << 64) - 1


def plain_unmix(value: int) -> int:
    """The word that `reference_mix` makes the value of."""

    def undone(state: int, shift: int) -> int:
        found = state
        for _ in range(64 // shift):
            found = state ^ found >> shift
        return found

    state = undone(value, 31) * pow(0x94D049BB133111EB, -1, 1 << 64) & MASK
    state = undone(state, 27) * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & MASK
    return undone(state, 30) - 0x9E3779B97F4A7C15 & MASK


def test_mix_is_the_published_finaliser() -> None:
    words = [0, 1, 2**63, MASK, 12345678901234567890]
    assert [plain_unmix(reference_mix(word)) for word in words] == words
    assert mix(np.array(words, np.uint64)).tolist() == [reference_mix(word) for word in words]


class TestMakeBlock:
    def test_an_integer_user_equals_its_decimal_text(self) -> None:
        for values in (pa.array([5], pa.int8()), pa.array([5], pa.uint64()), pa.array(["5"])):
            assert as_labels(values).to_pylist() == ["5"]
        assert as_labels(pa.array([5, 5]).dictionary_encode()).to_pylist() == ["5", "5"]
        assert as_labels(pa.array([2**64 - 1, -0], pa.uint64())).to_pylist() == ["18446744073709551615", "0"]

    @pytest.mark.parametrize("values", [[1.5], [Decimal("1.5")], [True], [[1]]])
    def test_other_types_are_refused(self, values: list) -> None:
        with pytest.raises(TypeError, match="texts, whole numbers or UUIDs, got"):
            as_labels(pa.array(values))

    def test_rows_with_a_null_are_dropped_and_counted(self) -> None:
        block, missing = make_block(
            pa.array(["a", None, "c", ""]), pa.array([1, 2, None, 4]), pa.array([1, 2, 3, None])
        )
        assert block.to_pylist() == [{"user": "a", "item": "1", "time": 1}] and missing == 3
        assert make_block(pa.nulls(2), pa.array(["x", "y"]))[1] == 2


class TestSortedPairs:
    def check(self, users: list[int], codes: list[int]) -> None:
        ranks, found, words = sorted_pairs(np.array(users, np.uint64), np.array(codes, np.int64))
        pairs = sorted(set(zip(users, codes, strict=True)))
        assert [(words[r].item(), c) for r, c in zip(ranks, found.tolist(), strict=True)] == pairs
        assert words.tolist() == sorted(set(users))

    @pytest.mark.parametrize("some", [1, 5, 10**6])
    @pytest.mark.parametrize("n", [0, 1, 2, 100, 20_000])
    def test_pairs_are_those_of_pythons_own_sort(self, n: int, some: int) -> None:
        draw = random.Random(n + some)
        users = [reference_mix(draw.randrange(some)) for _ in range(n)]
        self.check(users, [draw.randrange(draw.choice([1, 3, 10**9])) for _ in range(n)])

    def test_users_that_differ_in_their_last_bits_only(self) -> None:
        """The packed sort looks at the top bits; these words collide there, out of order, and force the full sort."""
        for n in (2, 3, 5, 64, 300, 20_000):
            low = [(n - i) % 7 for i in range(n)]
            self.check([(0xABCD << 48) + bits for bits in low], [i % 3 for i in range(n)])
        self.check([MASK, MASK - 1, 0, 1, MASK, 1], [0, 0, 1, 1, 0, 1])

    def test_codes_too_wide_to_share_a_word_with_the_user(self) -> None:
        draw = random.Random(8)
        users = [reference_mix(draw.randrange(300)) for _ in range(900)]
        self.check(users, [draw.choice([2**62, 2**62 - 1, 5, 0]) for _ in users])


class TestKeepAtMost:
    """Whom it keeps of any rows: test_dictionaries.py and test_choices.py."""

    def test_ties_of_the_hash_go_to_the_lower_code(self) -> None:
        words = np.zeros(5, np.uint64)
        pairs = sorted_pairs(np.zeros(5, np.uint64), np.arange(5)[::-1])
        assert sorted(pairs[1][kept_pairs(*pairs, words, 2)].tolist()) == [0, 1]

    @pytest.mark.parametrize("users", [1, 3, 700])
    def test_hashes_that_differ_in_their_last_bits_only(self, users: int) -> None:
        """The number of the user takes their place where pairs are sorted: the whole hash decides all the same."""
        hashes = [
            [(1 << 63) + 5, (1 << 63) + 1, (1 << 63) + 4, 7, (1 << 63) + 2][(user + n) % 5]
            for user in range(users)
            for n in range(5)
        ]
        items = [plain_unmix(plain_unmix(hashed) ^ row // 5) for row, hashed in enumerate(hashes)]
        rows = np.arange(5 * users)
        kept = kept_pairs(rows // 5, rows, np.arange(users, dtype=np.uint64), np.array(items, np.uint64), 3)
        lowest = [
            row for user in range(users) for row in sorted(range(5 * user, 5 * user + 5), key=hashes.__getitem__)[:3]
        ]
        assert sorted(kept.tolist()) == sorted(lowest)
