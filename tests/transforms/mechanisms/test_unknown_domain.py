"""The lemma that carries every mechanism for an unknown domain, and the threshold of its tests."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from private_topk.transforms.mechanisms import LimitDomain, RandomBits
from private_topk.transforms.mechanisms.exact.accounting import largest_delta_q
from private_topk.transforms.testing import SMALL_COUNTS, neighbours
from tests.transforms.mechanisms.unknown_laws import passes, top


@pytest.mark.parametrize("relation", ["add-remove", "swap"])
@pytest.mark.parametrize("kbar", [1, 2, 3])
def test_slots_move_as_counts_do(relation: str, kbar: int) -> None:
    """Pair the items that leave the top kbar with those that enter, in every way: each pair, each item that stays and
    the (kbar + 1)-th count move by at most 1, all the same way when a user joins or leaves; no more of them move than
    the user has items; and every unstable item is within `drift` of the (kbar + 1)-th count."""
    drift, pairs = 2 if relation == "swap" else 1, 0
    for counts in [*SMALL_COUNTS, (3, 2, 2, 1), (2, 2, 2, 2), (4, 4, 3, 3, 3), (1, 0, 1, 0, 1)]:
        for other in neighbours(counts, relation):
            items, old = top(counts, kbar)
            others, new = top(other, kbar)
            before = _phantoms(items[:-1], others[:-1])
            after = _phantoms(others[:-1], items[:-1])
            stay, gone, come = set(before) & set(after), set(before) - set(after), set(after) - set(before)
            assert len(gone) == len(come)
            assert all(_count(counts, i) <= old[-1] + drift for i in gone)
            assert all(_count(other, i) <= new[-1] + drift for i in come)
            for order in itertools.permutations(come):
                slots = [(i, i) for i in stay] + list(zip(gone, order, strict=True))
                moves = [_count(other, j) - _count(counts, i) for i, j in slots] + [new[-1] - old[-1]]
                allowed = {m for a, b in zip(counts, other, strict=True) if (m := b - a)}
                assert set(moves) <= {0, 1, -1} if relation == "swap" else set(moves) <= allowed | {0}
                changed = sum(a != b for a, b in zip(counts, other, strict=True))
                assert sum(m != 0 for m in moves) <= changed
                pairs += len(gone)
    assert pairs > 40, "the grid has to hold items that come and go"


def _phantoms(items: list[int | None], others: list[int | None]) -> list[object]:
    """Slots that hold no item get names, shared as far as both sides have them."""
    names = (("none", n) for n in range(len(items)))
    return [next(names) if i is None else i for i in items]


def _count(counts: tuple[int, ...], item: object) -> int:
    return counts[item] if isinstance(item, int) else 0


@pytest.mark.parametrize("delta", [1e-300, 1e-9, 1e-6, 0.01, 0.5, 0.9])
def test_largest_delta_q(delta: float) -> None:
    q = largest_delta_q(Fraction(delta))

    def bound(x: Fraction) -> arb:
        return arb(x.numerator) / x.denominator * (3 - (arb(x.numerator) / x.denominator).log()) / 4

    assert 0 < q <= 1 and not bound(q) > float(delta)
    assert q > Fraction(99, 100) or bound(q * (1 + Fraction(1, 2**40))) > arb(float(delta))
    if 1e-20 < delta < 0.6:
        hit, _ = passes((Fraction(0),), 1 / q, until=True)
        assert 0.6 * delta < float(hit) < delta, "a test of level 0 passes with probability q (2 + ln(1/q)) / 4"


def test_ties_at_the_cut_are_broken_by_position() -> None:
    """Two hundred equal counts compete for three places: only the first four positions are looked at."""
    mechanism, bits = LimitDomain(5.0, 0.1, kbar=3), RandomBits.keyed(b"ties")
    seen = {int(i) for _ in range(50) for i in mechanism(np.full(200, 10**6), 2, bits)}
    assert seen <= {0, 1, 2}
    order = np.argsort(-(np.arange(200) * 37 % 91), kind="stable")
    seen = {int(i) for _ in range(50) for i in mechanism((np.arange(200) * 37 % 91) * 10**6, 2, bits)}
    assert seen <= set(order[:3].tolist())
