"""What every window may spend of a total, under each accounting, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec

from private_topk.pipelines.budget.composition import Cost, Price, Share, Total, best_share, check_windows, shares
from private_topk.pipelines.budget.sharing import Split, check_sizes
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.noisy_counts import CountBudget

__all__ = ["Plan", "plan"]

_STEPS = 30
_MOST_WINDOWS = 10_000


@dataclass(frozen=True)
class Plan:
    """A total over n windows that one user can be in.

    Args:
        shares: the largest share of one window under every accounting that applies, in the order of `ACCOUNTINGS`.
        reference: the epsilons that dp-accounting allows, by accountant; None where it is not installed.
        mechanism, counts: of one window at the best share: what a run of that total draws with.
    """

    total: Total
    windows: int
    shares: Mapping[str, Share]
    reference: Mapping[str, float] | None
    mechanism: Mechanism
    counts: CountBudget | None = None

    @property
    def best(self) -> Share:
        """The share with the least noise."""
        return best_share(dict(self.shares))


def plan(
    mechanism: Mechanism,
    k: int,
    spare_delta: float | Fraction | None = None,
    *,
    windows: int,
    counts: CountBudget | None = None,
) -> Plan:
    """What each of n windows may spend of a mechanism's whole budget.

    Args:
        mechanism: with the total as its epsilon, and as its delta where it has one.
        k: how many items a window publishes.
        spare_delta: a delta for composing, with a mechanism that has none of its own.
        counts: the total of the noisy counts, where these are published.

    Raises:
        Refusal: a parameter breaks its rule.

    Cost: 10 to 100 ms, and a second or two where dp-accounting is installed.
    """
    check_windows(windows, "windows")
    check_sizes(mechanism, counts, spare_delta)
    split = Split(mechanism, k, counts, spare_delta)
    installed = find_spec("dp_accounting") is not None
    reference = _reference_shares(split.price, split.spendable, windows) if installed else None
    found = shares(split.price, split.spendable, windows)
    best = best_share(found)
    return Plan(split.total, windows, found, reference, *split.window(best.epsilon, best.delta))


def _reference_shares(price: Price, total: Total, windows: int) -> dict[str, float]:
    """The share that dp-accounting allows: by Renyi divergences of zCDP, and by the privacy loss distribution.

    For comparison only, since its answers are floats. Both take pure and Gaussian releases only, since the split of
    delta among others is ours; the latter up to 10,000 windows. Cost: a second or two.
    """
    probe = price(total.epsilon, total.delta)
    if not total.delta or probe.rest or (probe.delta and not probe.gdp):
        return {}
    found = {}
    # A loss distribution of a million windows takes half a minute, one of a billion all of the memory.
    pld = [("PLD", _by_pld)] if windows <= _MOST_WINDOWS else []
    for name, spent in [("RDP", _by_rdp), *pld]:

        def epsilon(share: Fraction, spent: Callable[..., float] = spent) -> float:
            return spent(price(share, total.delta), total, windows)

        found[f"dp-accounting {name}"] = _bisect(epsilon, total.epsilon, windows)
    return found


def _by_rdp(cost: Cost, total: Total, windows: int) -> float:
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.ZCDpEvent(float(cost.rho)), windows)
    return accountant.get_epsilon(float(total.delta))


def _by_pld(cost: Cost, total: Total, windows: int) -> float:
    from dp_accounting import pld

    if cost.gdp:
        one = pld.privacy_loss_distribution.from_gaussian_mechanism(float(2 * cost.rho) ** -0.5)
    else:
        share = float(cost.epsilon)
        # A grid that the loss of randomised response falls on, so that rounding up costs nothing.
        one = pld.privacy_loss_distribution.from_privacy_parameters(
            pld.common.DifferentialPrivacyParameters(share, 0), value_discretization_interval=share / 8
        )
    return one.self_compose(windows).get_epsilon_for_delta(float(total.delta))


def _bisect(spent: Callable[[Fraction], float], epsilon: Fraction, windows: int) -> float:
    low, high = float(epsilon / windows / 2), float(epsilon)
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(Fraction(middle)) <= epsilon else (low, middle)
    return low
