"""The parameters of a mechanism: its dataclass's fields, with the rules that several share and a line of help."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from numbers import Integral, Rational, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from private_topk.transforms.errors import InvalidArgument, kind_shown, plain, verbatim

Kind = Literal["number", "fraction", "whole", "text", "object"]

LARGE_DELTA, TAKE_DELTA = 1e-3, "take well below 1 / number of users, such as 1e-6"
"""Above what a reader is told that a delta is large, and what to take."""

_HELP = {
    "epsilon": "the budget of one release: smaller is more private",
    "delta": "well below 1 / number of users, such as 1e-6, for (epsilon, delta) mechanisms",
    "neighbours": "what is protected: that a user is there at all (add-remove), or what a known user did (replace-one)",
    "max_items_per_user": "how many items of one user count at most",
    "kbar": "unknown domain: how many of the largest items are looked at, at least k",
}
"""Of the parameters that several mechanisms share."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a mechanism, as a door needs it.

    Args:
        name: as Python spells it.
        kind: what a value is. A `fraction` is a number that is meant as it is written: 0.6 is 3/5.
        help: one line.
        required: whether it has no default.
        default: None where it is required.
        choices: the values there are, where these are few.
    """

    name: str
    kind: Kind
    help: str
    required: bool
    default: Any
    choices: tuple[Any, ...] = ()

    def read(self, value: object) -> object:
        """A value given as text; any other one as it is.

        Raises:
            InvalidArgument: the text is no value of its kind.
        """
        if not isinstance(value, str):
            return value
        try:
            return _READ[self.kind](value)
        except (ValueError, ZeroDivisionError):
            raise InvalidArgument(self.name, f"must be {_SAID[self.kind]}, got {verbatim(repr(value))}") from None


def decimal(text: str) -> Fraction | float:
    """The number that is written, exactly: 0.1 is 1/10, not the float beside it. Raises ValueError for no number.

    What is no finite number above or below 0 comes back as the float it is, for rules to refuse.
    """
    value = float(text)
    # What a float can reach is a short fraction; 1e999999999 would be one of a gigabyte.
    return Fraction(text) if value and math.isfinite(value) else value


def as_written(given: Any) -> Any:  # noqa: ANN401 - what is given
    """A number, or a mechanism or budget with its numbers: floats as the decimals that they print, 0.1 as 1/10."""
    if isinstance(given, float):
        return decimal(repr(given))
    if not is_dataclass(given) or isinstance(given, type):
        return given
    return replace(given, **{f.name: as_written(getattr(given, f.name)) for f in fields(given) if f.init})


_READ: dict[Kind, Any] = {"number": decimal, "fraction": Fraction, "whole": int, "text": str, "object": str}
_SAID: dict[Kind, str] = {"number": "a number", "fraction": "a number such as 0.6 or 3/5", "whole": "a whole number"}


def parameter(default: Any = MISSING, *, help: str, kind: Kind | None = None) -> Any:  # noqa: ANN401, A002 - a field
    """A field of a mechanism with its line of help, and its kind where the annotation does not say it."""
    return field(default=default, metadata={"help": help, "kind": kind})


@cache  # every draw asks for them
def parameters_of(mechanism: type) -> Mapping[str, Parameter]:
    """The parameters of a mechanism's class by name, in the order of its fields. None of them is settled elsewhere."""
    hints = get_type_hints(mechanism)
    return {
        f.name: Parameter(
            name=f.name,
            kind=f.metadata.get("kind") or _kind(hints[f.name]),
            help=f.metadata.get("help", _HELP.get(f.name, "")),
            required=f.default is MISSING,
            default=None if f.default is MISSING else f.default,
            choices=get_args(hints[f.name]) if get_origin(hints[f.name]) is Literal else (),
        )
        for f in fields(mechanism)
        if "settled" not in f.metadata
    }


def _kind(hint: Any) -> Kind:  # noqa: ANN401 - an annotation
    if get_origin(hint) is Literal:
        return "text"
    named: dict[Any, Kind] = {float: "number", int: "whole", Fraction: "fraction", str: "text"}
    options = get_args(hint) or (hint,)
    return next((kind for option, kind in named.items() if option in options), "object")


def check_parameter(name: str, value: Any, kind: Kind | None = None) -> Any:  # noqa: ANN401 - parameters differ
    """The value of a shared parameter, or a refusal; names without a rule pass as they are, but for fractions.

    Numbers come back as Python's own: numpy's have a fixed width, which exact arithmetic does not fit in. Real ones
    come back as floats or fractions, since 1 and 1.0 are one budget and must make one seed. A number of the kind
    "fraction" comes back as the fraction it is written as: 0.6 is 3/5, not the float.
    """
    rule = _RULES.get(name)
    if rule is None and kind == "fraction" and not isinstance(value, bool):
        with suppress(ValueError, ZeroDivisionError):  # what is no number is for the mechanism to refuse
            return Fraction(str(value))
    if rule is None or value is None and name in _OPTIONAL:
        return value
    if isinstance(value, Decimal) and value.is_finite():
        value = decimal(str(value))
    rule(name, value)
    if isinstance(value, Integral):
        return int(value) if rule is _whole or int(value) > 2**53 else float(value)
    # A float of numpy's is the decimal that it prints: 0.1, where its own float is 0.10000000149.
    return value if isinstance(value, Rational) else float(str(value))


def check_range(name: str, value: object, least: Fraction, most: Fraction, meaning: str = "") -> None:
    """Refuse what is not a fraction from least to most."""
    if not isinstance(value, Fraction) or not least <= value <= most:
        shown = plain(value) if isinstance(value, Fraction) else kind_shown(value)
        raise InvalidArgument(name, f"must be a number from {least} to {most}, got {shown}", meaning)


def no_text(value: object, such: str = '0.1 or Fraction("0.1")') -> str:
    """What to give in place of a number that is written as a text, as whoever wants it exact tries first."""
    return f"give a number, such as {such}" if isinstance(value, str) else ""


def _positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < _float(value) < math.inf:
        raise InvalidArgument(name, f"must be a positive finite number, got {kind_shown(value)}", no_text(value))


def _probability(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < _float(value) < 1:
        remedy = "leave it out where none is needed" if name == "delta" and value == 0 else no_text(value, "1e-6")
        raise InvalidArgument(name, f"must lie strictly between 0 and 1, got {kind_shown(value)}", remedy)


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise InvalidArgument(name, f"must be a whole number of at least 1, got {kind_shown(value)}")


def _float(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction that no float reaches
        return math.inf


_RULES = {
    "epsilon": _positive,
    "delta": _probability,
    "beta": _probability,
    "max_items_per_user": _whole,
    "max_windows_per_user": _whole,
    "groups_per_user": _whole,
    "whole_items": _whole,
    "cap": _whole,
    "kbar": _whole,
    "epsilon_r": _positive,
    "delta_r": _probability,
}
"""Rules of the parameters that several mechanisms share; a mechanism checks its own ones in `__post_init__`."""
_OPTIONAL = ("max_items_per_user", "max_windows_per_user", "kbar")
