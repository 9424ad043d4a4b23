"""Checks of a mechanism against its law, and of the law against the privacy that the mechanism states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import product

from private_topk.transforms.mechanisms import Cost, Mechanism
from tests.laws.frequencies import assert_follows, draws_to_see, frequencies
from tests.laws.laws import SMALL_COUNTS, Law, LogLaw, hockey_stick, permitted_neighbours, total

LawOf = Callable[[tuple[int, ...], int], Law]
"""The law of one mechanism: counts and k in, probabilities out."""

ORDERS = (1, 1.5, 2, 4, 16, 64)
"""The orders of the Renyi divergences that are compared with rho."""


def check_law(
    mechanism: Mechanism,
    law: LawOf,
    grid: Sequence[tuple[int, ...]] = ((3, 1, 0, 2), (30, 1, 0, 2)),
    ks: Iterable[int] = (1, 2, 4),
    draws: int | None = None,
    smallest_error: float = 0.08,
    seed: bytes = b"law",
) -> None:
    """The law sums to one, and seeded draws follow it by a chi-square test.

    Args:
        law: see `tests.laws`.
        grid, ks: the count vectors that are drawn from, and how many items: those above a vector's length are left
            out. Of other counts the test says nothing: by default one range is narrow and one wide, since noise must
            not depend on it.
        draws: the calls for each vector and k; None for as many as it takes.
        smallest_error: a total variation distance that the test has to be able to see, with power 0.99.
        seed: of the keystream; the test fails for nothing at one seed in a million.
    """
    for counts, k in product(grid, ks):
        if k > len(counts):
            continue
        stated = law(counts, k)
        mass = total(stated)
        assert abs(float(mass.mid()) - 1) < 1e-9, f"the law of k = {k} sums to {mass}"
        enough = draws_to_see(stated, smallest_error) if draws is None else draws
        assert_follows(frequencies(mechanism, counts, k, enough, seed), stated, smallest_error)


def check_neighbours(
    mechanism: Mechanism,
    law: LawOf,
    grid: Sequence[tuple[int, ...]] = SMALL_COUNTS,
    ks: Iterable[int] = (1, 2, 3, 4),
    slack: float = 1e-8,
) -> float:
    """`mechanism.cost(k)` holds between all neighbours of a grid: epsilon or delta, the bounded range, and rho where it
    has no `zcdp_delta`.

    Args:
        law: see `tests.laws`.
        grid: count vectors; every neighbour of each, in the mechanism's own sense, is compared with it.
        ks: those above a vector's length are left out.
        slack: of the law's own rounding.

    Returns:
        The largest log-ratio met (pure) or hockey-stick divergence (approximate): how much of the budget shows.
    """
    known, worst = cache(lambda counts, k: LogLaw(law(counts, k))), 0.0
    for counts in grid:
        for k in (k for k in ks if k <= len(counts)):
            cost = mechanism.cost(k)
            for moved in permitted_neighbours(mechanism, counts):
                try:
                    worst = max(worst, _check(cost, known(counts, k), known(moved, k), slack))
                except AssertionError as error:
                    raise AssertionError(f"{mechanism!r}, k = {k}, {counts} and {moved}: {error}") from None
    return worst


def check_pair(cost: Cost, here: Law, there: Law, slack: float = 1e-8) -> float:
    """A stated cost holds between two laws, in both directions; returns the largest log-ratio or divergence met."""
    return _check(cost, LogLaw(here), LogLaw(there), slack)


def _check(cost: Cost, here: LogLaw, there: LogLaw, slack: float) -> float:
    forth = here.against(there)
    epsilon, delta = float(cost.epsilon), float(cost.delta)
    if cost.delta:
        met = max(hockey_stick(here.law, there.law, epsilon), hockey_stick(there.law, here.law, epsilon))
        assert met <= delta + slack, f"divergence {met} exceeds delta {delta}"
    else:
        met = forth.largest()
        assert met <= epsilon + slack, f"log-ratio {met} exceeds epsilon {epsilon}"
    if cost.bounded_range is not None:
        spread = forth.range()
        assert spread <= float(cost.bounded_range) + slack, f"range {spread} exceeds {float(cost.bounded_range)}"
    if not cost.zcdp_delta:  # else answers of the event `rest` may be possible on one side alone
        back = there.against(here)
        for order in ORDERS:
            divergence = max(forth.renyi(order), back.renyi(order))
            limit = float(cost.rho) * order
            assert divergence <= limit + slack, f"Renyi divergence {divergence} of order {order} exceeds {limit}"
    return met
