"""Records as rows of a ledger's tables, and back. The columns are a record's fields; rows are checked when read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import Field, fields
from datetime import datetime, timedelta
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, TypeVar

from private_topk.pipelines.budget.accounting import Budget, Entry, Renewal
from private_topk.pipelines.budget.composition import Total
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.mechanisms.cost import Cost

BROKEN = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError, ZeroDivisionError)
"""The errors of a row that holds no record."""
ROWS = ("user_column", "time_column", "time_unit")
"""The names of how a dataset is read."""

_COSTS, _TOTALS = ("epsilon", "delta", "rho", "zcdp_delta"), ("epsilon", "delta", "release_delta")
_MOMENTS = ("created", "charged", "finished", "began")
_MAX = 10**30  # a sum of such epsilons can still be told as a float
_NUMBER = re.compile(r"\d{1,4000}(/[1-9]\d{0,3999})?")
_T = TypeVar("_T")


def row_of(record: Budget | Entry | Renewal) -> dict[str, Any]:
    """A record as the columns of a row. Raises ValueError for names of columns that no ledger has."""
    row: dict[str, Any] = {}
    for name, value in vars(record).items():
        if isinstance(value, Cost | Total):
            parts = _COSTS if isinstance(value, Cost) else _TOTALS
            row |= {part: str(getattr(value, part) or 0) for part in parts}
        elif isinstance(value, Windows):
            row[name] = json.dumps(value.plain())
        elif isinstance(value, timedelta):
            row["seconds"] = value // timedelta(seconds=1)
        elif name == "rows":
            if not set(value) <= set(ROWS):
                raise ValueError
            row |= {column: value.get(column) for column in ROWS}
        else:
            row[name] = value
    return row


def record_in(kind: type[_T], row: Any) -> _T:  # noqa: ANN401 - a database row
    """The record of a row. Raises one of `BROKEN` where it holds none."""
    return kind(**{each.name: _READ.get(each.name, _plain)(row, each) for each in fields(kind)})  # type: ignore[arg-type]


def check_legible(record: Entry) -> None:
    """Raise one of `BROKEN` unless the row of a record says the same when a later charge reads it."""
    row = row_of(record)
    row |= {name: "1970-01-01T00:00:00Z" for name in _MOMENTS if row.get(name) == ""}
    if row_of(record_in(type(record), SimpleNamespace(**row))) != row:
        raise ValueError


def moment(text: str) -> datetime:
    """The moment that a ledger has noted. Raises ValueError for a text that is none."""
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        raise ValueError
    return read


def _plain(row: Any, of: Field) -> Any:  # noqa: ANN401
    """The value of a column. Raises ValueError unless its type is the one that the field declares."""
    value = getattr(row, of.name)
    if ("None" if value is None else type(value).__name__) not in str(of.type).split(" | "):
        raise ValueError
    if of.name in _MOMENTS and value is not None:
        moment(value)
    return value


def cost_in(row: Any, _: Field | None = None) -> Cost:  # noqa: ANN401
    """The cost that a row states. Raises one of `BROKEN` where it states none."""
    cost = Cost(*(fraction_in(getattr(row, part)) for part in _COSTS))
    if not cost.zcdp_delta <= cost.delta <= 1:
        raise ValueError
    return cost


def _total(row: Any, _: Field) -> Total:  # noqa: ANN401
    total = Total(*(fraction_in(getattr(row, part)) for part in _TOTALS))
    if not (0 < total.epsilon and (total.release_delta or 0) <= total.delta < 1):
        raise ValueError
    return total


def _columns(row: Any, _: Field) -> dict[str, str]:  # noqa: ANN401
    found = {name: getattr(row, name) for name in ROWS}
    if not all(value is None or isinstance(value, str) for value in found.values()):
        raise ValueError
    return {name: value for name, value in found.items() if value is not None}


def fraction_in(text: object) -> Fraction:
    """The number of a text. Raises ValueError for none, or one that is too large."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text) or (found := Fraction(text)) > _MAX:
        raise ValueError
    return found


_READ: dict[str, Callable[[Any, Field], Any]] = {
    "windows": lambda row, _: Windows.read(row.windows),
    "cost": cost_in,
    "total": _total,
    "rows": _columns,
    "bounded": lambda row, _: {0: False, 1: True}[row.bounded],  # SQLite has no truth values
    "length": lambda row, _: timedelta(seconds=row.seconds),
}
