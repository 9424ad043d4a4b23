from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from private_topk.testing import Law, assert_follows
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.discrete import (
    discrete_gaussian,
    discrete_gaussian_delta,
    discrete_gaussian_variance,
    discrete_laplace,
)

DRAWS = 10_000


def law_of(log_weight: Fraction, power: int, reach: int = 400) -> Law:
    """P(x) in proportion to exp(-log_weight * |x|**power), on -reach .. reach; the rest is below 1e-30."""
    weights = {
        (x,): (-arb(log_weight.numerator) / log_weight.denominator * abs(x) ** power).exp()
        for x in range(-reach, reach + 1)
    }
    whole = sum(weights.values(), arb(0))
    return {x: w / whole for x, w in weights.items()}


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(0.1)])
def test_discrete_laplace_follows_its_law(scale: Fraction) -> None:
    draw = RandomBits.keyed(b"laplace").draw()
    seen = Counter((discrete_laplace(draw, scale),) for _ in range(DRAWS))
    assert_follows(seen, law_of(1 / scale, 1), 0.06)


@pytest.mark.parametrize("variance", [Fraction(1, 5), Fraction(1), Fraction(29, 3), Fraction(40)])
def test_discrete_gaussian_follows_its_law(variance: Fraction) -> None:
    draw = RandomBits.keyed(b"gaussian").draw()
    seen = Counter((discrete_gaussian(draw, variance),) for _ in range(DRAWS))
    assert_follows(seen, law_of(1 / (2 * variance), 2), 0.06)


def convolved_delta(epsilon: float, variance: float, moved: int) -> float:
    """The exact hockey-stick divergence of `moved` noises from themselves shifted by 1, by plain convolution."""
    x = np.arange(-int(14 * math.sqrt(variance)) - 5, int(14 * math.sqrt(variance)) + 6)
    one = np.exp(-(x**2) / (2 * variance))
    law = np.ones(1)
    for _ in range(moved):
        law = np.convolve(law, one / one.sum())
    shifted = np.concatenate([law[moved:], np.zeros(moved)])
    return np.maximum(law - math.exp(epsilon) * shifted, 0).sum()


@pytest.mark.parametrize(
    ("epsilon", "variance", "moved"), [(1, 4, 1), (1, 30, 3), (0.5, 9, 2), (1, 200, 10), (0, 6, 4)]
)
def test_delta_is_exact(epsilon: float, variance: float, moved: int) -> None:
    ours = float(discrete_gaussian_delta(Fraction(epsilon), Fraction(variance), moved)().mid())
    assert ours == pytest.approx(convolved_delta(epsilon, variance, moved), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "variance", "moved"), [(1, 0.5, 1), (1, 0.7, 3), (3, 0.2, 2), (1, 0.05, 5)])
def test_delta_is_an_upper_bound_for_the_least_noise(epsilon: float, variance: float, moved: int) -> None:
    ours = float(discrete_gaussian_delta(Fraction(epsilon), Fraction(variance), moved)().mid())
    assert ours >= convolved_delta(epsilon, variance, moved)


def test_large_variances_are_bounded_from_above_and_closely() -> None:
    for epsilon, variance, moved in [
        (0.1, 2**12 + 0.5, 1),
        (0.05, 2**12 + 0.5, 1),
        (0.001, 5000.0, 1),
        (1.0, 600.0, 12),
    ]:
        found = float(discrete_gaussian_delta(Fraction(epsilon), Fraction(variance), moved)().mid())
        assert 0 <= found / convolved_delta(epsilon, variance, moved) - 1 < 0.01


@pytest.mark.parametrize(("epsilon", "delta", "moved"), [(1.0, 1e-6, 1), (0.5, 1e-4, 7), (8.0, 1e-6, 1)])
def test_the_variance_is_the_least_that_keeps_the_budget(epsilon: float, delta: float, moved: int) -> None:
    variance = float(discrete_gaussian_variance(Fraction(epsilon), Fraction(delta), moved))
    assert convolved_delta(epsilon, variance, moved) <= delta * (1 + 1e-9)
    if variance > 4:
        assert convolved_delta(epsilon, variance * (1 - 1e-5), moved) > delta
