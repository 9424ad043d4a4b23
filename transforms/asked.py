"""The builder of what a ranking is asked, in the fields that every door names alike.

Command line, report file, `rank`, `PrivateTopK`, Beam YAML and previews all come here, so that a field means the same
and is refused in the same way at each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from private_topk.transforms.domain import Domain, RangeDomain, UnknownDomain, as_domain, check_columns
from private_topk.transforms.errors import InvalidArgument, did_you_mean, kind_shown, verbatim
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, mechanism_by_name, parameters_of
from private_topk.transforms.mechanisms.choice import AUTO, chosen
from private_topk.transforms.mechanisms.correlated_gaussian import CorrelatedGaussian
from private_topk.transforms.mechanisms.noisy_counts import CountBudget, Counts, DrawnCounts, counts_of
from private_topk.transforms.mechanisms.parameters import check_parameter
from private_topk.transforms.mechanisms.registry import check_name, not_beside_an_object, with_budget
from private_topk.transforms.metric import USERS, Amounts, Score
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period

_Real = float | Fraction
_T = TypeVar("_T")


class Asked(TypedDict, total=False):
    """The fields of what is asked, beside k, mechanism and domain. None stands for a field that is not given."""

    epsilon: _Real | None
    delta: _Real | None
    neighbours: str | None
    parameters: Mapping[str, Any] | None
    """A mechanism's own, by their names; where one is chosen there are none."""
    unknown_domain: bool | None
    domain_range: str | None
    max_items_per_user: int | None
    publish_counts: Counts | _Real | Literal["drawn"] | None
    publish_counts_delta: _Real | None
    round_counts: int | None
    amounts: Amounts | None
    max_value: _Real | None
    value_resolution: _Real | None
    groups: Groups | Iterable[Any] | None
    groups_per_user: int | None
    overall: bool | None
    max_windows_per_user: int | None


def answer(
    settled: Callable[[TopK, _Real | None, bool], _T],
    drawn_with: Callable[[_T], Mechanism],
    k: int | None = None,
    mechanism: Mechanism | str | Iterable[str] = AUTO,
    domain: Any = None,  # noqa: ANN401 - all that `as_domain` takes
    items: tuple[str, ...] = (),
    **given: Unpack[Asked],
) -> tuple[_T, str | None]:
    """What fields ask, and why its mechanism was chosen, where it was. Draws nothing and reads no rows.

    Args:
        settled: makes the answer of a specification, of a delta that its mechanism has no use for, and of whether that
            delta may be left aside, as it may where no mechanism is named.
        drawn_with: the mechanism of an answer that a window is drawn with.
        mechanism: an object; a name; several names, of which the first that answers is taken, with those parameters
            that it knows; or "auto".
        items: the columns of a list of items.

    Raises:
        InvalidArgument: a field breaks its rule.
    """
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in asked.keys() - Asked.__annotations__.keys():
        raise InvalidArgument(name, "is no field of a ranking", did_you_mean(name, Asked.__annotations__))
    if isinstance(mechanism, list):  # of items, in its place; names of mechanisms are a tuple
        raise InvalidArgument("mechanism", "must be a name or an object, got a list", "write {domain}=[...]")
    if isinstance(mechanism, bool | int | float | Fraction):
        raise InvalidArgument(
            "mechanism",
            f"must be a name such as joint, or an object such as Joint(epsilon=1.0), got {mechanism}",
            f"a budget is given as {{epsilon}}={mechanism}",
        )
    if not isinstance(asked.get("parameters", {}), Mapping):
        rule = f"must be a mapping of names to values, got {type(asked['parameters']).__name__}"
        raise InvalidArgument("parameters", rule, 'such as {"skew": 2}')
    for name in sorted(asked.get("parameters", {}).keys() & {"epsilon", "delta"}):
        raise InvalidArgument("parameters", f"must not have {name}", f"give {{{name}}} itself, beside {{parameters}}")
    counts, score, groups = counts_asked(asked), score_of(asked), _groups_of(asked)
    listed = _domain_of(domain, items, asked)
    if items:
        check_columns("domain", items, listed)
    bounds = {name: asked.get(name) for name in ("max_items_per_user", "max_windows_per_user")}

    def specified(drawn: Mechanism) -> TopK:
        return TopK(k, drawn, listed, publish_counts=counts, score=score, groups=groups, **bounds)

    def named(name: str, aside: bool) -> _T:
        known = parameters_of(mechanism_by_name(name))
        own = {field: value for field, value in asked.get("parameters", {}).items() if field in known or not aside}
        own = {"max_items_per_user": asked.get("max_items_per_user"), "neighbours": asked.get("neighbours")} | own
        drawn, spare = with_budget(name, asked.get("epsilon"), asked.get("delta"), **own)
        return settled(specified(drawn), spare, aside)

    if mechanism == AUTO:
        for name in asked.get("parameters", ()):
            known = {each for kind in MECHANISMS.values() for each in parameters_of(kind)}
            if name not in known:
                remedy = did_you_mean(name, sorted(known), f"there are {', '.join(sorted(known))}")
                raise InvalidArgument("parameters", f"of no mechanism has the name {verbatim(name)}", remedy)
            raise InvalidArgument(
                name, "needs {mechanism}: it is a parameter of some, and without a name one is chosen"
            )
        size = listed.size if listed.is_public else None
        budget = (asked.get("epsilon"), asked.get("delta"))
        found, (_, reason) = chosen(lambda name: named(name, True), drawn_with, k, size, *budget, score.resolution)
        return found, reason
    if isinstance(mechanism, str):
        return named(mechanism, False), None
    if isinstance(mechanism, tuple):
        return first_of(lambda name: named(name, True), mechanism), None
    if isinstance(mechanism, Mechanism):
        check_name(type(mechanism))
        own_delta = {"delta"} & parameters_of(type(mechanism)).keys()
        for name in ("epsilon", *own_delta, "neighbours", "parameters"):
            if name in asked:
                raise not_beside_an_object(name, mechanism)
    return settled(specified(mechanism), asked.get("delta"), False), None  # type: ignore[arg-type]  # TopK refuses


def mechanism_for(mechanism: _T, period: Period | None) -> tuple[_T | str, str | None]:
    """The mechanism to ask for the windows of a period, and why, where the period leaves no other choice."""
    if period is not None and period.to_date and mechanism == AUTO:
        return CorrelatedGaussian.about.name, "its noise hardly grows with the number of windows to date"
    return mechanism, None


def first_of(ask: Callable[[str], _T], names: Iterable[str]) -> _T:
    """The answer of the first mechanism that has one. Raises the first InvalidArgument where none has."""
    refusals: list[InvalidArgument] = []
    for name in names:
        try:
            return ask(name)
        except InvalidArgument as refusal:
            refusals.append(refusal)
    raise refusals[0]


def counts_asked(asked: Mapping[str, Any]) -> Counts | None:
    """The noisy counts that are asked for, with their budget if they have one, or None. Raises InvalidArgument."""
    given, more = asked.get("publish_counts"), {"publish_counts_delta", "round_counts"} & asked.keys()
    for name in sorted(more) if given is None or isinstance(given, CountBudget | DrawnCounts) else ():
        if given is None:
            raise InvalidArgument(name, "needs {publish_counts}: the epsilon of the noisy counts")
        raise InvalidArgument(name, "must be left out", f"the {type(given).__name__} of {{publish_counts}} has its own")
    if given is None:
        return None
    counts, delta = counts_of(given), asked.get("publish_counts_delta")
    if delta is not None:
        if isinstance(counts, DrawnCounts):
            rule = "does not go with {publish_counts} drawn: such counts have no budget of their own"
            raise InvalidArgument("publish_counts_delta", rule, "leave it out")
        try:
            counts = replace(counts, delta=check_parameter("delta", delta))
        except InvalidArgument as refusal:
            raise InvalidArgument("publish_counts_delta", refusal.rule, "without it the noise needs none") from None
    return replace(counts, round_to=asked["round_counts"]) if "round_counts" in asked else counts


def score_of(asked: Mapping[str, Any]) -> Score:
    """What a user adds to an item: 1, but where amounts are asked for. Raises InvalidArgument."""
    amounts: Any = asked.get("amounts")
    if not isinstance(amounts, Score | None):
        rule = f"must be Amounts such as Amounts(max_value=60), got {type(amounts).__name__}"
        raise InvalidArgument("amounts", rule, "or give {max_value}: the most that one user adds to an item")
    for name in ("max_value", "value_resolution") if amounts is not None else ():
        if name in asked:
            raise InvalidArgument(name, "must be left out", "{amounts} have their own")
    if amounts is not None or "max_value" in asked:
        return amounts or Amounts(asked["max_value"], asked.get("value_resolution"))
    for name in ("value_column", "value_resolution"):
        if name in asked:
            raise InvalidArgument(
                name,
                "needs {max_value}: the most that one user adds to an item",
                "choose it without looking at the data: docs/amounts.md says how",
            )
    return USERS


def _groups_of(asked: Mapping[str, Any]) -> Groups | None:
    groups = asked.get("groups")
    own = {name: asked[name] for name in ("groups_per_user", "overall") if asked.get(name, False) is not False}
    for name in own:
        if groups is None:
            remedy = "give it, also where {domain} has a list for each group"
            raise InvalidArgument(name, "needs {groups}: the public list of groups", remedy)
        if isinstance(groups, Groups):
            its = "per_user=2" if name == "groups_per_user" else "overall=True"
            raise InvalidArgument(name, "must be left out", f"the Groups of {{groups}} have it: Groups(..., {its})")
    return None if groups is None else Groups.of(groups, own.get("groups_per_user", 1), own.get("overall", False))


def _domain_of(domain: Any, items: tuple[str, ...], asked: Mapping[str, Any]) -> Domain:  # noqa: ANN401
    unknown, span = asked.get("unknown_domain", False), asked.get("domain_range")
    if not isinstance(unknown, bool):
        raise InvalidArgument("unknown_domain", f"must be True or False, got {kind_shown(unknown)}")
    if span is not None and (unknown or domain is not None):
        other = "unknown_domain" if domain is None else "domain"
        raise InvalidArgument("", f"give {{{other}}} or {{domain_range}}: one of the two")
    if span is not None:
        return RangeDomain.parse(span)
    if not unknown:
        return as_domain(domain, items)
    listed: Any = None if domain is None else as_domain(domain, items)
    return UnknownDomain(listed)
