"""Mechanisms by name: the built-in ones, and anybody's own as `module:Class`."""

from __future__ import annotations

import inspect
from fractions import Fraction
from importlib import import_module
from typing import Any

from private_topk.transforms.errors import InvalidArgument, by_signature, did_you_mean, verbatim
from private_topk.transforms.mechanisms.correlated_gaussian import CorrelatedGaussian
from private_topk.transforms.mechanisms.mechanism import Mechanism, check_stated
from private_topk.transforms.mechanisms.noisy_order import (
    CdpPeeling,
    Gamma,
    Gaussian,
    Laplace,
    Oneshot,
    Peeling,
    PnfPeeling,
)
from private_topk.transforms.mechanisms.parameters import check_parameter, parameters_of
from private_topk.transforms.mechanisms.restricted import (
    RestrictedGumbel,
    RestrictedLaplace,
    RestrictedNormal,
    RestrictedPnf,
)
from private_topk.transforms.mechanisms.unknown_domain import LaplaceLimitDomain, LimitDomain, TopStable
from private_topk.transforms.mechanisms.weighted_sums import WeightedGaussian, WeightedOrder
from private_topk.transforms.mechanisms.whole_answers import Canonical, FastJoint, Joint, JointSet

_ALL: tuple[type[Mechanism], ...] = (
    Joint,
    FastJoint,
    JointSet,
    Canonical,
    Peeling,
    CdpPeeling,
    PnfPeeling,
    Oneshot,
    Laplace,
    Gaussian,
    CorrelatedGaussian,
    WeightedOrder,
    Gamma,
    LimitDomain,
    LaplaceLimitDomain,
    TopStable,
    RestrictedGumbel,
    RestrictedNormal,
    RestrictedPnf,
    RestrictedLaplace,
    WeightedGaussian,
)

for _each in _ALL:
    by_signature(_each)

MECHANISMS: dict[str, type[Mechanism]] = {mechanism.about.name: mechanism for mechanism in _ALL}
"""Every built-in mechanism by the name it has on the command line."""


def mechanism_by_name(name: str) -> type[Mechanism]:
    """The mechanism of a name, or the class that `module:Class` names.

    Raises:
        InvalidArgument: there is none, or the class is no mechanism; near names are suggested.
    """
    if not isinstance(name, str):
        raise InvalidArgument("mechanism", f"must be a name such as joint, got {type(name).__name__}")
    if name in MECHANISMS:
        return MECHANISMS[name]
    if ":" in name:
        return _imported(name)
    rule = f"must be one of {', '.join(MECHANISMS)} or your own as module:Class, got {verbatim(repr(name))}"
    raise InvalidArgument("mechanism", rule, did_you_mean(name, MECHANISMS))


def name_of(kind: type[Mechanism]) -> str:
    """The name by which `mechanism_by_name` finds a class."""
    name = kind.about.name
    return name if MECHANISMS.get(name) is kind else f"{kind.__module__}:{kind.__qualname__}"


def make_mechanism(name: str, **parameters: object) -> Mechanism:
    """The mechanism of a name with its parameters, each a value or the text of one; None stands for not given.

    Raises:
        InvalidArgument: the name or a parameter is unknown, one is missing, or one breaks its rule.
    """
    kind = mechanism_by_name(name)
    own = parameters_of(kind)
    given = {field: value for field, value in parameters.items() if value is not None}
    for field in given:
        if field not in own:
            raise InvalidArgument(
                field, f"does not apply to {verbatim(name)}", did_you_mean(field, own, "leave it out")
            )
    missing = [field for field, its in own.items() if its.required and field not in given]
    if missing:
        others = "".join(f", as {{{field}}} must" for field in missing[1:])
        raise InvalidArgument(missing[0], f"must be given for {verbatim(name)}{others}", own[missing[0]].help)
    read: dict[str, Any] = {field: own[field].read(value) for field, value in given.items()}
    return kind(**read)


def not_beside_an_object(field: str, mechanism: Mechanism) -> InvalidArgument:
    """The refusal of a parameter that is given beside a mechanism which has its own."""
    return InvalidArgument(field, "must be left out", f"{type(mechanism).__name__}(...) has its own")


def with_budget(
    name: str,
    epsilon: float | Fraction | None,
    delta: float | Fraction | None = None,
    max_items_per_user: int | None = None,
    **parameters: object,
) -> tuple[Mechanism, float | Fraction | None]:
    """The mechanism of a name with a budget, and the delta if it has no use for one itself.

    Raises:
        InvalidArgument: as `make_mechanism`; a bound on the items of a user that it does not know is no fault.
    """
    for field, value in (("epsilon", epsilon), ("delta", delta), ("max_items_per_user", max_items_per_user)):
        if value is not None:
            check_parameter(field, value)
    own = parameters_of(mechanism_by_name(name))
    bound = max_items_per_user if "max_items_per_user" in own else None
    mine, spare = (delta, None) if "delta" in own else (None, delta)
    return make_mechanism(name, epsilon=epsilon, delta=mine, max_items_per_user=bound, **parameters), spare


def _imported(name: str) -> type[Mechanism]:
    module, _, attribute = name.partition(":")
    shown = verbatim(name)
    try:
        kind = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        remedy = "install it, or put its folder on PYTHONPATH, here and where the workers run"
        raise InvalidArgument(
            "mechanism", f"{shown} needs a module {verbatim(error.name)} that is not there", remedy
        ) from None
    except (AttributeError, TypeError, ValueError):
        rule = f"must name a class of a module as module:Class, got {verbatim(repr(name))}"
        raise InvalidArgument("mechanism", rule, f"there is no {verbatim(attribute or 'such class')} in it") from None
    if not isinstance(kind, type) or not issubclass(kind, Mechanism):
        raise InvalidArgument(
            "mechanism", f"{shown} must be a subclass of private_topk.transforms.mechanisms.Mechanism"
        )
    _check_class(name, kind)
    return kind


def _check_class(name: str, kind: type[Mechanism]) -> None:
    shown = verbatim(name)
    if "__dataclass_fields__" not in vars(kind):
        raise InvalidArgument(
            "mechanism", f"{shown} must be a dataclass", "write @dataclass(frozen=True) above the class"
        )
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise InvalidArgument("mechanism", f"{shown} must define {missing}")
    check_stated(kind)
    if kind.guarantee.privacy == "none":
        remedy = f"choose one of {', '.join(MECHANISMS)}"
        raise InvalidArgument("mechanism", f"{shown} protects nobody: it is for tests of pipelines", remedy)
    check_name(kind)


def check_name(kind: type[Mechanism]) -> None:
    """Refuse a class with the name of a built-in one: it is part of a release's seed and of its manifest."""
    name = verbatim(kind.about.name)
    if MECHANISMS.get(kind.about.name, kind) is not kind:
        rule = f"{verbatim(kind.__name__)} must have a name of its own: {name} is a built-in one's"
        raise InvalidArgument("mechanism", rule, "give its `about` another name")
