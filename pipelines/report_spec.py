"""The specification of a report: what is drawn from its rows, checked, with its budget shared over the windows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

from private_topk.pipelines.budget.composition import Total, check_epsilon
from private_topk.pipelines.budget.sharing import (
    Composition,
    Privacy,
    cost_of,
    over_windows,
    share_out,
    windows_of_a_user,
)
from private_topk.pipelines.drawing import mechanism_of
from private_topk.pipelines.identity import TAG
from private_topk.pipelines.lists import domain_of, groups_of
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.mechanisms.parameters import as_written
from private_topk.transforms.metric import Amounts, Risers
from private_topk.transforms.options import Options, require
from private_topk.transforms.release import Release, ReleaseKey, fresh_id
from private_topk.transforms.spec import TopK
from private_topk.transforms.validation import check_all_windows, check_kinds
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.period import period_of

__all__ = [
    "ReportSpec", "amounts_of", "counts_of", "declared_period", "reach_of", "release_of", "resolve", "risers_of",
    "spec_of",
]  # fmt: skip

RISERS_THAT_SHARE = 2
"""How many rankings of risers the rows of one, of two windows, are paid for. They are in two more, of one window each;
of these both are paid as one (`Charge`).
"""


@dataclass(frozen=True)
class ReportSpec:
    """The resolved specification of a report: the mechanism in `top_k` has one window's share of the budget.

    Args:
        period: the declared windows; None ranks all rows together.
        privacy: what is protected across windows, and the total that the shares add up to.
    """

    identity_tag: ClassVar[str] = "question"

    top_k: TopK = field(metadata={TAG: "selection"})
    period: Period | None
    release: Release
    privacy: Privacy = Privacy()

    @property
    def reads(self) -> Period | None:
        """The windows whose rows are read: those that are ranked, and perhaps one before them."""
        return self.top_k.reads(self.period)

    @property
    def over_all_windows(self) -> tuple[Fraction, Fraction] | None:
        """Epsilon and delta for all rows of a user who is in every window, where that is not the unit and differs."""
        windows = 1 if self.period is None else len(self.period)
        if windows == 1 or self.privacy.unit == "user" or self.top_k.mechanism.guarantee.privacy == "none":
            return None
        return over_windows(cost_of(self.top_k), windows)


def resolve(
    top_k: TopK,
    *,
    spare_delta: Fraction | float | None = None,
    period: Period | None = None,
    release: Release | None = None,
    privacy_unit: str = "user-window",
    horizon: int | None = None,
    held: Total | None = None,
) -> ReportSpec:
    """The specification of a report, checked, with its budget shared out over the windows.

    Args:
        top_k: what is drawn, with the whole budget: of every window, or with the unit `user` of all together. The
            rankings of a window that one user can change share it, and so do rankings of risers, as of sliding windows.
        spare_delta: for a mechanism that has no delta of its own: it pays for composing only.
        release: its key and id; by default new ones, for a release that nobody repeats.
        horizon: with the unit `user`, how many windows there will be in all; by default those of the period.
        held: the total in a ledger, where that parts the budget.

    Raises:
        Refusal: a field breaks its rule; nothing has been looked at or charged.
    """
    check_kinds(period=period, release=release)
    _check_numbers(horizon, spare_delta)
    top_k = replace(top_k, mechanism=as_written(top_k.mechanism), publish_counts=as_written(top_k.publish_counts))
    spare_delta = as_written(spare_delta)
    top_k.reads(period)
    number, most = len(period) if period else 1, top_k.max_windows_per_user
    if most is not None:
        _check_bound(top_k, period, privacy_unit, horizon)
    composition = Composition(
        unit=privacy_unit,
        windows=number,
        horizon=horizon,
        overlap=1 if period is None else period.overlap if top_k.risers is None else min(number, RISERS_THAT_SHARE),
        most=most,
        rankings=top_k.rankings_of_a_user(),
        groups_if_added=top_k.rankings_of_a_newcomer(),
        bounded=top_k.risers is None and top_k.bounds_a_user(),
    )
    shared = share_out(top_k.mechanism, top_k.most, top_k.publish_counts, spare_delta, composition, held)
    top_k = replace(top_k, mechanism=shared.mechanism, publish_counts=shared.counts)
    privacy = shared.privacy if top_k.risers is None else replace(shared.privacy, pairs=True)
    return ReportSpec(top_k, period, release or Release.fresh(), privacy)


def _check_numbers(horizon: object, spare_delta: object) -> None:
    if horizon is not None and (isinstance(horizon, bool) or not isinstance(horizon, int)):
        raise Refusal("horizon", f"must be a whole number, got {verbatim(horizon)}")
    if spare_delta is not None and not isinstance(spare_delta, Fraction | float | int):
        raise Refusal("delta", f"must be a number, got {verbatim(repr(spare_delta))}")


def reach_of(top_k: TopK, period: Period | None) -> int:
    """The number of windows of a period that are paid for one user, each with all of its rankings that are paid for."""
    each, alone = top_k.rankings_of_a_user(), top_k.rankings_of_a_newcomer()
    most, mechanism = top_k.max_windows_per_user, top_k.mechanism
    return windows_of_a_user(len(period) if period else 1, most, mechanism, each, alone)


def _check_bound(top_k: TopK, period: Period | None, unit: str, horizon: int | None) -> None:
    """Raise Refusal if a bound on the windows of a user has no effect, or cannot be enforced."""
    if unit != "user":
        raise Refusal("max_windows_per_user", "needs {privacy_unit} user", "with user-window every window has its own "
                      "budget, and a bound makes none of them larger")  # fmt: skip
    check_all_windows(top_k, period, bounded=True)
    if period is not None and horizon not in (None, len(period)):
        raise Refusal("horizon", f"{horizon} does not go with {{max_windows_per_user}} in a run of {len(period)} "
                      "windows", "the windows of a user are chosen among all of the horizon: rank it in one run, and "
                      "leave {horizon} out")  # fmt: skip


def spec_of(options: Options, held: Total | None = None) -> ReportSpec:
    """The specification that options describe. Reads the domain's file. Raises Refusal."""
    require(options, "mechanism", "epsilon")
    mechanism, spare_delta = mechanism_of(options)
    domain, counts = domain_of(options), counts_of(options)
    period, release = declared_period(options), release_of(options)
    top_k = TopK(
        options.get("k"),
        mechanism,
        domain,
        options.get("max_items_per_user"),
        counts,
        amounts_of(options),
        groups_of(options),
        options.get("max_windows_per_user"),
        risers_of(options),
    )
    return resolve(
        top_k,
        spare_delta=spare_delta,
        period=period,
        release=release,
        privacy_unit=options.get("privacy_unit", "user-window"),
        horizon=options.get("horizon"),
        held=held,
    )


def amounts_of(options: Options) -> Amounts | None:
    """The amounts that are added up, or None where users are counted. Raises Refusal."""
    if "value_column" not in options:
        for name in ("max_value", "value_resolution"):
            if name in options:
                raise Refusal(name, "needs {value_column}: the column of the amounts")
        return None
    if "max_value" not in options:
        raise Refusal("value_column", "needs {max_value}: the most that one user adds to an item",
                      "choose it without a look at the data: docs/amounts.md says how")  # fmt: skip
    return Amounts.of(options["max_value"], options.get("value_resolution"))


def risers_of(options: Options) -> Risers | None:
    """The risers by which windows are ranked, or None where each is ranked by itself. Raises Refusal."""
    if "against" not in options:
        if "against_weight" in options:
            raise Refusal("against_weight", "needs {against} previous: it says how much of the window before counts")
        return None
    return Risers(options.get("against_weight", 1), options.get("against_from"))  # type: ignore[arg-type]


def release_of(options: Options) -> Release:
    """The release: its key and id, new ones by default. Raises Refusal if the key cannot be read."""
    if "release_key" not in options:
        if "release_id" in options:
            raise Refusal("release_id", "needs {release_key}", "an id repeats a release only under the same key")
        return Release.fresh()
    key = ReleaseKey.parse(options["release_key"])
    if not key.elsewhere:
        key.secret()
    return Release(key, options["release_id"] if "release_id" in options else fresh_id())


def counts_of(options: Options) -> CountBudget | None:
    """The budget of the noisy counts, or None if they are not published. Raises Refusal."""
    epsilon, delta = options.get("publish_counts"), options.get("publish_counts_delta")
    if epsilon is None:
        for name in ("publish_counts_delta", "publish_others", "round_counts", "hide_counts_below"):
            if name in options:
                raise Refusal(name, "needs {publish_counts}: the epsilon of the noisy counts")
        return None
    check_epsilon(epsilon, "publish_counts")
    if delta is not None and not delta:
        raise Refusal("publish_counts_delta", "must lie strictly between 0 and 1", "without it the noise needs none")
    try:
        return CountBudget(epsilon, delta or 0.0, options.get("round_counts", 1),
                           options.get("hide_counts_below"), options.get("publish_others"))  # fmt: skip
    except Refusal as error:
        if error.field in ("publish_others", "round_counts", "hide_counts_below"):
            raise
        raise Refusal("publish_counts" if error.field == "epsilon" else "publish_counts_delta", error.rule) from None


def declared_period(options: Options) -> Period | None:
    """The declared period, or None where all rows are ranked together. Raises Refusal."""
    try:
        period = period_of(options)
    except Refusal as error:
        if error.field:
            raise
        raise Refusal("period_from", f"and {{period_to}}: {error.rule}", error.remedy) from None
    for name in ("every", "time_zone"):
        if period is None and name in options:
            raise Refusal(
                name, "is of the windows of a period: give {period_from} and {period_to} too, or leave it out"
            )
    return period
