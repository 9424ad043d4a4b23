"""Budgets across releases: how they compose, what a share of a total is, and the ledger that holds what was spent.

Arithmetic and a database: nothing here knows Beam or a command line, so any pipeline of one's own may be charged too.
"""

from __future__ import annotations

from private_topk.pipelines.budget.account import Budget, Windows
from private_topk.pipelines.budget.composition import Cost, Total
from private_topk.pipelines.budget.ledger import Account, Ledger, Receipt, charge
from private_topk.pipelines.budget.planning import Plan, plan
from private_topk.pipelines.budget.records import Entry, Request
from private_topk.pipelines.budget.sharing import Privacy, Reach, Shared, share_out

__all__ = [
    "Account",
    "Budget",
    "Cost",
    "Entry",
    "Ledger",
    "Plan",
    "Privacy",
    "Reach",
    "Receipt",
    "Request",
    "Shared",
    "Total",
    "Windows",
    "charge",
    "plan",
    "share_out",
]
