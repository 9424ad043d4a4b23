"""How user and item are read from the elements of a PCollection: pairs, and rows with named fields.

A type that holds no such elements is refused where the transform is applied. At run time no element is refused:
otherwise whether there is a ranking would depend on one user's element. One that cannot be read is dropped by itself.
The exception is a whole table, such as batched readers yield: no user makes one, and all of their rows would be lost.

Where groups have a ranking each, elements also hold a group, and what a score needs: tuples of three or four, and rows
with more fields.

Nothing is guessed, since a wrong guess would publish noise: a dict of two keys unpacks to its keys, and a text of two
letters to its letters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from types import NoneType
from typing import Any, Literal, get_type_hints
from uuid import UUID

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.composite import as_a_list, composite, names_of, published
from private_topk.transforms.errors import InvalidArgument, kind_shown, literal, verbatim
from private_topk.transforms.labels import is_label
from private_topk.transforms.metric import NUMERAL, USERS, Score
from private_topk.transforms.types import Kind, Meaning, is_missing, kind_of_class, label_of

Values = tuple[Any, ...]
"""A user, an item and a group where there are groups, as texts, and the numbers of the score's fields."""

ReasonDropped = Literal["null", "unreadable"]

_WHATS = {"user": "a user", "item": "an item", "group": "a group", "value": "an amount"}
_ABSENT = object()
_NEVER_MISSING = frozenset((str, int))
_WRAPPED = (TimestampedValue, WindowedValue, beam.pvalue.TaggedOutput)
"""Types that Beam infers for a function that wraps elements, such as with a time; the type inside is not known."""


@dataclass(frozen=True)
class ElementSchema:
    """The shape of elements: where each holds its user and item.

    Args:
        user, item, value, group: names of fields; several fields may be an item together, or a group. With them,
            elements are rows or dicts that have all. Without, tuples and lists of two are (user, item), and rows and
            dicts have the fields `user` and `item`.
        score, groups: elements also hold the score's fields, a group: tuples and lists are (user, item, group, value),
            but for what there is none of, and rows and dicts have the fields `value`, `group` as well.
    """

    user: str | None = None
    item: str | Sequence[str] | None = None
    value: str | None = None
    score: Score = USERS
    group: str | Sequence[str] | None = None
    groups: bool = False

    def __post_init__(self) -> None:
        for role in _WHATS:
            given = getattr(self, role)
            if role in ("item", "group"):
                self.names(role)
            elif given is not None and (not isinstance(given, str) or not given):
                raise InvalidArgument(role, f"must be the name of a field, got {kind_shown(given)}")
        if self.value is not None and "value" not in self.score.columns:
            raise InvalidArgument("value", "needs {amounts}: the most that one user adds to an item")
        if self.group is not None and not self.groups:
            raise InvalidArgument("group", "needs {groups}: the public list of groups")
        if self._names[0] in self.names("item"):
            rule = "must be another field than {item}"
            raise InvalidArgument("user", rule, "the one says who a row is of, the other what is ranked")
        if len(set(self._names)) < len(self._names):
            raise InvalidArgument(self._roles[-1], "must be another field than {user} and {item}")

    def published(self, role: str) -> tuple[str, ...]:
        """The names of the columns in which items or groups are published."""
        return published(role, self.names(role))

    def names(self, role: str) -> tuple[str, ...]:
        """The names of the fields that have a role."""
        given = getattr(self, role)
        return (role,) if given is None else names_of(role, role, given, "field")

    def renamed(self) -> dict[str, str | tuple[str, ...]]:
        """The names of the fields of each role that is not the name of its field."""
        fields = {role: self.names(role) for role in dict.fromkeys(self._roles)}
        return {role: names[0] if len(names) == 1 else names for role, names in fields.items() if names != (role,)}

    @cached_property
    def _fields(self) -> tuple[tuple[str, str], ...]:
        """The role and the name of every field."""
        roles = ("user", "item", *["group"] * self.groups, *self.score.columns)
        return tuple((role, name) for role in roles for name in self.names(role))

    @cached_property
    def order(self) -> str:
        """What tuples and lists hold, by place; empty where fields have names, so that they are none."""
        return f"({', '.join(self._roles)})" if self._pairs else ""

    @cached_property
    def _roles(self) -> tuple[str, ...]:
        return tuple(role for role, _ in self._fields)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self._fields)

    @cached_property
    def _labels(self) -> int:
        """How many fields are labels: the first ones."""
        return len(self._roles) - len(self.score.columns)

    @cached_property
    def _needed(self) -> int:
        """How many fields no row can do without, among the labels: the first ones, of user and item."""
        return self._labels - self._roles.count("group")

    @cached_property
    def _spans(self) -> tuple[slice, ...]:
        """Where the parts of every label are among the fields; none where every label is one field."""
        labels = self._roles[: self._labels]
        starts = {role: labels.index(role) for role in labels}
        spans = tuple(slice(start, start + labels.count(role)) for role, start in starts.items())
        return spans if len(spans) < len(labels) else ()

    @cached_property
    def _pairs(self) -> bool:
        return all(getattr(self, role) is None for role in self._roles)

    def values(self, element: Any) -> Values | ReasonDropped:  # noqa: ANN401 - whatever flows
        """User, item and group as texts, and numbers as floats; or why the element is dropped.

        That is "null" where one of them is missing, but for the group, which is then an empty text; and "unreadable"
        where it is of another shape or type, by the table of `types.py`, or a text that is no label, by the rule of
        `labels.py`.

        Raises InvalidArgument for a table of rows.
        """
        parts = self._parts_of(element)
        if len(parts) != len(self._roles) or any(part is _ABSENT for part in parts):
            if (to_rows := _to_rows(type(element))) is not None:
                raise self._refusal(type(element).__name__, to_rows)
            return "unreadable"
        if any(type(part) not in _NEVER_MISSING and is_missing(part) for part in parts):
            parts = tuple(map(self._or_none, self._roles, parts))
            if None in parts:
                return "null"
        try:
            labels = tuple(map(_label, parts[: self._labels]))
            numbers = tuple(map(_amount, parts[self._labels :]))
            if not all(labels[: self._needed]):
                return "null"
            return (*(self._together(labels) if self._spans else labels), *numbers)
        except (TypeError, ValueError):
            return "unreadable"

    @staticmethod
    def _or_none(role: str, part: Any) -> Any:  # noqa: ANN401
        """None for what is missing; an empty text for a group, without which a row counts among all rows."""
        missing = type(part) not in _NEVER_MISSING and is_missing(part)
        return part if not missing else "" if role == "group" else None

    def _together(self, labels: tuple[str, ...]) -> Iterator[str]:
        """Labels of which those of several fields are one. Raises ValueError where that is none."""
        for span in self._spans:
            parts = labels[span]
            yield parts[0] if len(parts) == 1 else _label(composite(parts))

    def fault(self, element: Any) -> str:  # noqa: ANN401
        """Why an element is dropped, by its first field that is missing or of another type. Holds no value."""
        parts, kind = self._parts_of(element), verbatim(type(element).__name__)
        if len(parts) != len(self._roles):
            return f"a {kind} is no {self.order}"
        for role, name, part in zip(self._roles, self._names, parts, strict=True):
            if part is _ABSENT:
                return f"a {kind} has no field {verbatim(name)!r}"
            try:
                given = not is_missing(part)
                read = given and (_amount(part) is not None if role == "value" else _label(part)) or role == "group"
            except (TypeError, ValueError):
                return f"{verbatim(name)!r} is a {verbatim(type(part).__name__)} that is not {_WHATS[role]}"
            if not read:
                return f"{verbatim(name)!r} is missing or empty"
        return "they cannot be read"

    def _parts_of(self, element: Any) -> Values:  # noqa: ANN401
        kind = type(element)
        if self._pairs and (kind is tuple or (isinstance(element, tuple | list) and not hasattr(kind, "_fields"))):
            return tuple(element)
        return tuple(_field(element, name) for name in self._names)

    def check(self, kind: Any) -> dict[str, Kind]:  # noqa: ANN401 - a type, or one of Beam's constraints
        """The kinds of users, items, groups and amounts, by role, as far as the type of the elements says; of those
        that are one field.

        Raises InvalidArgument if no element of the type can have this shape. Types that Beam does not know pass; their
        elements are checked at run time.
        """
        found, roles = self._parts(convert_to_beam_type(kind)), {name: role for role, name in self._fields}
        remedy = as_a_list([name for name in self._names if roles[name] in ("item", "group")])
        if remedy and not found:
            raise InvalidArgument("", "PrivateTopK takes a name for every field, got one with a comma", literal(remedy))
        kinds = {name: _kind_of_part(part, roles[name], name) for name, part in found.items()}
        for name in found:
            if roles[name] in self.score.columns:
                self.score.check_resolution(kinds[name], name)
        return {
            role: known
            for role, name in self._fields
            if self._roles.count(role) == 1 and (known := kinds.get(name)) is not None
        }

    def unchecked(self, kind: Any) -> str:  # noqa: ANN401
        """The fields of which a type does not say whether its elements have them, in words; empty if it does."""
        return "" if self._parts(convert_to_beam_type(kind)) else " and ".join(self._names)

    def _parts(self, kind: Any) -> dict[str, Any]:  # noqa: ANN401
        """The type of every field; none where it is not known."""
        if isinstance(kind, RowTypeConstraint):
            return self._of_fields(dict(kind._fields))  # noqa: SLF001 - Beam gives them no other way
        if isinstance(kind, typehints.TupleConstraint | typehints.ListConstraint):
            return self._of_tuple(kind)
        if isinstance(kind, typehints.SequenceTypeConstraint):
            if not isinstance(kind, typehints.TupleSequenceConstraint | typehints.ABCSequenceTypeConstraint):
                raise self._refusal(str(kind))
        elif isinstance(kind, type) and kind is not object and not issubclass(kind, _WRAPPED):
            return self._of_class(kind)
        return {}

    def _of_tuple(self, kind: typehints.TupleConstraint | typehints.ListConstraint) -> dict[str, Any]:
        size = len(self._roles)
        parts = (kind.inner_type,) * size if isinstance(kind, typehints.ListConstraint) else kind.tuple_types
        if len(parts) != size or not self._pairs:
            raise self._refusal(str(kind))
        return dict(zip(self._names, parts, strict=True))

    def _of_class(self, kind: type) -> dict[str, Any]:
        names = getattr(kind, "_fields", None)
        if names is None and is_dataclass(kind):
            names = [attribute.name for attribute in fields(kind)]
        if names is not None:
            return self._of_fields(dict.fromkeys(names, Any) | _hints_of(kind))
        if issubclass(kind, tuple | list):
            if not self._pairs:
                raise self._refusal(kind.__name__)
        elif not issubclass(kind, Mapping | beam.Row):
            raise self._refusal(kind.__name__, _to_rows(kind))
        return {}

    def _of_fields(self, types: Mapping[str, Any]) -> dict[str, Any]:
        if missing := [name for name in self._names if name not in types]:
            raise self._refusal(f"row of {', '.join(types)}, without {', '.join(missing)}")
        return {name: types[name] for name in self._names}

    def _refusal(self, shown: str, to_rows: str | None = None) -> InvalidArgument:
        rows = f"rows or dicts with the fields {' and '.join(self._names)}"
        kind = {2: "pairs", 3: "triples"}.get(len(self._roles), "tuples")
        tuples = f"{self.order} {kind}"
        wanted = f"{tuples}, or {rows}" if self._pairs else rows
        if to_rows is not None:
            rule = f"PrivateTopK takes {verbatim(wanted)}, got whole tables ({verbatim(shown)})"
            remedy = f"flatten them to rows first: beam.FlatMap(lambda table: table.{to_rows})"
            return InvalidArgument("", rule, literal(remedy))
        names = " and ".join(dict.fromkeys(self._roles))
        more = "" if len(self._roles) > 2 else ": a group or an amount as well needs groups=... or amounts=..."
        several = as_a_list([name for role, name in self._fields if role in ("item", "group")])
        places = f", or map each to a tuple{more}" if self._pairs else ""
        remedy = several or f"give the names of the fields as the parameters {names}{places}"
        got = f"got an element of type {verbatim(shown)}, as Beam knows it"
        return InvalidArgument("", f"PrivateTopK takes {verbatim(wanted)}, {got}", literal(remedy))


_TABLES = {"Table", "RecordBatch", "DataFrame"}
_TO_ROWS = {"pyarrow": "to_pylist()", "polars": "to_dicts()", "pandas": "to_dict('records')"}


def _to_rows(kind: type) -> str | None:
    """How tables of a class become rows; None for a class that is no table. By names: a library may not be there."""
    return _TO_ROWS.get(kind.__module__.partition(".")[0]) if kind.__name__ in _TABLES else None


def _field(element: Any, name: str) -> Any:  # noqa: ANN401
    if isinstance(element, Mapping):
        return element.get(name, _ABSENT)
    if isinstance(element, beam.Row):
        return element.__dict__.get(name, _ABSENT)
    # Names of methods are no fields: every tuple has `count` and `index`.
    known: Any = getattr(element, "_fields", None) or getattr(element, "__dataclass_fields__", ())
    return getattr(element, name) if name in known else _ABSENT


def _label(value: Any) -> str:  # noqa: ANN401
    """A label as text, or an empty text for one that is missing. Raises TypeError or ValueError for what is none."""
    text = value if type(value) is str else str(value) if type(value) is int else label_of(value)
    if not is_label(text):
        raise ValueError
    return text


def _amount(value: Any) -> float:  # noqa: ANN401
    """An amount as a float. Raises TypeError or ValueError for what is no number."""
    if type(value) is float:
        return value
    if isinstance(value, str | bytes):
        text = label_of(value)
        if not re.fullmatch(NUMERAL, text):
            raise ValueError
        return float(text)
    if isinstance(value, bool | np.bool_ | np.timedelta64) or not isinstance(value, Real | Decimal):
        raise TypeError
    try:
        return float(value)
    except OverflowError:  # an integer beyond the floats
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def _hints_of(kind: type) -> dict[str, Any]:
    """The types of a class's fields, where they can be told: an annotation may name what only its module knows."""
    with suppress(Exception):
        return get_type_hints(kind)
    return {}


_READ = (str, bytes, int, float, Decimal, UUID)


def _kind_of_part(kind: Any, role: str, name: str) -> Kind | None:  # noqa: ANN401
    """The kind of the field that has a role, or None where its type does not say.

    Raises InvalidArgument where no value can be read.
    """
    kind = convert_to_beam_type(kind)
    if isinstance(kind, typehints.UnionConstraint):
        members = [member for member in kind.union_types if member is not NoneType]
        kinds, refusals = [], []
        for member in members:
            try:
                kinds.append(_kind_of_part(member, role, name))
            except InvalidArgument as error:
                refusals.append(error)
        if members and not kinds:
            raise refusals[0]
        return kinds[0] if len(kinds) == 1 and not refusals else None
    if isinstance(kind, typehints.TypeConstraint) and not isinstance(kind, typehints.AnyTypeConstraint):
        raise _no_part(str(kind), role, name)  # such as a list, a map or a row
    if kind is np.int8:
        shown = "int8, a byte, of which Beam's rows lose the sign"
        raise _no_part(shown, role, name, "make it an int16, in Java INT16")
    if not isinstance(kind, type) or any(each is not kind and issubclass(each, kind) for each in _READ):
        return None  # such as object, or Number
    meaning: Meaning = "amount" if role == "value" else "label"
    known = kind_of_class(kind, meaning)
    if known is None or known.means(meaning) is None:
        raise _no_part("row" if hasattr(kind, "_fields") else kind.__name__, role, name)
    return known


def _no_part(shown: str, role: str, name: str, remedy: str = "map it to one of these first") -> InvalidArgument:
    wanted = "amounts that are numbers" if role == "value" else "users and items that are texts, whole numbers or UUIDs"
    place = "" if name == role else f" in {verbatim(repr(name))}"
    got = f"got {_WHATS[role]}{place} of type {verbatim(shown)}"
    return InvalidArgument("", f"PrivateTopK takes {wanted}, {got}", remedy)
