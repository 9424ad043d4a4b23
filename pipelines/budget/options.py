"""The arguments of budgets. Nothing here imports Beam or a database, so that --help is quick."""

from __future__ import annotations

import argparse

from private_topk.budget.units import UNITS

__all__ = ["add_budget_arguments", "add_ledger_arguments"]


def add_budget_arguments(parser: argparse.ArgumentParser) -> None:
    """The privacy unit, the horizon and the ledger of a run."""
    group = parser.add_argument_group("budget across windows and runs (docs/budget.md)")
    group.add_argument("--privacy-unit", choices=tuple(UNITS), default="user-window", help="user-window (default): "
                       "--epsilon is that of every single window; user: --epsilon and --delta are the total of all "
                       "windows that a user can be in, and each gets a share")  # fmt: skip
    group.add_argument("--horizon", type=int, metavar="N", help="with --privacy-unit user: how many windows there will "
                       "be in all, where a run publishes only some of them (default: those of this run)")  # fmt: skip
    add_ledger_arguments(group)


def add_ledger_arguments(group: argparse._ActionsContainer) -> None:
    group.add_argument("--ledger", metavar="URL", help="where spending is kept, such as sqlite:///budget.db or "
                       "postgresql://user@host/db; charged before the run starts")  # fmt: skip
    group.add_argument("--dataset", metavar="NAME", help="with --ledger: whose budget is charged")
