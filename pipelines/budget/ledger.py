"""The ledger: every dataset's budget, and every release that was charged to it before it ran.

`charge` goes around a job: it is charged before it starts, noted when it ends, and recognised when it is repeated.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR
from fractions import Fraction
from functools import cache, cached_property
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from private_topk.pipelines.budget.accounting import (
    ADOPTED,
    Books,
    Budget,
    Entry,
    NoBudget,
    Renewal,
    budget_usage,
    charges_by_period,
    explain,
    heaviest,
    most,
    units,
)
from private_topk.pipelines.budget.ahead import outlook, told_ahead
from private_topk.pipelines.budget.composition import check_unit
from private_topk.pipelines.budget.rows import BROKEN, ROWS, check_legible, moment
from private_topk.pipelines.budget.sharing import cost_of, windows_paid_for
from private_topk.pipelines.budget.statement import cost_in_words
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.differences import differing, of_streams, told
from private_topk.pipelines.process import RunFailed, level, speaks
from private_topk.transforms.errors import (
    ANOTHER_RELEASE,
    InvalidArgument,
    by_signature,
    literal,
    of_another_key,
    told_by,
    verbatim,
)
from private_topk.transforms.loading import load
from private_topk.transforms.mechanisms.choice import enough_told, noise_told, reach_of
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import largest
from private_topk.transforms.release import DRAWS, Release, check_stays, paid_for, series_name
from private_topk.transforms.stated import number
from private_topk.transforms.windows import Period, utc_text

if TYPE_CHECKING:
    from private_topk.pipelines.budget.tables import Connection, Database
    from private_topk.transforms.spec import TopK


_RESUME = (
    "the charge stays, since an answer may have been drawn. To resume at no cost, charge the same request again "
    "and draw from the same key and input"
)
_OPEN = "open one with `private-topk budget create`"
_DIGEST = re.compile("[0-9a-fA-F]{32,64}")
_LEAST = Fraction(1, 2**20)  # an epsilon below which nobody asks
_APART = timedelta(minutes=5)  # clocks of machines that share a ledger may differ by so much


class Drawn(Protocol):
    """Rankings that are about to be drawn."""

    @property
    def top_k(self) -> TopK: ...

    @property
    def period(self) -> Period | None: ...

    @property
    def release(self) -> Release: ...

    @property
    def reveal_active_windows(self) -> bool: ...

    @property
    def fields(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Request:
    """A release that is to be charged before it is made.

    Args:
        dataset: the name of the budget that pays.
        unit: the privacy unit in terms of which the cost is stated.
        release_id: its name, under which it is repeated. `key_id` names its key and never is the key.
        fingerprint: of the input, keyed by the release key: the 32 to 64 hexadecimal digits of a digest. What has the
            same one is taken for the same rows, whose repeat is free.
        parameters: all that the answer depends on but key, id and data, with the name of the `mechanism`; must be JSON.
        windows: those that are published.
        cost: of one of the windows.
        stream: of an input without an end, what the fingerprint is of, in words; None for other input.
        rows: how the dataset is read, by field name: `user_column`, `time_column`, `time_unit`. A dataset keeps those
            of its first charge, since by another column of users or of times the same rows would have spent nothing.
        windows_of_a_user: how many of the windows one user can change, where that is bounded; None for all.
        cost_at: what the same costs with another epsilon, so that a refusal can say with which it fits.
        as_read: the cost is charged by this reading of it only, which is told already.
        noise: how far noise moves counts, and what that needs, in words that a new charge tells; empty where a report
            tells it, or it is not known.
    """

    dataset: str
    unit: str
    release_id: str
    key_id: str
    fingerprint: str
    parameters: Mapping[str, Any] = field(repr=False)
    windows: Windows
    cost: Cost
    rows: Mapping[str, str] = field(default_factory=dict)
    windows_of_a_user: int | None = None
    stream: Mapping[str, Any] | None = field(default=None, repr=False)
    cost_at: Callable[[Fraction], Cost] | None = field(default=None, repr=False, compare=False)
    as_read: bool = field(default=False, compare=False)
    noise: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        check_unit(self.unit)
        for name in self.rows:
            if name not in ROWS:
                raise InvalidArgument("rows", f"has no {verbatim(repr(name))}", f"there are {', '.join(ROWS)}")

    @classmethod
    @by_signature
    def of(
        cls,
        ranking: Drawn,
        *,
        dataset: str,
        fingerprint: str,
        key_id: str | None = None,
        unit: str = "user-window",
        parameters: Mapping[str, Any] = MappingProxyType({}),
        rows: Mapping[str, str] = MappingProxyType({}),
        stream: Mapping[str, Any] | None = None,
    ) -> Request:
        """What the rankings of a `PrivateTopK` cost, before the pipeline that it is in runs; those of a question too.

        Args:
            key_id: by default that of the release's key, which is then read here.
            parameters: more that tells one request from another.
            rows: how the dataset is read (`Request`): `{"user_column": "user"}` tells what a user is, in the name of
                the dataset's column. By default that is the field of users, where elements have named fields.

        Raises:
            InvalidArgument: the rankings have no windows that a ledger could hold, or no key that stays.
        """
        if not hasattr(ranking, "reveal_active_windows"):
            raise InvalidArgument("ranking", f"must be a PrivateTopK, got {type(ranking).__name__}")
        if ranking.reveal_active_windows:
            raise InvalidArgument(
                "reveal_active_windows",
                "cannot be charged: no epsilon covers which windows are published",
                "declare a {period}",
            )
        top_k, period, release = ranking.top_k, ranking.period, ranking.release
        column = getattr(ranking, "user_column", None)  # a question has none: its report tells it
        if key_id is None:
            check_stays(release)
            _check_digest(fingerprint)
        return cls(
            dataset=dataset,
            unit=unit,
            release_id=release.id,
            key_id=release.key.key_id() if key_id is None else key_id,
            fingerprint=fingerprint,
            parameters={**top_k.parameters(), **ranking.fields, **parameters, "draws": DRAWS},
            windows=Windows.of(period),
            cost=cost_of(top_k),
            cost_at=cache(lambda epsilon: cost_of(top_k.with_epsilon(epsilon))),
            rows={**({} if column is None else {"user_column": column}), **rows},
            windows_of_a_user=None if top_k.max_windows_per_user is None else windows_paid_for(top_k, period),
            stream=stream,
            noise=_noise_of(top_k) if hasattr(ranking, "user_column") else "",  # a report tells it
        )

    def is_of(self, ranking: Drawn) -> bool:
        """Whether it is one for these rankings: under its id, what they cost and depend on."""
        own = Request.of(ranking, dataset=self.dataset, fingerprint=self.fingerprint, key_id="", unit=self.unit)
        same = all(getattr(own, name) == getattr(self, name) for name in ("release_id", "windows", "cost"))
        return same and own.parameters.items() <= self.parameters.items()

    @property
    def is_of_a_pipeline(self) -> bool:
        """Whether it is of a `PrivateTopK`, whose pipeline is seen to start."""
        return "draws" in self.parameters and "asked" not in self.parameters

    def readings(self) -> list[Cost]:
        """The costs that it may be charged as."""
        return [self.cost] if self.as_read else self.cost.readings()

    @property
    def question(self) -> str:
        """All that tells one request under a release id from another."""
        return json.dumps({**self.parameters, "windows": self.windows.plain()}, sort_keys=True)

    def entry(self) -> Entry:
        """The charge, without a number. Raises ValueError, or such, for parameters of which none can be made."""
        given, k = self.parameters, self.parameters.get("k")
        named = ("dataset", "unit", "release_id", "key_id", "fingerprint", "question", "rows")
        return Entry(
            self.windows,
            self.cost,
            self.windows_of_a_user,
            bounded=given.get("max_items_per_user") is not None or given.get("groups") is not None,
            id=0,
            mechanism=None if given.get("mechanism") is None else str(given["mechanism"]),
            k=k if type(k) is int and 0 < k < 1 << 63 else None,
            neighbours=str(given.get("neighbours", "add-remove")),
            stream=None if self.stream is None else json.dumps(self.stream, sort_keys=True),
            **{name: getattr(self, name) for name in named},
        )


@dataclass(frozen=True)
class ChargeReceipt:
    """The answer to a charge: whether it is new, or the repeat of an earlier one.

    Args:
        entry: the number of the charge.
        outcome: None for a new charge; for the repeat of an earlier one, how that had ended.
        charged: when.
        used: for a new charge, the used part of the budget of its unit.
        cost: for a new charge, what it adds to the sums of its unit.
        ahead: for a new charge, what other reports still need of the dataset's budget, in sentences.
    """

    entry: int
    outcome: str | None
    charged: str
    used: Fraction | None = field(default=None, repr=False)
    cost: Cost | None = field(default=None, repr=False)
    ahead: Sequence[str] = ()

    @classmethod
    def of_new(cls, entry: Entry, used: Fraction | None, ahead: Sequence[str]) -> ChargeReceipt:
        return cls(entry.id, None, entry.charged, used, most(entry.unit, [entry]), ahead)


class Ledger:
    """Budgets and charges in a database.

    A release is charged to every budget of its dataset, whichever unit it names, so that no unit's promise can be
    spent by way of another. Every method is one transaction; charges happen one after the other. A method that writes
    raises InvalidArgument where nothing was written, and RunFailed where it is not known whether anything was.

    Args:
        url: SQLAlchemy's, of SQLite or PostgreSQL. Times are the database's own: of SQLite, this machine's.
    """

    @by_signature
    def __init__(self, url: str) -> None:
        tables = load("private_topk.pipelines.budget.tables")  # SQLAlchemy, which a run without a ledger needs not
        self._database: Database = tables.Database(url)

    def create(self, budget: Budget, *, unit_named: bool = True) -> None:
        """Open a budget.

        Args:
            unit_named: whoever opens it has named its unit, and so means a second budget where there is one of another.

        Raises:
            InvalidArgument: the dataset has one for that unit, or has charges that it cannot hold.
        """
        self._database.make()
        with self._database.locked() as connection:
            books = connection.books(budget.dataset)
            if any(other.unit == budget.unit for other in books.budgets):
                which = verbatim(f"dataset {budget.dataset} has a {budget.unit} budget already")
                raise InvalidArgument("", f"{which}: it cannot be changed", "give another dataset or ledger file")
            for other in books.budgets if not unit_named else ():
                rule = f"must be named, since dataset {budget.dataset} has a {other.unit} budget already"
                remedy = "every release would be charged to both, and no budget can be taken back"
                raise InvalidArgument("privacy_unit", verbatim(rule), remedy)
            _check_neighbours(books.budgets, budget.neighbours)
            if budget.unit == "user-window" and budget.neighbours == "add-remove":
                _check_charged(budget.dataset, books.charges)
            spent = Cost.sum(heaviest(budget, budget_usage(budget, books).charges))
            # Every release is charged to all budgets of its dataset: none would fit any more.
            if not budget.fits(spent):
                what = verbatim(f"what dataset {budget.dataset} has spent")
                if not spent.adds_up and not budget.rho:
                    if not budget.total.delta:
                        raise InvalidArgument("delta", f"must be given: of {what} only the rhos add up")
                    rule = f"must be less than {{delta}}, whose rest pays for the sum: of {what} only the rhos add up"
                    raise InvalidArgument("release_delta", rule, "leave it out, which keeps half")
                used, full = budget.binding(spent)
                field = "epsilon" if full != "delta" else "release_delta" if budget.total.delta else "delta"
                raise InvalidArgument(field, f"must hold {what}, which is {float(used):.1%} of it", "give more")
            connection.add(replace(budget, created=_stamp(connection.now())))

    def budget(self, dataset: str, unit: str) -> Budget:
        """The budget of one unit. Raises InvalidArgument, naming what there is, if it was never created."""
        with self._database.locked() as connection:
            return _own(connection, connection.books(dataset), dataset, unit)

    def read(self, dataset: str | None = None) -> Books:
        """All that is held of one dataset, or of all."""
        with self._database.locked() as connection:
            return connection.books(dataset)

    def find(self, release_id: str, key_id: str) -> list[Entry]:
        """The charges of a release id under a key, in any dataset."""
        with self._database.locked() as connection:
            return connection.charges(release_id=release_id, key_id=key_id)

    def charge(self, request: Request) -> ChargeReceipt:
        """Charge a release before it starts; recognise a repeat, which costs nothing.

        Raises:
            InvalidArgument: the budget does not suffice (with the arithmetic), there is none of the request's unit, the
                id was used for other input, or the rows are read otherwise than by the dataset's first charge.
        """
        [receipt] = self.charge_all([request])
        return receipt

    def charge_all(self, requests: Sequence[Request], dry_run: bool = False) -> list[ChargeReceipt]:
        """Charge several releases, each on top of those before it, or none of them if one is refused. A dry run gives
        the receipts, and writes nothing.

        Raises InvalidArgument as `charge`; and if two have the same id, or one looks like a correction of another.
        """
        receipts: list[ChargeReceipt] = []
        overdrawn: InvalidArgument | None = None
        with self._database.locked() as connection:
            first = connection.next_id(Entry)
            for number, request in enumerate(requests):
                before = [each.release_id for each in requests[:number]]
                if request.release_id in before:
                    rule = f"{verbatim(request.release_id)} is that of two requests"
                    raise InvalidArgument("release_id", rule, "give each of them its own")
                try:
                    found = _settled(connection, request, first)
                except InvalidArgument as error:
                    if before:
                        on_top = f"{request.release_id} was asked on top of {', '.join(before)}: "
                        rule = f"{error.rule}; {'' if error.field else verbatim(on_top)}nothing was charged now"
                        error = type(error)(error.field, rule, error.remedy, error.final)
                    if error.field:
                        raise error from None
                    overdrawn = error  # not said before the last request, since the sums hold the cost of all
                    found = replace(request.entry(), id=connection.next_id(Entry)), Fraction(0)
                if not isinstance(found, ChargeReceipt):
                    _check_apart(request, requests[:number])
                    entry, used = replace(found[0], charged=_stamp(connection.now())), found[1]
                    connection.add(entry)
                    books = connection.books(entry.dataset)
                    ahead = told_ahead(books.budgets, books, entry.release_id, " after this")
                    found = ChargeReceipt.of_new(entry, used, ahead)
                receipts.append(found)
            if overdrawn is not None:
                raise overdrawn
            if dry_run:
                connection.undo()
        return receipts

    def quote(self, request: Request) -> ChargeReceipt:
        """The receipt that a charge would have. Raises InvalidArgument as `charge` does."""
        [receipt] = self.charge_all([request], dry_run=True)
        return receipt

    def after(self, request: Request) -> Books:
        """What would be held of the dataset after a charge. Raises InvalidArgument as `charge` does."""
        with self._database.locked() as connection:
            found, books = _settled(connection, request), connection.books(request.dataset)
            return books if isinstance(found, ChargeReceipt) else books._replace(charges=[*books.charges, found[0]])

    def as_charged(self, request: Request) -> Request:
        """The request at the reading of its cost that a charge would write down, or has; as it is where one is refused.

        So a manifest that is made before the charge tells it, and a ledger that is restored need not choose again. It
        is charged by no other reading, whatever is charged in between.
        """
        with suppress(InvalidArgument):
            name, key_id = request.release_id, request.key_id
            charges = [each for each in self.after(request).charges if (each.release_id, each.key_id) == (name, key_id)]
            return replace(request, cost=charges[-1].cost, as_read=True)
        return request

    def lacks(self, published: Iterable[Entry]) -> list[Entry]:
        """Those of some published releases that were never charged here."""
        with self._database.locked() as connection:
            return [entry for entry in published if not _held(connection, entry)]

    def adopt(self, published: Iterable[Entry], dry_run: bool = False) -> list[Entry]:
        """Write down published releases of one dataset that were never charged here; returns these. A dry run writes
        nothing.

        They count whether or not they fit, since they are facts. None can be drawn again, since their inputs are not
        known. One that is given twice is two answers, of which each is charged.

        Each keeps the reading of its cost that its manifest tells: that was fixed before it was drawn, by what was
        charged before it, and any that is chosen now could follow from what came out (`Budget`). One that no ledger was
        charged for counts by its rho, or by its epsilon and delta in a budget that has no rho; and where the dataset
        has a budget of the unit `user` alone with all of its windows, as if that unit had been asked for.

        Raises InvalidArgument for a release that cannot be of the dataset's budgets.
        """
        with self._database.locked() as connection:
            adopted, paid = list[Entry](), set[int]()
            for entry in published:
                if held := [each for each in _held(connection, entry) if each.id not in paid]:
                    paid.add(min(held, key=lambda each: (each.outcome == ADOPTED, each.cost.epsilon)).id)
                    continue
                books, now = connection.books(entry.dataset), _stamp(connection.now())
                if entry.outcome == ADOPTED and {budget.unit for budget in books.budgets} == {"user"}:
                    entry = replace(entry, unit="user")
                own = _own(connection, books, entry.dataset, entry.unit)
                _check_neighbours(books.budgets, entry.neighbours)
                _check_rows(entry, books.charges)
                number, cost = connection.next_id(Entry), entry.cost if own.rho else entry.cost.readings()[-1]
                adopted.append(replace(entry, id=number, cost=cost, charged=now, finished=now, outcome=ADOPTED))
                connection.add(adopted[-1])
                paid.add(number)
            if dry_run:
                connection.undo()
            return adopted

    def renew(self, dataset: str, unit: str, length: timedelta) -> None:
        """Begin a new period of a budget, in which the whole of it can be spent again.

        Raises InvalidArgument unless the last one has lasted so long by the database's clock, or where that clock is
        not to be trusted since it lies before a charge; and for another length than that of the first renewal, which
        is at least a day.
        """
        if length < timedelta(days=1):
            raise InvalidArgument("period", "must be at least 1d: all later renewals keep to it", "such as 365d")
        with self._database.locked() as connection:
            books, now = connection.books(dataset), connection.now()
            last = budget_usage(_own(connection, books, dataset, unit), books)
            said = str(length).removesuffix(", 0:00:00")
            if last.length is not None and last.length != length:
                first = f"{last.length / timedelta(days=1):g}d"
                raise InvalidArgument("period", f"must be {first}, as in the first renewal, got {said}")
            _check_clock(now, [*books.charges, *books.renewals])
            if now < moment(last.since) + length:
                rule = f"is not over: it began on {last.since} and lasts {said}"
                raise InvalidArgument("period", rule, "earlier a period would hold more than one budget")
            last_charge = connection.next_id(Entry) - 1
            connection.add(Renewal(dataset, unit, _stamp(now), length, last_charge, connection.next_id(Renewal)))

    def finish(self, entry: int, outcome: str) -> None:
        """Note how a charged release ended, or that it is started again. One that was released stays so."""
        with self._database.locked() as connection:
            connection.note(entry, outcome, None if outcome == "started" else _stamp(connection.now()))


@dataclass(frozen=True)
class Account:
    """The budget that a run is charged to: a dataset's, in a ledger.

    Args:
        ledger: its database's URL.
        dataset: the name of the budget in it.
    """

    ledger: str
    dataset: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Account | None:
        """The account that `ledger` and `dataset` name, or None. Raises InvalidArgument if half of it is missing."""
        ledger, dataset = given.get("ledger"), given.get("dataset")
        if ledger is None and dataset is None:
            return None
        if ledger is None or dataset is None:
            raise InvalidArgument("ledger", "and {dataset} go together: where spending is kept, and what is charged")
        return cls(ledger, dataset)

    @cached_property
    def books(self) -> Ledger:
        """The ledger itself, opened once. Raises InvalidArgument."""
        return Ledger(self.ledger)

    def budget(self, unit: str) -> Budget:
        return self.books.budget(self.dataset, unit)


def tell_operator(text: str) -> None:
    print(f"ledger: {text}", file=sys.stderr)


@by_signature
@contextmanager
def charge(
    request: Request,
    ledger: Ledger | str,
    tell: Callable[[str], None] = tell_operator,
    resume: str = _RESUME,
    check: Callable[[ChargeReceipt], None] = lambda _: None,
    elsewhere: bool = False,
) -> Iterator[ChargeReceipt]:
    """Charge a release, run the block that makes it, and note how it ended.

    Goes around any job, of Beam or not. What it promises holds if the block answers from nothing but what the request
    names: its randomness must be drawn from the release's key and id, so that a repeat repeats the answer. A block
    that draws afresh must ask under a new id each time.

    Args:
        request: what is asked of which rows, and what it costs.
        ledger: the ledger, or its database's URL.
        tell: takes a line for the operator.
        resume: what the operator is told if the block fails; nothing if it is empty.
        check: raises InvalidArgument where the block must not run again, by the receipt of an earlier charge. A new
            charge stays.
        elsewhere: another process draws the rankings of a `PrivateTopK`, as a program in Java does, so that no pipeline
            is seen to start here. Otherwise only what was started in the block is noted as released.

    Yields:
        The receipt: whether this is a new charge or the repeat of an earlier one.

    Raises:
        InvalidArgument: before the block runs: the budget does not suffice, or the id was used for other input. A
            ledger that cannot be written to when the block has ended changes nothing of how it ended: the operator is
            told, and the charge stays as one that was started.
        RunFailed: before the block runs: it is not known whether the release was charged. After it: a worker has
            refused something, such as to write over another ranking; an answer may have been drawn.

    Cost: two transactions of some milliseconds each.
    """
    with charge_all([request], ledger, tell, resume, check, elsewhere) as [receipt]:
        yield receipt


@by_signature
@contextmanager
def charge_all(
    requests: Iterable[Request],
    ledger: Ledger | str,
    tell: Callable[[str], None] = tell_operator,
    resume: str = _RESUME,
    check: Callable[[ChargeReceipt], None] = lambda _: None,
    elsewhere: bool = False,
) -> Iterator[list[ChargeReceipt]]:
    """Charge the releases that one block makes, all or none: a block that is refused by one has charged no other.

    Args:
        requests: what `charge` takes one of. Each is charged on top of those before it; a repeat costs nothing.
        ledger, tell, resume, check, elsewhere: as of `charge`.

    Yields:
        The receipts, in the order of the requests. All are noted as the block has ended.

    Raises:
        InvalidArgument, RunFailed: as of `charge`; and if there is no request, or two have the same id.
    """
    asked = list(requests) if isinstance(requests, Iterable) else [requests]
    for request in asked:
        if not hasattr(request, "parameters"):
            remedy = "make it by Request.of(rank, dataset=..., fingerprint=...)"
            raise InvalidArgument("request", f"must be a Request, got {type(request).__name__}", remedy)
    if not asked:
        raise InvalidArgument("requests", "must have one at least: of none, nothing is charged")
    books = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    receipts = books.charge_all(asked)
    for receipt in receipts:
        check(receipt)
    for request, receipt in zip(asked, receipts, strict=True):
        for text in (*([_let_through(request, receipt)] if speaks() else []), *receipt.ahead):
            tell(text)
        if request.noise and receipt.outcome is None and speaks():
            tell(f"of {request.release_id}, {request.noise}")
    _note(books, [receipt for receipt in receipts if receipt.outcome == "failed"], "started", tell)

    def end(outcome: str, started: set[str]) -> bool:
        drawn = [elsewhere or not each.is_of_a_pipeline or each.release_id in started for each in asked]
        _note(books, [*compress(receipts, drawn)], outcome, tell)
        for request, receipt, was_drawn in zip(asked, receipts, drawn, strict=True):
            if not was_drawn and receipt.outcome != "released":
                what = f"no pipeline of release {request.release_id} was started inside this `with charge(...)`"
                remedy = "run it inside, at no further cost; or give charge elsewhere=True if another process draws it"
                tell(f"{what}, so nothing was drawn here, and it is not noted as released: {remedy}")
        return any(drawn)

    try:
        with paid_for(asked) as started:
            yield receipts
    except BaseException as error:  # an interrupt too: an answer may be out
        told = told_by(error) if started and isinstance(error, RuntimeError) else None
        final = isinstance(told, InvalidArgument) and told.final
        if end("failed", started) and resume and not final:
            tell(resume)
        if told is None:
            raise
        raise RunFailed(f"the job failed after its start: {told}") from None
    end("released", started)


def _check_apart(request: Request, before: Iterable[Request]) -> None:
    """Raise InvalidArgument for a second ranking of a window whose id begins as a correction of the first would."""
    id, name = request.release_id, series_name(request.release_id)
    for other in before:
        alike = (other.dataset, series_name(other.release_id)) == (request.dataset, name)
        if alike and request.windows.overlapping(*other.windows.bounds()).any():
            rule = (
                f"{verbatim(id)} begins as {verbatim(other.release_id)} does, so pages would take it for a correction"
            )
            example = f"{id.rpartition('/')[2]}/{name}" if "/" in id else f"{id}-2"
            remedy = f"have them differ before the first /, such as {verbatim(example)}"
            raise InvalidArgument("release_id", rule, remedy)


def _note(books: Ledger, receipts: list[ChargeReceipt], outcome: str, tell: Callable[[str], None]) -> None:
    for receipt in receipts:
        try:
            books.finish(receipt.entry, outcome)
        except (InvalidArgument, RunFailed) as error:  # how the block ended stands; only its note is missing
            refused = isinstance(error, InvalidArgument)
            was = "failed" if outcome == "started" else "started"
            stays = f"could not be noted, and it stays as {was}" if refused else "may not have been noted"
            again = "the same again costs nothing, and notes it"
            with level("warning"):  # the ledger may be lost
                tell(f"that it was {outcome} {stays}: {error.__cause__ or error}; {again}")


def _noise_of(top_k: TopK) -> str:
    size, unit = top_k.domain.size or None, top_k.score.resolution
    reach = reach_of(top_k.mechanism, top_k.k, size)
    if top_k.k is None or reach is None:
        return ""
    enough = "" if size is None else f"; {enough_told(reach, top_k.k, unit, grouped=top_k.groups is not None)}"
    return f"{noise_told(reach, unit)}{enough}"


def _let_through(request: Request, receipt: ChargeReceipt) -> str:
    if receipt.outcome is None:
        cost = f": {cost_in_words(receipt.cost)}" if receipt.cost is not None else ""
        used = f"; {float(receipt.used):.1%} of the budget is used" if receipt.used is not None else ""
        return f"charged {request.release_id} to dataset {request.dataset}{cost}{used}"
    if receipt.outcome == "released":
        return f"{request.release_id} was released before, charged on {receipt.charged}: repeating it costs nothing"
    return f"resuming {request.release_id}, charged on {receipt.charged} and not finished: costs nothing"


def _settled(
    connection: Connection, request: Request, first: float = math.inf
) -> ChargeReceipt | tuple[Entry, Fraction]:
    """The receipt of an earlier charge that the request repeats; or the charge as it is to be written down, and how
    much of its budget is used then. Raises InvalidArgument as `charge` does, of charges from `first` on as of one.
    """
    _check_digest(request.fingerprint)
    asked = _legible(request)
    charges = connection.charges(release_id=request.release_id)
    for earlier in (each for each in charges if each.key_id == request.key_id):
        if earlier.outcome == ADOPTED:
            raise _adopted(earlier)
        if (earlier.fingerprint, earlier.dataset) != (request.fingerprint, request.dataset):
            raise _other_input(asked, earlier)
        if not asked.asks_as(earlier):
            rule = f"{asked.release_id} was charged on {earlier.charged} with {_differing(asked, earlier)}"
            remedy = f"ask the same again, which costs nothing, or {ANOTHER_RELEASE}"
            raise InvalidArgument("release_id", verbatim(rule), remedy)
        if asked.repeats(earlier):
            return ChargeReceipt(earlier.id, earlier.outcome, earlier.charged)
    for earlier in charges:
        if earlier.key_id != request.key_id and earlier.dataset == request.dataset:
            if earlier.outcome == ADOPTED:
                raise _adopted(earlier)
            remedy = f"give that one (free), or {ANOTHER_RELEASE}"
            raise of_another_key(earlier.release_id, earlier.key_id, remedy)
    books = connection.books(request.dataset)
    _check_clock(connection.now(), [*books.budgets, *books.renewals])
    _check_rows(asked, books.charges)
    _own(connection, books, request.dataset, request.unit)
    _check_neighbours(books.budgets, asked.neighbours)
    if asked.neighbours == "add-remove" and any(budget.unit == "user-window" for budget in books.budgets):
        _check_parts(asked, books.charges)
    return _best_reading(replace(asked, id=connection.next_id(Entry)), request, books, first)


def _check_digest(fingerprint: object) -> None:
    if not isinstance(fingerprint, str) or not _DIGEST.fullmatch(fingerprint):
        rule = "must be the 32 to 64 hexadecimal digits of a digest of all rows: other rows with the same one are free"
        remedy = 'such as hmac.digest(key.derive("input"), content, "sha256").hex()'
        raise InvalidArgument("fingerprint", rule, remedy)


def _adopted(earlier: Entry) -> InvalidArgument:
    known = f"{verbatim(earlier.release_id)} was adopted on {verbatim(earlier.charged)} from its manifest"
    rule = f"{known}, which does not tell its input: nothing more can be drawn"
    return InvalidArgument("release_id", rule, ANOTHER_RELEASE)


def _held(connection: Connection, published: Entry) -> list[Entry]:
    """The charges that pay for a published release."""
    held = connection.charges(release_id=published.release_id, key_id=published.key_id)
    return [earlier for earlier in held if earlier.pays_for(published)]


def _legible(request: Request) -> Entry:
    """The charge to be written. Raises InvalidArgument unless it reads back as it was written."""
    try:
        check_legible(record := request.entry())
    except (*BROKEN, InvalidArgument):
        raise InvalidArgument(
            "request",
            "must be one that a ledger can hold: parameters that are JSON, with texts as names; costs from 0 to 10^30 "
            "and deltas up to 1, of up to 4,000 digits; `windows_of_a_user` of 1 up to the number of windows",
        ) from None
    return record


def _own(connection: Connection, books: Books, dataset: str, unit: str) -> Budget:
    found = {budget.unit: budget for budget in books.budgets}
    if not found:
        there = verbatim(", ".join(connection.datasets()) or "none")
        raise NoBudget(
            "dataset",
            f"{verbatim(dataset)} has no budget in this ledger, which knows {there}",
            _OPEN,
        )
    if unit not in found:
        charged = [f" and its charge of {entry.charged}" for entry in books.charges][-1:]
        rule = (
            f"must be {' or '.join(sorted(found))}, as in the budget of dataset {dataset}{''.join(charged)}, got {unit}"
        )
        remedies = {held: f'give Request.of unit="{held}"' for held in found}
        remedies[unit] = f"{_OPEN[:-1]} --privacy-unit {unit}`"
        # The stronger promise first, as its name is.
        raise NoBudget("privacy_unit", verbatim(rule), ", or ".join(remedies[name] for name in sorted(remedies)))
    return found[unit]


def _stamp(now: datetime) -> str:
    return utc_text(now, "seconds")


def _check_clock(now: datetime, held: Iterable[Budget | Entry | Renewal]) -> None:
    """Raise InvalidArgument where the clock lies before what it noted.

    A clock that is ahead cannot be told from the truth. But a budget or a period that began by such a clock is not
    spent from before its time has come, and none begins by a clock that its charges contradict.
    """
    for each in held:
        if isinstance(each, Budget):
            noted, what = each.created, f"the {each.unit} budget"
        elif isinstance(each, Renewal):
            noted, what = each.began, "a new period"
        else:
            noted, what = max(each.charged, each.finished or each.charged, key=moment), each.release_id
        if moment(noted) > now + _APART:
            what = f"when it noted {verbatim(what)} of {verbatim(each.dataset)}"
            rule = f"has a clock that stands at {_stamp(now)}, and stood at {noted} {what}"
            ahead = "if it was ahead then, wait for that time, or correct what it noted (docs/budget.md)"
            raise InvalidArgument("ledger", rule, f"set the database's clock right; {ahead}")


def _other_input(asked: Entry, earlier: Entry) -> InvalidArgument:
    also = "" if asked.asks_as(earlier) else f", and with {_differing(asked, earlier)}"
    id = verbatim(asked.release_id)
    if asked.dataset != earlier.dataset:
        dataset, rest = verbatim(earlier.dataset), " and restore the rest" if also else ""
        same = f"give {{dataset}} {dataset}{rest} (free), or " if asked.fingerprint == earlier.fingerprint else ""
        rule = f"{id} belongs to dataset {dataset}, which was charged for it on {verbatim(earlier.charged)}"
        return InvalidArgument("release_id", rule, f"{same}{ANOTHER_RELEASE}")
    erased, order = (
        "if users were erased, leave what is published as it is, and bring lost rankings back from a copy "
        "(docs/privacy.md); "
        * earlier.is_published
        + "if files or rows came later, give only the earlier ones (free; docs/reports.md), of a frame such as "
        "df[df.time < end]; otherwise ",
        ", also the order of its rows and, in a frame, the types of its columns",
    )
    erased, order = ("", "") if asked.stream else (erased, order)
    own = earlier.is_published and "asked" not in json.loads(asked.question)  # of no command, and of no report file
    corrects = " (with corrects= of WriteRankings where it repairs what is published)" * own
    remedy = (
        f"{erased}restore what it was used with{order} (free), or {ANOTHER_RELEASE}{corrects}; publishing twice under "
        "one id would reveal the change"
    )
    return InvalidArgument(
        "release_id",
        f"{id} was used on {verbatim(earlier.charged)} {verbatim(_otherwise(asked, earlier))} "
        f"(dataset {verbatim(earlier.dataset)}){verbatim(also)}",
        remedy,
    )


def _otherwise(asked: Entry, earlier: Entry) -> str:
    """What has changed of the input, or of a stream's output: of its charge, if that is of a version that noted it."""
    if asked.stream is None:
        return "for other input"
    if earlier.stream is None:
        return "for other input or another output"
    return f"with {told(of_streams(json.loads(earlier.stream), json.loads(asked.stream)))}"


def _differing(asked: Entry, earlier: Entry) -> str:
    return told(differing(json.loads(earlier.question), json.loads(asked.question), _as_asked))


def _as_asked(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a window is drawn with, and in place of its share the budget that was asked for, where that is noted."""
    drawn = {name: value for name, value in question.items() if name not in ("asked", "draws", "cap")}
    with suppress(KeyError, TypeError, ValueError):  # of a request of one's own, which may note anything
        drawn["windows"] = Windows.read(json.dumps(drawn["windows"])).summary()
        whole = question["asked"]
        mechanism, counts = whole["asked"]["mechanism"], whole["asked"]["publish_counts"] or {}
        budget = {
            "epsilon": mechanism["epsilon"],
            "delta": mechanism.get("delta", whole["spare_delta"]),
            "publish_counts": counts.get("epsilon"),
            "publish_counts_delta": counts.get("delta"),
        }
        drawn |= {name: None if value is None else float(Fraction(value)) for name, value in budget.items()}
        drawn |= {"publish_counts": "drawn"} if counts and "epsilon" not in counts else {}
        drawn |= {"privacy_unit": whole["privacy_unit"], "horizon": whole["horizon"]}
    return drawn


def _check_rows(asked: Entry, charges: list[Entry]) -> None:
    """Raise InvalidArgument where the rows are read otherwise than before: the sums are over the same users and times
    only.
    """
    for name, given in asked.rows.items():
        for entry in charges:
            kept = entry.rows.get(name, given)
            if kept != given:
                rule = f"must be {kept} for dataset {asked.dataset}, as in its charge of {entry.charged}, got {given}"
                remedy = "read otherwise, the same rows would be charged as if they were others"
                remedy += "; rename the column where it means the same" if name.endswith("_column") else ""
                noted = json.loads(asked.question or "{}")
                if name == "user_column" and "draws" in noted and "asked" not in noted:  # as `is_of_a_pipeline`
                    remedy += f', or give Request.of rows={{"user_column": {json.dumps(kept)}}}'
                raise InvalidArgument(name, verbatim(rule), remedy)


def _check_parts(asked: Entry, charges: list[Entry]) -> None:
    """Raise InvalidArgument where a window cuts through a window of the same or another release, in which a bound
    decides what counts of a user: without the rows of the one, the user is replaced in the other, which no add-remove
    covers.
    """
    pairs = [(asked, asked, "cut through each other")]
    for entry in charges:
        whose = f"those of {entry.release_id}, charged on {entry.charged}"
        pairs += [(entry, asked, f"cut through {whose}"), (asked, entry, f"be cut by {whose}")]
    for one, other, cut in pairs:
        if one.bounded and one.windows.cut_by(other.windows):
            rule = f"must not {cut}: a bound on what counts of a user, such as groups, then lets other rows count, and "
            remedy = (
                "take the same windows, or windows that lie apart; larger ones only without groups and "
                "{max_items_per_user}; or, if all releases have {privacy_unit} user, a new ledger with a budget of "
                "that unit alone (docs/budget.md)"
            )
            raise InvalidArgument("window", verbatim(rule + "the user is replaced there"), remedy)


def _check_charged(dataset: str, charges: list[Entry]) -> None:
    """Raise InvalidArgument where windows that were charged cut through each other as `_check_parts` allows none to."""
    bounded = [entry.windows for entry in charges if entry.bounded]
    if bounded and Windows.union(bounded).cut_by(Windows.union([entry.windows for entry in charges])):
        rule = (
            f"cannot be user-window: releases of dataset {dataset} have windows that cut through each other, where a "
            "bound on what counts of a user, such as groups, lets other rows count"
        )
        raise InvalidArgument("privacy_unit", verbatim(rule), "keep to its user budget alone")


def _check_neighbours(budgets: list[Budget], neighbours: str) -> None:
    for budget in budgets:
        if budget.neighbours != neighbours:
            rule = f"must be {budget.neighbours}, as in the {budget.unit} budget of {budget.dataset}, got {neighbours}"
            raise InvalidArgument("neighbours", verbatim(rule), "their epsilons do not add up")


def _best_reading(asked: Entry, request: Request, books: Books, first: float) -> tuple[Entry, Fraction]:
    """The charge with the reading of its cost that leaves most room for what lies ahead (`outlook`), or else uses least
    of its unit's budget; and the used part of that budget.

    Gaussian noise, say, has two readings (`Cost.readings`): its rho, or its epsilon and delta. The one that is written
    down stays, whatever comes after.

    Raises:
        InvalidArgument: no reading fits every budget.
    """
    found: list[tuple[Entry, Fraction]] = []
    refused: list[tuple[Budget, Entry]] = []
    for cost in request.readings():
        read = replace(asked, cost=cost)
        if over := _overdrawn(books, read):
            refused.append((over, read))
        else:
            [unit] = (each for each in books.budgets if each.unit == request.unit)
            found.append((read, unit.used(Cost.sum(heaviest(unit, _charges_with(unit, books, read))))))
    if found:

        def worse(reading: tuple[Entry, Fraction]) -> tuple[int, Fraction, Fraction]:
            fitting, in_all = outlook(books, reading[0])
            return -fitting, in_all, reading[1]

        return min(found, key=worse)
    if request.as_read and any(_overdrawn(books, replace(asked, cost=cost)) is None for cost in asked.cost.readings()):
        rule = "another charge came in between: as the manifest tells its cost it fits no more, and nothing was charged"
        raise InvalidArgument("", rule, "call it again: it fits by another reading of its cost")
    # Said in epsilons where those of all charges add up, and deltas are kept for such.
    plain = all(entry.cost.adds_up for entry in books.charges) and all(budget.kept for budget in books.budgets)
    budget, read = refused[-1 if plain else 0]
    charges = _charges_with(budget, books, read)
    reached, own = heaviest(budget, charges, read.windows), sum(entry.id >= min(first, read.id) for entry in charges)
    before, more, after = (Cost.sum(part) for part in (reached[:-own], reached[-own:], reached))
    fitting = _fitting(request, read, books, budget.left(before).epsilon) if own == 1 else ""
    if budget.unit == "user-window" and read.windows == (ever := Windows.of(None)):
        if any(entry.windows != ever for entry in charges):
            beside = (
                "It has no windows, so it overlaps all that were charged, and these add up: ask for windows (period=)"
            )
            fitting = f"{fitting}\n  {beside}" if fitting else beside
    raise InvalidArgument("", literal(explain(budget, before, more, after, fitting)))


def _charges_with(budget: Budget, books: Books, asked: Entry) -> list[Entry]:
    """What counts against a budget after a charge."""
    return charges_by_period(budget, books._replace(charges=[*books.charges, asked]))[-1]


def _overdrawn(books: Books, asked: Entry) -> Budget | None:
    """The first budget that a charge does not fit, if any."""
    for budget in books.budgets:
        if not budget.fits(Cost.sum(heaviest(budget, _charges_with(budget, books, asked), asked.windows))):
            return budget
    return None


def _fitting(request: Request, asked: Entry, books: Books, near: Fraction) -> str:
    """With which epsilon a request that was refused fits, all else as it was asked, in a sentence; nothing where it
    fits with none, or is not known to have one.

    Args:
        near: about that.
    """
    if (cost_at := request.cost_at) is None:
        return ""
    spent = {  # by each unit that the request reaches, and in how many of its windows that is
        (budget, Cost.sum(before), windows)
        for budget in books.budgets
        for *before, (windows, _) in units(budget.unit, _charges_with(budget, books, asked), asked.windows)
    }

    def fits(epsilon: Fraction) -> bool:
        with suppress(InvalidArgument):  # of an epsilon that cannot be drawn with
            readings = cost_at(epsilon).readings()
            return any(all(budget.fits(before + n * cost) for budget, before, n in spent) for cost in readings)
        return False

    if not fits(_LEAST):
        return ""
    found = largest(fits, _LEAST, float(near), halvings=20)
    told = number(found)
    told = told if fits(Fraction(told)) else number(found, rounding=ROUND_FLOOR)
    fewer = ", or for fewer windows" if request.windows.number > 1 else ""
    return f"The same by {asked.mechanism}, all else as asked, fits with epsilon {told}: ask for no more{fewer}"
