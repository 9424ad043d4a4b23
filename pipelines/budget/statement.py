"""What is spent of a budget, reserved and left: as numbers, and in a sentence for whoever signs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

from private_topk.pipelines.budget.account import Budget, Spent, heaviest, most
from private_topk.pipelines.budget.composition import UNITS, rounded_down
from private_topk.pipelines.budget.counted import counted
from private_topk.pipelines.budget.records import Entry
from private_topk.transforms.stated import number

__all__ = ["in_numbers", "sentence", "statement"]

_DAY = timedelta(days=1)


def statement(budget: Budget, entries: Sequence[Entry]) -> dict[str, Any]:
    """A budget as JSON; with the unit user-window, no more is spent and no less is left in any window."""
    found = counted(budget, entries)
    sums, left = most(budget.unit, found.charges), budget.left(most(budget.unit, found.all))
    return {
        "dataset": budget.dataset,
        "privacy_unit": budget.unit,
        "neighbours": budget.neighbours,
        "period": {"number": found.period, "since": found.since, "days": found.length and found.length / _DAY},
        "total": {"epsilon": budget.total.epsilon, "delta": budget.total.delta, "rho": budget.rho},
        "spent": _stated(budget, sums),
        "reserved": {series: _stated(budget, most("user", [charge])) for series, charge in found.reserved.items()},
        "left": {name: float(rounded_down(getattr(left, name))) for name in ("epsilon", "delta", "rho")},
        "used": budget.used(Spent.of(heaviest(budget, found.all))),
        "charges": len(found.charges),
    }


def _stated(budget: Budget, sums: Spent) -> dict[str, Fraction]:
    """Sums as one guarantee, and as their rho."""
    stated = budget.guarantee(sums)
    return {"epsilon": stated.epsilon, "delta": stated.delta, "rho": sums.rho}


def sentence(budget: Budget, entries: Sequence[Entry]) -> str:
    """The budget with what all releases have spent of it so far, each as one guarantee."""
    found = statement(budget, entries)
    charges = "1 release has" if found["charges"] == 1 else f"{found['charges']} releases have"
    reserved = "".join(f"; {in_numbers(sums)} is reserved for {series}" for series, sums in found["reserved"].items())
    where = "" if budget.unit == "user" else " in no window more than"
    period = f", in period {found['period']['number']}" if found["period"]["days"] is not None else ""
    return (f"The ledger's budget of dataset {budget.dataset} is {in_numbers(found['total'])} for {UNITS[budget.unit]} "
            f"(neighbours: {budget.neighbours}). So far{period} {charges} spent{where} {in_numbers(found['spent'])}, "
            f"composed{reserved}.")  # fmt: skip


def in_numbers(stated: dict[str, Fraction]) -> str:
    return f"epsilon {number(stated['epsilon'])}, delta {number(stated['delta'])}"
