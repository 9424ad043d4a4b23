"""The ledger: every dataset's budget, and every release that was charged to it, before it ran."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

from private_topk.budget.account import Budget, Charge, Spent, Windows, heaviest
from private_topk.budget.composition import Cost, Total
from private_topk.budget.refusal import explain
from private_topk.budget.tables import BUDGETS, CHARGES, Database
from private_topk.transforms.refusal import Refusal

__all__ = ["Entry", "Ledger", "Receipt", "Request"]


@dataclass(frozen=True)
class Request:
    """A release about to be made.

    Args:
        report: the release id. `key_id` names its key and never is the key.
        fingerprint: of the input, keyed by the release key.
        parameters: all that the answer depends on but key, id and data; must be JSON.
        cost: of one of the windows.
    """

    dataset: str
    unit: str
    report: str
    key_id: str
    fingerprint: str
    parameters: Mapping[str, Any] = field(repr=False)
    windows: Windows
    cost: Cost

    def text(self) -> str:
        return json.dumps({**self.parameters, "windows": self.windows.plain()}, sort_keys=True)


@dataclass(frozen=True)
class Entry:
    """A charge as the ledger holds it. outcome: "started", "released" or "failed"."""

    id: int
    request: Request
    charged: str
    finished: str | None
    outcome: str

    @property
    def charge(self) -> Charge:
        return Charge(self.request.windows, self.request.cost)


@dataclass(frozen=True)
class Receipt:
    """How a release was let through.

    Args:
        entry: the charge.
        outcome: None for a new charge; for the repeat of an earlier one, how that had ended.
        charged: when.
        used: for a new charge, the used part of the budget of its unit.
    """

    entry: int
    outcome: str | None
    charged: str
    used: Fraction | None = None


class Ledger:
    """Budgets and charges in a database.

    A release is charged to every budget of its dataset, whichever unit it names, so that no unit's promise can be
    spent by way of another. Every method is one transaction; charges happen one after the other.

    Args:
        url: any SQLAlchemy URL.
        clock: the time that is written beside charges.
    """

    def __init__(self, url: str, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        self._database, self._clock = Database(url), clock

    def create(self, budget: Budget) -> None:
        """Open a budget. Raises Refusal if the dataset has one for that unit, or charges of other neighbours."""
        self._database.make()
        with self._database.alone() as connection:
            others = _budgets(connection, budget.dataset)
            if any(other.unit == budget.unit for other in others):
                raise Refusal("", f"dataset {budget.dataset} has a {budget.unit} budget already: it cannot be changed, "
                              "since releases were promised under it")  # fmt: skip
            connection.execute(BUDGETS.insert().values(
                dataset=budget.dataset, unit=budget.unit, neighbours=budget.neighbours, created=self._now(),
                epsilon=str(budget.total.epsilon), delta=str(budget.total.delta),
                release_delta=str(budget.kept),
            ))  # fmt: skip

    def budget(self, dataset: str, unit: str) -> Budget:
        """The budget of one unit. Raises Refusal, naming what there is, if it was never created."""
        with self._database.alone() as connection:
            found = {budget.unit: budget for budget in _budgets(connection, dataset)}
            known = sorted(set(connection.scalars(BUDGETS.select().with_only_columns(BUDGETS.c.dataset))))
        if not found:
            there = ", ".join(known) or "none"
            raise Refusal("dataset", f"{dataset} has no budget in this ledger, which knows {there}",
                          "open one with `private-topk budget create`")  # fmt: skip
        if unit not in found:
            raise Refusal("dataset", f"{dataset} has no budget for {{privacy_unit}} {unit}, only for "
                          f"{', '.join(sorted(found))}")  # fmt: skip
        return found[unit]

    def read(self, dataset: str | None = None) -> tuple[list[Budget], list[Entry]]:
        """All budgets, and all charges in order, of one dataset or of all."""
        with self._database.alone() as connection:
            return _budgets(connection, dataset), _entries(
                connection, CHARGES.c.dataset == dataset if dataset else None
            )

    def find(self, report: str, key_id: str) -> list[Entry]:
        """The charges of a release id under a key, in any dataset."""
        with self._database.alone() as connection:
            return _entries(connection, (CHARGES.c.report == report) & (CHARGES.c.key_id == key_id))

    def charge(self, request: Request) -> Receipt:
        """Charge a release before it starts; recognise a repeat, which costs nothing.

        Raises:
            Refusal: the budget does not suffice (with the arithmetic), or the id was used for other input.
        """
        with self._database.alone() as connection:
            same_name = (CHARGES.c.report == request.report) & (CHARGES.c.key_id == request.key_id)
            for entry in _entries(connection, same_name):
                earlier = entry.request
                if (earlier.fingerprint, earlier.dataset) != (request.fingerprint, request.dataset):
                    raise _other_input(request, entry)
                if earlier.text() == request.text():
                    return Receipt(entry.id, entry.outcome, entry.charged)
            charges = [entry.charge for entry in _entries(connection, CHARGES.c.dataset == request.dataset)]
            used = {b.unit: _check(b, charges, request) for b in _budgets(connection, request.dataset)}
            now = self._now()
            result = connection.execute(CHARGES.insert().values(**_row(request), charged=now, outcome="started"))
            return Receipt(result.inserted_primary_key[0], None, now, used.get(request.unit))

    def finish(self, entry: int, outcome: str) -> None:
        """Note how a charged release ended. One that was released stays so."""
        with self._database.alone() as connection:
            connection.execute(CHARGES.update().where(CHARGES.c.id == entry, CHARGES.c.outcome != "released").values(
                outcome=outcome, finished=self._now()
            ))  # fmt: skip

    def _now(self) -> str:
        return self._clock().astimezone(timezone.utc).isoformat(timespec="seconds")


def _other_input(request: Request, entry: Entry) -> Refusal:
    return Refusal(
        "release_id",
        f"{request.report} was used on {entry.charged} for other input (dataset {entry.request.dataset}). Whether two "
        "answers under one id differ would tell exactly whether the input did, at any epsilon; so a corrected report "
        "takes a new id, and costs",
    )


def _check(budget: Budget, charges: list[Charge], request: Request) -> Fraction:
    """The part of the budget that is used with the request. Raises Refusal if that is too much."""
    asked = request.parameters.get("neighbours", "add-remove")
    if budget.neighbours != asked:
        raise Refusal("neighbours", f"must be {budget.neighbours}, as in the {budget.unit} budget of {budget.dataset}, "
                      f"got {asked}: their epsilons do not add up")  # fmt: skip
    charges = [*charges, Charge(request.windows, request.cost)]
    reached = heaviest(budget, charges, request.windows)
    if not budget.fits(Spent.of(reached)):
        raise Refusal("", explain(budget, *(Spent.of(part) for part in (reached[:-1], reached[-1:], reached))))
    return budget.used(Spent.of(heaviest(budget, charges)))


def _budgets(connection: Any, dataset: str | None) -> list[Budget]:  # noqa: ANN401 - a database connection
    query = BUDGETS.select().order_by(BUDGETS.c.dataset, BUDGETS.c.unit)
    rows = connection.execute(query if dataset is None else query.where(BUDGETS.c.dataset == dataset))
    return [
        Budget(
            row.dataset, row.unit, Total(*(Fraction(text) for text in (row.epsilon, row.delta, row.release_delta))),
            row.neighbours, row.created,
        )
        for row in rows
    ]  # fmt: skip


def _entries(connection: Any, condition: Any = None) -> list[Entry]:  # noqa: ANN401
    query = CHARGES.select().order_by(CHARGES.c.id)
    rows = connection.execute(query if condition is None else query.where(condition))
    return [Entry(row.id, _request(row), row.charged, row.finished, row.outcome) for row in rows]


def _row(request: Request) -> dict[str, Any]:
    cost = request.cost
    return {
        **{name: getattr(request, name) for name in ("dataset", "unit", "report", "key_id", "fingerprint")},
        "parameters": request.text(),
        "mechanism": str(request.parameters["mechanism"]),
        "windows": json.dumps(request.windows.plain()),
        **{name: str(getattr(cost, name)) for name in ("epsilon", "delta", "rho", "rest")},
    }


def _request(row: Any) -> Request:  # noqa: ANN401 - a database row
    cost = Cost(Fraction(row.epsilon), Fraction(row.delta), Fraction(row.rho), Fraction(row.rest))
    names = (row.dataset, row.unit, row.report, row.key_id, row.fingerprint)
    return Request(*names, json.loads(row.parameters), Windows.read(row.windows), cost)
