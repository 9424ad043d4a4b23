"""How user and item are read from the elements of a PCollection: pairs, and rows with named fields.

A type that holds no such elements is refused where the transform is applied. At run time no element is refused:
otherwise whether there is a ranking would depend on one user's element. One that cannot be read is left out by itself.

Where groups have a ranking each, elements also hold a group, and where amounts are added up, an amount: tuples of three
or four, and rows with more fields.

Nothing is guessed, since a wrong guess would publish noise: a dict of two keys unpacks to its keys, and a text of two
letters to its letters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.errors import Refusal, literal, verbatim

__all__ = ["LeftOutFor", "Shape", "Values"]

Values = tuple[Any, ...]
"""A user, an item and a group where there are groups, as texts, and an amount where there are amounts."""

LeftOutFor = Literal["null", "unreadable"]

_WHATS = {"user": "a user", "item": "an item", "group": "a group", "value": "an amount"}
_EXAMPLES = {"user": "listener", "item": "track", "group": "country", "value": "minutes"}
_ABSENT = object()
_WRAPPED = (TimestampedValue, WindowedValue, beam.pvalue.TaggedOutput)
"""Types that Beam infers for a function that wraps elements, such as with a time; the type inside is not known."""


@dataclass(frozen=True)
class Shape:
    """The shape of elements: where each holds its user and item.

    Args:
        user, item, value, group: names of fields. With them, elements are rows or dicts that have all. Without, tuples
            and lists of two are (user, item), and rows and dicts have the fields `user` and `item`.
        amounts, groups: elements also hold an amount, a group: tuples and lists are (user, item, group, value), but for
            what there is none of, and rows and dicts have the fields `value`, `group` as well.
    """

    user: str | None = None
    item: str | None = None
    value: str | None = None
    amounts: bool = False
    group: str | None = None
    groups: bool = False

    def __post_init__(self) -> None:
        for name in _WHATS:
            given = getattr(self, name)
            if given is not None and (not isinstance(given, str) or not given):
                raise Refusal(name, f"must be the name of a field, got {verbatim(repr(given))}")
        if self.value is not None and not self.amounts:
            raise Refusal("value", "needs {amounts}: the most that one user adds to an item")
        if self.group is not None and not self.groups:
            raise Refusal("group", "needs {groups}: the public list of groups")
        if self._names[0] == self._names[1]:
            rule = "must be another field than {item}"
            raise Refusal("user", rule, "the one says who a row is of, the other what is ranked")
        if len(set(self._names)) < len(self._names):
            raise Refusal("value" if self.amounts else "group", "must be another field than {user} and {item}")

    @cached_property
    def _roles(self) -> tuple[str, ...]:
        return ("user", "item", *["group"] * self.groups, *["value"] * self.amounts)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(getattr(self, role) or role for role in self._roles)

    @cached_property
    def _pairs(self) -> bool:
        return all(getattr(self, role) is None for role in self._roles)

    def values(self, element: Any) -> Values | LeftOutFor:  # noqa: ANN401 - whatever flows
        """User, item and group as texts, and the amount as a float; or why the element is left out.

        That is "null" where one of them is None, or NaN, and "unreadable" where it is of another shape.
        """
        kind = type(element)
        if self._pairs and (kind is tuple or (isinstance(element, tuple | list) and not hasattr(kind, "_fields"))):
            parts = tuple(element)
        else:
            parts = tuple(_field(element, name) for name in self._names)
        if len(parts) != len(self._roles) or any(part is _ABSENT for part in parts):
            return "unreadable"
        if any(part is None for part in parts):
            return "null"
        try:
            if not self.amounts:
                return tuple(map(_label, parts))
            amount = _amount(parts[-1])
            return "null" if math.isnan(amount) else (*map(_label, parts[:-1]), amount)
        except (TypeError, ValueError):
            return "unreadable"

    def check(self, kind: Any) -> None:  # noqa: ANN401 - a type, or one of Beam's constraints
        """Raise Refusal if no element of a type can have this shape. Types that Beam does not know pass; their elements
        are checked at run time.
        """
        kind = convert_to_beam_type(kind)
        if isinstance(kind, RowTypeConstraint):
            self._check_fields(dict(kind._fields))  # noqa: SLF001 - Beam gives them no other way
        elif isinstance(kind, typehints.TupleConstraint | typehints.ListConstraint):
            self._check_pair(kind)
        elif isinstance(kind, typehints.SequenceTypeConstraint):
            if not isinstance(kind, typehints.TupleSequenceConstraint | typehints.ABCSequenceTypeConstraint):
                raise self._refusal(str(kind))
        elif isinstance(kind, type) and kind is not object and not issubclass(kind, _WRAPPED):
            self._check_class(kind)

    def _check_pair(self, kind: typehints.TupleConstraint | typehints.ListConstraint) -> None:
        size = len(self._roles)
        parts = (kind.inner_type,) * size if isinstance(kind, typehints.ListConstraint) else kind.tuple_types
        if len(parts) != size or not self._pairs:
            raise self._refusal(str(kind))
        for part, role in zip(parts, self._roles, strict=True):
            _check_part(part, role)

    def _check_class(self, kind: type) -> None:
        if hasattr(kind, "_fields"):
            self._check_fields({name: getattr(kind, "__annotations__", {}).get(name) for name in kind._fields})
        elif is_dataclass(kind):
            self._check_fields({attribute.name: None for attribute in fields(kind)})
        elif issubclass(kind, tuple | list):
            if not self._pairs:
                raise self._refusal(kind.__name__)
        elif not issubclass(kind, Mapping | beam.Row):
            raise self._refusal(kind.__name__)

    def _check_fields(self, types: Mapping[str, Any]) -> None:
        for name, role in zip(self._names, self._roles, strict=True):
            if name not in types:
                raise self._refusal(f"row of {', '.join(types)}")
            _check_part(types[name], role)

    def _refusal(self, shown: str) -> Refusal:
        rows = f"rows or dicts with the fields {' and '.join(self._names)}"
        kind = {2: "pairs", 3: "triples", 4: "tuples"}[len(self._roles)]
        tuples = f"({', '.join(self._roles)}) {kind}"
        wanted = f"{tuples}, or {rows}" if self._pairs else rows
        names = ", ".join(f"{role}='{_EXAMPLES[role]}'" for role in self._roles)
        more = "" if len(self._roles) > 2 else ": a group or an amount as well needs groups=... or amounts=..."
        remedy = f"name the fields, such as PrivateTopK(..., {names}), or map each to a tuple{more}"
        got = f"got an element of type {verbatim(shown)}, as Beam knows it"
        return Refusal("", f"PrivateTopK takes {verbatim(wanted)}, {got}", literal(remedy))


def _field(element: Any, name: str) -> Any:  # noqa: ANN401
    if isinstance(element, Mapping):
        return element.get(name, _ABSENT)
    if isinstance(element, beam.Row):
        return element.__dict__.get(name, _ABSENT)
    # Names of methods are no fields: every tuple has `count` and `index`.
    known: Any = getattr(element, "_fields", None) or getattr(element, "__dataclass_fields__", ())
    return getattr(element, name) if name in known else _ABSENT


def _label(value: Any) -> str:  # noqa: ANN401
    """A label as text. Raises TypeError for what is none, and ValueError beyond the digits that Python writes."""
    if type(value) is str:
        return value
    if isinstance(value, str):  # such as numpy's, whatever it prints as
        return str.__str__(value)
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Integral):
        raise TypeError
    return str(int(value))


def _amount(value: Any) -> float:  # noqa: ANN401
    """An amount as a float. Raises TypeError for what is no number."""
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Real | Decimal):
        raise TypeError
    if isinstance(value, Decimal) and value.is_nan():  # a signalling one is no float
        return math.nan
    try:
        return float(value)
    except OverflowError:  # an integer beyond the floats
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except ValueError:  # a decimal that is no number and says so by raising
        return math.nan


def _check_part(kind: Any, role: str) -> None:  # noqa: ANN401
    """Raise Refusal where no value of a type is an amount, or a label."""
    nested = tuple | list | set | dict
    constraints: tuple[type, ...] = ()
    if role == "value":
        wanted, none = "amounts that are numbers, got one", str | bytes | bool | nested
    else:
        wanted, none = f"users and items that are str or int, got {_WHATS[role]}", float | bytes | bool | nested
        constraints = (typehints.TupleConstraint, typehints.DictConstraint, typehints.SequenceTypeConstraint)
    plain = isinstance(kind, type) and issubclass(kind, none)
    if plain or isinstance(kind, constraints):
        name = kind.__name__ if plain else str(kind)
        raise Refusal("", f"PrivateTopK takes {wanted} of type {verbatim(name)}")
