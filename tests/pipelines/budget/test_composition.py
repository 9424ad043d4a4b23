"""Shares of a budget: against the papers' formulas written anew, dp-accounting, and composed laws by enumeration."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from scipy import integrate, stats

from private_topk.pipelines.budget.accounting import Budget
from private_topk.pipelines.budget.composition import Price, Share, Total, best_share, optimal_delta, rho_within, shares
from private_topk.pipelines.budget.sharing import Composition, Split, over_windows, share_out
from private_topk.transforms.errors import InvalidArgument, plain
from private_topk.transforms.mechanisms import MECHANISMS, make_mechanism
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import (
    bounded_range_epsilon,
    epsilon_within,
    gaussian_delta,
    gaussian_epsilon,
)
from private_topk.transforms.mechanisms.exact.reals import precision
from private_topk.transforms.mechanisms.noisy_counts import CountBudget, noise_of_counts
from tests.pipelines.support import question_of
from tests.refusals import refused
from tests.transforms.mechanisms.laws import delta_of

JOINT = MECHANISMS["joint"]
MICRO = Fraction(1, 10**6)


def ranged(epsilon: Fraction, delta: Fraction) -> Cost:
    return JOINT(epsilon).cost(10)


def pure(epsilon: Fraction, delta: Fraction) -> Cost:
    return JOINT(epsilon, noise="exponential").cost(10)


@pytest.mark.parametrize("number", [-1, Fraction(-1, 10**9), math.nan, math.inf, "much", None, [1], "{delta}"])
def test_no_budget_and_no_cost_is_below_0(number: Any) -> None:  # noqa: ANN401
    rule = f"^epsilon must be (at least 0|a finite number), got {re.escape(str(plain(number)))}"
    for make in (Total, lambda n: Cost(n, Fraction(0)), lambda n: Cost(n, Fraction(0), Fraction(0))):
        with pytest.raises(
            InvalidArgument, match=rule if not isinstance(number, str) else "must be a finite number, got"
        ):
            make(number)
    for name in ("delta", "rho", "zcdp_delta"):
        with pytest.raises(InvalidArgument, match=f"^{name} must be"):
            Cost(**{**dict.fromkeys(("epsilon", "delta", "rho", "zcdp_delta"), Fraction(1)), name: number})


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"dataset": ""}, "dataset"),
        ({"dataset": None}, "dataset"),
        ({"unit": "usr"}, "privacy_unit"),
        ({"unit": ["user"]}, "privacy_unit"),
        ({"neighbours": "{unit}"}, "neighbours"),
    ],
)
def test_a_budget_is_checked_however_it_is_made(wrong: dict[str, Any], field: str) -> None:
    given = {"dataset": "plays", "unit": "user", "total": Total(1), "neighbours": "replace-one"}
    with pytest.raises(InvalidArgument) as found:
        Budget(**{**given, **wrong})
    assert found.value.field == field and all(str(value) in str(found.value) for value in wrong.values() if value)


@pytest.mark.parametrize(
    ("given", "field"), [((0,), "epsilon"), ((1, 1), "delta"), ((1, 0.1, 0.2), "release_delta")], ids=str
)
def test_the_numbers_of_a_budget_are_checked(given: tuple[float, ...], field: str) -> None:
    with refused(field, "must be"):
        Budget.of("plays", *given)


def value(real: object) -> float:
    with precision(256):
        return float(real())


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def normal(epsilon: Fraction, delta: Fraction) -> Cost:
    return MECHANISMS["gaussian"](epsilon, delta).cost(10)


@pytest.mark.parametrize("windows", [2, 7, 52, 365])
@pytest.mark.parametrize("price", [ranged, pure, normal])
def test_shares_fill_the_budget_and_never_overspend(price: Price, windows: int) -> None:
    found = shares(price, Total(Fraction(1), MICRO), windows)
    own = MICRO / 2 if price is normal else 0
    limits = {
        "basic": lambda s: windows * Fraction(s) <= 1,
        "optimal": lambda s: value(optimal_delta(Fraction(1), Fraction(s), windows)) <= MICRO - own,
        "bounded-range": lambda s: value(bounded_range_epsilon(windows, Fraction(s), MICRO)) <= 1,
        "zcdp": lambda s: windows * price(Fraction(s), MICRO).rho <= rho_within(Fraction(1), MICRO),
        "gaussian": lambda s: (
            delta_of(1, 1, math.sqrt(2 * windows * price(Fraction(s), MICRO).rho)) <= 1e-6 * (1 + 1e-9)
        ),
    }
    assert {"basic", "optimal"} <= set(found) and ("gaussian" in found) == (price is normal)
    for name, share in found.items():
        more = Fraction(1, 2 ** (20 if name == "gaussian" else 50))
        assert limits[name](share.epsilon) and not limits[name](share.epsilon * (1 + more)), name
    assert price is not normal or 1.05 < found["gaussian"].epsilon / found["zcdp"].epsilon < 1.1


def test_gaussians_chosen_by_earlier_ones_are_one_gaussian() -> None:
    """Two of rho each, added up exactly: by what the first tells, the second moves its mean up or down. One alone tells
    less, so that a budget of a single rho would not be kept.
    """
    for epsilon, rho in ((0.5, 0.1), (1.0, 0.02), (3.0, 1.0)):
        mu = math.sqrt(2 * rho)

        def told(x: float, epsilon: float = epsilon, mu: float = mu) -> float:
            """At x the first tells mu x - mu**2 / 2 of epsilon; the second must not tell more than what is left."""
            return stats.norm.pdf(x, mu) * delta_of(1, epsilon - (mu * x - mu**2 / 2), mu)

        stated = value(gaussian_delta(Fraction(epsilon), Fraction(1), 4 * Fraction(rho)))
        assert integrate.quad(told, -12, 12, epsabs=1e-13)[0] == pytest.approx(stated, rel=1e-6)
        assert stated > 1.5 * delta_of(1, epsilon, mu)
        assert float(gaussian_epsilon(2 * Fraction(rho), Fraction(stated))) == pytest.approx(epsilon, rel=1e-6)


def test_the_gaussian_share_covers_mechanism_and_counts_if_both_are_gaussian() -> None:
    """Of weighted-gaussian with its rest; of counts beside it that are; and of nothing else."""
    total = Total(Fraction(1), MICRO)

    def shared(name: str, counts: CountBudget | None = None) -> dict[str, Share]:
        mechanism = make_mechanism(name, epsilon=1, delta=1e-6, max_items_per_user=3)
        return shares(Split(mechanism, 5, counts).price, total, 12)

    for name in ("gaussian", "weighted-gaussian", "weighted-order"):
        cost = shared(name)["gaussian"].cost
        assert 12 * cost.zcdp_delta + delta_of(1, 1, math.sqrt(24 * cost.rho)) <= 1e-6 * (1 + 1e-9)
    assert "gaussian" in shared("gaussian", CountBudget(1, 1e-6))
    assert "gaussian" not in {*shared("gaussian", CountBudget(1)), *shared("restricted-normal")}


@pytest.mark.parametrize("k", [1, 10, 60])
@pytest.mark.parametrize("name", ["peeling", "cdp-peeling", "gaussian", "joint"])
def test_counts_are_gaussian_where_ranking_and_counts_gain_and_the_total_stays(name: str, k: int) -> None:
    """By rho, pure counts of k items cost 4 k times a peeling of the same epsilon."""
    drawn = {"delta": MICRO} if name == "cdp-peeling" else {"delta": MICRO, "max_items_per_user": k}
    mechanism = make_mechanism(name, epsilon=1, **(drawn if name in ("cdp-peeling", "gaussian") else {}))
    spare = None if name in ("cdp-peeling", "gaussian") else MICRO
    known = {"spare_delta": spare, "privacy_unit": "user", "publish_counts": CountBudget(1)}
    taken = set()
    for windows in (2, 4, 52, 400):
        question = question_of(k, mechanism, range(100), horizon=windows, **known)
        composition = Composition("user", 1, windows)
        plain = share_out(mechanism, k, CountBudget(1), spare, composition)
        assert question.privacy.total == plain.privacy.total == Total(Fraction(2), MICRO)
        shared, counts = question.top_k.mechanism, question.top_k.publish_counts
        assert isinstance(counts, CountBudget) and isinstance(plain.counts, CountBudget)
        noise = [noise_of_counts(k, each.epsilon, each.delta or None).stddev() for each in (counts, plain.counts)]
        gain = shared.parameter("epsilon") / plain.mechanism.parameter("epsilon")
        assert (gain >= noise[0] / noise[1]) if counts.delta else (gain == 1)
        cost = shared.cost(k) + counts.cost()
        if question.privacy.accounting == "zcdp":
            assert windows * cost.rho <= rho_within(Fraction(2), MICRO) and not cost.zcdp_delta
        taken.add(bool(counts.delta))
    assert True in taken


def test_exponential_mechanisms_get_a_larger_share_than_other_pure_ones() -> None:
    total = Total(Fraction(1), MICRO)
    joint, flipped = shares(ranged, total, 52), shares(pure, total, 52)
    assert best_share(joint).accounting == "zcdp" and best_share(flipped).accounting == "optimal"
    assert "bounded-range" not in flipped
    assert float(joint["zcdp"].epsilon) == pytest.approx(2 * float(flipped["zcdp"].epsilon), rel=1e-3)
    assert joint["zcdp"].epsilon > 3 * joint["basic"].epsilon


def test_a_pure_total_and_a_single_release_only_add_up() -> None:
    assert set(shares(ranged, Total(Fraction(1)), 52)) == {"basic"}
    single = shares(ranged, Total(Fraction(1), MICRO), 1)
    assert set(single) == {"basic"} and single["basic"].epsilon == 1


@pytest.mark.parametrize("windows", [1, 3, 8])
@pytest.mark.parametrize("share", [0.1, 0.7])
def test_optimal_delta_is_that_of_all_outcomes_of_randomised_response(windows: int, share: float) -> None:
    up, down = math.exp(share) / (1 + math.exp(share)), 1 / (1 + math.exp(share))
    outcomes = np.array(list(product([0, 1], repeat=windows)))
    p, q = np.prod(np.where(outcomes, up, down), 1), np.prod(np.where(outcomes, down, up), 1)
    for epsilon in (0.05, 0.3, 1.0, 3.0):
        expected = hockey_stick(p, q, epsilon)
        assert value(optimal_delta(Fraction(epsilon), Fraction(share), windows)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["optimal", "bounded-range", "zcdp"])
def test_composed_exponential_mechanisms_keep_the_promise(name: str) -> None:
    """Two items, n draws at the share, splits t of the range: the exact hockey-stick divergence stays below delta."""
    windows, delta = 20, Fraction(1, 1000)
    share = float(shares(ranged, Total(Fraction(1), delta), windows)[name].epsilon)
    worst = 0.0
    for t in np.linspace(0.05, 0.95, 19) * share:
        # P/Q is exp(t) on one item and exp(t - share) on the other, which fixes both laws.
        q = (1 - math.exp(t - share)) / (math.exp(t) - math.exp(t - share))
        p = q * math.exp(t)
        ways = [math.comb(windows, i) for i in range(windows + 1)]
        laws = [np.array([w * x**i * (1 - x) ** (windows - i) for i, w in enumerate(ways)]) for x in (p, q)]
        worst = max(worst, hockey_stick(*laws, 1.0))
    assert 0 < worst <= delta


@pytest.mark.parametrize("epsilon", ["1/10", "1", "8"])
@pytest.mark.parametrize("delta", ["1/1000", "1/1000000000"])
def test_rho_within_is_the_paper_s_conversion_at_its_best_order(epsilon: str, delta: str) -> None:
    rho = rho_within(Fraction(epsilon), Fraction(delta))
    with mp.workdps(40):
        e, r = (
            mp.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator,
            mp.mpf(rho.numerator) / rho.denominator,
        )

        def delta_at(a: mp.mpf, r: mp.mpf) -> mp.mpf:
            return mp.exp((a - 1) * (a * r - e)) / (a - 1) * (1 - 1 / a) ** a

        orders = [1 + mp.mpf(2) ** (mp.mpf(i) / 200) for i in range(-1200, 4000)]
        assert min(delta_at(a, r) for a in orders) <= Fraction(delta)
        assert min(delta_at(a, r * mp.mpf("1.0002")) for a in orders) > Fraction(delta), "some budget is left lying"


@pytest.mark.parametrize("rho", ["1/1000", "1/8", "13/2"])
def test_epsilon_within_is_the_inverse_of_rho_within(rho: str) -> None:
    epsilon = epsilon_within(Fraction(rho), MICRO)
    back = rho_within(epsilon, MICRO)
    assert abs(back / Fraction(rho) - 1) < Fraction(1, 10**9)


@pytest.mark.parametrize("windows", [2, 200])
def test_a_user_in_all_windows_is_promised_what_composes(windows: int) -> None:
    """Randomised response of 200 windows added up exactly, against both sums; and the promise is worth having."""
    cost = Cost(Fraction(1, 2), Fraction(0))
    epsilon, delta = over_windows(windows * cost, cost.delta)
    p = math.exp(0.5) / (1 + math.exp(0.5))
    ways = [math.comb(windows, i) for i in range(windows + 1)]
    laws = [np.array([w * x**i * (1 - x) ** (windows - i) for i, w in enumerate(ways)]) for x in (p, 1 - p)]
    assert hockey_stick(*laws, float(epsilon)) <= float(delta) + 1e-15
    assert epsilon <= windows * cost.epsilon and (epsilon < windows * cost.epsilon) == (windows == 200)
    normal = over_windows(26 * Cost(Fraction(1), MICRO, Fraction(1, 50), gdp=True), MICRO)
    assert normal[1] == MICRO == pytest.approx(delta_of(1, float(normal[0]), math.sqrt(52 / 50)), rel=1e-9)
    gaussian = Cost(Fraction(1), MICRO, Fraction(1, 50))
    assert over_windows(26 * gaussian, 2 * MICRO) == (epsilon_within(Fraction(26, 50), 2 * MICRO), 2 * MICRO)


@pytest.mark.long
def test_dp_accounting_agrees() -> None:
    dp = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting import pld, rdp

    total, windows = Total(Fraction(1), MICRO), 52
    accountant = rdp.RdpAccountant()
    accountant.compose(dp.ZCDpEvent(float(rho_within(total.epsilon, total.delta))))
    assert accountant.get_epsilon(1e-6) == pytest.approx(1, abs=2e-3)
    share = float(shares(pure, total, windows)["optimal"].epsilon)
    one = pld.privacy_loss_distribution.from_privacy_parameters(
        pld.common.DifferentialPrivacyParameters(share, 0), value_discretization_interval=share / 64
    )
    assert one.self_compose(windows).get_epsilon_for_delta(1e-6) == pytest.approx(1, abs=0.02)


def test_half_of_delta_covers_the_deltas_that_add_up() -> None:
    """Half of the total pays for what of the n deltas adds up: all of them, but under zCDP no more than the rests."""
    kind, edge = MECHANISMS["limit-domain"], 1 + Fraction(1, 2**50)
    for price in (lambda e, d: kind(e, d).cost(3), Cost):
        found = shares(price, Total(Fraction(2), MICRO), 30)
        assert 30 * found["basic"].delta <= MICRO < 30 * found["basic"].delta * edge
        assert 30 * found["optimal"].delta <= MICRO / 2 < 30 * found["optimal"].delta * edge
        assert 30 * found["zcdp"].cost.zcdp_delta <= MICRO / 2 < 30 * found["zcdp"].cost.zcdp_delta * edge
        assert all(found[name].epsilon > found["basic"].epsilon for name in ("optimal", "zcdp"))


def test_a_rest_that_does_not_fit_has_no_share_by_zcdp() -> None:
    """Of a mechanism whose rest is no part of its delta that stays the same, as all of ours are."""

    def price(epsilon: Fraction, delta: Fraction) -> Cost:
        return Cost(epsilon, delta, epsilon**2 / 8, min(delta, MICRO / 40))

    assert "zcdp" not in shares(price, Total(Fraction(1), MICRO), 30)
    assert "zcdp" in shares(price, Total(Fraction(1), MICRO), 20)
