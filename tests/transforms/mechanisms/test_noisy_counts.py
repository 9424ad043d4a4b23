"""Which noise published counts get, why that is private, and that it is the least.

The noise of published counts against laws written down independently: sums over a fine grid of the density.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits, noise_of_counts, publish_counts
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.count_noise import (
    CountNoise,
    Cube,
    IndependentLaplace,
    SharedGaussian,
    Spread,
    discrete_laplace,
)
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from tests.laws import Law, assert_follows, draws_to_see

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
SIZES = [(1, None), (5, None), (5, 1), (5, 4), (8, 3), (8, 7)]


def publish(bits: bytes = b"publish", **parameters: object) -> list[int]:
    return publish_counts(np.arange(100, 0, -1), np.arange(50), RandomBits.keyed(bits), **parameters).tolist()


def gaussian(size: int, limit: int | None, neighbours: str = "add-remove") -> SharedGaussian:
    noise = noise_of_counts(size, EPSILON, DELTA, limit, neighbours)
    assert isinstance(noise, SharedGaussian)
    return noise


def covariance(noise: SharedGaussian, size: int) -> np.ndarray:
    return float(noise.own) * np.eye(size) + float(noise.shared)


def moves(size: int, limit: int | None, neighbours: str) -> np.ndarray:
    """Every way in which one user can move the counts."""
    steps = (-1, 0, 1) if neighbours == "replace-one" else (0, 1)
    found = np.array(list(itertools.product(steps, repeat=size)))
    most = limit or size
    return found[((found > 0).sum(axis=1) <= most) & ((found < 0).sum(axis=1) <= most)]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
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
    kinds: dict[tuple[int, int | None, str], type] = {
        (100, None, "add-remove"): Spread,
        (100, 28, "add-remove"): IndependentLaplace,
        (100, 30, "add-remove"): Spread,
        (100, None, "replace-one"): Cube,
        (100, 3, "replace-one"): IndependentLaplace,
        (1, None, "add-remove"): IndependentLaplace,
    }
    for (size, limit, neighbours), kind in kinds.items():
        found = noise_of_counts(size, 1.0, None, limit, neighbours)
        assert type(found) is kind
        moved = min(size, (limit or size) * (2 if neighbours == "replace-one" else 1))
        assert found.stddev() <= IndependentLaplace(Fraction(moved)).stddev()
    # Large rates: rounding then weighs more than what the shape of the noise saves.
    assert isinstance(noise_of_counts(3, 50.0), IndependentLaplace)


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_noise_is_calibrated_to_the_fewest_counts_one_user_moves(delta: float | None) -> None:
    assert publish(epsilon=1.0, delta=delta) == publish(epsilon=1.0, delta=delta, max_items_per_user=50)
    assert publish(epsilon=1.0, delta=delta) == publish(epsilon=1.0, delta=delta, max_items_per_user=99)
    swapped = publish(epsilon=1.0, delta=delta, max_items_per_user=3, neighbours="replace-one")
    assert swapped != publish(epsilon=1.0, delta=delta, max_items_per_user=3)


@pytest.mark.parametrize("delta", [None, 1e-5])
@pytest.mark.parametrize("limit", [None, 2])
def test_noise_grows_with_the_most_that_a_user_adds_to_a_count(delta: float | None, limit: int | None) -> None:
    once, seven = (noise_of_counts(20, 0.1, delta, limit, cap=cap).variance() for cap in (1, 7))
    assert float(seven / once) == pytest.approx(49, rel=0.001)


def test_gaussian_counts_state_their_rho_and_pure_counts_no_delta() -> None:
    cost = CountBudget(EPSILON, DELTA).cost()
    assert float(cost.rho or 0) == pytest.approx(1 / (2 * float(gaussian_scale(EPSILON, DELTA, Fraction(1))) ** 2))
    assert (cost.epsilon, cost.delta) == (EPSILON, DELTA)
    assert CountBudget(0.5).cost().delta == 0


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


REACH, FINE = 24, 20  # cells of the grid each way, and points of a cell

Density = Callable[[np.ndarray, np.ndarray], np.ndarray]


def spread(x: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
    """exp(-rate N) for two counts."""
    return np.exp(-rate * (np.maximum(0, np.maximum(x, y)) - np.minimum(0, np.minimum(x, y))))


def cube(x: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
    return np.exp(-rate * np.maximum(np.abs(x), np.abs(y)))


def gaussian_density(x: np.ndarray, y: np.ndarray, own: float, shared: float) -> np.ndarray:
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
    "gaussian": (SharedGaussian(Fraction(5), Fraction(3)), lambda x, y: gaussian_density(x, y, 5, 3)),
    "independent": (SharedGaussian(Fraction(1, 5), Fraction(0)), lambda x, y: gaussian_density(x, y, 0.2, 0)),
}
LAWS = {name: rounded_law(density) for name, (_, density) in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_two_noises_follow_their_joint_law(kind: str) -> None:
    noise, bits = KINDS[kind][0], RandomBits.keyed(b"joint law")
    law: Law = {(int(x) - REACH, int(y) - REACH): float(p) for (x, y), p in np.ndenumerate(LAWS[kind])}
    seen = Counter(tuple(noise.sample(2, bits.draw())) for _ in range(draws_to_see(law, 0.12)))
    assert_follows(seen, law, 0.12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_stated_deviation_and_width_of_count_noise_follow_its_law(kind: str) -> None:
    noise, sizes = KINDS[kind][0], np.abs(np.arange(-REACH, REACH + 1))
    for law in (LAWS[kind].sum(axis=0), LAWS[kind].sum(axis=1)):
        assert noise.stddev() == pytest.approx(math.sqrt((law * sizes**2).sum()), rel=1e-3)
        for w in range(4):
            assert float(noise.beyond(w)().mid()) == pytest.approx(law[sizes > w].sum(), abs=5e-4)
        for confidence in ("0.5", "0.95"):
            w = noise.half_width(Fraction(confidence))
            assert law[sizes <= w].sum() > float(confidence) - 5e-4
            assert w == 0 or law[sizes < w].sum() < float(confidence) + 5e-4


FAR = [
    Spread(1, Fraction(2)),
    Cube(7, Fraction(1, 3)),
    IndependentLaplace(Fraction(9, 2)),
    SharedGaussian(Fraction(200), Fraction(70)),
]


@pytest.mark.parametrize("noise", FAR, ids=repr)
def test_drawn_noise_has_the_stated_deviation_and_width(noise: CountNoise) -> None:
    bits, size = RandomBits.keyed(b"how far"), getattr(noise, "size", 7)
    drawn = np.array([noise.sample(size, bits.draw()) for _ in range(2_000)])
    # The mean of a square has a relative deviation below sqrt(5 / 2,000) here: four of them.
    assert noise.stddev() == pytest.approx(math.sqrt((drawn.astype(float) ** 2).mean()), rel=0.1)
    assert (np.abs(drawn) <= noise.half_width(Fraction(19, 20))).mean() > 0.93
    if noise.stddev() > 3:  # where whole numbers are fine enough for 95% to be met closely
        assert (np.abs(drawn) <= noise.half_width(Fraction(19, 20))).mean() < 0.97


@pytest.mark.parametrize(
    ("kind", "moves"), [("spread", [(1, 1), (1, 0), (0, 1)]), ("cube", [(1, 1), (1, -1), (0, 1), (1, 0)])]
)
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
    tiny, huge = SharedGaussian(Fraction(1, 10**9), Fraction(0)), Spread(1000, Fraction(1, 10**30))
    assert (tiny.stddev(), tiny.half_width(Fraction(19, 20))) == (0, 0)
    assert huge.stddev() == pytest.approx(math.sqrt(1002 * 1003 / 6) * 1e30, rel=1e-5)
    assert 1.5 < huge.half_width(Fraction(19, 20)) / huge.stddev() < 2.1
    assert IndependentLaplace(Fraction(1, 10**6)).stddev() == 0


def law_of(rate: Fraction, reach: int = 400) -> Law:
    """P(x) in proportion to exp(-rate |x|), on -reach .. reach; the rest is below 1e-30."""
    weights = {(x,): math.exp(-rate * abs(x)) for x in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    return {x: w / whole for x, w in weights.items()}


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 2), Fraction(0.1)])
def test_discrete_laplace_follows_its_law(scale: Fraction) -> None:
    draw = RandomBits.keyed(b"laplace").draw()
    law = law_of(1 / scale)
    seen = Counter((discrete_laplace(draw, scale),) for _ in range(draws_to_see(law, 0.06)))
    assert_follows(seen, law, 0.06)
