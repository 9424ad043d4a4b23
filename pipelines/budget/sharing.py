"""What a report's epsilon and delta are the total of, and the share that every window gets.

An example. `--epsilon 3 --publish-counts 1 --privacy-unit user --horizon 2`: the total is 4, of which the ranking has
three quarters and the noisy counts one. Adding up, a window may spend 4 / 2 = 2, and that is parted by the same ratio:
1.5 for its ranking, 0.5 for its counts. With a delta to compose by, a window may spend more than half; the ratio stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from private_topk.pipelines.budget.composition import (
    Share,
    Total,
    best_share,
    check_delta,
    check_epsilon,
    check_unit,
    check_windows,
    rounded_down,
    share_under,
    shares,
)
from private_topk.transforms.errors import InvalidArgument, plain
from private_topk.transforms.mechanisms import Cost, Mechanism
from private_topk.transforms.mechanisms.exact.accounting import epsilon_within, gaussian_epsilon
from private_topk.transforms.mechanisms.noisy_counts import CountBudget, Counts
from private_topk.transforms.mechanisms.parameters import check_parameter

if TYPE_CHECKING:  # what is drawn loads Arrow, which arithmetic on budgets has no use for
    from private_topk.transforms.spec import TopK
    from private_topk.transforms.windows import Period


LEDGER_ACCOUNTINGS = ("basic", "zcdp")
"""The accountings by which a ledger adds up, and so the only ones that may split a budget it holds."""


@dataclass(frozen=True)
class Privacy:
    """What a budget protects: the privacy unit, and the total over several windows if they share one.

    Args:
        unit: a key of `UNITS`.
        windows: how many windows the total is split over.
        total: of all windows together, or None where every window has its own budget.
        accounting: which composition proves the total, or None.
        each: how many rankings of a window one user can change, where that is more than one: `windows` counts all.
        of: how many windows there are, where a user counts in fewer of them.
    """

    identity_tag: ClassVar[str] = "privacy"

    unit: str = "user-window"
    windows: int = 1
    total: Total | None = None
    accounting: str | None = None
    each: int | None = field(default=None, metadata={"omit_if_default": True})
    of: int | None = field(default=None, metadata={"omit_if_default": True})


@dataclass(frozen=True)
class Shared:
    """A budget shared out: what is protected, and what a single window draws with.

    Args:
        shares: the largest share of one window under every accounting that applies, in the order of `ACCOUNTINGS`; none
            where one window has it all.
    """

    privacy: Privacy
    mechanism: Mechanism
    counts: Counts | None = None
    shares: Mapping[str, Share] = field(default_factory=dict)


@dataclass(frozen=True)
class Composition:
    """What of a report the rows of one privacy unit can change, and so what shares one budget.

    Args:
        unit: a key of `UNITS`.
        windows: how many windows the run publishes.
        horizon: with the unit `user`, how many windows there will be in all, by default those of this run.
        overlap: how many windows the rows of one window are in: more than 1 for sliding ones (`Period.overlap`).
        most: with the unit `user`, a user counts in at most so many of the windows; None for all.
        rankings: how many rankings of a window one user can change: each is paid for as a window is.
        groups_if_added: how many, where the user is in the window before or after the change and not in both.
        bounded: a bound decides which rows of a user count in a window. Of windows that overlap the rows of one are a
            part of a user's in the next, where others then count in their place: the user is replaced there and does
            not go, which only `replace-one` covers.
    """

    unit: str = "user-window"
    windows: int = 1
    horizon: int | None = None
    overlap: int = 1
    most: int | None = None
    rankings: int = 1
    groups_if_added: int = 1
    bounded: bool = False

    def of(self) -> int:
        """How many windows there are in all. Raises InvalidArgument for a horizon that breaks its rule."""
        if self.horizon is not None and self.unit == "user-window":
            raise InvalidArgument(
                "horizon", "needs {privacy_unit} user", "with user-window every window has its own budget"
            )
        if self.horizon is not None and self.horizon < self.windows:
            rule = f"must be at least the {self.windows} windows of this run, got {self.horizon}"
            raise InvalidArgument("horizon", rule)
        return self.windows if self.horizon is None else self.horizon

    def paid_for(self, mechanism: Mechanism) -> int:
        """How many rankings share one budget. Raises InvalidArgument where a number breaks its rule."""
        of, added = self.of(), mechanism.parameter("neighbours", "add-remove") == "add-remove"
        if self.unit == "user-window" and self.overlap > 1 and self.bounded and added:
            raise InvalidArgument(
                "neighbours",
                "must be replace-one where windows overlap and {max_items_per_user} or groups bound what "
                "counts of a user: without the rows of one window others of the user count in the next",
                "give {neighbours} replace-one, or {privacy_unit} user",
            )
        if self.unit == "user-window":
            return self.overlap * self.rankings
        return windows_of_a_user(of, self.most, mechanism, self.rankings, self.groups_if_added) * self.rankings


def share_out(
    mechanism: Mechanism,
    k: int,
    counts: Counts | None = None,
    spare_delta: float | Fraction | None = None,
    composition: Composition = Composition(),
    held: Total | None = None,
    *,
    gaussian: bool = False,
) -> Shared:
    """The mechanism and the noisy counts of a single window, from those that carry a report's whole budget.

    Args:
        mechanism, counts: with the budget as it was given: of every window, or with the unit `user` of all together.
        k: how many items a window publishes.
        spare_delta: a delta given to a mechanism that has none of its own: it pays for composing only.
        composition: what shares the budget.
        held: the budget in a ledger, so that the shares of all runs add up to it exactly.
        gaussian: where a total is split, counts that have no delta have a part of the other's (`Split`).

    Raises:
        InvalidArgument: a parameter is missing, breaks its rule or does not apply.

    Cost: 10 to 100 ms where a total is split.
    """
    unit = composition.unit
    check_unit(unit)
    _check_sizes(mechanism, counts, spare_delta, held)
    number = composition.paid_for(mechanism)
    if unit == "user-window" and number == 1:
        if spare_delta is not None:
            remedy = "leave it out, or give {privacy_unit} user, for one total of all windows"
            raise InvalidArgument("delta", f"does not apply to {mechanism.about.name} within one window", remedy)
        return Shared(Privacy(), mechanism, counts)
    check_windows(number, "horizon")
    split = Split(mechanism, k, counts, spare_delta, gaussian=gaussian and number > 1)
    total, spendable = (given if held is None else _as_held(given, held) for given in (split.total, split.spendable))
    of = None if composition.most is None else composition.of()
    if number == 1:  # the one share is the total, as it was given
        return Shared(Privacy(unit, 1, total, "basic", of=of), mechanism, counts)
    found = _found(split, spendable, number, held is not None)
    share = best_share(found)
    each = composition.rankings if composition.rankings > 1 else None
    privacy = Privacy(unit, number, total, share.accounting, each, of)
    return Shared(privacy, *split.window(share.epsilon, share.delta), found)


def windows_paid_for(top_k: TopK, period: Period | None) -> int:
    """For how many windows of the period one user is paid, each with all of its rankings that are paid for."""
    windows = len(period.released) if period else 1
    each, alone = top_k.rankings_of_a_user(), top_k.rankings_of_a_newcomer()
    return windows_of_a_user(windows, top_k.max_windows_per_user, top_k.mechanism, each, alone)


def windows_of_a_user(
    windows: int, most: int | None, mechanism: Mechanism, each: int = 1, groups_if_added: int = 1
) -> int:
    """For how many of so many windows to pay, where a user counts in at most `most` of them.

    One who is added or removed changes `most`. One who is replaced counts in `most` before and in `most` after: those
    that are left and those that are entered pair up, as groups do, and a pair costs one draw where the mechanism says
    `replacement_costs_one_draw`. Where it does not, all that change are paid for: as few are the same as there is room
    for, and in a window that is left or entered fewer rankings of groups change.

    Args:
        most: None where a user counts in every window that they are active in.
        each: for how many rankings of a window to pay where the user is in it before and after.
        groups_if_added: how many change where the user is in it before or after.

    Returns:
        So many windows of `each` rankings as hold all that change.

    Raises:
        InvalidArgument: `most` is no number of windows.
    """
    most = check_parameter("max_windows_per_user", most)
    if most is None or most >= windows:
        return windows
    if mechanism.rankings_moved(1) == 1:
        return most
    both = max(2 * most - windows, 0)
    return -(-(both * each + 2 * (most - both) * groups_if_added) // each)


def _check_sizes(
    mechanism: Mechanism, counts: Counts | None, spare_delta: float | Fraction | None, held: Total | None
) -> None:
    """Raise InvalidArgument for numbers that no arithmetic on budgets should have to bear, or for a delta above a
    ledger's.
    """
    check_epsilon(mechanism.parameter("epsilon"))
    delta = mechanism.parameter("delta", spare_delta)
    if delta is not None:
        if not 0 < delta < 1:
            raise InvalidArgument("delta", f"must lie strictly between 0 and 1, got {plain(delta)}")
        check_delta(delta)
    if isinstance(counts, CountBudget):
        check_epsilon(counts.epsilon, "publish_counts")
        check_delta(counts.delta, "publish_counts_delta")
    given = Fraction(delta or 0) + Fraction(counts.delta if counts else 0)
    if held is not None and float(given) > float(held.delta):  # as floats: 1e-05 is a little more than the decimal
        raise InvalidArgument(
            "delta",
            f"must be at most {plain(held.delta)} with that of the noisy counts, the delta of the "
            f"ledger's budget, got {plain(given)}",
        )


_PART = Fraction(1, 100)


class Split:
    """How a total is parted between ranking and noisy counts: by the same ratio in every window.

    Args:
        gaussian: the counts have a part of the delta, a hundredth where the mechanism has one of its own, and Gaussian
            noise. How rhos add up needs no delta for that: it only says how much of a window's rho is the counts'.

    Raises:
        InvalidArgument: at construction, for a delta that breaks its rule, or a mechanism that has no epsilon to part.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        k: int,
        counts: Counts | None,
        spare_delta: float | Fraction | None = None,
        *,
        gaussian: bool = False,
    ) -> None:
        names = {field.name for field in fields(mechanism)}
        if "epsilon" not in names:
            raise InvalidArgument(
                "mechanism", f"{mechanism.about.name} has no epsilon of its own to split over windows"
            )
        self._approximate = "delta" in names
        own = mechanism.parameter("delta") if self._approximate else spare_delta
        if k < 1:
            raise InvalidArgument("k", f"must be at least 1, got {k}")
        self._mechanism, self._k, self._counts = mechanism, k, counts
        epsilons = [Fraction(mechanism.parameter("epsilon")), Fraction(counts.epsilon if counts else 0)]
        deltas = [Fraction(own or 0), Fraction(counts.delta if counts else 0)]
        if gaussian:
            deltas = [deltas[0] * (1 - _PART), deltas[0] * _PART]
        self.total = Total(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))
        # A decimal or the float beside it, whichever is less: most shares, and with them the draws, are then what they
        # were when budgets were floats, and none is a part of more than was given.
        epsilons, deltas = ([min(part, Fraction(float(part))) for part in parts] for parts in (epsilons, deltas))
        self.spendable = Total(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))
        if not self.total.delta < 1:
            raise InvalidArgument(
                "delta", f"must be below 1 with that of the noisy counts, got {float(self.total.delta):g}"
            )
        releases = [deltas[0] if self._approximate else Fraction(0), deltas[1]]
        self._epsilons = [part / self.spendable.epsilon for part in epsilons]
        self._deltas = [part / sum(releases) if part else Fraction(0) for part in releases]

    def window(self, epsilon: Fraction, delta: Fraction) -> tuple[Mechanism, Counts | None]:
        """The mechanism and the counts of a window that may spend an epsilon and a delta."""
        ranking, counted = (float(rounded_down(part * epsilon)) for part in self._epsilons)
        ranking_delta, counted_delta = (float(rounded_down(part * delta)) for part in self._deltas)
        budget: dict[str, Any] = {"epsilon": ranking, **({"delta": ranking_delta} if self._approximate else {})}
        counts = self._counts and self._counts.share(counted, counted_delta)
        return replace(self._mechanism, **budget), counts

    def price(self, epsilon: Fraction, delta: Fraction) -> Cost:
        mechanism, counts = self.window(epsilon, delta)
        return _cost(mechanism, self._k, counts)


def cost_of(spec: TopK) -> Cost:
    """What one window of a report costs a user who is in it: all of its rankings that the user can change."""
    return spec.rankings_of_a_user() * _cost(spec.mechanism, spec.max_items, spec.publish_counts)


_DELTA = Fraction(1, 10**6)


def over_windows(
    spent: Cost, delta: Fraction, *, added: bool = True, least: Fraction = _DELTA
) -> tuple[Fraction, Fraction]:
    """Epsilon and delta for all rows of a user whose windows together have cost so much.

    The smaller epsilon of two: as they add up; or by zCDP, or as one Gaussian where they are (`shares`). Rhos need no
    delta until their sum is turned into an epsilon, as a ledger does: so once, at `least` or the given delta.

    Args:
        delta: the largest of a single release.
        added: whether epsilons may count as they add up. Where some are Gaussian's and some are not, one of the two was
            fixed beforehand (`Budget`).
    """
    tail = max(least, delta)
    within = gaussian_epsilon if spent.gdp else epsilon_within
    composed = (within(spent.rho, tail), tail + spent.zcdp_delta)
    return min((spent.epsilon, spent.delta), composed) if added else composed


def _cost(mechanism: Mechanism, k: int, counts: Counts | None) -> Cost:
    cost = mechanism.cost(k)
    return cost if counts is None else cost + counts.cost()


def _found(split: Split, total: Total, windows: int, held: bool) -> dict[str, Share]:
    if not held:
        return shares(split.price, total, windows)
    found = {name: share_under(name, split.price, total, windows) for name in LEDGER_ACCOUNTINGS}
    return {name: share for name, share in found.items() if share is not None}


def _as_held(total: Total, held: Total) -> Total:
    """The total with delta parted as the ledger parts its own, so that equal totals give equal limits."""
    delta = min(total.delta, held.delta)
    parted = (held.release_delta or Fraction(0)) / held.delta if held.delta else Fraction(0)
    return Total(total.epsilon, delta, delta * parted)
