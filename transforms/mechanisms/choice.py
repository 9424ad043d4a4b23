"""Which mechanism to take, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple, TypeVar, cast

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.mechanism import Mechanism
from private_topk.transforms.mechanisms.noisy_order import CdpPeeling, Gaussian, Laplace, NoisyOrder, Oneshot, Peeling
from private_topk.transforms.mechanisms.parameters import TAKE_DELTA
from private_topk.transforms.mechanisms.restricted import RestrictedGumbel
from private_topk.transforms.mechanisms.unknown_domain import LimitDomain
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.mechanisms.weighted_sums import Weighted, WeightedGaussian, WeightedOrder

AUTO = "auto"
"""In place of the name of a mechanism: one of those that apply is chosen."""

_WHOLE = 10  # from here on digits behind the point tell nothing
_STOPS = {"limit-domain": 2.5}
"""What mechanisms lose that stop at a bar for unlisted items, as so many times the noise (`benchmarks.regret`)."""
_BENDS = 2  # weights of users who hold more than counts wholly bend the order: as bad as twice the noise
_QUANTILES: Mapping[str, Callable[[float], float]] = {
    "exponential": lambda part: -math.log1p(-part),
    "laplace": lambda part: math.copysign(math.log(2 * min(part, 1 - part)), part - 0.5),
    "gumbel": lambda part: -math.log(-math.log(part)),
    "logistic": lambda part: math.log(part / (1 - part)),
    "half-logistic": lambda part: math.log((1 + part) / (1 - part)),
    "gaussian": NormalDist().inv_cdf,
}
"""What such a part of noises lies below, for a scale of 1."""
_REACH = {noise: quantile(0.999) - quantile(0.5) for noise, quantile in _QUANTILES.items()}
"""How far one noise in a thousand reaches above the median: what is told of a noise."""
_T = TypeVar("_T")


class Choice(NamedTuple):
    """The name of the chosen mechanism, and the reason in a few words that tell nothing but public facts."""

    name: str
    reason: str


def choose(offered: Iterable[Mechanism], k: int, items: int | None, resolution: Fraction | None = None) -> Choice:
    """The mechanism to take of those that apply. A function of its arguments alone: it draws nothing.

    The rule: of those that add noise to every count, the one whose noise least lifts an item past another (`_apart`);
    if the items are not public, of `restricted-gumbel`, `limit-domain` and `weighted-gaussian` the one whose noise
    reaches least far. `limit-domain`, which returns fewer items, must have far less: as where windows share a total,
    that zCDP parts better than its rival's. The answer is a sequence.

    Args:
        offered: every mechanism that applies, with one window's share of the budget, bounds and neighbours.
        k: how many items to publish.
        items: of the public domain, or None where it is unknown.
        resolution: what a score of 1 stands for; None where it is a user.

    Raises:
        InvalidArgument: none of those that the rule knows is offered.
    """
    by_name = {mechanism.about.name: mechanism for mechanism in offered}
    moved = _moved(by_name, k, items, _REACH if items is None else _apart(items))
    if not moved:
        remedy = "name a mechanism that applies"
        raise InvalidArgument("mechanism", "cannot be chosen: none that adds noise to counts applies", remedy)
    least = min(moved, key=lambda name: moved[name] * _STOPS.get(name, 1))
    counted = any(each.with_counts for each in by_name.values())
    drawn = "whose counts come with the draw, often with far more noise than without counts"
    if len(moved) == 1:
        return Choice(least, f"the only one here {drawn if counted else 'that adds noise to counts'}")
    adds = f"least noise of those {drawn}" if counted else "least noise here"
    adds = "usually finds most without a list of items" if items is None else adds
    reach = reach_of(by_name[least], k, items)
    return Choice(least, adds if reach is None else f"{adds}: {noise_told(reach, resolution)}")


def noise_told(reach: float, resolution: Fraction | None) -> str:
    """How far noise moves the counts of a draw, in words that tell nothing but public facts; `resolution` as above."""
    moved = "counts change by less than {} users" if resolution is None else "sums change by less than {}"
    return f"about 998 of 1,000 {moved.format(_far(reach, resolution))}"


def enough_told(reach: float, k: int, resolution: Fraction | None, *, grouped: bool) -> str:
    """What the top k need for nine of ten of them to be found, as a rule; in words that tell nothing but public facts.

    `python -m benchmarks.reaches --enough` measures it: 77 to 97% in eight of ten public data sets for k of 5 to 100,
    less in the two where many counts are nearly equal.
    """
    users = "" if resolution is not None else " users"
    needed = f"{_far(2 * reach, resolution)}{users}"
    where = "each group of a window, of the users that count there" if grouped else "a window"
    return f"as a rule nine of ten are found where the item of place {k:,} has {needed} or more in {where}"


def _far(reach: float, resolution: Fraction | None) -> str:
    far = reach * float(1 if resolution is None else resolution)
    return f"{far:,.0f}" if far >= _WHOLE else f"{far:.2g}"


NOISY_ORDERS = tuple(kind.about.name for kind in (Oneshot, Peeling, CdpPeeling, Laplace, Gaussian))
"""Those that add noise to the count of every item of a list."""


def needs_delta() -> InvalidArgument:
    """The refusal of an unknown domain without a delta."""
    rule = "must be given where the domain is unknown, because a published item tells that somebody has it"
    return InvalidArgument("delta", rule, f"{TAKE_DELTA}, or give the public list")


def compared(items: int | None) -> tuple[str, ...]:
    """The names of those that add noise to counts of so many public items; None where the domain is unknown."""
    return tuple(_UNKNOWN) if items is None else NOISY_ORDERS


def reach_of(mechanism: Mechanism, k: int | None, items: int | None) -> float | None:
    """How far the noise on a count reaches; None where it is one on weights, or not known to be one on every count."""
    if k is None or isinstance(mechanism, Weighted):
        return None
    return _moved({mechanism.about.name: mechanism}, k, items, _REACH).get(mechanism.about.name)


def chosen(
    ask: Callable[[str], _T],
    drawn_with: Callable[[_T], Mechanism],
    k: int | None,
    items: int | None,
    epsilon: float | Fraction | None,
    delta: float | Fraction | None,
    resolution: Fraction | None,
) -> tuple[_T, Choice]:
    """What is asked of the mechanism that `choose` takes where none is named, and why. Draws nothing, reads no rows.

    Args:
        ask: what is asked of a mechanism, by its name; InvalidArgument where it does not apply.
        drawn_with: the mechanism that a window is then drawn with.
        k: None for all items above a threshold.
        items: of the public domain, or None where it is unknown.
        epsilon, delta: as they were given.
        resolution: as for `choose`.

    Raises:
        InvalidArgument: something is missing, or no mechanism applies.
    """
    if epsilon is None:
        raise InvalidArgument("epsilon", "must be given", "it is the privacy budget, such as 1")
    if items is None and delta is None:
        raise needs_delta()
    if items is not None and k is None:
        remedy = "with {unknown_domain}, {delta} and {max_items_per_user} it may be left out"
        raise InvalidArgument("k", "must be given", f"how many items to publish; {remedy}")
    answers: dict[str, _T] = {}
    refusals: list[InvalidArgument] = []
    for name in (_FINDS.name,) if k is None else _UNKNOWN if items is None else _PUBLIC:
        try:
            answers[name] = ask(name)
        except InvalidArgument as refusal:
            refusals.append(refusal)
    if not answers:
        open_ones = [refusal for refusal in refusals if refusal.field != "mechanism"]  # what can be given
        if len(open_ones) != 1 or len(refusals) == 1:
            raise (open_ones or refusals)[0]
        its, other = open_ones[0], next(refusal for refusal in refusals if refusal.field == "mechanism")
        raise InvalidArgument(
            its.field, its.rule, f"{its.remedy}; no {{mechanism}} is named, and {other.rule}: {other.remedy}"
        )
    choice = _FINDS if k is None else choose(map(drawn_with, answers.values()), k, items, resolution)
    return answers[choice.name], choice


def _apart(items: int) -> Mapping[str, float]:
    """How far the luckiest noise of a list is above one that four of five exceed: what puts an item past one of the top
    k. Gumbel noise reaches far above its median and not below; the shorter the list, the more those below decide."""
    return {noise: quantile(1 - 1 / max(items, 2)) - quantile(0.2) for noise, quantile in _QUANTILES.items()}


def _moved(offered: Mapping[str, Mechanism], k: int, items: int | None, far: Mapping[str, float]) -> dict[str, float]:
    """How far noise moves counts, if at a scale of 1 it is so `far`; equal ones in the order of preference.

    To nine digits: peeling at its share of some windows is cdp-peeling at its own, but for the last bit of a float.
    """
    table = _UNKNOWN if items is None else _PUBLIC
    scales = {name: scaled(offered[name], k, items or k) for name, scaled in table.items() if name in offered}
    return {name: float(f"{far[noise] * float(scale):.9g}") for name, (noise, scale) in scales.items()}


def _noisy(mechanism: Mechanism, k: int, items: int) -> tuple[str, Fraction]:
    return cast(NoisyOrder, mechanism).noise_and_scale(items, k)


def _bent(mechanism: Mechanism, k: int, items: int) -> tuple[str, Fraction]:
    its = cast(Weighted, mechanism)
    scale = its.scale(items) if isinstance(its, WeightedOrder) else cast(WeightedGaussian, its).scale()
    return "gaussian", scale / UNIT * (_BENDS if its.max_items_per_user > its.whole_items else 1)


_PUBLIC: Mapping[str, Callable[[Mechanism, int, int], tuple[str, Fraction]]] = {
    **dict.fromkeys(NOISY_ORDERS, _noisy),
    WeightedOrder.about.name: _bent,
}
_UNKNOWN: Mapping[str, Callable[[Mechanism, int, int], tuple[str, Fraction]]] = {
    RestrictedGumbel.about.name: lambda its, k, items: _noisy(cast(RestrictedGumbel, its).inner(k), k, items),
    LimitDomain.about.name: lambda its, k, items: ("gumbel", cast(LimitDomain, its).scale(k)),
    WeightedGaussian.about.name: _bent,
}
_FINDS = Choice(WeightedGaussian.about.name, "no k is given, and it publishes all items above its threshold")
