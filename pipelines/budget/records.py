"""What a ledger holds of a budget and of a charge, and what it reads from rows that anybody may have touched."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from private_topk.pipelines.budget.account import Budget, Charge, Windows
from private_topk.pipelines.budget.composition import Cost, Total
from private_topk.transforms.errors import Refusal, verbatim

__all__ = [
    "GIVEN_BACK", "RELEASES", "RENEWED", "RESERVED", "Entry", "NoBudget", "Request", "budget_in", "check_legible",
    "columns_of", "entry_in", "moment",
]  # fmt: skip

RELEASES = ("started", "released", "failed")
"""The outcomes of entries that are charges of releases."""
RESERVED, GIVEN_BACK, RENEWED = "reserved", "given back", "renewed"

# As no parameter is called, since a field has no spaces.
_ROWS, _REACH, _SERIES, _GDP = "rows of the dataset", "windows of a user", "a release of", "as one Gaussian"
_MOST = 10**30  # a sum of such epsilons can still be told as a float
_NUMBER = re.compile(r"\d{1,4000}(/[1-9]\d{0,3999})?")
_COSTS = ("epsilon", "delta", "rho", "rest")


class NoBudget(Refusal):
    """The error of a budget that was never opened."""


@dataclass(frozen=True)
class Request:
    """A release about to be made.

    Args:
        dataset: the name of the budget that pays.
        unit: the privacy unit in terms of which the cost is stated.
        report: the release id. `key_id` names its key and never is the key.
        fingerprint: of the input, keyed by the release key.
        parameters: all that the answer depends on but key, id and data, with the name of the `mechanism`; must be JSON.
        windows: those that are published.
        cost: of one of the windows.
        rows: how the dataset is read, by field name: `user_column`, `time_column`, `time_unit`. A dataset keeps those
            of its first charge, since by another column of users or of times the same rows would have spent nothing.
        reach: how many of the windows one user can change, where that is bounded; None for all.
        series: the report for which the budget may have something reserved, if it is a release of one.
    """

    dataset: str
    unit: str
    report: str
    key_id: str
    fingerprint: str
    parameters: Mapping[str, Any] = field(repr=False)
    windows: Windows
    cost: Cost
    rows: Mapping[str, str] = field(default_factory=dict)
    reach: int | None = None
    series: str = ""

    def text(self) -> str:
        """All that tells one request under a release id from another."""
        return json.dumps(self._plain(), sort_keys=True)

    def repeats(self, earlier: Request) -> bool:
        """Whether this is the earlier request again, of which every answer is known: it draws the same, once more."""
        cheaper = self.cost.epsilon <= earlier.cost.epsilon and self.cost.delta <= earlier.cost.delta
        return self.text() == earlier.text() and cheaper

    @property
    def charge(self) -> Charge:
        return Charge(self.windows, self.cost, self.reach, self._weight())

    def _weight(self) -> Fraction | None:
        """What `Charge` takes, of risers. Raises ValueError for a weight that is none."""
        against = self.parameters.get("against")
        if not isinstance(against, dict) or against.get("window") != "previous" or self.cost.rest:
            return None
        weight = Fraction(str(against["weight"]))
        if not 0 <= weight <= 1:
            raise ValueError
        return weight**2 if self.cost.gdp else weight

    @property
    def bounded(self) -> Windows | None:
        """The windows in each of which a bound decides which rows of a user count, if there is a bound."""
        found = self.parameters
        if found.get("max_items_per_user") is None and found.get("groups") is None:
            return None
        if found.get("against") is None:
            return self.windows
        first, second = self.windows.halves()
        return Windows(first.runs + second.runs)

    def _plain(self) -> dict[str, Any]:
        return {**self.parameters, "windows": self.windows.plain()}

    def columns(self) -> dict[str, Any]:
        """As the columns of a row."""
        rows = {_ROWS: dict(self.rows)} if self.rows else {}
        reach = {} if self.reach is None else {_REACH: self.reach}
        series = {_SERIES: self.series} if self.series else {}
        gdp = {_GDP: self.cost.gdp} if "against" in self.parameters else {}
        return {
            **{name: getattr(self, name) for name in ("dataset", "unit", "report", "key_id", "fingerprint")},
            "parameters": json.dumps({**self._plain(), **rows, **reach, **series, **gdp}, sort_keys=True),
            "mechanism": str(self.parameters.get("mechanism", "")),
            "windows": json.dumps(self.windows.plain()),
            **{name: str(getattr(self.cost, name)) for name in _COSTS},
        }


@dataclass(frozen=True)
class Entry:
    """A line of the ledger, by its outcome: the charge of a release, a reservation, or the renewal of a budget."""

    id: int
    request: Request
    charged: str
    finished: str | None
    outcome: str

    @property
    def charge(self) -> Charge:
        return self.request.charge


def columns_of(budget: Budget) -> dict[str, Any]:
    """A budget as the columns of a row."""
    total = budget.total
    return {
        **{name: getattr(budget, name) for name in ("dataset", "unit", "neighbours")},
        **{"epsilon": str(total.epsilon), "delta": str(total.delta), "release_delta": str(budget.kept)},
    }


def budget_in(row: Any, ledger: str) -> Budget:  # noqa: ANN401 - a database row
    """The budget of a row. Raises Refusal, naming the row, where it holds none."""
    try:
        total = Total(*(_fraction(text) for text in (row.epsilon, row.delta, row.release_delta)))
        if not (0 < total.epsilon and (total.release_delta or 0) <= total.delta < 1):
            raise ValueError
        moment(row.created)
        return Budget(str(row.dataset), str(row.unit), total, str(row.neighbours), str(row.created))
    except _BROKEN:
        raise _damaged(ledger, f"the {row.unit} budget of dataset {row.dataset}") from None


def entry_in(row: Any, ledger: str) -> Entry:  # noqa: ANN401 - a database row
    """The charge of a row. Raises Refusal, naming the row, where it holds none."""
    try:
        parameters = json.loads(row.parameters)
        if not isinstance(parameters, dict):
            raise ValueError
        parameters.pop("windows", None)
        rows = {str(name): str(value) for name, value in parameters.pop(_ROWS, {}).items()}
        # Charges of risers by an earlier version have no such note: of its mechanisms one was Gaussian.
        gdp = parameters.pop(_GDP, "against" in parameters and parameters.get("mechanism") == "gaussian")
        if type(gdp) is not bool:
            raise ValueError
        cost = Cost(*(_fraction(getattr(row, name)) for name in _COSTS), gdp=gdp)
        windows, reach = Windows.read(row.windows), parameters.pop(_REACH, None)
        if reach is not None and not (type(reach) is int and 1 <= reach <= windows.number):
            raise ValueError
        if not (0 <= cost.rest <= cost.delta <= 1):
            raise ValueError
        if row.outcome == RENEWED and type(parameters["seconds"]) is not int:
            raise ValueError
        series = str(parameters.pop(_SERIES, ""))
        names = (str(row.dataset), str(row.unit), str(row.report), str(row.key_id), str(row.fingerprint))
        request = Request(*names, parameters, windows, cost, rows, reach, series)
        request.charge  # noqa: B018 - raises for a weight that is none
        moment(row.charged), row.finished and moment(row.finished)
        return Entry(row.id, request, str(row.charged), row.finished and str(row.finished), str(row.outcome))
    except _BROKEN:
        raise _damaged(ledger, f"charge {row.id} of dataset {row.dataset}") from None


def check_legible(request: Request) -> None:
    """Raise Refusal unless a row that holds the request says the same when it is read: else no later charge can be."""
    try:
        columns = request.columns()
        row = SimpleNamespace(**columns, id=0, charged=_ANY, finished=None, outcome="started")
        same = entry_in(row, "").request.columns() == columns
    except (*_BROKEN, Refusal):
        same = False
    if not same:
        raise Refusal(
            "request",
            "must be one that a ledger can hold: parameters that are JSON, with texts as names; costs from 0 to 10^30 "
            "and deltas up to 1, of up to 4,000 digits; a reach of 1 up to the number of windows",
        )


def moment(text: str) -> datetime:
    """The moment that a ledger has noted. Raises ValueError for a text that is none."""
    read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if read.tzinfo is None:
        raise ValueError
    return read


_ANY = "1970-01-01T00:00:00Z"
_BROKEN = (ValueError, TypeError, AttributeError, KeyError, RecursionError, ZeroDivisionError)


def _fraction(text: object) -> Fraction:
    if not isinstance(text, str) or not _NUMBER.fullmatch(text) or (found := Fraction(text)) > _MOST:
        raise ValueError
    return found


def _damaged(ledger: str, what: str) -> Refusal:
    return Refusal("ledger", verbatim(f"{ledger} is damaged: {what} cannot be read, so what was spent is not known"),
                   "restore the row from a backup of the ledger")  # fmt: skip
