"""What a draw over an unknown domain costs: rho of its slots, but for answers that name an unstable one.

Laws of the slots of neighbours are enumerated. An answer that names a slot whose item only one of the two data sets has
among its candidates counts as `NONE`; with it the two laws are within rho at every order, and its probability is at
most `zcdp_delta`. Nothing is drawn here, so there are no false alarms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Cost
from private_topk.transforms.mechanisms.cost import rho_of_pure
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.noisy_order import Gaussian, Peeling
from private_topk.transforms.mechanisms.restricted import (
    Restricted,
    RestrictedGumbel,
    RestrictedLaplace,
    RestrictedNormal,
    RestrictedPnf,
)
from private_topk.transforms.mechanisms.unknown_domain import (
    LaplaceLimitDomain,
    LimitDomain,
    TopStable,
    UnknownDomainMechanism,
)
from tests.laws import neighbours, renyi
from tests.laws.checks import ORDERS
from tests.laws.laws import permitted_neighbours
from tests.nightly import nightly
from tests.transforms.mechanisms.stated import contract_of
from tests.transforms.mechanisms.unknown_laws import GRID, RELATIONS, Counts, passes, phantoms, top

KINDS = {
    kind: contract_of(kind)
    for kind in (
        LimitDomain,
        LaplaceLimitDomain,
        TopStable,
        RestrictedGumbel,
        RestrictedLaplace,
        RestrictedNormal,
        RestrictedPnf,
    )
}

Stopped = dict[object, float]
NONE = "none"


def stopped(mechanism: UnknownDomainMechanism, counts: Counts, other: Counts, k: int) -> Stopped:
    """The law over `counts` of what is named by slots that `other` has too, and of `NONE`."""
    items, largest = top(counts, mechanism.kbar)
    mine, theirs = phantoms(items[:-1]), phantoms(top(other, mechanism.kbar)[0][:-1])
    law: Stopped = defaultdict(float)
    test = KINDS[type(mechanism)]
    if isinstance(mechanism, TopStable):
        for (size, ranks), p in test.searched(mechanism, largest, k).items():
            stable = set(mine[:size]) == set(theirs[:size])
            law[(size, frozenset(mine[r] for r in ranks)) if stable else NONE] += float(p)
        return law
    for ranks, p in test.ranked(mechanism, largest, k).items():
        names = tuple(mine[r] for r in ranks)
        law[names if set(theirs).issuperset(names) else NONE] += float(p)
    return law


def told(cost: Cost, here: Stopped, there: Stopped, slack: float = 1e-7) -> float:
    """The largest part of rho that shows at any order, either way round. Raises AssertionError above what is stated."""
    rest, rho = float(cost.zcdp_delta), float(cost.rho or 0)
    assert max(here.get(NONE, 0.0), there.get(NONE, 0.0)) <= rest + 1e-9, f"unstable items come out above {rest}"
    worst = max(renyi(*pair, order) / order for order in ORDERS for pair in ((here, there), (there, here)))
    assert worst <= rho + slack, f"a divergence of {worst} an order exceeds {rho}"
    return worst / rho


def pairs(mechanism: UnknownDomainMechanism, k: int, grid: list[Counts]) -> Iterator[tuple[Stopped, Stopped]]:
    for counts in grid:
        for other in permitted_neighbours(mechanism, counts):
            yield stopped(mechanism, counts, other, k), stopped(mechanism, other, counts, k)


SEEN = {
    LimitDomain: 0.9,
    LaplaceLimitDomain: 0.35,
    TopStable: 0.05,
    RestrictedGumbel: 0.1,
    RestrictedLaplace: 0.1,
    RestrictedNormal: 0.1,
    RestrictedPnf: 0.15,
}
"""The least part of rho that has to show. It is small where there are tests, of which no more than purity is used."""

EQUAL = (90, 90, 90, 90, 1)
DRAWS = [(LimitDomain(0.4, 0.1, 4, neighbours=relation), 2) for relation in RELATIONS]
"""Four equal items, all certain to come out: where half of them move, every draw tells as much as it may."""


@pytest.mark.parametrize("step", [4, nightly(1)])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.about.name)
def test_slots_without_unstable_items_satisfy_zcdp(kind: type[UnknownDomainMechanism], step: int) -> None:
    """By day on every fourth of the counts, where as much of rho shows."""
    worst = 0.0
    for mechanism, k in KINDS[kind].private:
        grid = [c for c in GRID[::step] if len(c) < 5 or mechanism.parameter("neighbours") == "add-remove"]
        worst = max(worst, *(told(mechanism.cost(k), *pair) for pair in pairs(mechanism, k, grid)))
    assert worst >= SEEN[kind]


@pytest.mark.parametrize(("mechanism", "k"), DRAWS, ids=repr)
def test_every_draw_is_paid_for_and_none_twice(mechanism: LimitDomain, k: int) -> None:
    assert max(told(mechanism.cost(k), *pair) for pair in pairs(mechanism, k, [EQUAL])) >= 0.9


@pytest.mark.parametrize(
    "kind", [nightly(LimitDomain), nightly(LaplaceLimitDomain), RestrictedPnf], ids=lambda kind: kind.about.name
)
def test_moves_of_a_part_of_what_one_user_adds_tell_no_more(kind: type[UnknownDomainMechanism]) -> None:
    """Amounts up to a cap of 2, as counts of halves: slots move by 0, 1/2 or 1, and the next count with them."""
    for mechanism, k in KINDS[kind].private:
        relation, most = mechanism.parameter("neighbours"), mechanism.parameter("max_items_per_user") or 9
        for counts in [(5, 4, 4), (3, 3, 2, 0), (4, 1, 0)]:
            for other in neighbours(counts, relation, 2):
                moves = [b - a for a, b in zip(counts, other, strict=True)]
                if max(sum(m > 0 for m in moves), sum(m < 0 for m in moves)) <= most:
                    one, two = (tuple(Fraction(c, 2) for c in given) for given in (counts, other))
                    told(mechanism.cost(k), *(stopped(mechanism, *both, k) for both in ((one, two), (two, one))))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.about.name)
def test_the_check_finds_a_rest_left_out_of_the_cost(kind: type[UnknownDomainMechanism]) -> None:
    for mechanism, k in KINDS[kind].private:
        planted = replace(mechanism.cost(k), zcdp_delta=mechanism.cost(k).zcdp_delta / 4)
        with pytest.raises(AssertionError, match="unstable items come out"):
            for pair in pairs(mechanism, k, GRID):
                told(planted, *pair)


@pytest.mark.parametrize(("mechanism", "k"), DRAWS, ids=repr)
def test_the_check_finds_a_draw_left_out_of_the_cost(mechanism: LimitDomain, k: int) -> None:
    planted = replace(mechanism.cost(k), rho=(k - 1) * mechanism.share(k) ** 2 / 8)
    with pytest.raises(AssertionError, match="an order exceeds"):
        for pair in pairs(mechanism, k, [EQUAL]):
            told(planted, *pair)


def moves_of_tests(swap: bool) -> Iterator[tuple[tuple[Fraction, ...], tuple[Fraction, ...]]]:
    """Levels of three candidates and of the next count before and after, in steps of a half of what a user adds."""
    steps = [Fraction(n, 2) for n in range(-2 if swap else 0, 3)]
    for start in [(0, 0, 0, 0), (9, 9, 9, 0), (9, 0, 9, 0), (9, 9, 4, 0)]:
        for moves in product(steps, repeat=4):
            yield tuple(map(Fraction, start)), tuple(c + m for c, m in zip(start, moves, strict=True))


@pytest.mark.parametrize("drift", [1, nightly(2)])
def test_the_range_of_tests_is_half_as_much_again_as_their_epsilon(drift: int) -> None:
    """Candidates in a fixed order, all levels moving one way by up to 1, or under replace-one both ways."""
    epsilon, widest, furthest = Fraction(2), 0.0, 0.0

    @cache
    def law(levels: tuple[Fraction, ...]) -> np.ndarray:
        return np.log(passes(tuple((c - levels[-1] - drift) * epsilon / (2 * drift) for c in levels[:-1]), 20, False))

    for before, after in moves_of_tests(drift == 2):
        ratios = law(after) - law(before)
        widest, furthest = max(widest, float(np.ptp(ratios))), max(furthest, float(np.abs(ratios).max()))
    assert 0.5 * float(epsilon) < furthest <= float(epsilon) + 1e-9
    assert 0.8 * float(epsilon) < widest <= 1.5 * float(epsilon) + 1e-9


def of_tests(epsilon: Fraction) -> Fraction:
    return min(Fraction(9, 32) * epsilon**2, rho_of_pure(epsilon))


EPSILON, DELTA = Fraction(2), Fraction(1, 1000)


def stated(mechanism: UnknownDomainMechanism, k: int) -> tuple[Fraction, Fraction]:
    """rho and rest, written from the documentation."""
    e, name = EPSILON, mechanism.about.name
    if isinstance(mechanism, LimitDomain):
        return k * mechanism.share(k) ** 2 / 8, DELTA / 2
    if isinstance(mechanism, LaplaceLimitDomain):
        moved = (2 if mechanism.neighbours == "replace-one" else 1) * mechanism.max_items_per_user
        few = mechanism.max_items_per_user <= k
        return moved * rho_of_pure(e / moved) if few else rho_of_pure(e), DELTA
    if isinstance(mechanism, TopStable):
        if mechanism.kbar is None or mechanism.kbar <= k:
            return rho_of_pure(e), DELTA
        return rho_of_pure(e / 2) + k * mechanism.share(k) ** 2 / 8, DELTA / 2
    tests, rest = mechanism.test_budget(k)
    if name == "restricted-gumbel":
        return k * mechanism.share(k) ** 2 / 8 + of_tests(tests), rest
    if name == "restricted-pnf":
        return k * rho_of_pure((e - tests) / k) + of_tests(tests), rest
    if isinstance(mechanism, RestrictedLaplace):
        bound = mechanism.max_items_per_user or 99
        moved = (2 if mechanism.neighbours == "replace-one" else 1) * bound
        order = moved * rho_of_pure((e - tests) / moved) if bound <= k else rho_of_pure(e - tests)
        return order + of_tests(tests), rest
    scale = gaussian_scale(e - tests, DELTA - rest, Fraction(1)) * (1 - Fraction(1, 2**50))
    return 1 / (2 * scale**2) + of_tests(tests), rest


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.about.name)
def test_rho_and_rest_are_those_of_the_parts(kind: type[UnknownDomainMechanism], neighbours: str, k: int) -> None:
    bounded = "max_items_per_user" in kind.__dataclass_fields__
    for more in ({}, {"kbar": 12}):
        for bound in ({"max_items_per_user": 2}, {"max_items_per_user": 50}) if bounded else ({},):
            mechanism = kind(EPSILON, DELTA, neighbours=neighbours, **more, **bound)
            rho, rest = stated(mechanism, k)
            assert mechanism.cost(k) == Cost(EPSILON, DELTA, rho, zcdp_delta=rest)
            assert 0 < rho <= rho_of_pure(EPSILON), "and never more than of an approximate release of any kind"


def test_the_framework_over_any_mechanism_adds_its_tests() -> None:
    tests = of_tests(Fraction(1, 2))
    for inner in (Peeling(1.0), Gaussian(1.0, 1e-6, 3)):
        its, whole = inner.cost(5), Restricted(inner, 0.5, DELTA).cost(5)
        assert its.rho is not None and (whole.rho, whole.zcdp_delta) == (its.rho + tests, DELTA)
        assert (whole.epsilon, whole.delta) == (Fraction(3, 2), its.delta + DELTA)
