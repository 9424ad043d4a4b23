"""The question of a report: what is drawn from which rows, with the whole budget as it was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from private_topk.pipelines.budget.composition import Share, Total, check_delta, check_epsilon
from private_topk.pipelines.budget.ledger import Request
from private_topk.pipelines.budget.sharing import (
    Composition,
    Privacy,
    Shared,
    cost_of,
    share_out,
    windows_paid_for,
)
from private_topk.pipelines.options import Options, require
from private_topk.pipelines.release.identity import identity_of, not_in_fingerprint
from private_topk.transforms.asked import Asked, answer, mechanism_for, score_of
from private_topk.transforms.errors import InvalidArgument, kind_shown
from private_topk.transforms.mechanisms import Mechanism, make_mechanism, mechanism_by_name, parameters_of
from private_topk.transforms.mechanisms.choice import AUTO, noise_told, reach_of
from private_topk.transforms.mechanisms.noisy_counts import DRAWN, CountBudget
from private_topk.transforms.mechanisms.parameters import as_written
from private_topk.transforms.mechanisms.registry import name_of
from private_topk.transforms.release import NoiseSize, Release
from private_topk.transforms.spec import TopK, check_kinds
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.period import period_of

if TYPE_CHECKING:
    from private_topk.pipelines.sources.domain import Lists

_FIELDS = (
    *("k", "mechanism", "epsilon", "delta", "neighbours", "parameters", "max_items_per_user", "max_windows_per_user"),
    *("publish_counts", "publish_counts_delta", "round_counts", "max_value", "value_resolution"),
    *("privacy_unit", "horizon"),
)
"""The fields of a question that options give as they are."""


@dataclass(frozen=True)
class Question:
    """What is drawn from which rows, with the whole budget as it was asked for. Always valid.

    Args:
        asked: the ranking, with the whole budget: of every window, or with the unit `user` of all together. The
            rankings of a window that one user can change share it.
        period: the declared windows; None ranks all rows together.
        release: its key and id; by default new ones, for a release that nobody repeats.
        privacy_unit: in terms of which the budget is stated.
        horizon: with the unit `user`, how many windows there will be in all; by default those of the period.
        spare_delta: for a mechanism that has no delta of its own: it pays for composing only.
        held: the total in a ledger, where that parts the budget.
        reason: why the mechanism was chosen, where none was named.

    Raises:
        InvalidArgument: a field breaks its rule; nothing has been looked at or charged.

    Cost: 10 to 100 ms where a total is split.
    """

    identity_tag: ClassVar[str] = "question"
    reveal_active_windows: ClassVar[bool] = False
    """Whether rows decide which windows are published: a report publishes those that are declared, or all rows."""
    fields: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Columns are the source's, and in the fingerprint of what it reads."""

    asked: TopK
    period: Period | None = None
    release: Release = field(default_factory=Release.fresh)
    privacy_unit: str = "user-window"
    horizon: int | None = None
    spare_delta: Fraction | float | None = None
    held: Total | None = field(
        default=None,
        metadata=not_in_fingerprint("the ledger's own, which it keeps; the share that it makes is told"),
    )
    reason: str | None = field(
        default=None,
        compare=False,
        metadata=not_in_fingerprint("a mechanism that was chosen is as one that was named"),
    )

    def __post_init__(self) -> None:
        check_kinds(period=self.period, release=self.release)
        asked, period, horizon, spare = self.asked, self.period, self.horizon, self.spare_delta
        if horizon is not None and (isinstance(horizon, bool) or not isinstance(horizon, int)):
            raise InvalidArgument("horizon", f"must be a whole number, got {kind_shown(horizon)}")
        if spare is not None and not isinstance(spare, Fraction | float | int):
            raise InvalidArgument("delta", f"must be a number, got {kind_shown(spare)}")
        if asked.max_windows_per_user is not None:
            self._check_bound()
        if period is not None and period.to_date and self.horizon not in (None, 1):
            raise InvalidArgument(
                "horizon",
                "does not go with {to_date}: all windows of the period are one series, which is paid for as a whole",
                "leave it out",
            )
        budget = {"mechanism": as_written(asked.mechanism), "publish_counts": as_written(asked.publish_counts)}
        object.__setattr__(self, "asked", replace(asked, **budget))
        object.__setattr__(self, "spare_delta", as_written(self.spare_delta))
        if self.privacy_unit == "user" and self.horizon is None:
            object.__setattr__(self, "horizon", len(period.released) if period else 1)
        self.top_k  # noqa: B018 - so that a budget that cannot be shared is refused here

    def _check_bound(self) -> None:
        """Raise InvalidArgument if a bound on the windows of a user has no effect, or cannot be enforced."""
        if self.privacy_unit != "user":
            raise InvalidArgument(
                "max_windows_per_user",
                "needs {privacy_unit} user",
                "with user-window every window has its own budget, and a bound makes none of them larger",
            )
        self.asked.check_windows(self.period, bounded=True)
        if self.period is not None and self.horizon not in (None, len(self.period)):
            raise InvalidArgument(
                "horizon",
                f"{self.horizon} does not go with {{max_windows_per_user}} in a run of {len(self.period)} windows",
                "the windows of a user are chosen among all of the horizon: "
                "rank it in one run, and leave {horizon} out",
            )

    @cached_property
    def _shared(self) -> Shared:
        """Of counts without a delta in windows that share one: with Gaussian noise, if there is less in all."""
        asked, counts, spare = self.asked, self.asked.publish_counts, self.spare_delta
        composition = composition_of(asked, self.period, self.privacy_unit, self.horizon)
        sharing = partial(share_out, asked.mechanism, asked.max_items, counts, spare, composition, self.held)
        shared = sharing()
        delta = asked.mechanism.parameter("delta", spare)
        if not (isinstance(counts, CountBudget) and delta and not counts.delta and shared.shares):
            return shared

        def noise(of: Shared) -> float:
            """Of the ranking, in proportion, times that of the counts: as many times more of one as less of the other
            is equal.
            """
            size = replace(asked, mechanism=of.mechanism, publish_counts=of.counts).noise(asked.max_items)
            return size.stddev / of.mechanism.parameter("epsilon") if size else 0

        return min(shared, sharing(gaussian=True), key=noise)

    @cached_property
    def top_k(self) -> TopK:
        """What every window is drawn with: the ranking with one window's share of the budget."""
        shared = replace(self.asked, mechanism=self._shared.mechanism, publish_counts=self._shared.counts)
        return shared.over(self.period)

    def mechanism_told(self) -> str:
        """The mechanism, and why it was chosen; of a named one how far its noise reaches, or nothing where that is not
        known.
        """
        top_k, told = self.top_k, self.reason
        if told is None and (reach := reach_of(top_k.mechanism, top_k.k, top_k.domain.size or None)):
            told = noise_told(reach, top_k.score.resolution)
        return f"{self.asked.mechanism.about.name} ({told})" if told else ""

    @property
    def noise_of_counts(self) -> NoiseSize | None:
        """The noise of the published counts, by public facts alone; None where there are none, or where the rows decide
        how many.
        """
        return None if self.top_k.k is None else self.top_k.noise(self.top_k.max_items)

    def counts_told(self) -> str:
        """How far published counts are off, or nothing where there are none or that is not known."""
        noise, published = self.noise_of_counts, self.top_k.max_items
        if noise is None:
            return ""
        each = "the published count" if published == 1 else f"each of {published:,} published counts"
        sure = "of the one without noise at least 95% of the time"
        return f"{each} is within ± {noise.within_95:,} {sure} (standard deviation {noise.stddev:g})"

    @property
    def privacy(self) -> Privacy:
        """What is protected across windows, and the total that the shares add up to."""
        return self._shared.privacy

    @property
    def shares(self) -> Mapping[str, Share]:
        """The largest share of one window under every accounting that applies, where a total is shared out."""
        return self._shared.shares

    @property
    def windows_of_a_user(self) -> int:
        """For how many windows of the period one user is paid, each with all of its rankings that are paid for."""
        return windows_paid_for(self.asked, self.period)

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of the rankings alone, as it was asked for."""
        return Fraction(self.asked.mechanism.parameter("epsilon"))

    def identity(self) -> Any:  # noqa: ANN401 - JSON
        """What a ledger compares: a release is a repeat of an earlier one of the same identity."""
        return identity_of(self)

    def request(self, **facts: Any) -> Request:  # noqa: ANN401 - of the fields of a Request
        """What a ledger is asked to pay for.

        Args:
            facts: what the question does not know: dataset, key_id, fingerprint and rows.
        """
        request = Request.of(self, unit=self.privacy_unit, parameters={"asked": self.identity()}, **facts)
        return replace(request, cost_at=cache(lambda epsilon: cost_of(self.with_epsilon(epsilon).top_k)))

    def to_options(self) -> dict[str, Any]:
        """The options that ask it, by their names, None where it needs none; but no lists, columns, windows or places.

        Every command that is told to be run is made of them.
        """
        asked, drawn, counts = self.asked, self.asked.mechanism, self.asked.publish_counts
        usual = {name: its.default for name, its in parameters_of(type(drawn)).items()}
        own = {name: drawn.parameter(name) for name in usual}
        return {
            "mechanism": name_of(type(drawn)),
            "delta": self.spare_delta,
            **{name: None if value == usual[name] else value for name, value in own.items()},
            "k": asked.k,
            "max_items_per_user": asked.max_items_per_user,
            "max_windows_per_user": asked.max_windows_per_user,
            "publish_counts": counts and (DRAWN if asked.draws_counts else counts.epsilon),
            "publish_counts_delta": counts and counts.delta or None,
            "round_counts": None if counts is None or counts.round_to == 1 else counts.round_to,
            **asked.score.options(),
            "groups_per_user": asked.groups and asked.groups.per_user,
            "overall": asked.groups and asked.groups.overall or None,
            "privacy_unit": None if self.privacy_unit == "user-window" else self.privacy_unit,
        }

    def with_k(self, k: int) -> Question:
        return replace(self, asked=replace(self.asked, k=k))

    def with_epsilon(self, epsilon: Fraction | float) -> Question:
        return replace(self, asked=self.asked.with_epsilon(epsilon))

    def with_mechanism(self, name: str, delta: Fraction | float | None = None, **parameters: object) -> Question:
        """The same of another mechanism: with this one's whole epsilon and neighbours, and its delta where it has one.

        Args:
            delta: in place of this one's. It is for a mechanism that has a delta of its own, and else for composing;
                where nothing composes it is left aside.
            parameters: those that the mechanism takes; others are left aside.

        Raises:
            InvalidArgument: the mechanism does not answer this question.
        """
        kind, own, asked = mechanism_by_name(name), self.asked.mechanism, self.asked
        known = parameters_of(kind)
        offered = {"max_items_per_user": asked.max_items_per_user, "delta": self.spare_delta}
        shared = parameters_of(type(own)) if kind is type(own) else ("epsilon", "delta", "neighbours")
        offered |= {each: value for each in shared if (value := own.parameter(each)) is not None} | parameters
        offered |= {} if delta is None else {"delta": delta}
        mechanism = make_mechanism(name, **{each: value for each, value in offered.items() if each in known})
        spare, other = None if "delta" in known else offered["delta"], replace(asked, mechanism=mechanism)
        if spare is not None:
            check_delta(spare)
        spare = spare if _composes(other, self.period, self.privacy_unit, self.horizon) else None
        return replace(self, asked=other, spare_delta=spare, reason=None)

    @classmethod
    def of(
        cls,
        k: int | None = None,
        mechanism: Mechanism | str | Iterable[str] = AUTO,
        domain: Any = None,  # noqa: ANN401 - all that `as_domain` takes
        *,
        items: tuple[str, ...] = (),
        period: Period | None = None,
        release: Release | None = None,
        privacy_unit: str = "user-window",
        horizon: int | None = None,
        held: Total | None = None,
        **asked: Unpack[Asked],
    ) -> Question:
        """The question that fields ask: the one way in which doors make one. Raises InvalidArgument.

        Args:
            mechanism: as `answer` takes it; where none is named, one is chosen by public facts alone, with the reason.
            items: the columns of a list of items.
            asked: all other fields; a delta is for the mechanism, or for composing. Where it is not said of a named
                mechanism and nothing needs it, it is not spent.

        Cost: that of a question, for each of some mechanisms where one is chosen.
        """
        check_kinds(period=period, release=release)
        mechanism, since = mechanism_for(mechanism, period)

        def settled(top_k: TopK, delta: Fraction | float | None, aside: bool) -> Question:
            if delta is not None and aside:
                check_delta(delta)
                delta = delta if _composes(top_k, period, privacy_unit, horizon) else None
            return cls(top_k, period, release or Release.fresh(), privacy_unit, horizon, delta, held)

        question, reason = answer(
            settled, lambda question: question.top_k.mechanism, k, mechanism, domain, items, **asked
        )
        if reason is None:
            return replace(question, reason=since)
        spent = asked.get("delta") is None or question.asked.mechanism.parameter("delta", question.spare_delta)
        return replace(question, reason=reason if spent is not None else f"{reason}; no delta is spent")


def composition_of(top_k: TopK, period: Period | None, unit: str, horizon: int | None = None) -> Composition:
    """What of a ranking's windows the rows of one privacy unit can change."""
    period = period and period.released
    return Composition(
        unit=unit,
        windows=len(period) if period else 1,
        horizon=horizon,
        overlap=1 if period is None else period.overlap,
        most=top_k.max_windows_per_user,
        rankings=top_k.rankings_of_a_user(),
        groups_if_added=top_k.rankings_of_a_newcomer(),
        bounded=top_k.bounds_a_user(),
    )


def _composes(top_k: TopK, period: Period | None, unit: str, horizon: int | None) -> bool:
    """Whether several rankings share the budget, so that a delta can pay for composing them."""
    return unit == "user" or composition_of(top_k, period, unit, horizon).paid_for(top_k.mechanism) > 1


def asked_by(options: Options, lists: Lists | None = None) -> dict[str, Any]:
    """The fields of `Question.of` that options give. Raises InvalidArgument.

    Args:
        lists: in place of those that the options name, whose files are read otherwise.
    """
    from private_topk.pipelines.sources.domain import load_lists  # loads Beam

    return fields_of(options) | (load_lists(options) if lists is None else lists)._asdict()


def fields_of(options: Options) -> dict[str, Any]:
    """Those of them that need no lists. Raises InvalidArgument."""
    require(options, "epsilon")
    check_epsilon(options["epsilon"])
    score_of(options)
    fields = {name: options[name] for name in _FIELDS if name in options}
    return fields | {"period": declared_period(options), "release": _release_of(options)}


def _release_of(options: Options) -> Release:
    """The release: its key and id, new ones by default. Raises InvalidArgument if the key cannot be read."""
    release = Release.named(options.get("release_key"), options.get("release_id"))
    if release is not None and not release.key.is_remote:
        release.key.secret()
    return release or Release.fresh()


def declared_period(options: Options) -> Period | None:
    """The declared period, or None where all rows are ranked together. Raises InvalidArgument."""
    try:
        period = period_of(options)
    except InvalidArgument as error:
        if error.field:
            raise
        raise InvalidArgument("period_from", f"and {{period_to}}: {error.rule}", error.remedy) from None
    for name in ("slide", "time_zone", "time_column", "time_unit"):
        if period is None and name in options:
            raise InvalidArgument(
                name, "applies to windows of a period only", "give {period_from} and {period_to} too, or leave it out"
            )
    return period
