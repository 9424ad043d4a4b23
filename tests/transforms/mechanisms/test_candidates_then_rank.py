"""Candidates, then rank: the law of both draws, and the privacy inequality on neighbours made of users and their items.

Two draws of one user who moves, `swap_costs_one_draw`, are those of test_moves.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import CandidatesThenRank, RandomBits, WeightedOrder
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.histogram import Named
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.testing import Law, hockey_stick
from private_topk.transforms.testing.frequencies import assert_follows, draws_to_see
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract
from tests.transforms.mechanisms.test_weighted_gaussian import User, sums

order_law = cache(laws.noisy_order)
KINDS: list[User] = [user for n in range(1, 4) for user in itertools.combinations(range(4), n)]


@cache
def told(users: tuple[User, ...], mechanism: CandidatesThenRank, k: int) -> Law:
    """P(candidates in their order, all of these in theirs), of four items: more than is published."""
    weights = sums(users, 4, mechanism.whole_items)
    counts = [sum(item in user for user in users) for item in range(4)]
    candidates = mechanism.candidates(k, 4)
    law: dict = {}
    for first, p in order_law(weights, candidates, "gaussian", mechanism.finding_scale(4)).items():
        held = tuple(counts[i] for i in first)
        second = order_law(held, candidates, "gaussian", mechanism.ordering_scale(candidates))
        law |= {(first, order): p * q for order, q in second.items()}
    return law


def published(law: Law, k: int) -> Law:
    """P(answer) of that."""
    answers: dict = {}
    for (first, order), p in law.items():
        answer = tuple(first[place] for place in order[:k])
        answers[answer] = answers.get(answer, 0.0) + p
    return answers


class TestCandidatesThenRank(Contract):
    mechanisms: ClassVar = [
        CandidatesThenRank(1.0, 1e-6, 10),
        CandidatesThenRank(2.0, 0.01, 3, whole_items=1, neighbours="swap"),
    ]

    @pytest.mark.parametrize(
        "users",
        [
            ((0, 1, 2),) * 4 + ((0, 1),) * 2 + ((3,),) * 3 + ((1,),),  # weights find other items than numbers would
            ((0,), (1,), (2,), (3,)),  # all alike: noise that both rounds share would show
        ],
        ids=["unlike", "alike"],
    )
    def test_draws_follow_the_law_of_both_rounds(self, users: tuple[User, ...]) -> None:
        mechanism, k = CandidatesThenRank(5.0, 0.1, 3, whole_items=1), 2
        law = published(told(users, mechanism, k), k)
        weights = np.array(sums(users, 4, 1))
        counts = np.array([sum(item in user for user in users) for item in range(4)])
        named, bits = Named.of(weights), RandomBits.keyed(b"both rounds")
        prepared = mechanism.prepare(named.histogram, lambda ranks: counts[named.items(ranks)])
        seen = Counter(tuple(named.items(prepared.ranks(k, bits)).tolist()) for _ in range(draws_to_see(law, 0.15)))
        assert_follows(seen, law, 0.15)
        one, two = RandomBits.keyed(b"call"), RandomBits.keyed(b"call")
        for _ in range(5):
            assert mechanism(weights, k, one, counts).tolist() == named.items(prepared.ranks(k, two)).tolist()

    @pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
    @pytest.mark.parametrize("whole", [1, 3])
    def test_no_user_tells_more_than_the_budget(self, neighbours: str, whole: int) -> None:
        """Four items, k = 2, all of both orders: every user there can be beside crowds that are near each other."""
        mechanism = CandidatesThenRank(0.5, 0.05, 3, whole, neighbours)
        worst, rho = 0.0, mechanism.cost(2).rho
        assert rho is not None
        for crowd in [(1, 1, 1, 1), (3, 2, 1, 0)]:
            others = tuple((item,) for item, users in enumerate(crowd) for _ in range(users))
            # Of items that count alike one stands for all.
            kinds = [user for user in KINDS if user[0] < 2] if crowd[0] == 1 else KINDS
            pairs = itertools.permutations(kinds, 2) if neighbours == "swap" else ((user, ()) for user in kinds)
            for users in pairs:
                here = [told((*others, *((u,) if u else ())), mechanism, 2) for u in users]
                worst = max(worst, *(hockey_stick(*order, 0.5) for order in (here, here[::-1])))
                one, two = ([float(p) for p in law.values()] for law in here)
                assert here[0].keys() == here[1].keys()
                assert sum(p * p / q for p, q in zip(one, two, strict=True)) <= math.exp(2 * float(rho))
        assert 0.01 < worst <= 0.05

    @pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
    @pytest.mark.parametrize(("whole", "limit", "d", "k"), [(1, 5, 5, 2), (2, 2, 5, 2), (20, 50, 1000, 40)])
    def test_both_distances_together_are_one_gaussians(
        self, neighbours: str, whole: int, limit: int, d: int, k: int
    ) -> None:
        """All users of five items, replaced or not, and all candidates; of many items those that reach furthest."""
        mechanism = CandidatesThenRank(1.0, 1e-3, limit, whole, neighbours)
        allowed = 1 / float(gaussian_scale(Fraction(1), Fraction(1, 1000), Fraction(1))) ** 2
        candidates = mechanism.candidates(k, d)
        scales = float(mechanism.finding_scale(d)) / UNIT, float(mechanism.ordering_scale(candidates))

        def reach(v: np.ndarray) -> float:
            return float((v**2).sum() - v.sum() ** 2 / len(v))

        if d == 5:
            kinds: list[User] = [u for n in range(limit + 1) for u in itertools.combinations(range(5), n)]
        else:
            kinds = [tuple(range(t)) for t in (0, whole, candidates // 2, limit)]
            kinds += [tuple(range(candidates - t, candidates)) for t in (candidates // 2, min(limit, candidates))]
        adds = [(np.array(sums((u,), d, whole)) / UNIT, np.bincount(u, minlength=d)) if u else
                (np.zeros(d), np.zeros(d)) for u in kinds]  # fmt: skip
        others = adds if neighbours == "swap" else adds[:1]
        told = [reach(w - x) / scales[0] ** 2 + reach((n - o)[:candidates]) / scales[1] ** 2
                for w, n in adds for x, o in others]  # fmt: skip
        assert max(told) <= allowed * (1 + 1e-9)
        assert max(told) > (0.9 if neighbours == "add-remove" else 0.6) * allowed
        rho = mechanism.cost(k).rho
        assert rho is not None and float(rho) == pytest.approx(allowed / 2)

    def test_of_few_items_all_are_candidates(self) -> None:
        """Half of k more than k, rounded up; at the most all of them, and then their numbers alone decide."""
        mechanism = CandidatesThenRank(1000.0, 0.5, 4)
        assert [mechanism.candidates(k, 100) for k in (1, 2, 3, 10, 80)] == [2, 3, 5, 15, 100]
        far = np.array([10**9, 0, 5, 8]) * UNIT
        assert mechanism(far, 3, RandomBits.keyed(b"few"), [0, 90, 900, 9000]).tolist() == [3, 2, 1]

    def test_who_is_no_candidate_is_not_in_the_answer_however_many_hold_it(self) -> None:
        mechanism = CandidatesThenRank(1000.0, 0.5, 4)
        weights = np.array([9000, 8000, 7000, 10, 10]) * UNIT
        assert mechanism(weights, 2, RandomBits.keyed(b"few"), [1000, 3000, 2000, 9000, 0]).tolist() == [1, 2]

    def test_sums_alone_stand_for_users_who_weigh_wholly(self) -> None:
        mechanism, counts = CandidatesThenRank(1.0, 0.01, 4), np.arange(40) * 7 % 41
        for key in (b"1", b"2", b"3"):
            both = mechanism(counts * UNIT, 9, RandomBits.keyed(key), counts)
            assert mechanism(counts * UNIT, 9, RandomBits.keyed(key)).tolist() == both.tolist()

    def test_users_are_refused_where_they_do_not_fit(self) -> None:
        bits = RandomBits.keyed(b"refused")
        with pytest.raises(Refusal, match="users must have one number for each count, got 2 for 3"):
            CandidatesThenRank(1.0, 1e-6, 4)([1, 2, 3], 1, bits, [1, 2])
        with pytest.raises(Refusal, match="users does not apply to weighted-order"):
            WeightedOrder(1.0, 1e-6, 4)([1, 2, 3], 1, bits, [1, 2, 3])
