"""What reports still need of a budget, for the periods of their horizon that are not charged yet."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from private_topk.pipelines.budget.accounting import ADOPTED, HORIZON, Books, Budget, Entry, budget_usage, heaviest
from private_topk.pipelines.budget.rows import moment
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.stated import number


@dataclass(frozen=True)
class Ahead:
    """The periods that a report has left, beside what its budget has left for them.

    Args:
        readings: what one of them may be charged as, that which adds up last.
        fitting: how many of them fit.
        used: the part of the budget that would be used with all of them.
        promise: the guarantee of all that is charged then, in words.
    """

    left: int
    horizon: int
    readings: Sequence[Cost]
    fitting: int
    used: Fraction
    promise: str

    def in_words(self, which: str = "") -> str:
        """The sentence; `which` tells whose periods remain, and after what."""
        told = f"{self.left:,} of {self.horizon:,} periods{which}; with them {float(self.used):.1%} of the user budget "
        told += f"would be used ({self.promise})"
        if self.fitting == self.left:
            return f"fits: {told}"
        some = f"{self.fitting:,} of them fit and {self.left - self.fitting:,} will be refused"
        return f"does not fit: {told}, so {some if self.fitting else 'none of them fits'}"


def ahead_of(budget: Budget, books: Books, left: int, horizon: int, readings: Sequence[Cost]) -> Ahead:
    """What so many periods need beside all that is charged, each at the best of some readings of its cost."""
    spent = _spent(budget, books)

    def after(more: int) -> Cost:
        return _with(budget, spent, [(more, readings)])

    fitting = bisect_right(range(1, left + 1), Fraction(1), key=lambda more: budget.used(after(more)))
    if any(min(map(other.used, readings)) > 1 for other in books.budgets if other.dataset == budget.dataset):
        fitting = 0  # every release is charged to all budgets of the dataset
    in_all = after(left)
    return Ahead(left, horizon, readings, fitting, budget.used(in_all), _promise(budget, in_all))


def _spent(budget: Budget, books: Books) -> Cost:
    return Cost.sum(heaviest(budget, budget_usage(budget, books).charges))


def _with(budget: Budget, spent: Cost, more: Sequence[tuple[int, Sequence[Cost]]]) -> Cost:
    """What is spent with so many more periods, where all are read alike, as `outlook` has them charged."""
    return min(_sums(spent, more), key=budget.used)


def _sums(spent: Cost, more: Sequence[tuple[int, Sequence[Cost]]]) -> list[Cost]:
    """What is spent with so many more periods by their rhos, and as they add up: epsilons count if all do."""
    return [Cost.sum([(1, spent), *((left, each[end]) for left, each in more)]) for end in (0, -1)]


def outlook(books: Books, charge: Entry) -> tuple[int, Fraction]:
    """How well a charge leaves room, by the reading of its cost that it has: how many more periods of its own report
    fit after it, and the part of the budget that would be used with the periods left of all reports.

    Each period is charged so that these come out best, and not so that it takes least by itself: else the first ones
    may be charged by their epsilons, which have no room for the last, and rhos none any more after them. Where all by
    one reading is best, it stays best after each: the other one adds no less to the sum that counts.
    """
    name = charge.release_id.partition("/")[0]
    books = books._replace(charges=[*books.charges, charge])
    for budget in books.budgets:
        if found := [(other, each) for other, _, each in reports_ahead(budget, books)]:
            used = budget.used(_in_all(budget, books, [each for _, each in found]))
            return sum(each.fitting for other, each in found if other == name), used
    return 0, Fraction(0)


def beside_others(budget: Budget, books: Books, own: Ahead, name: str, which: str) -> str:
    """The sentence on the periods of one report, as they are known here: where others have some left too, what all use
    together comes first, which decides. What they cost comes last, to be added to that of reports not charged yet.
    """
    others, told = [each for other, _, each in reports_ahead(budget, books) if other != name], own.in_words(which)
    if others:
        told = f"{_together(budget, books, [own, *others])}; this one alone {told}"
    told += "; reports that were never charged are not counted" if own.fitting else ""
    cost = _with(budget, Cost.sum([]), [(own.left, own.readings)])
    return f"{told}; the periods left of this one cost {_of_total(budget, cost)}"


def _of_total(budget: Budget, cost: Cost) -> str:
    """A cost beside all that the budget holds: by the rhos, which add up for all, where it has a delta for them."""
    name, part, of = ("rho", cost.rho, budget.rho) if budget.rho else ("epsilon", cost.epsilon, budget.total.epsilon)
    delta = f", delta {number(cost.zcdp_delta)} of {number(budget.kept)}" if cost.zcdp_delta else ""
    return f"{name} {number(part)} of the {number(of)} that the budget holds{delta}"


def enough(budget: Budget, books: Books, own: Ahead, name: str) -> str:
    """The epsilon of a new ledger that holds all that is charged and all periods of all reports, one of them as it is
    given, at the same deltas; nothing where these, another unit or an earlier period of the budget want more than that.
    """
    spent = _spent(budget, books)
    reports = [own, *(each for other, _, each in reports_ahead(budget, books) if other != name)]
    sums = _sums(spent, [(each.left, each.readings) for each in reports])
    fitting = [in_all for in_all in sums if in_all.zcdp_delta <= budget.kept]
    if not fitting or len(books.budgets) > 1 or budget_usage(budget, books).period > 1:
        return ""
    return _promise(budget, min(fitting, key=lambda in_all: budget.guarantee(in_all).epsilon))


def _in_all(budget: Budget, books: Books, reports: Sequence[Ahead]) -> Cost:
    return _with(budget, _spent(budget, books), [(each.left, each.readings) for each in reports])


def _together(budget: Budget, books: Books, reports: Sequence[Ahead]) -> str:
    in_all = _in_all(budget, books, reports)
    used = budget.used(in_all)
    verdict, refused = ("does not fit", ", so some will be refused") if used > 1 else ("fits", "")
    told = f"with all periods of all reports {float(used):.1%} would be used ({_promise(budget, in_all)})"
    return f"{verdict}: {told}{refused}"


def _promise(budget: Budget, spent: Cost) -> str:
    """The epsilon; beside the budget's own delta, of which a part may be left, unless more was adopted."""
    stated = budget.guarantee(spent)
    more = f", delta {number(stated.delta)}" if stated.delta > budget.total.delta else ""
    return f"epsilon {number(stated.epsilon)}{more}"


def reports_ahead(budget: Budget, books: Books) -> Iterator[tuple[str, Entry, Ahead]]:
    """Each report that has charged the dataset and has periods left, by its name and its newest charge, by
    which one that was stopped is known: as that asks, and each as if the others asked for no more. Only the budget of
    whole users is shared by periods.

    Of a report whose first period was moved, what was charged before its present horizon is none of that, which is the
    one that was begun last: a correction by the file of an earlier one begins none. Where that notes no ends, as of
    windows to date, all that was charged counts as of it.
    """
    reports: dict[str, list[Entry]] = {}
    for entry in books.charges:
        name, slash, _ = entry.release_id.partition("/")
        if slash and entry.dataset == budget.dataset and budget.unit == "user":
            reports.setdefault(name, []).append(entry)
    for name, charged in reports.items():
        horizons = dict[tuple[int, Any], Cost]()  # in the order in which they were begun, with their newest cost
        for entry in charged:
            if told := _horizon(entry):
                horizons[told] = entry.cost
        if not horizons:
            continue
        (horizon, ends), cost = horizons.popitem()
        if horizon < 2:
            continue
        windows: Windows | None = Windows.union([each.windows for each in charged])
        if windows and ends:
            windows = windows.within(*ends)
        left = horizon - (windows.number if windows else 0)
        if left > 0:
            yield name, charged[-1], ahead_of(budget, books, left, horizon, cost.readings())


def _horizon(entry: Entry) -> tuple[int, tuple[datetime, datetime] | None] | None:
    """How many windows share the total of a charge, and the two ends of all where these are noted; None of one that
    does not tell.
    """
    with suppress(KeyError, TypeError, ValueError):  # a request of one's own, which may note anything
        asked = json.loads(entry.question)["asked"]
        ends = asked.get(HORIZON)
        return int(asked["horizon"]), (moment(ends["start"]), moment(ends["end"])) if ends else None
    return None


def told_ahead(
    budgets: Iterable[Budget], books: Books, own: str = "", after: str = "", *, charged: bool = True
) -> list[str]:
    """What the reports of some budgets still need, in sentences, but that of the release `own`; and what all need
    together, but where that has periods left and nothing is charged yet: its own sentence says so then.
    """
    told = list[str]()
    for budget in budgets:
        found = list(reports_ahead(budget, books))
        others = [each for each in found if each[0] != own.partition("/")[0]]
        for name, newest, ahead in others:
            when = f"{'adopted' if newest.outcome == ADOPTED else 'last charged'} {newest.charged[:10] or 'by this'}"
            told.append(ahead.in_words(f" of report {name} ({when}) remain{after}"))
        if len(found) > 1 and (charged or len(others) == len(found)):
            told.append(_together(budget, books, [ahead for _, _, ahead in found]))
    return told
