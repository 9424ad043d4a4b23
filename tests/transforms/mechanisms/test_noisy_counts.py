"""Which noise published counts get, why that is private, and that it is the least."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits, noise_of_counts, publish_counts
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.noisy_counts import (
    CorrelatedGaussian,
    Cube,
    IndependentLaplace,
    Spread,
    cost_of_counts,
)

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
SIZES = [(1, None), (5, None), (5, 1), (5, 4), (8, 3), (8, 7)]


def publish(bits: bytes = b"publish", **parameters: object) -> list[int]:
    return publish_counts(np.arange(100, 0, -1), np.arange(50), RandomBits.keyed(bits), **parameters).tolist()


def gaussian(size: int, limit: int | None, neighbours: str = "add-remove") -> CorrelatedGaussian:
    noise = noise_of_counts(size, EPSILON, DELTA, limit, neighbours)
    assert isinstance(noise, CorrelatedGaussian)
    return noise


def covariance(noise: CorrelatedGaussian, size: int) -> np.ndarray:
    return float(noise.own) * np.eye(size) + float(noise.shared)


def moves(size: int, limit: int | None, neighbours: str) -> np.ndarray:
    """Every way in which one user can move the counts."""
    steps = (-1, 0, 1) if neighbours == "swap" else (0, 1)
    found = np.array(list(itertools.product(steps, repeat=size)))
    most = limit or size
    return found[((found > 0).sum(axis=1) <= most) & ((found < 0).sum(axis=1) <= most)]


@pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
@pytest.mark.parametrize(("size", "limit"), SIZES)
def test_no_move_is_longer_than_the_budget_allows(size: int, limit: int | None, neighbours: str) -> None:
    inverse = np.linalg.inv(covariance(gaussian(size, limit, neighbours), size))
    moved = moves(size, limit, neighbours)
    longest = np.einsum("ij,jk,ik->i", moved, inverse, moved).max()
    allowed = 1 / float(gaussian_scale(EPSILON, DELTA, Fraction(1))) ** 2
    assert longest == pytest.approx(allowed, rel=1e-9), "and the budget is used up"


@pytest.mark.parametrize(("size", "limit"), SIZES)
def test_no_other_shared_part_needs_less_noise(size: int, limit: int | None) -> None:
    moved = np.arange(1, min(size, limit or size) + 1)
    parts = np.linspace(0, 1 / size, 4001)[:-1]
    own = (moved - parts[:, None] * moved**2).max(axis=1)
    least = (own * (1 + parts / (1 - size * parts))).min() * float(gaussian_scale(EPSILON, DELTA, Fraction(1))) ** 2
    found = float(gaussian(size, limit).variance())
    assert found == pytest.approx(least, rel=2e-3)
    assert found <= len(moved) * float(gaussian_scale(EPSILON, DELTA, Fraction(1))) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_without_a_bound_a_count_has_half_of_root_n_and_a_half(size: int) -> None:
    unit = float(gaussian_scale(EPSILON, DELTA, Fraction(1)))
    assert gaussian(size, None).stddev() == pytest.approx((math.sqrt(size) + 1) / 2 * unit, rel=0.005)
    assert gaussian(size, 1).stddev() == pytest.approx(unit, rel=0.003)


def test_the_pure_noise_is_the_one_of_least_variance() -> None:
    kinds = {
        (100, None, "add-remove"): Spread, (100, 28, "add-remove"): IndependentLaplace, (100, 30, "add-remove"): Spread,
        (100, None, "swap"): Cube, (100, 3, "swap"): IndependentLaplace, (1, None, "add-remove"): IndependentLaplace,
    }  # fmt: skip
    for (size, limit, neighbours), kind in kinds.items():
        found = noise_of_counts(size, 1.0, None, limit, neighbours)
        assert type(found) is kind
        moved = min(size, (limit or size) * (2 if neighbours == "swap" else 1))
        assert found.stddev() <= IndependentLaplace(Fraction(moved)).stddev()
    # Large rates: rounding then weighs more than what the shape of the noise saves.
    assert isinstance(noise_of_counts(3, 50.0), IndependentLaplace)


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_noise_is_calibrated_to_the_fewest_counts_one_user_moves(delta: float | None) -> None:
    assert publish(epsilon=1.0, delta=delta) == publish(epsilon=1.0, delta=delta, max_items_per_user=50)
    assert publish(epsilon=1.0, delta=delta) == publish(epsilon=1.0, delta=delta, max_items_per_user=99)
    swapped = publish(epsilon=1.0, delta=delta, max_items_per_user=3, neighbours="swap")
    assert swapped != publish(epsilon=1.0, delta=delta, max_items_per_user=3)


@pytest.mark.parametrize("delta", [None, 1e-5])
@pytest.mark.parametrize("limit", [None, 2])
def test_noise_grows_with_the_most_that_a_user_adds_to_a_count(delta: float | None, limit: int | None) -> None:
    once, seven = (noise_of_counts(20, 0.1, delta, limit, cap=cap).variance() for cap in (1, 7))
    assert float(seven / once) == pytest.approx(49, rel=0.001)


def test_gaussian_counts_state_their_rho_and_pure_ones_nothing_more() -> None:
    cost = cost_of_counts(EPSILON, DELTA)
    assert float(cost.rho or 0) == pytest.approx(1 / (2 * float(gaussian_scale(EPSILON, DELTA, Fraction(1))) ** 2))
    assert (cost.epsilon, cost.delta) == (EPSILON, DELTA)
    assert cost_of_counts(0.5).delta == 0


def test_counts_come_in_the_order_of_the_answer() -> None:
    exact = publish_counts([7, 10**9, 10**5], [1, 2, 0], RandomBits.keyed(b"order"), 10.0)
    assert np.abs(exact - [10**9, 10**5, 7]).max() < 50
    assert publish_counts([7, 8], [], RandomBits.keyed(b"none"), 1.0).tolist() == []


@pytest.mark.parametrize("limit", [None, 1])
def test_noise_beyond_int64_neither_wraps_nor_fails(limit: int | None) -> None:
    counts = [2**62] * 200
    noisy = publish_counts(counts, range(200), RandomBits.keyed(b"wide"), 1e-30, None, limit).tolist()
    assert set(noisy) == {-(2**63), 2**63 - 1}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive finite number, got 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must lie strictly between 0 and 1, got 1.0"),
        ({"epsilon": 1.0, "max_items_per_user": 0}, "max_items_per_user must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_budgets_are_refused(parameters: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        publish(**parameters)
