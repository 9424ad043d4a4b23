"""What `private-topk budget` does with a ledger, for people."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from private_topk.budget.account import Budget, Spent, heaviest
from private_topk.budget.ledger import Entry, Ledger
from private_topk.budget.units import UNITS
from private_topk.pipelines.apart import keep_apart, kept_files
from private_topk.pipelines.commands.answering import print_json
from private_topk.transforms.refusal import Refusal, printable, verbatim
from private_topk.transforms.stated import number

__all__ = ["create", "history", "show"]


def create(arguments: Namespace) -> None:
    """Open a budget. Raises Refusal for numbers that break a rule, or if there is one already."""
    budget = Budget.of(
        arguments.dataset,
        arguments.epsilon,
        0 if arguments.delta is None else arguments.delta,
        arguments.release_delta,
        unit=arguments.privacy_unit or "user-window",
        neighbours=arguments.neighbours or "add-remove",
    )
    Ledger(arguments.ledger).create(budget)
    if arguments.json:
        print_json(_plain(budget, []))
        return
    epsilon, delta = number(budget.total.epsilon), number(budget.total.delta)
    print(f"{budget.dataset}: epsilon {epsilon}, delta {delta} for {UNITS[budget.unit]}; "
          f"neighbours: {budget.neighbours}")  # fmt: skip
    if budget.rho:
        print(f"Releases fit while their epsilons add up to at most {epsilon}, or their rhos (zCDP) to at most "
              f"{number(budget.rho)}")  # fmt: skip


def show(arguments: Namespace) -> None:
    """Print every budget with what is spent, and the releases that were charged and not finished."""
    if arguments.plot is not None:
        from private_topk.budget.plot import check_plot

        check_plot(arguments.plot)
        keep_apart([arguments.plot], kept_files(vars(arguments)), "plot")
    budgets, entries = _read(arguments)
    own = {id(budget): [entry for entry in entries if entry.request.dataset == budget.dataset] for budget in budgets}
    unfinished = [entry for entry in entries if entry.outcome != "released"]
    if arguments.json:
        print_json({"budgets": [_plain(budget, own[id(budget)]) for budget in budgets],
                    "unfinished": [_charge(entry) for entry in unfinished]})  # fmt: skip
    else:
        for budget in budgets:
            print("\n".join(_lines(budget, own[id(budget)])) + "\n")
        for entry in unfinished:
            print(f"not finished: {entry.request.report} of {entry.request.dataset}, charged {entry.charged} "
                  f"({entry.outcome}); run it again with the same key, id and input to resume at no cost")  # fmt: skip
    if arguments.plot is not None:
        from private_topk.budget.plot import plot

        plot(budgets, entries, arguments.plot)
        print(f"plot: {printable(arguments.plot)}", file=sys.stderr if arguments.json else sys.stdout)


def history(arguments: Namespace) -> None:
    """Print every charge, oldest first."""
    _, entries = _read(arguments)
    if arguments.json:
        print_json({"charges": [_charge(entry) for entry in entries]})
        return
    rows = [_HEAD, *(_row(entry) for entry in entries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


_HEAD = ("charged", "dataset", "unit", "report", "mechanism", "k", "windows", "epsilon", "delta", "key", "outcome")


def _row(entry: Entry) -> tuple[str, ...]:
    request = entry.request
    asked = request.parameters
    return (
        entry.charged.removesuffix("+00:00"), request.dataset, request.unit, request.report,
        str(asked.get("mechanism", "")), str(asked.get("k", "")), request.windows.words(),
        number(request.cost.epsilon), number(request.cost.delta),
        request.key_id, entry.outcome,
    )  # fmt: skip


def _plain(budget: Budget, entries: list[Entry]) -> dict[str, Any]:
    """A budget as JSON; of the unit user-window the window that has spent most, with all that overlap it."""
    spent = Spent.of(heaviest(budget, [entry.charge for entry in entries]))
    return {
        "dataset": budget.dataset,
        "privacy_unit": budget.unit,
        "neighbours": budget.neighbours,
        "total": {"epsilon": budget.total.epsilon, "delta": budget.total.delta, "rho": budget.rho},
        "spent": {"epsilon": spent.epsilon, "delta": spent.delta, "rho": spent.rho},
        "used": budget.used(spent),
        "charges": len(entries),
    }


def _charge(entry: Entry) -> dict[str, Any]:
    """A charge as JSON."""
    request = entry.request
    asked, cost = request.parameters, request.cost
    return {
        "charged": entry.charged, "dataset": request.dataset, "privacy_unit": request.unit, "report": request.report,
        "mechanism": asked.get("mechanism"), "k": asked.get("k"), "windows": request.windows.words(),
        "epsilon": cost.epsilon, "delta": cost.delta, "key_id": request.key_id, "outcome": entry.outcome,
    }  # fmt: skip


def _read(arguments: Namespace) -> tuple[list[Budget], list[Entry]]:
    budgets, entries = Ledger(arguments.ledger).read(arguments.dataset)
    if arguments.dataset is not None and not budgets:
        raise Refusal("dataset", f"{verbatim(arguments.dataset)} has no budget in this ledger")
    return budgets, entries


def _lines(budget: Budget, entries: list[Entry]) -> list[str]:
    spent = Spent.of(heaviest(budget, [entry.charge for entry in entries]))
    total, used = budget.total, budget.used(spent)
    sums = [("epsilon", spent.epsilon, total.epsilon)] if spent.adds_up else []
    sums += [("rho", spent.rho, budget.rho)] if budget.rho else []
    charges = "1 charge" if len(entries) == 1 else f"{len(entries)} charges"
    lines = [
        f"{budget.dataset}: epsilon {number(total.epsilon)}, delta {number(total.delta)} for {UNITS[budget.unit]}",
        f"  [{'#' * round(30 * min(float(used), 1)):<30}] {float(used):.1%} used by {charges}",
    ]
    for name, value, limit in sums:
        counts = "  <- counts, being the smaller part" if len(sums) > 1 and value / limit == used > 0 else ""
        lines.append(
            f"  sum of {name:<8}{number(value):>10} of {number(limit):<10}{float(value / limit):>8.1%}{counts}"
        )
    if spent.rest:
        lines.append(f"  sum of delta   {number(spent.rest):>10} of {number(budget.kept)} kept for releases")
    if budget.unit == "user-window":
        lines.append("  of the window that has spent most, with all that overlap it")
    return lines
