"""The rate of every mechanism, by balances: whatever its sampler does, answers follow the law at its epsilon.

A few items of a high count stand against astronomically many of a low one, such that both sides weigh the same. The
log-odds of the sides are rate * gap - log(how many more answers the low side has), and the logarithm is 25 to 3000, so
that a rate off by 0.1% tilts them by 0.025 to 3. Where bottom or a threshold stands for items that nobody knows, a
delta of 1e-300 is the weight: 690.

Every test draws as often as it takes to see a rate 0.1% too large or too small with probability 0.99, at a false alarm
in a million seeds (`assert_rate`); where that takes millions of draws it does so at night, and by day sees 1%. What the
laws here leave out is below a tenth of the standard deviation. Nothing is shared with samplers, but for budgets that
are found numerically: exact/test_accounting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from private_topk.transforms.mechanisms import (
    MECHANISMS,
    Canonical,
    CdpPeeling,
    CorrelatedGaussian,
    FastJoint,
    Gamma,
    Gaussian,
    Joint,
    JointSet,
    Laplace,
    LaplaceLimitDomain,
    LimitDomain,
    Mechanism,
    Oneshot,
    Peeling,
    PnfPeeling,
    RandomBits,
    RestrictedGumbel,
    RestrictedLaplace,
    RestrictedNormal,
    RestrictedPnf,
    TopStable,
    WeightedGaussian,
    WeightedOrder,
)
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale, largest_delta_q, per_round_epsilon
from private_topk.transforms.mechanisms.exact.histogram import Histogram, Indices
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES, standard_noise
from private_topk.transforms.mechanisms.weighted import UNIT
from tests.nightly import nightly_but
from tests.transforms.mechanisms.laws import NOISE_LAWS
from tests.transforms.mechanisms.unknown_laws import passes

Chances = NDArray[np.float64]
LawAt = Callable[[float], Chances]
"""From what the rate is multiplied by to the chances of 0, 1, 2, ..., whatever is counted."""

OFF, ALARM, POWER = 1e-3, stats.norm.isf(0.5e-6), stats.norm.isf(0.01)
BY_DAY_AND_NIGHT = [pytest.param(1e-2, id="1%"), pytest.param(OFF, id="0.1%", marks=pytest.mark.nightly)]
FEW, MANY, LOW = 1 << 24, 1 << 60, 5


def assert_rate(law_at: LawAt, count: Callable[[int], list[int]], off: float = OFF) -> None:
    """The mean of the score of the rate, over draws as many as tell an error apart.

    Args:
        count: so many draws, what is counted of each.
        off: the relative error of the rate that is seen.
    """
    stated, more, less = (law_at(factor) for factor in (1, 1 + off, 1 - off))
    assert sum(stated) == pytest.approx(1, abs=1e-9)
    score = np.zeros(len(stated))
    seen = (more > 0) & (less > 0)  # the others are below 1e-300
    score[seen] = np.log(more[seen] / less[seen])
    means, sds = zip(
        *((p @ score, math.sqrt(p @ score**2 - (p @ score) ** 2)) for p in (stated, more, less)), strict=True
    )
    draws = max(
        math.ceil(((ALARM * sds[0] + POWER * sd) / (mean - means[0])) ** 2)
        for mean, sd in zip(means[1:], sds[1:], strict=True)
    )
    drawn = np.array([score[n] for n in count(draws)])
    far = (drawn.mean() - means[0]) / sds[0] * math.sqrt(draws)
    assert abs(far) <= ALARM, f"{far:.1f} standard deviations in {draws} draws: the rate is another"


def balance(gap: int, few: int = FEW, many: int = MANY) -> Histogram:
    return Histogram(np.array([LOW + gap, LOW]), np.array([few, many]))


def lows(mechanism: Mechanism, histogram: Histogram, k: int) -> Callable[[int], list[int]]:
    """How many items of the low count each answer holds."""
    prepared, bits, few = mechanism.prepare(histogram), RandomBits.keyed(b"rates"), int(histogram.sizes[0])
    return lambda draws: [int((prepared.ranks(k, bits) >= few).sum()) for _ in range(draws)]


# Whole sequences and sets: the loss of an answer is that of the low count, or none.


def log_choices(n: int, k: int) -> float:
    return math.log(math.comb(n, k))


def coin(log_odds: float) -> Chances:
    chance = 1 / (1 + math.exp(-log_odds))
    return np.array([1 - chance, chance])


WHOLE = [
    # What a unit of the low count's gap weighs, of the definitions.
    (Joint(0.01), Fraction(1, 2)),
    (Joint(0.02, neighbours="replace-one"), Fraction(1, 2)),
    (Joint(0.01, noise="exponential"), Fraction(1, 2)),
    (Joint(0.01, Fraction(3, 4)), Fraction(3, 4)),
    (Joint(0.01, 1, "exponential"), Fraction(1)),
    (FastJoint(0.01), Fraction(1, 2)),
    (FastJoint(0.02, neighbours="replace-one"), Fraction(1, 2)),
    (JointSet(0.02, neighbours="replace-one"), Fraction(1, 2)),
    (JointSet(0.01, "laplace"), Fraction(1, 2)),
    *((Canonical(0.01, noise=noise), Fraction(1, 2)) for noise in LIPSCHITZ_NOISES),
    (Canonical(0.02, neighbours="replace-one"), Fraction(1, 2)),
    (Canonical(0.01, 1), Fraction(1)),
    (Canonical(0.01, Fraction(1, 3)), Fraction(1, 3)),
]


BY_DAY = [row for row in WHOLE if type(row[0]) not in (JointSet, Canonical) or row[0].neighbours == "replace-one"]


@pytest.mark.parametrize(("mechanism", "part"), nightly_but(WHOLE, *BY_DAY), ids=repr)
def test_the_rate_of_a_loss_by_the_smallest_count_taken(mechanism: Mechanism, part: Fraction) -> None:
    """Twice as many items as are asked for have the high count, so that answers without loss are 1e11 and more: among
    so many, noises of all kinds win as Gumbel's does. Whoever holds an item of the low count loses part of the gap.
    """
    k = 40
    more = log_choices(MANY + 2 * k, k) - log_choices(2 * k, k)
    rate = 0.01 * float(part)  # epsilon over what a user moves
    gap = round(more / rate)

    def law_at(factor: float) -> Chances:
        return coin(more - factor * rate * gap)

    found = lows(mechanism, balance(gap, 2 * k), k)
    assert_rate(law_at, lambda draws: [int(n > 0) for n in found(draws)])


@pytest.mark.parametrize(
    ("mechanism", "part"),
    [
        (Canonical(0.01), Fraction(1, 2)),
        (Canonical(0.01, 0), Fraction(1)),
        (Canonical(0.02, Fraction(2, 3), neighbours="replace-one"), Fraction(1, 3)),
    ],
    ids=repr,
)
def test_the_rate_of_a_loss_by_the_largest_count_left_out(mechanism: Mechanism, part: Fraction) -> None:
    """Half as many items as are asked for have the high count: an answer that leaves one out loses part of the gap."""
    k = 40
    least = log_choices(MANY, k // 2)
    more = math.log(math.comb(MANY + k // 2, k) - math.comb(MANY, k // 2)) - least
    rate = 0.01 * float(part)
    gap = round(more / rate)
    found = lows(mechanism, balance(gap, k // 2), k)
    assert_rate(lambda factor: coin(more - factor * rate * gap), lambda draws: [int(n > k // 2) for n in found(draws)])


# Noise on counts: of the k largest, as many come from either side.


def of_noisy_order(noise: str, scale: float, gap: int, k: int, few: int, many: int) -> LawAt:
    """How many of the k largest are low: a mixture over how many noises are expected above the k-th, Gamma(k + 1).

    k is so few of all that what is taken is not missed: a part of k / few at most, where log(many / few) is told.
    """
    law, expected = NOISE_LAWS[noise], stats.gamma(k + 1).ppf((np.arange(60) + 0.5) / 60)

    def law_at(factor: float) -> Chances:
        shift = gap / scale * factor
        levels = np.linspace(-1, 60, 60_001)
        above = few * law.sf(levels) + many * law.sf(levels + shift)
        at = np.interp(-np.log(expected), -np.log(np.maximum(above, 1e-300)), levels)
        high, low = few * law.sf(at), many * law.sf(at + shift)
        chances = low / (high + low)
        return stats.binom.pmf(np.arange(k + 1)[:, None], k, chances).mean(axis=1)

    return law_at


def even_gap(noise: str, scale: float, k: int, few: int, many: int) -> int:
    """Where half of the k largest are low."""
    law, levels = NOISE_LAWS[noise], np.linspace(-1, 60, 60_001)
    few_at, many_at = (np.interp(math.log(2 * n / k), -law.logsf(levels), levels) for n in (few, many))
    return round(scale * float(many_at - few_at))


K = 1000
EPSILON, DELTA = Fraction(0.125), Fraction(1e-6)


def normal(squared: float) -> Fraction:
    return gaussian_scale(EPSILON, DELTA, Fraction(squared))


NOISY: list[tuple[Mechanism, str, Fraction]] = [
    (Peeling(0.125), "gumbel", K / EPSILON),
    (Peeling(0.125, "replace-one"), "gumbel", 2 * K / EPSILON),
    (CdpPeeling(0.125, 1e-6), "gumbel", 1 / per_round_epsilon(EPSILON, DELTA, K)),
    *((Oneshot(0.125, noise), noise, K / EPSILON) for noise in LIPSCHITZ_NOISES if noise != "gumbel"),
    (Laplace(0.125), "laplace", K / EPSILON),
    (Laplace(0.125, 100, "replace-one"), "laplace", 200 / EPSILON),
    (Gaussian(0.125, 1e-6, 400), "gaussian", normal(400)),
    (Gaussian(0.125, 1e-6, 400, "replace-one"), "gaussian", normal(800)),
    (CorrelatedGaussian(0.125, 1e-6, 400), "gaussian", normal(400)),
    (WeightedOrder(0.125, 1e-6, 900, 400), "gaussian", UNIT * normal(400)),
]


@pytest.mark.parametrize("off", BY_DAY_AND_NIGHT)
@pytest.mark.parametrize(("mechanism", "noise", "scale"), NOISY, ids=lambda value: repr(value)[:60])
def test_the_scale_of_noise_on_counts(mechanism: Mechanism, noise: str, scale: Fraction, off: float) -> None:
    gap = even_gap(noise, float(scale), K, FEW, MANY)
    law_at = of_noisy_order(noise, float(scale), gap, K, FEW, MANY)
    assert_rate(law_at, lows(mechanism, balance(gap), K), off)


@pytest.mark.parametrize("off", BY_DAY_AND_NIGHT)
def test_the_rate_of_permute_and_flip(off: float) -> None:
    """A round is won by the largest of exponential noises, fresh ones: of so many items as by Gumbel's."""
    few, many, k = 1 << 20, 1 << 40, 100
    rate = 0.125 / k / 2
    gap = round(math.log(many / few) / rate)

    def law_at(factor: float) -> Chances:
        return stats.binom.pmf(np.arange(k + 1), k, coin(math.log(many / few) - factor * rate * gap)[1])

    assert_rate(law_at, lows(PnfPeeling(0.125, "replace-one"), balance(gap, few, many), k), off)


@pytest.mark.parametrize("off", BY_DAY_AND_NIGHT)
def test_the_radius_of_gamma(off: float) -> None:
    """A gap of nearly the whole width of the noise: how many high items come before the first low one."""
    few, many, epsilon = 1000, 30_000, 0.002  # the law's exponent
    gap = round(2 * (few + many) / epsilon * 0.98)
    radii = stats.gamma(few + many + 1).ppf((np.arange(1000) + 0.5) / 1000)[:, None] / epsilon

    def law_at(factor: float) -> Chances:
        # The first low one is 1 / many of the width below the largest there is, give or take as much.
        above = np.minimum(gap / (2 * radii / factor) + 1 / many, 1)
        return stats.binom.pmf(np.arange(few + 1), few, above).mean(axis=0)

    prepared, bits = Gamma(0.001).prepare(balance(gap, few, many)), RandomBits.keyed(b"rates")

    def before(ranks: Indices) -> int:
        low = ranks >= few
        return int(low.argmax()) if low.any() else few

    assert_rate(law_at, lambda draws: [before(prepared.ranks(few, bits)) for _ in range(draws)], off)


# Unknown domains: one item against bottom or a threshold that a delta of 1e-300 puts hundreds of scales away.

TINY = Fraction(1e-300)
WHOLE_Q, HALF_Q = largest_delta_q(TINY), largest_delta_q(TINY / 2)
TESTED: list[tuple[type[Mechanism], dict[str, int], Fraction, Fraction]] = [
    # The rate of the Laplace noises at epsilon 1 and their q, for k = kbar = 1.
    (LaplaceLimitDomain, {"max_items_per_user": 1, "kbar": 1}, Fraction(1), WHOLE_Q),
    (TopStable, {}, Fraction(1, 3), WHOLE_Q),
    (RestrictedGumbel, {"kbar": 1}, Fraction(1, 4), HALF_Q),
    (RestrictedNormal, {"max_items_per_user": 1, "kbar": 1}, Fraction(1, 4), HALF_Q),
    (RestrictedPnf, {"kbar": 1}, Fraction(1, 8), WHOLE_Q),
    (RestrictedLaplace, {"kbar": 1}, Fraction(1, 8), WHOLE_Q),
]


@pytest.mark.parametrize(("kind", "given", "part", "q"), TESTED, ids=lambda value: getattr(value, "__name__", ""))
def test_the_rate_of_the_tests_of_an_unknown_domain(
    kind: type[Mechanism], given: dict[str, int], part: Fraction, q: Fraction
) -> None:
    """One item passes where its gap to the next count, less 1, is above log(1 / q) and Laplace noise on both."""
    rate = part * Fraction(0.001)
    gap = 1 + round(math.log(1 / q) / rate)

    def law_at(factor: float) -> Chances:
        return np.array([*reversed(passes(((gap - 1) * rate * Fraction(factor),), 1 / q, until=True))])

    mechanism = kind(epsilon=0.001, delta=1e-300, **given)
    assert_rate(law_at, answered(mechanism, gap))


def test_the_rate_of_limit_domain() -> None:
    """One item against bottom: the difference of two Gumbel noises is logistic."""
    odds, rate = math.log(2 / TINY), 0.001
    gap = 1 + round(odds / rate)
    mechanism = LimitDomain(0.001, 1e-300, kbar=1)
    assert_rate(lambda factor: coin((gap - 1) * rate * factor - odds), answered(mechanism, gap))


def answered(mechanism: Mechanism, gap: int) -> Callable[[int], list[int]]:
    """How many items come out of two counts that are a gap apart."""
    prepared, bits = mechanism.prepare(balance(gap, 1, 1)), RandomBits.keyed(b"rates")
    return lambda draws: [len(prepared.ranks(1, bits)) for _ in range(draws)]


def test_the_noise_of_weighted_gaussian() -> None:
    """Of sums that come out with their items, to the hundredth: what the same words give at the scale of the law."""
    mechanism, scale = WeightedGaussian(0.001, 1e-6, 400), float(gaussian_scale(Fraction(0.001), DELTA, Fraction(20)))
    sums = np.array([UNIT << 40])
    ranks = np.arange(20_000)
    seen = mechanism.noisy_weights(Histogram(sums, np.array([len(ranks)])), ranks, RandomBits.keyed(b"rates").draw())
    noise = standard_noise(len(ranks), "gaussian", RandomBits.keyed(b"rates").draw())
    found = seen / 100 - (1 << 40)
    assert np.abs(found - noise * scale).max() < 0.02 < np.abs(found - noise * scale * (1 + OFF)).max()


def test_the_rate_of_every_mechanism_is_tested() -> None:
    kinds = {type(made) for made, *_ in (*WHOLE, *NOISY)} | {kind for kind, *_ in TESTED}
    kinds |= {PnfPeeling, Gamma, LimitDomain, WeightedGaussian}
    assert kinds == {*MECHANISMS.values()}
