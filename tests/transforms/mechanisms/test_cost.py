"""What mechanisms state of their cost, against laws of up to ten draws from a dozen items.

Laws are by kinds of items that nobody can tell apart, on neither of two data sets: all answers of one sequence of kinds
have one probability on either side, so that they may stand as one answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import pytest

from private_topk.transforms.mechanisms import (
    MECHANISMS,
    Canonical,
    CdpPeeling,
    Cost,
    FastJoint,
    Gamma,
    Gaussian,
    Joint,
    JointSet,
    Laplace,
    Mechanism,
    Oneshot,
    Peeling,
    PnfPeeling,
)
from private_topk.transforms.mechanisms.cost import rho_of_exponential, rho_of_pure
from tests.laws import log_ratio_range
from tests.laws.checks import check_pair
from tests.transforms.mechanisms.pair_laws import SLACK, Kind, Kinds, pair_of


def pairs_of_kinds(mechanism: Mechanism, k: int) -> Iterator[Kinds]:
    """A dozen equal items of which some move; two groups; a user with as many items as may be."""
    most = mechanism.parameter("max_items_per_user") or k + 2
    for moved in sorted({1, min(most, (k + 2) // 2), min(most, k)}):
        if mechanism.neighbours == "replace-one":
            still = (Kind(3, 3, k - 2 * moved),) if 2 * moved < k else ()
            yield Kind(3, 4, moved), Kind(3, 2, moved), *still
        else:
            yield Kind(0, 1, moved), Kind(0, 0, k + 2 - moved)
            yield Kind(1, 2, moved), Kind(1, 1, 2), Kind(0, 0, k)


HELD = [
    *(Peeling(1.0, relation) for relation in ("add-remove", "replace-one")),
    *(PnfPeeling(1.0, relation) for relation in ("add-remove", "replace-one")),
    CdpPeeling(1.0, 1e-6),
    Joint(1.0),
    Joint(2.0, 0.75, neighbours="replace-one"),
    FastJoint(2.0, 0.9),
    JointSet(1.0),
    Canonical(1.0),
    Canonical(1.0, 1, neighbours="replace-one"),
    Oneshot(1.0),
    Oneshot(1.0, "laplace"),
    Laplace(1.0, 1),
    Laplace(1.0, 2, "replace-one"),
    Gaussian(1.0, 1e-3, 2),
]


@pytest.mark.parametrize("mechanism", HELD, ids=repr)
def test_no_law_exceeds_its_stated_cost(mechanism: Mechanism) -> None:
    for k in (1, 2, 3, 4, 7, 10):
        for kinds in pairs_of_kinds(mechanism, k):
            if len(kinds) < 3 or k <= (2 if isinstance(mechanism, Oneshot | Laplace | Gaussian) else 7):
                check_pair(mechanism.cost(k), *pair_of(mechanism, kinds, k), slack=SLACK)


TWO = Fraction(2)
STATED = [
    (Peeling(2.0), 10, Cost(TWO, rho=Fraction(4, 80), bounded_range=Fraction(19, 5))),
    (Oneshot(2.0, "gumbel"), 10, Peeling(2.0).cost(10)),
    (PnfPeeling(2.0), 10, Cost(TWO, rho=10 * rho_of_pure(Fraction(1, 5)))),
    *(
        (kind(2.0, neighbours=relation), 5, Cost.exponential(TWO))
        for kind in (Joint, FastJoint, JointSet, Canonical)
        for relation in ("add-remove", "replace-one")
    ),
    (Peeling(2.0), 1, Cost.exponential(TWO)),
    *(
        (mechanism, 5, Cost(TWO))
        for mechanism in (
            Oneshot(2.0),
            Joint(2.0, noise="exponential"),
            JointSet(2.0, "laplace"),
            Canonical(2.0, noise="laplace"),
            Gamma(2.0),
            Gamma(2.0, "replace-one"),
        )
    ),
]


@pytest.mark.parametrize(("mechanism", "k", "cost"), STATED, ids=str)
def test_each_mechanism_states_the_cost_that_is_proved(mechanism: Mechanism, k: int, cost: Cost) -> None:
    """Exponential mechanisms with their range, others as pure releases; what a set or an order costs for any k."""
    assert mechanism.cost(k) == cost


def test_rho_of_peeling_needs_no_delta() -> None:
    mechanism = CdpPeeling(1.0, 1e-6)
    assert mechanism.cost(100).rho == 100 * mechanism.share(100) ** 2 / 8


def test_permute_and_flip_peeling_has_no_bounded_range() -> None:
    """The trap: at k = 4 its rho is about epsilon**2 / 8, as if it were an exponential mechanism; its range is not."""
    mechanism = PnfPeeling(1.0)
    pair = pair_of(mechanism, (Kind(0, 1, 3), Kind(0, 0, 3)), 4)
    assert log_ratio_range(*pair) == pytest.approx(1.17, abs=0.01)
    assert float(mechanism.cost(4).rho) == pytest.approx(1 / 8, rel=0.01)
    assert mechanism.cost(4).bounded_range is None


def test_the_range_of_peeling_exceeds_epsilon() -> None:
    """Two draws of half the budget: the second one's normaliser depends on the first, and the ranges do not add up."""
    pair = pair_of(Peeling(1.0), (Kind(0, 1, 2), Kind(0, 0, 2)), 2)
    assert 1.16 < log_ratio_range(*pair) < 1.17 <= float(Peeling(1.0).cost(2).bounded_range)


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 10**300), Fraction(1, 1000), Fraction(1), Fraction(9), Fraction(10**9)]
)
def test_rho_of_a_pure_release_is_randomised_response_s(epsilon: Fraction) -> None:
    rho = rho_of_pure(epsilon)
    assert rho <= epsilon**2 / 2 * (1 + Fraction(1, 2**60)) and rho <= epsilon * (1 + Fraction(1, 2**60))
    if Fraction(1, 10**6) < epsilon < 20:
        e = float(epsilon)
        p = math.exp(e) / (1 + math.exp(e))
        exact = [math.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1) for a in (1.001, 2, 30)]
        assert all(d <= float(rho) * a + 1e-9 for d, a in zip(exact, (1.001, 2, 30), strict=True))
        assert exact[0] == pytest.approx(float(rho), rel=0.01), "at order 1 nothing is given away"


def test_rounding_is_upwards_and_small() -> None:
    rho = rho_of_pure(Fraction(1))
    assert 0 < rho - Fraction(math.tanh(0.5)) + Fraction(1, 2**53) < Fraction(1, 2**50)
    assert rho_of_exponential(Fraction(1)) == Fraction(1, 8)
    assert rho_of_exponential(Fraction(20)) == rho_of_pure(Fraction(20)) < 50


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_cost_is_exact_and_grows_with_epsilon(name: str) -> None:
    kind = MECHANISMS[name]
    needed = {n: v for n, v in (("delta", 1e-6), ("max_items_per_user", 3)) if n in kind.__dataclass_fields__}
    for k in (1, 3, 10):
        costs = [kind(epsilon=epsilon, **needed).cost(k) for epsilon in (0.1, 1.0, 3.0)]
        for cost in costs:
            assert all(type(v) is Fraction for v in (cost.epsilon, cost.delta, cost.rho, cost.bounded_range) if v)
            if not cost.delta:
                assert cost.rho <= cost.epsilon**2 / 2
        rhos = [cost.rho for cost in costs if cost.rho is not None]
        assert rhos == sorted(set(rhos))
