"""The same question put to dp-accounting, the field's library: for comparison, since its answers are floats."""

from __future__ import annotations

import math
from collections.abc import Callable

from private_topk.pipelines.budget.composition import Cost, Total

__all__ = ["installed", "reference_shares"]

_STEPS = 30


def installed() -> bool:
    """Whether the extra `accounting` is there."""
    try:
        import dp_accounting  # noqa: F401
    except ImportError:
        return False
    return True


def reference_shares(cost: Callable[[float], Cost], total: Total, windows: int) -> dict[str, float]:
    """The share that dp-accounting allows: by Renyi divergences of zCDP, and by the privacy loss distribution.

    Both take pure releases only, since the split of delta among approximate ones is ours. Cost: a second or two.
    """
    if not total.delta or cost(float(total.epsilon)).delta:
        return {}
    spent = {"RDP": _by_rdp, "PLD": _by_pld}
    return {
        f"dp-accounting {name}": _bisect(
            lambda share, f=f: f(cost(share), total, windows), float(total.epsilon), windows
        )
        for name, f in spent.items()
    }


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


def _bisect(spent: Callable[[float], float], epsilon: float, windows: int) -> float:
    low, high = epsilon / windows / 2, epsilon
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
    return low
