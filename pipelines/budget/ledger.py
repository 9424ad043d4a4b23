"""The ledger: every dataset's budget, and every release that was charged to it before it ran.

`charge` goes around a job: it is charged before it starts, noted when it ends, and recognised when it is repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from private_topk.pipelines.budget.account import Budget, Spent, Windows, explain, heaviest
from private_topk.pipelines.budget.composition import Cost
from private_topk.pipelines.budget.counted import counted
from private_topk.pipelines.budget.records import (
    GIVEN_BACK,
    RELEASES,
    RENEWED,
    RESERVED,
    Entry,
    NoBudget,
    Request,
    check_legible,
    moment,
)
from private_topk.transforms.errors import Refusal, literal, verbatim
from private_topk.transforms.windows import utc_text

if TYPE_CHECKING:
    from private_topk.pipelines.budget.tables import Connection

__all__ = ["Account", "Entry", "Ledger", "NoBudget", "Receipt", "Request", "charge", "tell_operator"]

_RESUME = ("the charge stays, since an answer may have been drawn. To resume at no cost, charge the same request again "
           "and draw from the same key and input")  # fmt: skip
_APART = timedelta(minutes=5)  # clocks of machines that share a ledger may differ by so much


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
        url: SQLAlchemy's, of SQLite or PostgreSQL. Times are the database's own: of SQLite, this machine's.
    """

    def __init__(self, url: str) -> None:
        from private_topk.pipelines.budget.tables import Database  # SQLAlchemy, which a run without a ledger needs not

        self._database = Database(url)

    def create(self, budget: Budget) -> None:
        """Open a budget. Raises Refusal if the dataset has one for that unit, or charges of other neighbours."""
        self._database.make()
        with self._database.alone() as connection:
            if any(other.unit == budget.unit for other in connection.budgets(budget.dataset)):
                which = verbatim(f"dataset {budget.dataset} has a {budget.unit} budget already")
                raise Refusal("", f"{which}: it cannot be changed, since releases were promised under it")
            connection.add_budget(budget, _told(connection.now()))

    def budget(self, dataset: str, unit: str) -> Budget:
        """The budget of one unit. Raises Refusal, naming what there is, if it was never created."""
        with self._database.alone() as connection:
            return _own(connection, connection.budgets(dataset), dataset, unit)

    def read(self, dataset: str | None = None) -> tuple[list[Budget], list[Entry]]:
        """All budgets, and all charges in order, of one dataset or of all."""
        with self._database.alone() as connection:
            whose = {"dataset": dataset} if dataset else {}
            return connection.budgets(dataset), connection.entries(**whose)

    def find(self, report: str, key_id: str) -> list[Entry]:
        """The charges of a release id under a key, in any dataset."""
        with self._database.alone() as connection:
            return connection.entries(report=report, key_id=key_id)

    def charge(self, request: Request) -> Receipt:
        """Charge a release before it starts; recognise a repeat, which costs nothing.

        Raises:
            Refusal: the budget does not suffice (with the arithmetic), there is none of the request's unit, the id was
                used for other input, or the rows are read otherwise than by the dataset's first charge.
        """
        with self._database.alone() as connection:
            found = _settled(connection, request)
            if isinstance(found, Receipt):
                return found
            (read, used), now = found, _told(connection.now())
            return Receipt(connection.add(read, now), None, now, used)

    def quote(self, request: Request) -> Receipt | Fraction | None:
        """What a charge would come to: the receipt of an earlier one that it repeats, at no cost; or the
        part of the budget that would be used, None where that cannot be said. Raises Refusal as `charge` does.
        """
        with self._database.alone() as connection:
            found = _settled(connection, request)
            return found if isinstance(found, Receipt) else found[1]

    def reserve(self, request: Request) -> None:
        """Reserve for a report what a request for its horizon, as one window, costs (`counted`).

        Raises Refusal if that does not fit, or something is reserved for it.
        """
        check_legible(request)
        with self._database.alone() as connection:
            entries, budgets = connection.entries(dataset=request.dataset), connection.budgets(request.dataset)
            found = _reserved(entries, request.series)
            if found:
                rule = f"{verbatim(request.series)} has a reservation of {found[0].charged}"
                raise Refusal("", rule, "give it back first")
            own = _own(connection, budgets, request.dataset, request.unit)
            _check_clock(connection.now(), entries, RENEWED)
            read = _best_reading(request, [own], entries, RESERVED)[0]
            connection.add(read, _told(connection.now()), RESERVED)

    def give_back(self, dataset: str, series: str) -> None:
        """Give back what is reserved for a report and not spent. Raises Refusal if nothing is."""
        with self._database.alone() as connection:
            found = _reserved(connection.entries(dataset=dataset), series)
            if not found:
                raise Refusal("", f"nothing is reserved for {verbatim(series)}")
            connection.finish(found[0].id, GIVEN_BACK, _told(connection.now()))

    def renew(self, dataset: str, unit: str, length: timedelta) -> None:
        """Begin a new period of a budget, in which the whole of it can be spent again.

        Raises Refusal unless the last one has lasted so long by the database's clock, or where that clock is not to be
        trusted since it lies before a charge; and for another length than that of the first renewal.
        """
        with self._database.alone() as connection:
            own = _own(connection, connection.budgets(dataset), dataset, unit)
            entries = connection.entries(dataset=dataset)
            last, now = counted(own, entries), connection.now()
            said = str(length).removesuffix(", 0:00:00")
            if last.length is not None and last.length != length:
                first = f"{last.length / timedelta(days=1):g}d"
                raise Refusal("period", f"must be {first}, as in the first renewal, got {said}")
            _check_clock(now, entries)
            if now < moment(last.since) + length:
                rule = f"is not over: it began on {last.since} and lasts {said}"
                raise Refusal("period", rule, "earlier a period would hold more than one budget")
            words, marks = f"a new period of at least {said}", {"seconds": length // timedelta(seconds=1)}
            zero = Cost(Fraction(0), Fraction(0), Fraction(0))
            request = Request(dataset, unit, words, "", "", marks, Windows.of(None), zero)
            connection.add(request, _told(now), RENEWED)

    def finish(self, entry: int, outcome: str) -> None:
        """Note how a charged release ended. One that was released stays so."""
        with self._database.alone() as connection:
            connection.finish(entry, outcome, _told(connection.now()))


@dataclass(frozen=True)
class Account:
    """Whose budget a run is charged to, and where that is kept.

    Args:
        ledger: its database's URL.
        dataset: the name of the budget in it.
        series: the report for which something may be reserved there.
    """

    ledger: str
    dataset: str
    series: str = ""

    def budget(self, unit: str) -> Budget:
        """The budget of one unit. Raises Refusal if there is none."""
        return Ledger(self.ledger).budget(self.dataset, unit)


def tell_operator(text: str) -> None:
    """One line on stderr."""
    print(f"ledger: {text}", file=sys.stderr)


@contextmanager
def charge(
    request: Request,
    ledger: Ledger | str,
    tell: Callable[[str], None] = tell_operator,
    resume: str = _RESUME,
    check: Callable[[Receipt], None] = lambda _: None,
) -> Iterator[Receipt]:
    """Charge a release, run the block that makes it, and note how it ended.

    Goes around any job, of Beam or not. What it promises holds if the block answers from nothing but what the request
    names: its randomness must be drawn from the release's key and id, so that a repeat repeats the answer. A block
    that draws afresh must ask under a new id each time.

    Args:
        request: what is asked of which rows, and what it costs.
        ledger: the ledger, or its database's URL.
        tell: takes one line for the operator.
        resume: what the operator is told if the block fails.
        check: raises a Refusal where the block must not run again, by the receipt of an earlier charge. A new charge
            stays.

    Yields:
        The receipt: whether this is a new charge or the repeat of an earlier one.

    Raises:
        Refusal: before the block runs: the budget does not suffice, or the id was used for other input. A ledger that
            cannot be written to when the block has ended changes nothing of how it ended: the operator is told, and
            the charge stays as one that was started.

    Cost: two transactions of some milliseconds each.
    """
    books = Ledger(ledger) if isinstance(ledger, str) else ledger
    receipt = books.charge(request)
    check(receipt)
    tell(_let_through(request, receipt))
    try:
        yield receipt
    except BaseException:  # an interrupt too: an answer may be out
        _note(books, receipt, "failed", tell)
        tell(resume)
        raise
    _note(books, receipt, "released", tell)


def _note(books: Ledger, receipt: Receipt, outcome: str, tell: Callable[[str], None]) -> None:
    try:
        books.finish(receipt.entry, outcome)
    except Refusal as error:  # what is out is out, and what went wrong is not this
        again = "the same again costs nothing, and notes it"
        tell(f"that it was {outcome} could not be noted, and it stays as started: {error}; {again}")


def _let_through(request: Request, receipt: Receipt) -> str:
    if receipt.outcome is None:
        used = f"; {float(receipt.used):.1%} of the budget is used" if receipt.used is not None else ""
        return f"charged {request.report} to dataset {request.dataset}{used}"
    if receipt.outcome == "released":
        return f"{request.report} was released before, charged on {receipt.charged}: repeating it costs nothing"
    return f"resuming {request.report}, charged on {receipt.charged} and not finished: costs nothing"


def _settled(connection: Connection, request: Request) -> Receipt | tuple[Request, Fraction | None]:
    """The receipt of an earlier charge that the request repeats; or the request as it is to be written down, and how
    much of its budget is used then. Raises Refusal as `charge` does.
    """
    check_legible(request)
    for entry in connection.entries(report=request.report, key_id=request.key_id):
        earlier = entry.request
        if (earlier.fingerprint, earlier.dataset) != (request.fingerprint, request.dataset):
            raise _other_input(request, entry)
        if request.repeats(earlier):
            return Receipt(entry.id, entry.outcome, entry.charged)
    entries, budgets = connection.entries(dataset=request.dataset), connection.budgets(request.dataset)
    _check_clock(connection.now(), entries, RENEWED)
    _check_rows(request, entries)
    _own(connection, budgets, request.dataset, request.unit)
    if any(budget.unit == "user-window" and budget.neighbours == "add-remove" for budget in budgets):
        _check_parts(request, [entry for entry in entries if entry.outcome in RELEASES])
    return _best_reading(request, budgets, entries, RELEASES[0])


def _reserved(entries: list[Entry], series: str) -> list[Entry]:
    return [entry for entry in entries if entry.outcome == RESERVED and entry.request.series == series]


def _own(connection: Connection, budgets: list[Budget], dataset: str, unit: str) -> Budget:
    found = {budget.unit: budget for budget in budgets}
    if not found:
        there = verbatim(", ".join(connection.datasets()) or "none")
        raise NoBudget("dataset", f"{verbatim(dataset)} has no budget in this ledger, which knows {there}",
                       "open one with `private-topk budget create`")  # fmt: skip
    if unit not in found:
        missing = f"{verbatim(dataset)} has no budget for {{privacy_unit}} {verbatim(unit)}"
        raise NoBudget("dataset", f"{missing}, only for {', '.join(sorted(found))}")
    return found[unit]


def _told(now: datetime) -> str:
    return utc_text(now, "seconds")


def _check_clock(now: datetime, entries: list[Entry], *outcomes: str) -> None:
    """Raise Refusal where the clock lies before what it noted of entries: of those with some outcomes, or of all.

    A clock that is ahead cannot be told from the truth. But a period that began by such a clock is not spent from
    before its time has come, and none begins by a clock that its charges contradict.
    """
    for entry in entries:
        noted = max(entry.charged, entry.finished or entry.charged, key=moment)
        if (not outcomes or entry.outcome in outcomes) and moment(noted) > now + _APART:
            what = f"when it noted {verbatim(entry.request.report)} of {verbatim(entry.request.dataset)}"
            rule = f"has a clock that stands at {_told(now)}, and stood at {noted} {what}"
            raise Refusal("ledger", rule, "set the database's clock right; if it was ahead then, wait for that time")


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


def _best_reading(
    request: Request, budgets: list[Budget], entries: list[Entry], outcome: str
) -> tuple[Request, Fraction | None]:
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
            used = {budget.unit: _check(budget, entries, read, outcome) for budget in budgets}
        except Refusal as error:
            refusal = refusal or error
        else:
            found.append((read, used.get(request.unit)))
    if not found:
        assert refusal is not None
        raise refusal
    return min(found, key=lambda reading: reading[1] or 0)


def _check(budget: Budget, entries: list[Entry], request: Request, outcome: str) -> Fraction:
    """The part of the budget that is used or reserved with the request. Raises Refusal if that is too much."""
    neighbours = request.parameters.get("neighbours", "add-remove")
    if budget.neighbours != neighbours:
        rule = f"must be {budget.neighbours}, as in the {budget.unit} budget of {budget.dataset}, got {neighbours}"
        raise Refusal("neighbours", verbatim(rule), "their epsilons do not add up")
    found = counted(budget, [*entries, Entry(0, request, "", None, outcome)])
    charges = found.all if outcome in RELEASES else [*found.charges, *found.reserved.values()]
    reached = heaviest(budget, charges, request.windows)
    if not budget.fits(Spent.of(reached)):
        before, asked, after = (Spent.of(part) for part in (reached[:-1], reached[-1:], reached))
        others = [series for series in found.reserved if series != request.series]
        raise Refusal("", literal(explain(budget, before, asked, after, others)))
    return budget.used(Spent.of(heaviest(budget, charges)))
