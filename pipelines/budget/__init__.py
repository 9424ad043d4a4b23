"""Budgets across releases: how they compose, what a share of a total is, and the ledger that holds what was spent.

Arithmetic and a database: nothing here knows Beam or a command line, so any pipeline of one's own may be charged too.
"""

from __future__ import annotations

from private_topk.pipelines.budget.accounting import Budget, Entry
from private_topk.pipelines.budget.composition import Total
from private_topk.pipelines.budget.ledger import Account, ChargeReceipt, Ledger, Request, charge, charge_all
from private_topk.pipelines.budget.sharing import Composition, Privacy, Shared, share_out
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.mechanisms.cost import Cost

__all__ = [
    "Account",
    "Budget",
    "ChargeReceipt",
    "Composition",
    "Cost",
    "Entry",
    "Ledger",
    "Privacy",
    "Request",
    "Shared",
    "Total",
    "Windows",
    "charge",
    "charge_all",
    "share_out",
]
