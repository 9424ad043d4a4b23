"""How far a user reaches into an order: all whole moves, and random ones of weights between 0 and 1."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact.accounting import order_reach


def reach(moves: np.ndarray) -> np.ndarray:
    return (moves**2).sum(axis=1) - moves.sum(axis=1) ** 2 / moves.shape[1]


@pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
@pytest.mark.parametrize(("items", "most"), [(2, 1), (3, 2), (4, 1), (5, 3), (5, 5), (6, 2)])
def test_no_move_reaches_further_and_one_does_as_far(items: int, most: int, neighbours: str) -> None:
    stated = float(order_reach(items, most, neighbours))
    whole = np.array(list(itertools.product((-1, 0, 1) if neighbours == "swap" else (0, 1), repeat=items)), float)
    few = ((whole > 0).sum(axis=1) <= most) & ((whole < 0).sum(axis=1) <= most)
    assert reach(whole[few]).max() == pytest.approx(stated)
    rng = np.random.default_rng(1)
    one, two = rng.random((2, 20_000, items)) ** rng.choice([0.02, 1, 5], (2, 20_000, items))
    one, two = (v * np.minimum(1, np.sqrt(most / (v**2).sum(axis=1)))[:, None] for v in (one, two))
    found = reach(one - two if neighbours == "swap" else one)
    assert found.max() <= stated * (1 + 1e-12)


def test_a_single_score_has_one_order() -> None:
    assert order_reach(1, 5, "add-remove") == 1
