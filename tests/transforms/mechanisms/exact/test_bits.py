from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.bits import below, uniform_subset
from tests.laws import assert_follows, draws_to_see
from tests.refusals import refused


def test_words_are_a_function_of_their_address() -> None:
    draw, again = RandomBits.keyed(b"a").draw(), RandomBits.keyed(b"a").draw()
    whole = draw.words(3, 0, 20_000)
    for start, count in ((0, 1), (1, 7), (6, 40), (999, 4000), (10_000, 10_000)):
        assert again.words(3, start, count).tolist() == whole[start : start + count].tolist()
    assert again.word(3, 77) == whole[77]
    whole = whole[:1000]
    others = [draw.words(4, 0, 1000), draw.words(3, 0, 1000, level=1), RandomBits.keyed(b"b").draw().words(3, 0, 1000)]
    assert len(set(np.concatenate([whole, *others]).tolist())) == 4000


def test_refining_a_word_shifts_no_other_bits() -> None:
    plain, looked = RandomBits.keyed(b"s").draw(), RandomBits.keyed(b"s").draw()
    first = [plain.bits(13) for _ in range(600)]
    second = []
    for i in range(600):
        looked.words(0, i, 5, level=i % 3)
        second.append(looked.bits(13))
    assert first == second


def test_draws_do_not_overlap_and_come_in_order() -> None:
    bits = RandomBits.keyed(b"k")
    draws = [bits.draw() for _ in range(3)]
    again = RandomBits.keyed(b"k")
    assert [d.words(0, 0, 50).tolist() for d in draws] == [again.draw().words(0, 0, 50).tolist() for _ in range(3)]
    assert len(set(np.concatenate([d.words(0, 0, 50) for d in draws]).tolist())) == 150


@pytest.mark.parametrize("n", [1, 3, 10])
def test_integers_below_a_bound_are_uniform(n: int) -> None:
    draw, law = RandomBits.keyed(b"below").draw(), {(i,): Fraction(1, n) for i in range(n)}
    seen = Counter((draw.below(n),) for _ in range(draws_to_see(law, 0.06)))
    assert_follows(seen, law, 0.06)


def test_below_takes_integers_of_any_size() -> None:
    draw = RandomBits.keyed(b"large").draw()
    assert max(draw.below(3**500) for _ in range(200)).bit_length() > 785


@pytest.mark.parametrize("n", [3, 10, 2**32 - 1, 2**32 + 1, 3 << 61, 2**63 - 1])
def test_below_each_takes_equally_many_words_for_every_number(n: int) -> None:
    """A number comes of a run of words. Of a run that has one more than the others, the first word is not taken."""
    numbers = sorted({i % n for i in (*range(50), -2, -1, n // 2, n // 3)})
    starts = [-(-i * 2**64 // n) for i in numbers]
    longer = [-(-(i + 1) * 2**64 // n) - start > 2**64 // n for i, start in zip(numbers, starts, strict=True)]
    assert any(longer) and not all(longer)
    found, rejected = below(np.array(starts, np.uint64), np.full(len(starts), n))
    assert found.tolist() == numbers and rejected.tolist() == longer
    found, rejected = below(np.array(starts, np.uint64) + np.uint64(1), np.full(len(starts), n))
    assert not rejected[found == numbers].any()


@pytest.mark.parametrize("key", [b"", "text", None, 5])
def test_a_key_is_bytes(key: object) -> None:
    with refused("key", "must be non-empty bytes"):
        RandomBits.keyed(key)


def test_the_key_is_never_shown() -> None:
    bits = RandomBits.keyed(b"secret secret")
    bits.draw()
    assert repr(bits) == "RandomBits(<key>, draws=1)"
    assert RandomBits.fresh().draw().word(0, 0) != RandomBits.fresh().draw().word(0, 0)


def test_words_of_scattered_places_are_those_of_their_addresses() -> None:
    draw = RandomBits.keyed(b"grid").draw()
    for width in (1, 3, 8, 32):
        for places in ([0], [7], [3, 4, 5], [0, 2, 9, 1000], [5, 2**40]):
            found = draw.grid(6, np.array(places), width)
            assert found.tolist() == [draw.words(6, place * width, width).tolist() for place in places]


@pytest.mark.parametrize(("n", "m"), [(5, 0), (5, 5), (5, 2), (6, 4)])
def test_subsets_are_uniform(n: int, m: int) -> None:
    draw = RandomBits.keyed(b"subsets").draw()
    law = {y: Fraction(1, math.comb(n, m)) for y in itertools.combinations(range(n), m)}
    seen = Counter(tuple(sorted(uniform_subset(draw, n, m))) for _ in range(draws_to_see(law, 0.07)))
    assert_follows(seen, law, 0.07)


def test_large_subsets_have_distinct_members() -> None:
    draw = RandomBits.keyed(b"large").draw()
    for n, m in ((10**15, 1000), (3000, 2900)):
        chosen = uniform_subset(draw, n, m)
        assert len(set(chosen)) == m and 0 <= min(chosen) <= max(chosen) < n
