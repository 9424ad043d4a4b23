"""The noise of published counts against laws written down independently: sums over a fine grid of the density."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.noisy_counts import (
    CorrelatedGaussian,
    CountNoise,
    Cube,
    IndependentLaplace,
    Spread,
)
from private_topk.transforms.testing import Law, assert_follows, draws_to_see

REACH, FINE = 24, 20  # cells of the grid each way, and points of a cell

Density = Callable[[np.ndarray, np.ndarray], np.ndarray]


def spread(x: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
    """exp(-rate N) for two counts."""
    return np.exp(-rate * (np.maximum(0, np.maximum(x, y)) - np.minimum(0, np.minimum(x, y))))


def cube(x: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
    return np.exp(-rate * np.maximum(np.abs(x), np.abs(y)))


def gaussian(x: np.ndarray, y: np.ndarray, own: float, shared: float) -> np.ndarray:
    inverse = np.linalg.inv(own * np.eye(2) + shared)
    return np.exp(-(inverse[0, 0] * x * x + 2 * inverse[0, 1] * x * y + inverse[1, 1] * y * y) / 2)


def rounded_law(density: Density) -> np.ndarray:
    """P of each pair of rounded noises, both from -REACH to REACH, by the midpoint rule."""
    fine = (np.arange((2 * REACH + 1) * FINE) + 0.5) / FINE - REACH - 0.5
    cells = density(*np.meshgrid(fine, fine, indexing="ij"))
    size = 2 * REACH + 1
    law = cells.reshape(size, FINE, size, FINE).sum(axis=(1, 3))
    return law / law.sum()


KINDS: dict[str, tuple[CountNoise, Density]] = {
    "spread": (Spread(2, Fraction(4, 5)), lambda x, y: spread(x, y, 0.8)),
    "cube": (Cube(2, Fraction(4, 5)), lambda x, y: cube(x, y, 0.8)),
    "gaussian": (CorrelatedGaussian(Fraction(5), Fraction(3)), lambda x, y: gaussian(x, y, 5, 3)),
    "independent": (CorrelatedGaussian(Fraction(1, 5), Fraction(0)), lambda x, y: gaussian(x, y, 0.2, 0)),
}
LAWS = {name: rounded_law(density) for name, (_, density) in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_two_noises_follow_their_joint_law(kind: str) -> None:
    noise, bits = KINDS[kind][0], RandomBits.keyed(b"joint law")
    law: Law = {(int(x) - REACH, int(y) - REACH): float(p) for (x, y), p in np.ndenumerate(LAWS[kind])}
    seen = Counter(tuple(noise.sample(2, bits.draw())) for _ in range(draws_to_see(law, 0.12)))
    assert_follows(seen, law, 0.12)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_one_noise_is_its_law(kind: str) -> None:
    noise, sizes = KINDS[kind][0], np.abs(np.arange(-REACH, REACH + 1))
    for law in (LAWS[kind].sum(axis=0), LAWS[kind].sum(axis=1)):
        assert noise.stddev() == pytest.approx(math.sqrt((law * sizes**2).sum()), rel=1e-3)
        for w in range(4):
            assert float(noise.beyond(w)().mid()) == pytest.approx(law[sizes > w].sum(), abs=5e-4)
        for confidence in ("0.5", "0.95"):
            w = noise.half_width(Fraction(confidence))
            assert law[sizes <= w].sum() > float(confidence) - 5e-4
            assert w == 0 or law[sizes < w].sum() < float(confidence) + 5e-4


FAR = [Spread(1, Fraction(2)), Cube(7, Fraction(1, 3)), IndependentLaplace(Fraction(9, 2)),
       CorrelatedGaussian(Fraction(200), Fraction(70))]  # fmt: skip


@pytest.mark.parametrize("noise", FAR, ids=repr)
def test_draws_are_as_far_off_as_it_is_said(noise: CountNoise) -> None:
    bits, size = RandomBits.keyed(b"how far"), getattr(noise, "size", 7)
    drawn = np.array([noise.sample(size, bits.draw()) for _ in range(2_000)])
    # The mean of a square has a relative deviation below sqrt(5 / 2,000) here: four of them.
    assert noise.stddev() == pytest.approx(math.sqrt((drawn.astype(float) ** 2).mean()), rel=0.1)
    assert (np.abs(drawn) <= noise.half_width(Fraction(19, 20))).mean() > 0.93
    if noise.stddev() > 3:  # where whole numbers are fine enough for 95% to be met closely
        assert (np.abs(drawn) <= noise.half_width(Fraction(19, 20))).mean() < 0.97


@pytest.mark.parametrize(("kind", "moves"), [("spread", [(1, 1), (1, 0), (0, 1)]),
                                             ("cube", [(1, 1), (1, -1), (0, 1), (1, 0)])])  # fmt: skip
def test_no_pair_of_counts_tells_more_of_a_user_than_its_rate(kind: str, moves: list[tuple[int, int]]) -> None:
    law, worst = LAWS[kind], []
    for dx, dy in moves:
        here = law[3 + dx : -3 + dx or None, 3 + dy : -3 + dy or None]
        worst.append(np.abs(np.log(here / law[3:-3, 3:-3])).max())
    assert max(worst) <= 0.8 + 1e-6, "and it is used up"
    assert max(worst) > 0.79


def test_the_law_of_one_spread_noise_is_that_of_laplace() -> None:
    for w, x in itertools.product((0, 1, 5), (Fraction(1), Fraction(1, 7))):
        assert float(Spread(1, x).beyond(w)().mid()) == pytest.approx(math.exp(-float(x) * (w + 0.5)))


def test_sizes_are_found_at_any_scale() -> None:
    tiny, huge = CorrelatedGaussian(Fraction(1, 10**9), Fraction(0)), Spread(1000, Fraction(1, 10**30))
    assert (tiny.stddev(), tiny.half_width(Fraction(19, 20))) == (0, 0)
    assert huge.stddev() == pytest.approx(math.sqrt(1002 * 1003 / 6) * 1e30, rel=1e-5)
    assert 1.5 < huge.half_width(Fraction(19, 20)) / huge.stddev() < 2.1
    assert IndependentLaplace(Fraction(1, 10**6)).stddev() == 0
