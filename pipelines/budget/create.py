"""`private-topk budget create`."""

from __future__ import annotations

import argparse

from private_topk.budget.account import Budget
from private_topk.budget.ledger import Ledger
from private_topk.budget.refusal import number
from private_topk.budget.units import UNITS

__all__ = ["create"]


def create(arguments: argparse.Namespace) -> None:
    """Open a budget. Raises Refusal for numbers that break a rule, or if there is one already."""
    budget = Budget.of(
        arguments.dataset,
        arguments.epsilon,
        arguments.delta,
        arguments.release_delta,
        unit=arguments.privacy_unit,
        neighbours=arguments.neighbours,
    )
    Ledger(arguments.ledger).create(budget)
    epsilon, delta = number(budget.total.epsilon), number(budget.total.delta)
    print(f"{budget.dataset}: epsilon {epsilon}, delta {delta} for {UNITS[budget.unit]}; "
          f"neighbours: {budget.neighbours}")  # fmt: skip
    if budget.rho:
        print(f"Releases fit while their epsilons add up to at most {epsilon}, or their rhos (zCDP) to at most "
              f"{number(budget.rho)}")  # fmt: skip
