"""What every window may spend of a total, under each accounting, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from private_topk.pipelines.budget.composition import Share, Total, best_share, check_windows, shares
from private_topk.pipelines.budget.sharing import Split, check_sizes
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.noisy_counts import CountBudget

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """A total over n windows that one user can be in.

    Args:
        shares: the largest share of one window under every accounting that applies, in the order of `ACCOUNTINGS`.
        mechanism, counts: of one window at the best share: what a run of that total draws with.
    """

    total: Total
    windows: int
    shares: Mapping[str, Share]
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

    Cost: 10 to 100 ms.
    """
    check_windows(windows, "windows")
    check_sizes(mechanism, counts, spare_delta)
    split = Split(mechanism, k, counts, spare_delta)
    found = shares(split.price, split.spendable, windows)
    best = best_share(found)
    return Plan(split.total, windows, found, *split.window(best.epsilon, best.delta))
