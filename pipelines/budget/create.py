"""`private-topk budget create`."""

from __future__ import annotations

import argparse
import math
from fractions import Fraction

from private_topk.budget.account import Budget
from private_topk.budget.composition import Total
from private_topk.budget.ledger import Ledger
from private_topk.budget.refusal import number
from private_topk.budget.units import UNITS
from private_topk.pipelines.errors import InputError

__all__ = ["create"]


def create(arguments: argparse.Namespace) -> None:
    """Open a budget. Raises InputError for numbers that break a rule, or if there is one already."""
    epsilon, delta, name = arguments.epsilon, arguments.delta, arguments.dataset
    if not 0 < epsilon < math.inf:
        raise InputError(f"--epsilon must be a positive finite number, got {epsilon}")
    if not 0 <= delta < 1:
        raise InputError(f"--delta must be at least 0 and below 1, got {delta}")
    release = Fraction(delta) / 2 if arguments.release_delta is None else Fraction(arguments.release_delta)
    if not 0 <= release <= Fraction(delta):
        raise InputError(f"--release-delta must be from 0 to --delta, got {arguments.release_delta}")
    if not name.isprintable() or not 0 < len(name) <= 200:
        raise InputError("--dataset must be 1 to 200 printable characters")
    total = Total(Fraction(epsilon), Fraction(delta), release)
    budget = Budget(name, arguments.privacy_unit, total, arguments.neighbours)
    Ledger(arguments.ledger).create(budget)
    print(f"{name}: epsilon {epsilon:g}, delta {delta:g} for {UNITS[budget.unit]}; neighbours: {budget.neighbours}")
    if budget.rho:
        print(f"Releases fit while their epsilons add up to at most {epsilon:g}, or their rhos (zCDP) to at most "
              f"{number(budget.rho)}")  # fmt: skip
