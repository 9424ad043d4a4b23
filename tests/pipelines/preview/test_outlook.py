"""What a preview says of a mechanism, against every answer there is."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from private_topk.pipelines.preview.outlook import Outlook
from private_topk.pipelines.preview.words import reasons, short
from private_topk.transforms.mechanisms import Canonical, Joint, Mechanism, TopStable
from tests.laws import Law
from tests.pipelines.shapes import looked
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.laws import HALF

COUNTS = [(9, 6, 5, 2, 0), (7, 7, 4, 4, 4, 1), (3, 3, 3, 3)]
K = 2


def expected(law: Law, counts: tuple[int, ...], ordered: bool) -> dict[str, list[float] | float]:
    """What `Outlook` states, from its definitions, item by item."""
    top = sorted(counts, reverse=True)[:K]
    spots = {value: top.count(value) for value in top}
    found: dict[str, np.ndarray] = {name: np.zeros(K) for name in ("right", "belongs", "so_far", "found")}
    single = dict.fromkeys(("recall", "order", "l_inf", "l_1", "ratio", "returned"), 0.0)
    total = 0.0
    for answer, chance in law.items():
        values = [counts[item] for item in answer]
        values = values if ordered else sorted(values, reverse=True)
        right = [value == wanted for value, wanted in zip(values, top, strict=True)]
        found["right"] += chance * np.array(right)
        found["so_far"] += chance * np.logical_and.accumulate(right)
        found["belongs"] += chance * np.array([value >= top[-1] for value in values])
        part = np.array([min(values.count(value), spots[value]) / spots[value] for value in top])
        found["found"] += chance * part
        off = [abs(value - wanted) for value, wanted in zip(values, top, strict=True)]
        single["recall"] += chance * part.mean()
        single["order"] += chance * np.mean(right)
        single["l_inf"] += chance * max(off)
        single["l_1"] += chance * sum(off)
        single["ratio"] += chance * sum(values) / sum(top)
        single["returned"] += chance * len(answer)
        total += chance
    assert total == pytest.approx(1, abs=1e-9)
    return {**{name: list(values) for name, values in found.items()}, **single}


CASES = {
    Joint(1.0): lambda counts: laws.best_sequence(counts, K, 1),
    Canonical(1.0): lambda counts: laws.best_set(counts, K, 1, "gumbel", HALF),
}


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("mechanism", CASES, ids=repr)
def test_every_number_is_that_of_the_law(mechanism: Mechanism, counts: tuple[int, ...]) -> None:
    """2,000 draws, five standard errors: a right preview fails one time in 1e6, one that is 0.06 off nearly always."""
    draws = 2000
    outlook = looked(mechanism, counts, K, draws)
    wanted = expected(CASES[mechanism](counts), counts, outlook.ordered)
    for name in ("right", "belongs", "so_far", "found") if outlook.ordered else ("found",):
        for place, one in enumerate(getattr(outlook, name)):
            off = 5 * math.sqrt(0.25 / draws)
            assert one.value == pytest.approx(wanted[name][place], abs=off), (name, place)
    for name in ("recall", "order", "l_inf", "l_1", "ratio", "returned"):
        one = getattr(outlook, name)
        if outlook.ordered or name != "order":
            off = 5 * K * max(counts) / 2 / math.sqrt(draws) * (0.2 if name != "l_1" else 1)
            assert one.value == pytest.approx(wanted[name], abs=off), name


@pytest.mark.parametrize("counts", [tuple(range(20, 10, -1)), (9, 6, 5, 2, 1, 0, 0)])
def test_one_ranking_finds_what_is_stated_nine_times_of_ten(counts: tuple[int, ...]) -> None:
    """2,000 draws tell the range, and the law how often recall is outside: at most one in twenty on either side.

    That is off by four standard errors, 0.02, one time in 10,000; a range that leaves out a tenth on a side is told.
    """
    k = 5
    low, high = looked(Joint(0.5), counts, k, 2000).recall_range
    law = laws.best_sequence(counts, k, Fraction(1, 2)).items()

    def chance(holds: Callable[[float], bool]) -> float:
        return sum(p for answer, p in law if holds(sum(item < k for item in answer) / k))

    assert chance(lambda recall: recall < low) < 0.07 and chance(lambda recall: recall > high) < 0.07
    assert chance(lambda recall: recall <= low) > 0.03 and chance(lambda recall: recall >= high) > 0.03, "no wider"


def test_a_preview_repeats_itself() -> None:
    one, again = (looked(Joint(1.0), [9, 6, 5, 2, 0], 2, 50) for _ in range(2))
    assert one == again


def test_an_unknown_domain_returns_fewer() -> None:
    outlook = looked(TopStable(1.0, 1e-6), [1000, 900, 3, 2, 1], 3, 100)
    assert 0 < outlook.returned.value < 3 and outlook.returned.high < 3
    assert outlook.recall.value == pytest.approx(outlook.returned.value / 3)
    assert not outlook.right and len(outlook.found) == 3


def test_an_unknown_domain_with_fewer_items_than_k() -> None:
    outlook: Outlook = looked(TopStable(1.0, 1e-6), [10**6, 10**5], 5, 20)
    assert outlook.recall.value == 1 and outlook.returned.value == 2


def test_an_order_of_all_zero_counts_is_not_called_right() -> None:
    """All of them tie, so that no place of them says anything."""
    nothing = looked(Joint(1.0), [0] * 5, K, 30)
    assert nothing.recall.value == 0 and nothing.order.value == 0
    assert "right" not in short(nothing) and not any("right" in said for said in reasons([nothing]))


@pytest.mark.parametrize("held", range(1, 5))
def test_places_of_items_that_nobody_has_are_neither_right_nor_found(held: int) -> None:
    """As in an earlier ranking with noisy counts of 0 at its end: only those that are found stand in their places."""
    few = looked(Joint(20.0), [1000 - 100 * n if n < held else 0 for n in range(9)], 5, 30)
    assert few.recall.value == few.order.value == pytest.approx(held / 5)
    assert [one.value for one in few.belongs] == [one.value for one in few.right] == [1] * held + [0] * (5 - held)
    which = f"the top {held} are in their right places" if held > 1 else "the first place is right"
    assert which in short(few) and f"finds {held} of the top 5" in short(few)
    assert any(said.startswith("Rank") and "noise" in said for said in reasons([few])) is (held > 2)
