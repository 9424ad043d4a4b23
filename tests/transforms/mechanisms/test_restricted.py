"""The restricted-domain framework: its named mechanisms and the generic object."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from scipy import optimize, stats

from private_topk.testing import Law
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.accounting import (
    at_most,
    bounded_range_epsilon,
    exponential_share,
    gaussian_scale,
    largest_delta_q,
    zcdp_epsilon,
)
from private_topk.transforms.mechanisms.laplace import Laplace
from private_topk.transforms.mechanisms.oneshot import Oneshot
from private_topk.transforms.mechanisms.pnf_peeling import PnfPeeling
from private_topk.transforms.mechanisms.restricted import ADDITIVE, Restricted
from private_topk.transforms.mechanisms.restricted_gumbel import RestrictedGumbel
from private_topk.transforms.mechanisms.restricted_laplace import RestrictedLaplace
from private_topk.transforms.mechanisms.restricted_normal import RestrictedNormal
from private_topk.transforms.mechanisms.restricted_pnf import RestrictedPnf
from tests.transforms.mechanisms.unknown_contract import UnknownContract
from tests.transforms.mechanisms.unknown_laws import (
    Counts,
    Ranked,
    flip_order,
    gumbel_order,
    laplace_order,
    named,
    normal_order,
    restricted,
    top,
)

SETTINGS = [(2.0, 1, 1), (0.5, 1, 2), (2.0, 2, 3), (3.0, 2, 2)]  # epsilon, k, kbar
RELATIONS = ["add-remove", "swap"]


class FrameworkContract(UnknownContract):
    def order(self, mechanism: Mechanism, largest: Counts, k: int, drift: int) -> Ranked:
        """The law of the candidates."""
        raise NotImplementedError

    def budget(self, mechanism: Mechanism, k: int) -> tuple[Fraction, Fraction]:
        """(epsilon_r, delta_r), written from the documentation."""
        raise NotImplementedError

    def law(self, mechanism: Mechanism, counts: Counts, k: int) -> Law:
        drift = 2 if mechanism.neighbours == "swap" else 1
        items, largest = top(counts, mechanism.kbar)
        epsilon_r, delta_r = self.budget(mechanism, k)
        order = self.order(mechanism, largest[:-1], k, drift)
        return named(items, restricted(order, largest, drift, epsilon_r, largest_delta_q(delta_r)))


class TestRestrictedGumbel(FrameworkContract):
    mechanisms: ClassVar = [RestrictedGumbel(1.0, 1e-6), RestrictedGumbel(0.5, 1e-9, kbar=40, neighbours="swap")]
    private: ClassVar = [
        (RestrictedGumbel(epsilon, 0.1, kbar, relation), k) for relation in RELATIONS for epsilon, k, kbar in SETTINGS
    ]
    followed: ClassVar = [
        (RestrictedGumbel(6.0, 0.8, kbar=3), (6, 5, 5, 3, 1), 2),
        (RestrictedGumbel(8.0, 0.8, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 3),
    ]

    def budget(self, mechanism: RestrictedGumbel, k: int) -> tuple[Fraction, Fraction]:
        epsilon, half = Fraction(mechanism.epsilon), Fraction(mechanism.delta) / 2
        return min(4 * exponential_share(epsilon, half, k), epsilon / 2), half

    def order(self, mechanism: RestrictedGumbel, largest: Counts, k: int, drift: int) -> Ranked:
        epsilon_r, half = self.budget(mechanism, k)
        share = exponential_share(Fraction(mechanism.epsilon) - epsilon_r, half, k)
        return gumbel_order(tuple(c * share / drift for c in largest), k)

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
    @pytest.mark.parametrize("delta", [1e-12, 1e-3])
    def test_never_over_budget(self, epsilon: float, delta: float) -> None:
        """As published the tests take 4 shares: over the whole budget for k <= 3, all of it at k = 4."""
        whole, half = Fraction(epsilon), Fraction(delta) / 2
        for k in [*range(1, 12), 40, 100, 1000]:
            mechanism = RestrictedGumbel(epsilon, delta)
            (epsilon_r, delta_r), share = mechanism.test_budget(k), mechanism.share(k)
            published = 4 * exponential_share(whole, half, k)
            assert (published > whole) if k <= 3 else (epsilon_r <= published)
            assert 0 < epsilon_r <= whole / 2 and share > 0 and delta_r + half == Fraction(delta)
            rest = whole - epsilon_r
            assert (
                k * share <= rest
                or at_most(bounded_range_epsilon(k, share, half), rest)
                or at_most(zcdp_epsilon(k * share**2 / 8, half), rest)
            )

    def test_four_shares_for_large_k(self) -> None:
        epsilon, half, k = 1.0, 5e-7, 100

        def cost(s: float) -> float:
            t = s / -math.expm1(-s)
            return k * (t - 1 - math.log(t)) + s * math.sqrt(k / 2 * math.log(1 / half)) - epsilon

        published = 4 * optimize.brentq(cost, 1e-6, 1)
        assert float(RestrictedGumbel(epsilon, 2 * half).test_budget(k)[0]) == pytest.approx(published, rel=0.02)


class TestRestrictedNormal(FrameworkContract):
    mechanisms: ClassVar = [
        RestrictedNormal(1.0, 1e-6, 5),
        RestrictedNormal(0.5, 1e-9, 50, kbar=40, neighbours="swap"),
    ]
    private: ClassVar = [
        (RestrictedNormal(epsilon, 0.1, bound, kbar, relation), k)
        for relation in RELATIONS
        for epsilon, k, kbar in SETTINGS
        for bound in (1, 2)
    ]
    followed: ClassVar = [
        (RestrictedNormal(6.0, 0.8, 1, kbar=3), (6, 5, 5, 3, 1), 2),
        (RestrictedNormal(8.0, 0.8, 12, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 2),
    ]

    def budget(self, mechanism: RestrictedNormal, k: int) -> tuple[Fraction, Fraction]:
        part = sorted([Fraction(1, 3), Fraction(4, mechanism.max_items_per_user), Fraction(1, 2)])[1]
        return part * Fraction(mechanism.epsilon), Fraction(mechanism.delta) / 2

    def order(self, mechanism: RestrictedNormal, largest: Counts, k: int, drift: int) -> Ranked:
        epsilon_r, half = self.budget(mechanism, k)
        moved = min(drift * mechanism.max_items_per_user, len(largest))
        return normal_order(largest, gaussian_scale(Fraction(mechanism.epsilon) - epsilon_r, half, Fraction(moved)), k)

    @pytest.mark.parametrize("bound", [1, 4, 9, 30, 10**4])
    def test_scale_is_the_analytic_one(self, bound: int) -> None:
        """Balle & Wang 2018, Theorem 8, by floats."""
        mechanism = RestrictedNormal(1.0, 1e-6, bound)
        epsilon, delta = 1 - float(mechanism.test_budget(10)[0]), 5e-7
        distance = math.sqrt(min(bound, 100))

        def excess(scale: float) -> float:
            a, b = distance / (2 * scale), epsilon * scale / distance
            return stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b) - delta

        scale = optimize.brentq(excess, distance * 0.1, distance * 1000, rtol=1e-12)
        assert float(mechanism.scale(10)) == pytest.approx(scale, rel=1e-7)


class TestRestrictedLaplace(FrameworkContract):
    mechanisms: ClassVar = [
        RestrictedLaplace(1.0, 1e-6),
        RestrictedLaplace(0.5, 1e-9, 3, kbar=40, neighbours="swap"),
    ]
    private: ClassVar = [
        (RestrictedLaplace(epsilon, 0.1, bound, kbar, relation), k)
        for relation in RELATIONS
        for epsilon, k, kbar in SETTINGS
        for bound in (None, 1)
    ]
    followed: ClassVar = [
        (RestrictedLaplace(9.0, 0.5, kbar=3), (6, 5, 5, 3, 1), 2),
        (RestrictedLaplace(12.0, 0.5, 2, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 3),
    ]
    tight: ClassVar = 0.8

    def budget(self, mechanism: RestrictedLaplace, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(mechanism.epsilon) / 4, Fraction(mechanism.delta)

    def order(self, mechanism: RestrictedLaplace, largest: Counts, k: int, drift: int) -> Ranked:
        moved = min(k, mechanism.max_items_per_user or k)
        scale = drift * moved / (Fraction(mechanism.epsilon) * Fraction(3, 4))
        return laplace_order(tuple(c / scale for c in largest), k)


class TestRestrictedPnf(FrameworkContract):
    mechanisms: ClassVar = [RestrictedPnf(1.0, 1e-6), RestrictedPnf(0.5, 1e-9, kbar=40, neighbours="swap")]
    private: ClassVar = [
        (RestrictedPnf(epsilon, 0.1, kbar, relation), k) for relation in RELATIONS for epsilon, k, kbar in SETTINGS
    ]
    followed: ClassVar = [
        (RestrictedPnf(9.0, 0.5, kbar=3), (6, 5, 5, 3, 1), 2),
        (RestrictedPnf(12.0, 0.5, kbar=4, neighbours="swap"), (0, 9, 7, 0, 6), 3),
    ]
    tight: ClassVar = 0.8

    def budget(self, mechanism: RestrictedPnf, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(mechanism.epsilon) / 4, Fraction(mechanism.delta)

    def order(self, mechanism: RestrictedPnf, largest: Counts, k: int, drift: int) -> Ranked:
        share = Fraction(mechanism.epsilon) * Fraction(3, 4) / k
        return flip_order(tuple(c * share / drift for c in largest), k)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_named_ones_are_the_framework_over_a_public_mechanism(neighbours: str) -> None:
    counts = np.array([50, 3, 80, 80, 0, 61, 12] * 30)
    pairs = [
        (RestrictedPnf(4.0, 0.1, 50, neighbours), PnfPeeling(3.0, neighbours)),
        (RestrictedLaplace(4.0, 0.1, None, 50, neighbours), Laplace(3.0, None, neighbours)),
        (RestrictedLaplace(4.0, 0.1, None, 50, neighbours), Oneshot(3.0, "laplace", neighbours)),
    ]
    for fixed, inner in pairs:
        free = Restricted(inner, 1.0, 0.1, 50)
        assert (free.epsilon, free.delta, free.neighbours) == (4, Fraction(0.1), neighbours)
        for i in range(20):
            answers = [m(counts, 5, RandomBits.keyed(b"%d" % i)).tolist() for m in (fixed, free)]
            assert answers[0] == answers[1]


def test_the_bound_of_the_mechanism_inside_is_the_bound_to_enforce() -> None:
    """A pipeline enforces `max_items_per_user`: left out, the noise would be too small for the counts."""
    assert Restricted(Laplace(1.0, 2), 1.0, 0.1).parameter("max_items_per_user") == 2
    assert Restricted(PnfPeeling(1.0), 1.0, 0.1).parameter("max_items_per_user") is None
    inner = [Laplace(1.0, 2), Oneshot(1.0)]
    seeds = {str(Restricted(mechanism, 1.0, 0.1).parameters()) for mechanism in inner}
    assert len(seeds) == 2, "the mechanism inside is a parameter"


def test_refuses_what_adds_no_noise_to_counts() -> None:
    defaults = {"delta": 1e-6, "max_items_per_user": 3, "beta": 0.1}
    for name, kind in MECHANISMS.items():
        needed = {f: v for f, v in defaults.items() if f in kind.__dataclass_fields__}
        mechanism = kind(epsilon=1.0, **needed)
        if name in ADDITIVE:
            assert Restricted(mechanism, 0.5, 1e-6).kbar_for(3) == 100
        else:
            with pytest.raises(ValueError, match=f"mechanism must add noise to counts .* got {name}: Lemma 1"):
                Restricted(mechanism, 0.5, 1e-6)


@pytest.mark.parametrize(
    ("epsilon_r", "delta_r", "message"),
    [(0, 0.1, "epsilon_r must be a positive finite number"), (1.0, 1, "delta_r must lie strictly between 0 and 1")],
)
def test_checks_the_tests_budget(epsilon_r: float, delta_r: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Restricted(PnfPeeling(1.0), epsilon_r, delta_r)
