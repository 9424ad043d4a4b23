from __future__ import annotations

import math
import time
from collections import Counter
from fractions import Fraction

import numpy as np

from private_topk.transforms.mechanisms import Cost, RandomBits
from private_topk.transforms.mechanisms.cost import rho_of_pure
from private_topk.transforms.mechanisms.pnf_peeling import PnfPeeling
from private_topk.transforms.testing import Law, assert_follows, draws_to_see
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.item_by_item import ItemByItem


class TestPnfPeeling(ItemByItem):
    mechanisms = [PnfPeeling(1.0), PnfPeeling(2.5, neighbours="swap")]

    def law(self, mechanism: PnfPeeling, counts: tuple[int, ...], k: int) -> Law:
        return laws.permute_and_flip(
            counts, k, Fraction(mechanism.epsilon) / (k if mechanism.neighbours == "add-remove" else 2 * k)
        )

    def test_many_equal_scores(self) -> None:
        """The trap: as an alternating sum the law of permute-and-flip is garbage beyond 40 equal scores."""
        equal, p = 60, math.exp(-2)
        # The leader is met after j of the others, all of which were passed over: a geometric sum.
        leader = sum((1 - p) ** j for j in range(equal + 1)) / (equal + 1)
        law = {(0,): leader, (1,): 1 - leader}
        bits, draws = RandomBits.keyed(b"equal"), draws_to_see(law, 0.05)
        counts = np.array([2, *[0] * equal])
        seen = Counter((min(int(PnfPeeling(1.0)(counts, 1, bits)[0]), 1),) for _ in range(draws))
        assert_follows(seen, law, 0.05)

    def test_rounds_have_noise_of_their_own(self) -> None:
        """With one noise for all rounds the order of two equal items would tell nothing more; here it is fresh."""
        bits = RandomBits.keyed(b"fresh")
        answers = [PnfPeeling(1.0)(np.zeros(3, np.int64), 3, bits).tolist() for _ in range(100)]
        assert len({tuple(a) for a in answers}) == 6

    def test_cost_of_k_pure_draws(self) -> None:
        assert PnfPeeling(2.0).cost(10) == Cost(Fraction(2), rho=10 * rho_of_pure(Fraction(1, 5)))

    def test_all_of_many_items_take_time_in_proportion(self) -> None:
        """Eight times as many items, all of them asked for: about ten times the time and not 64 times, as once."""

        def seconds(size: int) -> float:
            counts, started = 10**7 // np.arange(1, size + 1), time.process_time()
            assert len(set(PnfPeeling(1.0)(counts, size, RandomBits.keyed(b"many")).tolist())) == size
            return time.process_time() - started

        seconds(1000)
        assert seconds(40_000) < 30 * seconds(5_000)
