"""The ledger: every dataset's budget, and every release that was charged to it, before it ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

from private_topk.pipelines.budget.account import Budget, Charge, Spent, heaviest
from private_topk.pipelines.budget.records import Entry, Request, budget_in, check_legible, columns_of, entry_in
from private_topk.pipelines.budget.refusal import explain
from private_topk.pipelines.budget.tables import BUDGETS, CHARGES, Database
from private_topk.transforms.errors import Refusal, literal, verbatim

__all__ = ["Entry", "Ledger", "Receipt", "Request"]


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
            others = self._budgets(connection, budget.dataset)
            if any(other.unit == budget.unit for other in others):
                which = verbatim(f"dataset {budget.dataset} has a {budget.unit} budget already")
                raise Refusal("", f"{which}: it cannot be changed, since releases were promised under it")
            connection.execute(BUDGETS.insert().values(**columns_of(budget), created=self._now()))

    def budget(self, dataset: str, unit: str) -> Budget:
        """The budget of one unit. Raises Refusal, naming what there is, if it was never created."""
        with self._database.alone() as connection:
            return self._own(connection, self._budgets(connection, dataset), dataset, unit)

    def read(self, dataset: str | None = None) -> tuple[list[Budget], list[Entry]]:
        """All budgets, and all charges in order, of one dataset or of all."""
        with self._database.alone() as connection:
            whose = CHARGES.c.dataset == dataset if dataset else None
            return self._budgets(connection, dataset), self._entries(connection, whose)

    def find(self, report: str, key_id: str) -> list[Entry]:
        """The charges of a release id under a key, in any dataset."""
        with self._database.alone() as connection:
            return self._entries(connection, (CHARGES.c.report == report) & (CHARGES.c.key_id == key_id))

    def charge(self, request: Request) -> Receipt:
        """Charge a release before it starts; recognise a repeat, which costs nothing.

        Raises:
            Refusal: the budget does not suffice (with the arithmetic), there is none of the request's unit, the id was
                used for other input, or the rows are read otherwise than by the dataset's first charge.
        """
        with self._database.alone() as connection:
            found = self._settled(connection, request)
            if isinstance(found, Receipt):
                return found
            (read, used), now = found, self._now()
            result = connection.execute(CHARGES.insert().values(**read.columns(), charged=now, outcome="started"))
            return Receipt(result.inserted_primary_key[0], None, now, used)

    def quote(self, request: Request) -> Receipt | Fraction | None:
        """What a charge would come to: the receipt of an earlier one that it repeats, at no cost; or the
        part of the budget that would be used, None where that cannot be said. Raises Refusal as `charge` does.
        """
        with self._database.alone() as connection:
            found = self._settled(connection, request)
            return found if isinstance(found, Receipt) else found[1]

    def _settled(self, connection: Any, request: Request) -> Receipt | tuple[Request, Fraction | None]:  # noqa: ANN401
        check_legible(request)
        same_name = (CHARGES.c.report == request.report) & (CHARGES.c.key_id == request.key_id)
        for entry in self._entries(connection, same_name):
            earlier = entry.request
            if (earlier.fingerprint, earlier.dataset) != (request.fingerprint, request.dataset):
                raise _other_input(request, entry)
            if request.repeats(earlier):
                return Receipt(entry.id, entry.outcome, entry.charged)
        entries = self._entries(connection, CHARGES.c.dataset == request.dataset)
        _check_rows(request, entries)
        budgets = self._budgets(connection, request.dataset)
        self._own(connection, budgets, request.dataset, request.unit)
        if any(budget.unit == "user-window" and budget.neighbours == "add-remove" for budget in budgets):
            _check_parts(request, entries)
        return _best_reading(request, budgets, [entry.charge for entry in entries])

    def finish(self, entry: int, outcome: str) -> None:
        """Note how a charged release ended. One that was released stays so."""
        with self._database.alone() as connection:
            connection.execute(CHARGES.update().where(CHARGES.c.id == entry, CHARGES.c.outcome != "released").values(
                outcome=outcome, finished=self._now()
            ))  # fmt: skip

    def _own(self, connection: Any, budgets: list[Budget], dataset: str, unit: str) -> Budget:  # noqa: ANN401
        found = {budget.unit: budget for budget in budgets}
        if not found:
            known = sorted(set(map(str, connection.scalars(BUDGETS.select().with_only_columns(BUDGETS.c.dataset)))))
            there = verbatim(", ".join(known) or "none")
            raise Refusal("dataset", f"{verbatim(dataset)} has no budget in this ledger, which knows {there}",
                          "open one with `private-topk budget create`")  # fmt: skip
        if unit not in found:
            missing = f"{verbatim(dataset)} has no budget for {{privacy_unit}} {verbatim(unit)}"
            raise Refusal("dataset", f"{missing}, only for {', '.join(sorted(found))}")
        return found[unit]

    def _budgets(self, connection: Any, dataset: str | None) -> list[Budget]:  # noqa: ANN401 - a database connection
        query = BUDGETS.select().order_by(BUDGETS.c.dataset, BUDGETS.c.unit)
        rows = connection.execute(query if dataset is None else query.where(BUDGETS.c.dataset == dataset))
        return [budget_in(row, self._database.name) for row in rows]

    def _entries(self, connection: Any, condition: Any = None) -> list[Entry]:  # noqa: ANN401
        query = CHARGES.select().order_by(CHARGES.c.id)
        rows = connection.execute(query if condition is None else query.where(condition))
        return [entry_in(row, self._database.name) for row in rows]

    def _now(self) -> str:
        return self._clock().astimezone(timezone.utc).isoformat(timespec="seconds")


def _other_input(request: Request, entry: Entry) -> Refusal:
    return Refusal(
        "release_id",
        f"{verbatim(request.report)} was used on {verbatim(entry.charged)} for other input or, of a stream, another "
        f"output (dataset {verbatim(entry.request.dataset)}). Whether two answers under one id differ would tell "
        "exactly whether the input did, at any epsilon; so a corrected report takes a new id, and costs",
    )


def _check_rows(request: Request, entries: list[Entry]) -> None:
    """Raise Refusal where the rows are read otherwise than before: the sums are over the same users and times only."""
    for name, given in request.rows.items():
        for entry in entries:
            kept = entry.request.rows.get(name, given)
            if kept != given:
                rule = f"must be {kept} for dataset {request.dataset}, as in its charge of {entry.charged}, got {given}"
                remedy = "read otherwise, the same rows would be charged as if they were others"
                raise Refusal(name, verbatim(rule), remedy)


def _check_parts(request: Request, entries: list[Entry]) -> None:
    """Raise Refusal where a window cuts through a window of the same or another release, in which a bound decides what
    counts of a user: without the rows of the one, the user is replaced in the other, which no add-remove covers.
    """
    pairs = [(request, request, "each other")]
    for entry in entries:
        whose = f"those of {entry.request.report}, charged on {entry.charged}"
        pairs += [(request, entry.request, whose), (entry.request, request, whose)]
    for one, other, whose in pairs:
        if one.bounded is not None and one.bounded.cut_by(other.windows):
            rule = f"must not cut through {whose}: a bound on what counts of a user then lets other rows count, and "
            remedy = "take windows that hold each other or lie apart, or a budget with {neighbours} swap"
            raise Refusal("window", verbatim(rule + "the user is replaced there"), remedy)


def _best_reading(request: Request, budgets: list[Budget], charges: list[Charge]) -> tuple[Request, Fraction | None]:
    """The request with its cost read as it uses least of its unit's budget, and how much of that is used then.

    Gaussian noise, say, has two readings (`Cost.readings`): its rho, or its epsilon and delta. The one that is written
    down stays, whatever comes after.

    Raises:
        Refusal: no reading fits every budget of the dataset.
    """
    found: list[tuple[Request, Fraction | None]] = []
    refusal = None
    for cost in request.cost.readings():
        read = replace(request, cost=cost)
        try:
            used = {budget.unit: _check(budget, charges, read) for budget in budgets}
        except Refusal as error:
            refusal = refusal or error
        else:
            found.append((read, used.get(request.unit)))
    if not found:
        assert refusal is not None
        raise refusal
    return min(found, key=lambda reading: reading[1] or 0)


def _check(budget: Budget, charges: list[Charge], request: Request) -> Fraction:
    """The part of the budget that is used with the request. Raises Refusal if that is too much."""
    neighbours = request.parameters.get("neighbours", "add-remove")
    if budget.neighbours != neighbours:
        rule = f"must be {budget.neighbours}, as in the {budget.unit} budget of {budget.dataset}, got {neighbours}"
        raise Refusal("neighbours", verbatim(rule), "their epsilons do not add up")
    charges = [*charges, request.charge]
    reached = heaviest(budget, charges, request.windows)
    if not budget.fits(Spent.of(reached)):
        before, asked, after = (Spent.of(part) for part in (reached[:-1], reached[-1:], reached))
        raise Refusal("", literal(explain(budget, before, asked, after)))
    return budget.used(Spent.of(heaviest(budget, charges)))
