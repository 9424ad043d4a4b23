"""What is spent of a budget and left: as numbers, and in a sentence for whoever signs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

from private_topk.pipelines.budget.accounting import (
    ADOPTED,
    Books,
    Budget,
    Entry,
    budget_usage,
    charges_by_period,
    heaviest,
    most,
    most_by_kind,
    renewals_of,
)
from private_topk.pipelines.budget.ahead import reports_ahead
from private_topk.pipelines.budget.composition import UNITS, Total, rounded_down
from private_topk.pipelines.budget.sharing import over_windows
from private_topk.transforms.errors import plain
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import largest
from private_topk.transforms.stated import number, some

_DAY = timedelta(days=1)


def statement(budget: Budget, books: Books, remaining: int | None = None, k: int | None = None) -> dict[str, Any]:
    """A budget as JSON; with the unit user-window, no more is spent and no less is left in any window.

    Args:
        remaining: also what each of so many further releases may spend, if all spend alike.
        k: also the epsilon of each of these, if it is `peeling` of the top k.
    """
    found = budget_usage(budget, books)
    sums = most_by_kind(budget.unit, found.charges)
    used, binds = budget.binding(Cost.sum(heaviest(budget, found.charges)))
    ahead = [
        {"report": name, "charged": newest.charged[:10]}
        | {"horizon": each.horizon, "left": each.left, "fitting": each.fitting}
        for name, newest, each in reports_ahead(budget, books)
    ]
    return {
        "dataset": budget.dataset,
        "privacy_unit": budget.unit,
        "neighbours": budget.neighbours,
        "period": {"number": found.period, "since": found.since, "days": found.length and found.length / _DAY},
        "total": {"epsilon": budget.total.epsilon, "delta": budget.total.delta, "rho": budget.rho},
        "spent": _stated(budget, sums),
        "left": _left(budget, sums),
        **({} if remaining is None else {"left_for_each": _left_for_each(budget, sums, remaining, k)}),
        **({} if budget.unit == "user" else {"all_windows": _over_all_windows(budget, books)}),
        "used": used,
        "binds": binds if used else None,
        "charges": len(found.charges),
        **_over_all_periods(budget, books),
        **({"reports": ahead} if ahead else {}),
    }


def _over_all_windows(budget: Budget, books: Books) -> dict[str, Fraction]:
    """The guarantee for a user who is in every window that was ever published, in all periods of the budget.

    No budget limits it, so it is of the list of charges as it is. Of a fixed list both sums hold, at their own deltas,
    also where kinds of noise mix: so it is the lesser, where a page keeps to the sum that was declared.
    """
    charges = [entry for entry in books.charges if entry.dataset == budget.dataset]
    largest_delta = max((entry.cost.delta for entry in charges), default=Fraction(0))
    spent = over_windows(most("user", charges), largest_delta) if charges else (Fraction(0), Fraction(0))
    return dict(zip(("epsilon", "delta"), spent, strict=True))


def _over_all_periods(budget: Budget, books: Books) -> dict[str, Any]:
    """What each period before the current one of a renewed budget has spent, and all together."""
    *before, current = charges_by_period(budget, books)
    if not before:
        return {}
    began = [budget.created, *(each.began for each in renewals_of(budget, books))]
    earlier = [
        {"number": number, "since": since, "charges": len(charges), "spent": _spent(budget, charges)}
        for number, (since, charges) in enumerate(zip(began, before, strict=False), 1)
    ]
    return {"earlier_periods": earlier, "all_periods": _spent(budget, [*sum(before, []), *current])}


def _spent(budget: Budget, charges: Sequence[Entry]) -> dict[str, Any]:
    return _stated(budget, most_by_kind(budget.unit, charges))


def _left(budget: Budget, sums: Sequence[Cost], releases: int = 1) -> dict[str, Fraction]:
    left = [budget.left(spent, releases) for spent in sums]
    return {name: _at_most(min(getattr(each, name) for each in left)) for name in ("epsilon", "delta", "rho")}


def _at_most(value: Fraction) -> Fraction:
    """What is written as a float and may be asked for so: 5e-06, not the float below it."""
    return value if isinstance(plain(value), float) else rounded_down(value)


def _left_for_each(budget: Budget, sums: Sequence[Cost], releases: int, k: int | None) -> dict[str, Any]:
    """What each of so many further releases may spend, and which sum is full after pure ones of that epsilon."""

    def after(one: Cost) -> list[Cost]:
        return [Cost.sum([(1, spent), (releases, one)]) for spent in sums]

    def binds(one: Cost) -> str:
        return max(map(budget.binding, after(one)))[1]

    left = _left(budget, sums, releases)
    found = {"releases": releases, **left, "binds": binds(Cost(left["epsilon"]))}
    if k is None:
        return found

    def fits(epsilon: Fraction) -> bool:
        return all(map(budget.fits, after(Cost.peeled(k, epsilon / k))))

    least = Fraction(1, 2**100)
    epsilon = largest(fits, least) if fits(least) else Fraction(0)
    bound = binds(Cost.peeled(k, epsilon / k))
    return {**found, "ranking": {"k": k, "mechanism": "peeling", "epsilon": float(epsilon), "binds": bound}}


def _stated(budget: Budget, sums: Sequence[Cost]) -> dict[str, Any]:
    """Sums as one guarantee, with their rho, and how that adds up."""
    stated = [budget.guarantee(spent) for spent in sums]
    largest_of = {name: max(getattr(each, name) for each in stated) for name in ("epsilon", "delta")}
    added = all((each.epsilon, each.delta) == (one.epsilon, one.delta) for each, one in zip(stated, sums, strict=True))
    rho = max(spent.rho for spent in sums)
    epsilons = max(spent.epsilon for spent in sums) if all(spent.adds_up for spent in sums) else None
    return {**largest_of, "rho": rho, "added_up": epsilons, "accounting": "basic" if added else "zcdp"}


def limit(budget: Budget, books: Books) -> str:
    """The budget as the promise of all that it is charged for; of a renewed one, in all periods too."""
    found = budget_usage(budget, books)
    period = in_all = ""
    if found.length is not None:
        period, in_all = f" in one period of at least {found.length / _DAY:g} days", f"; {of_periods(budget, books)}"
    within = f": all that it lets through{period} stays within that"
    used = budget.used(Cost.sum(heaviest(budget, found.charges)))
    if used > 1:
        within = f", and it holds more than that, since more was adopted: {float(used):.1%} is used"
    total = in_numbers({"epsilon": budget.total.epsilon, "delta": budget.total.delta})
    return (
        f"The ledger's budget of dataset {budget.dataset} is {total} for {UNITS[budget.unit]} "
        f"(neighbours: {budget.neighbours}){within}{in_all}."
    )


def sentence(budget: Budget, books: Books, *, planned: bool = False) -> str:
    """The budget with what all charges have spent of it, or will have with a planned one, each as one guarantee."""
    found = statement(budget, books)
    charges = "1 charge" if found["charges"] == 1 else f"{found['charges']} charges"
    have = "will have" if planned else "has" if found["charges"] == 1 else "have"
    where = "" if budget.unit == "user" else " in no window more than"
    everything = found.get("all_windows") or {"epsilon": 0}
    of_all = f"; together {in_numbers(everything)} for a user who is in all windows" if everything["epsilon"] else ""
    how = "by zCDP" if found["spent"]["accounting"] == "zcdp" else "added up"
    period = all_periods = ""
    if found["period"]["days"] is not None:
        period = f" in period {found['period']['number']},"
        all_periods = f"; those of all periods {in_numbers(found['all_periods'])}"
    return (
        f"{limit(budget, books)} {'Once this is published,' if planned else 'So far'}{period} {charges} {have} "
        f"spent{where} {in_numbers(found['spent'])}, "
        f"{how}{of_all}{all_periods}."
    )


def adopted(charges: Collection[Entry]) -> str:
    """Which of a dataset's charges were adopted, so that others may be missing; nothing where none was."""
    known = [entry.release_id for entry in charges if entry.outcome == ADOPTED]
    were = f"{len(known):,} of {len(charges):,} charges {'was' if len(known) == 1 else 'were'} adopted once published"
    missing = "if a ledger was lost before, what else that had charged is missing here."
    return f"{were} ({some(list(dict.fromkeys(known)))}): {missing}" if known else ""


def of_periods(budget: Budget, books: Books) -> str:
    """What protects a user of all periods of a renewed budget. Where more was adopted than one held, that counts."""
    spent = [Cost.sum(heaviest(budget, charges)) for charges in charges_by_period(budget, books)]
    in_all = _added(_held(budget, each) for each in spent)
    if not all(map(budget.fits, spent)):
        return f"a user in all {len(spent)} periods so far is protected by {in_all}, since more was adopted"
    return f"a user in n periods is protected by n times the total, in the {len(spent)} so far by {in_all}"


def of_datasets(books: Books) -> str:
    """What a user of all datasets has by basic composition, over their periods so far; nothing of one dataset, or of
    several whose epsilons do not add up since their neighbours differ.
    """
    budgets = [budget for budget in books.budgets if budget.unit == "user"]
    if len(budgets) < 2 or len({budget.neighbours for budget in budgets}) > 1:
        return ""
    spent = [
        (budget, Cost.sum(heaviest(budget, charges)))
        for budget in budgets
        for charges in charges_by_period(budget, books)
    ]
    so_far = _added(budget.guarantee(each) for budget, each in spent)
    held = _added(_held(budget, each) for budget, each in spent)
    return (
        f"of a person in all {len(budgets)} datasets with a user budget: spent {so_far}, protected by {held}"
        f"{' in the periods so far' * (len(spent) > len(budgets))}"
    )


def _held(budget: Budget, spent: Cost) -> Total:
    """What protects a user of one period."""
    held = budget.total if budget.fits(spent) else budget.guarantee(spent)
    return Total(max(held.epsilon, budget.total.epsilon), max(held.delta, budget.total.delta))


def _added(totals: Iterable[Total]) -> str:
    found = list(totals)
    return in_numbers({name: sum(getattr(each, name) for each in found) for name in ("epsilon", "delta")})


def cost_in_words(cost: Cost) -> str:
    """What a charge adds to the sums of a ledger."""
    rho = f"rho {number(cost.rho)}"
    added = f"epsilon {number(cost.epsilon)} added up, or {rho} by zCDP" if cost.adds_up else rho
    return f"{added}, delta {number(cost.zcdp_delta)}" if cost.zcdp_delta else added


def in_numbers(stated: dict[str, Fraction]) -> str:
    return f"epsilon {number(stated['epsilon'])}, delta {number(stated['delta'])}"
