"""The commands `plan` and `budget`. Each loads what it needs when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from private_topk.pipelines.budget.options import UNITS, add_ledger_arguments
from private_topk.pipelines.options import add_mechanism_arguments

__all__ = ["add_budget_command", "add_plan_command"]

Add = Callable[..., argparse.ArgumentParser]


def add_plan_command(commands: argparse._SubParsersAction, add: Add) -> None:
    """`private-topk plan`."""
    plan = add(commands, "plan", _plan, "compute what each window may spend of a total budget")
    plan.add_argument("--windows", type=int, metavar="N", help="how many windows one user can be in")
    add_mechanism_arguments(plan)


def _plan(arguments: argparse.Namespace, beam_arguments: list[str]) -> None:
    from private_topk.pipelines.budget.plan import plan

    plan(arguments)
