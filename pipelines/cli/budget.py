"""`private-topk budget create|show|history`: a dataset's budget in a ledger."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.budget.account import Budget, Spent, heaviest
from private_topk.pipelines.budget.composition import UNITS
from private_topk.pipelines.cli.arguments import Command
from private_topk.pipelines.cli.output import print_json
from private_topk.pipelines.files import protected_files, refuse_replacing
from private_topk.transforms.errors import Refusal, did_you_mean, printable, verbatim
from private_topk.transforms.stated import number as shown

if TYPE_CHECKING:
    from private_topk.pipelines.budget.ledger import Entry, Ledger

__all__ = ["COMMANDS"]

_EXAMPLES = {
    "": """examples:
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 10 --delta 1e-6
  private-topk budget show --ledger sqlite:///budget.db
  private-topk budget history --ledger sqlite:///budget.db --dataset plays --json

`private-topk budget ACTION --help` lists the arguments of one.""",
    "create": """examples:
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 10 --delta 1e-6
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 4 --privacy-unit user""",
    "show": """examples:
  private-topk budget show --ledger sqlite:///budget.db
  private-topk budget show --ledger sqlite:///budget.db --dataset plays --json""",
    "history": """examples:
  private-topk budget history --ledger sqlite:///budget.db
  private-topk budget history --ledger sqlite:///budget.db --dataset plays --json""",
}
_ACTIONS = {
    "create": "open a budget; it cannot be changed later",
    "show": "show what is spent and what is left",
    "history": "list every charge",
}


def _budget(arguments: Namespace, others: list[str]) -> None:
    """Refuse a call without an action, or with an unknown one."""
    got = "" if arguments.action is None else f"; got {verbatim(repr(arguments.action))}"
    raise Refusal("", f"`private-topk budget` must be followed by {', '.join(_ACTIONS)}{got}",
                  did_you_mean(arguments.action or "", _ACTIONS))  # fmt: skip


def _create(arguments: Namespace, others: list[str]) -> None:
    """Open a budget. Raises Refusal for numbers that break a rule, or if there is one already."""
    budget = Budget.of(
        arguments.dataset,
        arguments.epsilon,
        0 if arguments.delta is None else arguments.delta,
        arguments.release_delta,
        unit=arguments.privacy_unit or "user-window",
        neighbours=arguments.neighbours or "add-remove",
    )
    _ledger(arguments).create(budget)
    if arguments.json:
        print_json(_plain(budget, []))
        return
    epsilon, delta = shown(budget.total.epsilon), shown(budget.total.delta)
    print(f"{budget.dataset}: epsilon {epsilon}, delta {delta} for {UNITS[budget.unit]}; "
          f"neighbours: {budget.neighbours}")  # fmt: skip
    if budget.rho:
        print(f"Releases fit while their epsilons add up to at most {epsilon}, or their rhos (zCDP) to at most "
              f"{shown(budget.rho)}")  # fmt: skip


def _show(arguments: Namespace, others: list[str]) -> None:
    """Print every budget with what is spent, and the releases that were charged and not finished."""
    if arguments.plot is not None:
        from private_topk.pipelines.budget.plot import check_plot

        check_plot(arguments.plot)
        refuse_replacing([arguments.plot], protected_files(vars(arguments)), "plot")
    budgets, entries = _read(arguments)
    charges = {
        id(budget): [entry for entry in entries if entry.request.dataset == budget.dataset] for budget in budgets
    }
    unfinished = [entry for entry in entries if entry.outcome != "released"]
    if arguments.json:
        print_json({"budgets": [_plain(budget, charges[id(budget)]) for budget in budgets],
                    "unfinished": [_charge(entry) for entry in unfinished]})  # fmt: skip
    else:
        for budget in budgets:
            print("\n".join(_lines(budget, charges[id(budget)])) + "\n")
        for entry in unfinished:
            print(f"not finished: {entry.request.report} of {entry.request.dataset}, charged {entry.charged} "
                  f"({entry.outcome}); run it again with the same key, id and input to resume at no cost")  # fmt: skip
    if arguments.plot is not None:
        from private_topk.pipelines.budget.plot import plot

        plot(budgets, entries, arguments.plot)
        print(f"plot: {printable(arguments.plot)}", file=sys.stderr if arguments.json else sys.stdout)


def _history(arguments: Namespace, others: list[str]) -> None:
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
    parameters = request.parameters
    return (
        entry.charged.removesuffix("+00:00"), request.dataset, request.unit, request.report,
        str(parameters.get("mechanism", "")), str(parameters.get("k") or "all"), request.windows.words(),
        shown(request.cost.epsilon), shown(request.cost.delta),
        request.key_id, entry.outcome,
    )  # fmt: skip


def _plain(budget: Budget, entries: list[Entry]) -> dict[str, Any]:
    """A budget as JSON; with the unit user-window, of the window that has spent most, with all that overlap it."""
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
    parameters, cost = request.parameters, request.cost
    return {
        "charged": entry.charged, "dataset": request.dataset, "privacy_unit": request.unit, "report": request.report,
        "mechanism": parameters.get("mechanism"), "k": parameters.get("k"), "windows": request.windows.words(),
        "epsilon": cost.epsilon, "delta": cost.delta, "key_id": request.key_id, "outcome": entry.outcome,
    }  # fmt: skip


def _ledger(arguments: Namespace) -> Ledger:
    from private_topk.pipelines.budget.ledger import Ledger  # loads SQLAlchemy, which --help does without

    return Ledger(arguments.ledger)


def _read(arguments: Namespace) -> tuple[list[Budget], list[Entry]]:
    budgets, entries = _ledger(arguments).read(arguments.dataset)
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
        f"{budget.dataset}: epsilon {shown(total.epsilon)}, delta {shown(total.delta)} for {UNITS[budget.unit]}",
        f"  [{'#' * round(30 * min(float(used), 1)):<30}] {float(used):.1%} used by {charges}",
    ]
    for name, value, limit in sums:
        counts = "  <- counts, being the smaller part" if len(sums) > 1 and value / limit == used > 0 else ""
        lines.append(f"  sum of {name:<8}{shown(value):>10} of {shown(limit):<10}{float(value / limit):>8.1%}{counts}")
    if spent.rest:
        lines.append(f"  sum of delta   {shown(spent.rest):>10} of {shown(budget.kept)} kept for releases")
    if budget.unit == "user-window":
        lines.append("  of the window that has spent most, with all that overlap it")
    return lines


_LIST = "\n".join(f"  {name:<8} {text}" for name, text in _ACTIONS.items())
COMMANDS = {
    "budget": Command(_budget, "Open a dataset's budget in a ledger, and see what was spent of it.\n\nactions:\n"
                      f"{_LIST}", _EXAMPLES[""], alone=("ACTION", "one of them"), takes=", ".join(_ACTIONS)),
    **{f"budget {name}": Command(execute, f"{_ACTIONS[name].capitalize()}.", _EXAMPLES[name], needs)
       for name, execute, needs in (("create", _create, ("ledger", "dataset", "epsilon")),
                                    ("show", _show, ("ledger",)), ("history", _history, ("ledger",)))},
}  # fmt: skip
