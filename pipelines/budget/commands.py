"""The commands `plan` and `budget`. Each loads what it needs when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from private_topk.budget.units import UNITS
from private_topk.pipelines.budget.options import add_ledger_arguments
from private_topk.pipelines.options import add_mechanism_arguments, number, require

__all__ = ["add_budget_command", "add_plan_command"]

Add = Callable[..., argparse.ArgumentParser]


def add_plan_command(commands: argparse._SubParsersAction, add: Add) -> None:
    """`private-topk plan`."""
    plan = add(commands, "plan", _plan, "compute what each window may spend of a total budget")
    plan.add_argument("--windows", type=int, metavar="N", help="how many windows one user can be in")
    add_mechanism_arguments(
        plan,
        "the total over all windows; smaller is more private",
        "as in the run: at most M items of every user and window",
    )


def add_budget_command(commands: argparse._SubParsersAction, add: Add) -> None:
    """`private-topk budget create|show|history`."""
    budget = add(commands, "budget", None, "open a dataset's budget in a ledger, and see what was spent of it")
    actions = budget.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = add(actions, "create", _create, "open a budget; it cannot be changed later")
    add_ledger_arguments(create)
    create.add_argument("--epsilon", type=number, metavar="E", help="the total")
    create.add_argument("--delta", type=number, default=0.0, metavar="D", help="the total (default: 0, adding up only)")
    create.add_argument("--release-delta", type=number, metavar="D", help="the part of delta for the deltas of single "
                        "releases; the rest lets many small ones cost less than their sum (default: half)")  # fmt: skip
    create.add_argument("--privacy-unit", choices=tuple(UNITS), default="user-window", help="what the total is of "
                        "(default: user-window)")  # fmt: skip
    create.add_argument("--neighbours", choices=("add-remove", "swap"), default="add-remove",
                        help="what every run on it must protect (default: add-remove)")  # fmt: skip
    show = add(actions, "show", _show, "show what is spent and what is left")
    add_ledger_arguments(show)
    show.add_argument("--plot", metavar="FILE", help="draw spending over time into a .png, .svg or .pdf")
    add_ledger_arguments(add(actions, "history", _history, "list every charge"))


def _plan(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    from private_topk.pipelines.budget.plan import plan

    plan(arguments)


def _create(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    require(arguments, "ledger", "dataset", "epsilon")
    from private_topk.pipelines.budget.create import create

    create(arguments)


def _show(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    require(arguments, "ledger")
    from private_topk.pipelines.budget.show import show

    show(arguments)


def _history(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    require(arguments, "ledger")
    from private_topk.pipelines.budget.show import history

    history(arguments)
