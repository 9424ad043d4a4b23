from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.argmax import Shuffles
from private_topk.transforms.testing import assert_follows

OCTAVES = [np.arange(1), np.arange(1, 9), np.arange(9, 25), np.arange(25, 57)]


def test_every_order_of_a_block_is_as_likely() -> None:
    """Two blocks side by side: their orders, and that they know nothing of each other."""
    bits, seen = RandomBits.keyed(b"orders"), Counter()
    for _ in range(4000):
        shuffles = Shuffles(np.array([3, 1, 2]), bits.draw(), 5)
        rows = [shuffles.numbers(np.array([0, 2]), [(octave, OCTAVES[octave])]) for octave in (0, 1)]
        whole = np.concatenate(rows, axis=1)
        seen[tuple(whole[0, :3].tolist()), tuple(whole[1, :2].tolist())] += 1
    orders = [(a, b) for a in permutations(range(3)) for b in permutations(range(2))]
    assert_follows(seen, {order: Fraction(1, 12) for order in orders}, 0.1)


def test_a_block_read_to_its_end_gives_each_item_once() -> None:
    sizes = np.array([57, 40, 57, 2**40, 9])
    shuffles = Shuffles(sizes, RandomBits.keyed(b"end").draw(), 0)
    rows = [shuffles.numbers(np.arange(5), [octave]) for octave in enumerate(OCTAVES)]
    for size, numbers in zip(sizes.tolist(), np.concatenate(rows, axis=1).tolist(), strict=True):
        numbers = numbers[:size]
        assert len(set(numbers)) == len(numbers) and 0 <= min(numbers) and max(numbers) < size
        assert size > 57 or sorted(numbers) == list(range(size))


def test_octaves_read_at_once_give_what_they_give_one_by_one() -> None:
    sizes, octaves = np.array([57, 30, 10**6]), list(enumerate(OCTAVES))
    alone, together = (Shuffles(sizes, RandomBits.keyed(b"once").draw(), 0) for _ in range(2))
    rows = [alone.numbers(np.arange(3), [octave]) for octave in octaves]
    some = [together.numbers(np.arange(3), octaves[:3]), together.numbers(np.arange(3), octaves[3:])]
    assert np.concatenate(rows, axis=1).tolist() == np.concatenate(some, axis=1).tolist()


def test_how_others_are_read_changes_nobody() -> None:
    sizes = np.array([30, 8, 500])
    alone, together = (Shuffles(sizes, RandomBits.keyed(b"apart").draw(), 0) for _ in range(2))
    for octave in range(2):
        expected = together.numbers(np.arange(3), [(octave, OCTAVES[octave])])[2]
        assert alone.numbers(np.array([2]), [(octave, OCTAVES[octave])])[0].tolist() == expected.tolist()
