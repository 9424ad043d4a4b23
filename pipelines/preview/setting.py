"""The setting of a preview: the parameters of a run, and for every mechanism one window's share of its budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.budget.composition import Total, check_delta, check_epsilon, check_windows
from private_topk.pipelines.budget.sharing import Composition, Shared, share_out
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import Mechanism, mechanism_by_name, parameters_of
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.mechanisms.parameters import check_parameter
from private_topk.transforms.mechanisms.registry import with_budget

if TYPE_CHECKING:  # it loads Arrow, which no preview needs
    from private_topk.transforms.metric import Amounts

__all__ = ["Setting"]


@dataclass(frozen=True)
class Setting:
    """The parameters of a run, except the mechanism and the rows. The budget is the whole one, as it is given to a run.

    Args:
        epsilon, delta: of every window, or with the unit `user` of all together. A pure mechanism leaves the delta
            alone, unless it pays for composing windows.
        unknown_domain: the items are not public.
        parameters: of mechanisms, by name; those that take one get it.
        publish_counts: the noisy counts take their part of the budget.
        privacy_unit, windows, horizon, overlap, held: as `share_out` and its `Composition` take them.
        groups_per_user: in how many groups of a window a user counts, each with a ranking, or None without groups.
        amounts: amounts are added up, instead of counting users.
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
    groups_per_user: int | None = None
    amounts: Amounts | None = None
    max_windows_per_user: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise Refusal("k", f"must be a whole number of at least 1, got {self.k!r}")
        check_epsilon(self.epsilon)
        if self.publish_counts is not None:
            object.__setattr__(self, "publish_counts", counts := CountBudget.of(self.publish_counts))
            if counts.others is not None and (self.unknown_domain or self.max_items_per_user is None):
                raise Refusal("publish_others", "needs a public domain and {max_items_per_user}, as in a run")
        if self.delta is not None:
            check_delta(self.delta)
            if not 0 < self.delta < 1:
                raise Refusal("delta", f"must lie strictly between 0 and 1, got {float(self.delta):g}")
        if self.groups_per_user is not None:
            check_windows(self.groups_per_user, "groups_per_user")
        if check_parameter("max_windows_per_user", self.max_windows_per_user) and self.privacy_unit != "user":
            raise Refusal("max_windows_per_user", "needs {privacy_unit} user")

    def share_of(self, name: str) -> Shared:
        """The mechanism of a name with one window's share of the budget, as in a run, and what the total covers.

        Raises:
            Refusal: the mechanism does not apply: the rule that it breaks, as in a run.
        """
        kind = mechanism_by_name(name)
        known = parameters_of(kind)
        if self.unknown_domain and kind.guarantee.domain == "public":
            raise Refusal("", "needs a public domain")
        if "delta" in known and self.delta is None:
            raise Refusal("", "needs {delta}")
        parameters = {field: value for field, value in self.parameters.items() if field in known}
        mechanism, spare_delta = with_budget(
            name, self.epsilon, self.delta, self.max_items_per_user, neighbours=self.neighbours, **parameters
        )
        if self.amounts is not None and kind.guarantee.metric != "amounts":
            raise Refusal("", "adds up no amounts")
        if mechanism.guarantee.metric == "weights" and self.publish_counts is not None:
            raise Refusal("", "counts nobody, so that there are no noisy counts")
        mechanism.head(self.k)  # raises if the mechanism does not take this k
        shared = self._share(mechanism, spare_delta)
        cap = 1 if self.amounts is None else self.amounts.cap
        return replace(shared, mechanism=replace(shared.mechanism, cap=cap))

    def _share(self, mechanism: Mechanism, spare_delta: float | Fraction | None) -> Shared:
        """The budget shared out as in a run."""
        each = 1 if self.groups_per_user is None else mechanism.rankings_moved(self.groups_per_user)
        bounds = (self.max_items_per_user, self.groups_per_user, mechanism.weighting)
        composition = Composition(
            unit=self.privacy_unit,
            windows=self.windows,
            horizon=self.horizon,
            overlap=self.overlap,
            most=self.max_windows_per_user,
            rankings=each,
            groups_if_added=self.groups_per_user or 1,
            bounded=any(bound is not None for bound in bounds),
        )
        composes = self.privacy_unit == "user" or self.overlap * each > 1
        spare_delta = spare_delta if composes else None
        return share_out(mechanism, self.k, self.publish_counts, spare_delta, composition, self.held)
