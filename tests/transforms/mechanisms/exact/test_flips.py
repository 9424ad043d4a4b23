from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact import flips
from private_topk.transforms.mechanisms.exact.flips import FlipRounds, _powers
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.reals import ball, precision
from tests.laws import assert_follows, draws_to_see
from tests.transforms.mechanisms.given_words import SEQUENTIAL, GivenWords
from tests.transforms.mechanisms.laws import flip_round

TABLE = Histogram(np.array([50, 44, 43, 20, 0]), np.array([1, 3, 6, 40, 200]))


def winners(table: Histogram, rate: Fraction, k: int, draw: object) -> list[int]:
    rounds = FlipRounds(table, rate, k, draw)
    return [rounds.next() for _ in range(k)]


@pytest.mark.parametrize(("rate", "before"), [(Fraction(1, 30), 3), (Fraction(1, 3), 0), (Fraction(2), 3)])
def test_rounds_are_permute_and_flip_s_among_what_is_left(rate: Fraction, before: int) -> None:
    """The values drawn in a round, given those of the rounds before, over 250 items: by their known law."""
    bits, seen, expected, times = RandomBits.keyed(b"rounds"), Counter(), Counter(), 1600
    for _ in range(times):
        *first, last = TABLE.places(np.array(winners(TABLE, rate, before + 1, bits.draw()))).tolist()
        left = TABLE.sizes - np.bincount(first, minlength=5)
        chances = left * np.exp(flip_round(float(rate))(TABLE.values.astype(float), left.astype(float)))
        for place, chance in enumerate(np.nan_to_num(chances).tolist()):
            expected[(place,)] += chance / times
        seen[(last,)] += 1
    assert_follows(seen, expected, 0.1)


def test_items_of_one_block_win_by_their_own_counts() -> None:
    """At this rate 8, 5, 3 and 0 are proposed as one block of 1 + 2 + 3 + 4 items, below the one item of count 9."""
    table, rate = Histogram(np.array([9, 8, 5, 3, 0]), np.array([1, 1, 2, 3, 4])), Fraction(1, 40)
    bits = RandomBits.keyed(b"block")
    chances = table.sizes * np.exp(flip_round(float(rate))(table.values.astype(float), table.sizes.astype(float)))
    law = {(place,): chance for place, chance in enumerate(chances.tolist())}
    draws = draws_to_see(law, 0.09)
    seen = Counter((int(table.places(np.array(winners(table, rate, 1, bits.draw())))[0]),) for _ in range(draws))
    assert_follows(seen, law, 0.09)


def test_every_item_wins_once_and_equal_counts_in_uniform_order() -> None:
    draw = RandomBits.keyed(b"all").draw
    assert sorted(winners(TABLE, Fraction(1, 7), 250, draw())) == list(range(250))
    table = Histogram(np.array([3]), np.array([3]))
    seen = Counter(tuple(winners(table, Fraction(1), 3, draw())) for _ in range(1500))
    assert_follows(seen, {order: Fraction(1, 6) for order in seen}, 0.12)
    assert len(seen) == 6


@pytest.mark.parametrize("rate", [Fraction(1, 30), Fraction(2)])
def test_floats_that_leave_it_open_change_no_answer(rate: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> list[list[int]]:
        bits = RandomBits.keyed(b"open")
        return [winners(TABLE, rate, 30, bits.draw()) for _ in range(5)]

    expected = answers()
    monkeypatch.setattr(flips, "_ERROR", 10.0)
    assert answers() == expected


RATE_OF_PROPOSALS = 2 * (1 + Fraction(1, 2**57))  # of two items at a rate so small that both weigh 2**57 + 1 of 2**57


def flip_that_keeps(rate: Fraction, waits: list[list[int]]) -> Fraction:
    """The probability with which the lesser of counts 1 and 0 is kept when it is proposed after some waits, given by
    all their words: 1 / (1 + (1 / p - 1) exp(v)) by the law, over the weight of the proposal.
    """
    with precision(2000):
        numbers = [ball(sum(Fraction(word, 2 ** (64 * n + 64)) for n, word in enumerate(words))) for words in waits]
        v = -sum((number.log() for number in numbers), ball(0)) / ball(RATE_OF_PROPOSALS)
        kept = 1 / (1 + ball(rate).expm1() * v.exp()) / (ball(RATE_OF_PROPOSALS) / 2)
        return Fraction(int((kept * 2**1000).floor().unique_fmpz()), 2**1000)


@pytest.mark.parametrize("word", [0, 1, 100, 2**16, 2**32, 2**40, 2**44 - 1, 2**44])
@pytest.mark.parametrize(("second", "before"), [(0, 0), (2**63, 30), (2**64 - 1, 0)])
def test_a_proposal_after_a_rare_wait_is_kept_as_the_law_has_it(word: int, second: int, before: int) -> None:
    """Waits whose first word is small are met once in 2**20 to 2**64 proposals. The flip lies 2**-50 of the chance
    above it or below it. The counts are 1 and 0, of which first the 0 is proposed and then, if that is not kept, the 1.
    """
    early = [[2**64 - 2**40, 0, 1] for _ in range(before)]
    last = [word, second, 1]
    with precision(200):
        log_u = float(ball(Fraction(word * 2**64 + second, 2**128) + Fraction(1, 2**192)).log())
    rate = Fraction(math.exp(log_u / 2))  # so that p + (1 - p) exp(v) is about 2
    chance = flip_that_keeps(rate, [*early, last])
    assert Fraction(1, 4) < chance < Fraction(3, 4)
    for kept, level in ((True, 1 - Fraction(1, 2**50)), (False, 1 + Fraction(1, 2**50))):
        flip = int(chance * level * 2**128)
        words = {(0, 2 * n, level): w for n, wait in enumerate([*early, last]) for level, w in enumerate(wait)}
        words |= {(0, 2 * n + 1, 0): 2**64 - 1 for n in range(before)}  # these are not kept
        words |= {(0, 2 * before + 1, 0): flip >> 64, (0, 2 * before + 1, 1): flip % 2**64}
        words |= {(0, 2 * n, level): 0 for n in range(before + 1) for level in range(3, 40)}
        words |= {(SEQUENTIAL, n, 0): 3 << 61 for n in range(before + 1)}  # a ticket of the second item
        words |= {(SEQUENTIAL, before + 1, 0): 0}  # then one of the first
        rounds = FlipRounds(Histogram(np.array([1, 0]), np.array([1, 1])), rate, 1, GivenWords(words))
        assert rounds.next() == (1 if kept else 0), (word, second, kept)


def test_powers_are_just_above_on_every_scale() -> None:
    for rate in (Fraction(1, 10**9), Fraction(1, 100), Fraction(3), Fraction(10**9)):
        for unit in (1, 37, 10**6):
            gaps = np.arange(60) * unit
            for digits in (16, 40, 60):
                for gap, power in zip(gaps.tolist(), _powers(gaps, rate, digits).tolist(), strict=True):
                    exact = 2.0**digits * math.exp(-min(float(rate) * gap, 700))
                    assert exact * (1 - 1e-12) <= power <= exact * 1.003 + 2


def test_work_does_not_follow_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few proposals a round, and none of the far ones: the time would tell of the counts, and hang on some."""
    proposed = []
    original = FlipRounds._propose
    monkeypatch.setattr(FlipRounds, "_propose", lambda self, total: proposed.append(1) or original(self, total))
    ranks = np.arange(1, 200_001)
    shapes = [np.full(200_000, 7), 10**7 // ranks, ranks, 10**9 * ranks, np.minimum(ranks, 3), 10**6 // ranks * 1000]
    for counts in shapes:
        table = Histogram.of(counts.astype(np.int64))
        for rate in (Fraction(1, 10**5), Fraction(1, 100), Fraction(1, 3), Fraction(50)):
            proposed.clear()
            winners(table, rate, 300, RandomBits.keyed(b"work").draw())
            assert len(proposed) < 3 * 300, (counts[:3], rate)


def test_extreme_rates_give_a_valid_answer() -> None:
    table = Histogram(np.array([2**62, 2**62 - 9, 5, 0]), np.array([1, 1, 1, 1]))
    for rate in (Fraction(1, 10**300), Fraction(1, 2**62), Fraction(10**300)):
        answer = winners(table, rate, 4, RandomBits.keyed(b"absurd").draw())
        assert sorted(answer) == [0, 1, 2, 3] and (rate < 1 or answer == [0, 1, 2, 3])
