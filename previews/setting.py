"""What would be asked in a run, and the mechanism with one window's share of its budget, for every mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from private_topk.budget.composition import Total
from private_topk.budget.limits import check_delta, check_epsilon
from private_topk.budget.sharing import Shared, share_out, windows_of_a_user
from private_topk.transforms.count_budget import CountBudget
from private_topk.transforms.mechanisms import make_mechanism, mechanism_by_name, parameters_of
from private_topk.transforms.mechanisms.parameters import check_parameter
from private_topk.transforms.mechanisms.unknown_domain import UnknownDomainMechanism
from private_topk.transforms.refusal import Refusal

__all__ = ["Setting"]


@dataclass(frozen=True)
class Setting:
    """What a run would be asked, but for the mechanism and the rows. The budget is the whole one, as it is given there.

    Args:
        epsilon, delta: of every window, or with the unit `user` of all together. A pure mechanism leaves the delta
            alone, unless it pays for composing windows.
        unknown_domain: the items are not public.
        parameters: of mechanisms, by name; those that take one get it.
        publish_counts: the noisy counts take their part of the budget.
        privacy_unit, windows, horizon, overlap, held: as `share_out` takes them.
        max_windows_per_user: a user counts in at most so many of the windows, or of the horizon.

    Raises:
        Refusal: a number breaks its rule.
    """

    k: int
    epsilon: float | Fraction
    delta: float | Fraction | None = None
    unknown_domain: bool = False
    neighbours: str | None = None
    max_items_per_user: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    publish_counts: CountBudget | None = None
    privacy_unit: str = "user-window"
    windows: int = 1
    horizon: int | None = None
    overlap: int = 1
    held: Total | None = None
    max_windows_per_user: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise Refusal("k", f"must be a whole number of at least 1, got {self.k!r}")
        check_epsilon(self.epsilon)
        if self.delta is not None:
            check_delta(self.delta)
            if not 0 < self.delta < 1:
                raise Refusal("delta", f"must lie strictly between 0 and 1, got {float(self.delta):g}")
        if check_parameter("max_windows_per_user", self.max_windows_per_user) and self.privacy_unit != "user":
            raise Refusal("max_windows_per_user", "needs {privacy_unit} user")

    def share_of(self, name: str) -> Shared:
        """The mechanism of that name as one window of the run would draw with it, and what the total is of.

        Raises:
            Refusal: it cannot answer this question: the rule that it breaks, as the run would say it.
        """
        kind = mechanism_by_name(name)
        own = parameters_of(kind)
        if self.unknown_domain and kind.about.domain == "public":
            raise Refusal("", "needs a public domain")
        if "delta" in own and self.delta is None:
            raise Refusal("", "needs {delta}")
        mechanism = make_mechanism(
            name,
            **{field: value for field, value in self.parameters.items() if field in own},
            epsilon=self.epsilon,
            delta=self.delta if "delta" in own else None,
            neighbours=self.neighbours,
            max_items_per_user=self.max_items_per_user if "max_items_per_user" in own else None,
        )
        if mechanism.weighting is not None:
            raise Refusal("", "adds up weights of users, which numbers of users do not tell: no preview is made")
        if isinstance(mechanism, UnknownDomainMechanism):
            mechanism.kbar_for(self.k)
        windows, horizon, of = self.windows, self.horizon, None
        if self.max_windows_per_user is not None:
            of = windows if horizon is None else horizon
            windows, horizon = windows_of_a_user(of, self.max_windows_per_user, mechanism), None
        composes = self.privacy_unit == "user" or self.overlap > 1
        return share_out(
            mechanism,
            self.k,
            self.publish_counts,
            self.delta if composes and "delta" not in own else None,
            unit=self.privacy_unit,
            windows=windows,
            horizon=horizon,
            held=self.held,
            overlap=self.overlap,
            of=of,
        )
