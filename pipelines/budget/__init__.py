"""Budgets across releases: how they compose, what a share of a total is, and the ledger that holds what was spent.

Arithmetic and a database: nothing here knows Beam or a command line, so any pipeline of one's own may be charged too.
Names load on first use, so that what has no ledger does not import a database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from private_topk.pipelines.budget.account import Budget, Windows
    from private_topk.pipelines.budget.charging import Account, charge
    from private_topk.pipelines.budget.composition import Cost, Total
    from private_topk.pipelines.budget.ledger import Ledger, Receipt
    from private_topk.pipelines.budget.planning import Plan, plan
    from private_topk.pipelines.budget.records import Entry, Request
    from private_topk.pipelines.budget.sharing import Privacy, Shared, share_out

__all__ = [
    "Account",
    "Budget",
    "Cost",
    "Entry",
    "Ledger",
    "Plan",
    "Privacy",
    "Receipt",
    "Request",
    "Shared",
    "Total",
    "Windows",
    "charge",
    "plan",
    "share_out",
]

_HOMES = {
    "account": ("Budget", "Windows"),
    "charging": ("Account", "charge"),
    "composition": ("Cost", "Total"),
    "ledger": ("Ledger", "Receipt"),
    "planning": ("Plan", "plan"),
    "records": ("Entry", "Request"),
    "sharing": ("Privacy", "Shared", "share_out"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
