"""The same question put to dp-accounting, the field's library: for comparison, since its answers are floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec

from private_topk.pipelines.budget.composition import Cost, Price, Total

__all__ = ["installed", "reference_shares"]

_STEPS = 30
_MOST_WINDOWS = 10_000


def installed() -> bool:
    """Whether the extra `accounting` is there. Looks only: what it needs takes a second to load."""
    return find_spec("dp_accounting") is not None


def reference_shares(price: Price, total: Total, windows: int) -> dict[str, float]:
    """The share that dp-accounting allows: by Renyi divergences of zCDP, and by the privacy loss distribution.

    Both take pure releases only, since the split of delta among approximate ones is ours; the latter up to 10,000
    windows. Cost: a second or two.
    """
    if not total.delta or price(total.epsilon, total.delta).delta:
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
