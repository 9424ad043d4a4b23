"""Windows of an unknown domain share a budget by their rhos: whole laws of two releases, and what is gained in noise.

`python -m tests.pipelines.budget.test_unknown_domains` prints the noise of one window beside what it was when these
mechanisms were known by their (epsilon, delta) alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from private_topk.pipelines.budget import Budget, Composition, Cost, Total, share_out
from private_topk.pipelines.budget.composition import rho_within, share_under
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism
from private_topk.transforms.mechanisms.weighted import UNIT
from tests.laws import neighbours
from tests.nightly import nightly, nightly_but
from tests.transforms.mechanisms.stated import contract_of

LIMIT, PNF = (MECHANISMS[name] for name in ("limit-domain", "restricted-pnf"))
EPSILON, MICRO = Fraction(1), Fraction(1, 10**6)

# Several releases, each chosen by the answers before it.

GRID = [(1, 0, 0), (2, 1, 0), (3, 3, 2), (12, 2, 2), (12, 12, 1), (30, 30, 30)]
LAWS = {name: contract_of(MECHANISMS[name]) for name in ("limit-domain", "restricted-pnf")}
Pairs = tuple[np.ndarray, np.ndarray]
"""Laws of neighbours, (pairs, answers) each."""


def pairs_of(k: int, *mechanisms: Mechanism) -> Pairs:
    """All laws of the items that come out, where a user joins or leaves beside crowds of the grid."""
    found = set()
    for mechanism in mechanisms:
        law = LAWS[mechanism.about.name].law
        for counts in GRID:
            for other in neighbours(counts):
                here, there = (law(mechanism, given, k) for given in (counts, other))
                found.add(tuple((float(here.get(a, 0)), float(there.get(a, 0))) for a in {**here, **there}))
    most = max(map(len, found))
    table = np.array([pair + ((0.0, 0.0),) * (most - len(pair)) for pair in sorted(found)])
    return table[:, :, 0], table[:, :, 1]


def hockey_stick(pairs: Pairs, releases: int, epsilon: float, mass: tuple[float, float] = (1.0, 1.0)) -> float:
    """The most that so many releases tell, each over the counts that tell most after the answers so far: exact."""
    here, there = mass[0] * pairs[0], mass[1] * pairs[1]
    if releases == 1:
        return float(np.maximum(here - math.exp(epsilon) * there, 0).sum(axis=1).max())
    return max(
        sum(hockey_stick(pairs, releases - 1, epsilon, both) for both in zip(p, q, strict=True) if both[0] > 0)
        for p, q in zip(here.tolist(), there.tolist(), strict=True)
    )


def converted(rho: float, epsilon: float) -> float:
    """The delta of rho-zCDP, by Canonne, Kamath & Steinke 2020, Proposition 12, at the best of many orders."""
    a = 1 + np.geomspace(1e-3, 1e4, 20_000)
    return float(np.exp(((a - 1) * (a * rho - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)).min()))


def test_two_releases_tell_no_more_than_their_rhos_and_rests() -> None:
    """Of both kinds, by the answer: k = 2 and every epsilon. Without the rests that is wrong."""
    kinds = LIMIT(2.0, 0.1, kbar=2), PNF(2.0, 0.1, kbar=2)
    costs, pairs = [mechanism.cost(2) for mechanism in kinds], pairs_of(2, *kinds)
    rho, rest = (2 * float(max(getattr(cost, name) for cost in costs)) for name in ("rho", "zcdp_delta"))
    for epsilon in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
        told, by_rho = hockey_stick(pairs, 2, epsilon), converted(rho, epsilon)
        assert 0.08 < told <= by_rho + rest
        assert epsilon < 4 or told > 1.5 * by_rho


def shared(total: Total, windows: int, k: int, seen: Callable[[Cost], Cost] = lambda cost: cost) -> Mechanism:
    """A window's limit-domain at the share that zCDP allows by the cost that is `seen`."""

    def make(epsilon: Fraction, delta: Fraction) -> Mechanism:
        return LIMIT(epsilon, delta, kbar=k)

    share = share_under("zcdp", lambda e, d: seen(make(e, d).cost(k)), total, windows)
    assert share is not None
    return make(share.epsilon, share.delta)


@pytest.mark.nightly
@pytest.mark.parametrize(("epsilon", "delta"), [("1/2", "1/10"), ("2", "1/10"), ("2", "1/100")])
def test_releases_at_their_shares_stay_within_the_total(epsilon: str, delta: str) -> None:
    total = Total(Fraction(epsilon), Fraction(delta))
    for windows, k in ((2, 2), (3, 1)):
        told = hockey_stick(pairs_of(k, shared(total, windows, k)), windows, float(total.epsilon))
        assert 0.2 * total.delta < told <= total.delta


@pytest.mark.nightly
def test_shares_without_the_rest_overspend() -> None:
    """What would be if an unstable item cost nothing."""
    total = Total(Fraction(2), Fraction(1, 10))
    mechanism = shared(total, 3, 1, lambda cost: replace(cost, zcdp_delta=Fraction(0)))
    assert hockey_stick(pairs_of(1, mechanism), 3, 2.0) > 1.2 * total.delta


# What that is worth.

BEFORE: dict[str, tuple[dict[str, Any], tuple[float, ...]]] = {
    "limit-domain": ({}, (8.6615, 36.5652, 112.8382, 298.6207)),
    "restricted-gumbel": ({}, (15.9712, 64.9070, 196.0927, 504.8279)),
    "restricted-pnf": ({}, (13.3333, 53.3331, 159.7994, 406.6951)),
    "restricted-laplace": ({}, (13.3333, 53.3331, 159.7994, 406.6951)),
    "restricted-laplace, m = 3": ({"max_items_per_user": 3}, (4.0000, 15.9999, 47.9398, 122.0085)),
    "restricted-normal, m = 10": ({"max_items_per_user": 10}, (22.2513, 91.0223, 272.1060, 709.1645)),
    "restricted-normal, m = 50": ({"max_items_per_user": 50}, (45.0799, 184.1497, 550.3755, 1433.9886)),
    "laplace-limit-domain, m = 5": ({"max_items_per_user": 5}, (5.0000, 19.9999, 59.9248, 152.5107)),
    "laplace-limit-domain, m = 50": ({"max_items_per_user": 50}, (10.0000, 39.9998, 119.8496, 305.0214)),
    "top-stable": ({}, (3.0000, 11.9999, 35.9549, 91.5064)),
    "top-stable, kbar = 20": ({"kbar": 20}, (6.0000, 23.9999, 71.9097, 183.0128)),
    "weighted-gaussian, m = 20": ({"max_items_per_user": 20}, (19.5216, 41.7621, 72.3342, 150.5756)),
}
"""The scale of the noise on a count at (1, 1e-6), k = 10, of a window of 1, 4, 12 and 52, by (epsilon, delta) alone."""
QUICK = [name for name in BEFORE if name not in ("limit-domain", "restricted-gumbel", "top-stable, kbar = 20")]
"""The others share their parts out by search."""
WINDOWS = (1, 4, 12, 52)


def noise(mechanism: Mechanism, k: int = 10) -> float:
    """Its scale: of Gumbel and Laplace noise, or the standard deviation of Gaussian; of top-stable that of a gap."""
    name = mechanism.about.name
    if name == "weighted-gaussian":
        return float(mechanism.scale() / UNIT)
    if name == "restricted-normal":
        return float(mechanism.inner(k).scale(mechanism.kbar_for(k)))
    if name in ("limit-domain", "restricted-gumbel"):
        return float(1 / mechanism.share(k))
    if name == "top-stable":
        return float(3 / mechanism.search_budget(k)[0])
    noisy = Fraction(3, 4) if name in ("restricted-pnf", "restricted-laplace") else 1
    return float(
        min(k, mechanism.parameter("max_items_per_user") or k) / (Fraction(mechanism.parameter("epsilon")) * noisy)
    )


def now(name: str) -> list[float]:
    """The scale of the noise of a window, as a run shares the total out."""
    mechanism = MECHANISMS[name.partition(",")[0]](epsilon=EPSILON, delta=MICRO, **BEFORE[name][0])
    return [noise(share_out(mechanism, 10, composition=Composition("user", windows)).mechanism) for windows in WINDOWS]


WANTED = {
    "limit-domain": (1.15, 2.4, 4.2, 5.3),
    "restricted-gumbel": (1.1, 1.2, 2.1, 2.5),
    "restricted-pnf": (1, 1.4, 2.4, 2.9),
    "restricted-laplace, m = 3": (1, 1, 1.5, 1.9),
    "restricted-normal, m = 10": (1, 1.3, 2.2, 2.7),
    "restricted-normal, m = 50": (1, 1.4, 2.4, 3),
    "laplace-limit-domain, m = 5": (1, 1, 1.6, 2),
    "top-stable, kbar = 20": (1, 1, 1.4, 1.7),
    "weighted-gaussian, m = 20": (1.03, 1, 1, 1),
}
"""By how much less noise, at least. `limit-domain` is nothing but draws that zCDP suits; others have tests, too."""


@pytest.mark.parametrize("name", nightly_but(BEFORE, *QUICK))
def test_no_window_needs_more_noise_than_before_and_many_need_far_less(name: str) -> None:
    times = WANTED.get(name, (1, 1, 1, 1))
    for found, before, less in zip(now(name), BEFORE[name][1], times, strict=True):
        assert found <= before / less * 1.0001


@pytest.mark.parametrize("windows", [nightly(4), 12, nightly(52)])
def test_plan_run_and_ledger_share_alike(windows: int) -> None:
    """And all windows of a run fit a ledger of the same total, and not one more."""
    mechanism = LIMIT(EPSILON, MICRO)
    held = Budget.of("plays", EPSILON, MICRO, unit="user")
    shared = [
        share_out(mechanism, 10, composition=Composition("user", windows), held=total) for total in (None, held.total)
    ]
    assert "zcdp" == shared[0].privacy.accounting == shared[1].privacy.accounting
    assert shared[0].mechanism == shared[1].mechanism and set(shared[0].shares) > set(shared[1].shares)
    cost = shared[0].mechanism.cost(10)
    assert windows * cost.zcdp_delta <= MICRO / 2 < windows * cost.zcdp_delta * (1 + Fraction(1, 2**40))
    assert windows * cost.rho <= rho_within(EPSILON, MICRO / 2) < windows * cost.rho * (1 + Fraction(1, 2**40))
    assert held.fits(Cost.sum([(windows, cost)])) and not held.fits(Cost.sum([(windows + 1, cost)]))


if __name__ == "__main__":
    print("noise of one window at (1, 1e-6), k = 10: before, now, how much less")
    for name in BEFORE:
        cells = (f"{was:9.1f} {its:7.1f} {was / its:5.2f}" for was, its in zip(BEFORE[name][1], now(name), strict=True))
        print(f"{name:30}", *cells, sep=" |")
