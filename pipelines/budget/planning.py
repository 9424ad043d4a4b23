"""What every window may spend of a total, under each accounting, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from private_topk.pipelines.budget.composition import Share, Total, best_share, shares
from private_topk.pipelines.budget.limits import check_windows
from private_topk.pipelines.budget.reference import installed, reference_shares
from private_topk.pipelines.budget.sharing import Split, check_sizes
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.spec import CountBudget

__all__ = ["Plan", "plan"]


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
    reference = reference_shares(split.price, split.spendable, windows) if installed() else None
    found = shares(split.price, split.spendable, windows)
    best = best_share(found)
    return Plan(split.total, windows, found, reference, *split.window(best.epsilon, best.delta))
