"""`private-topk plan`: what every window may spend of a total, under each accounting."""

from __future__ import annotations

import argparse
from fractions import Fraction

from private_topk.budget.composition import ACCOUNTINGS
from private_topk.budget.planning import Plan
from private_topk.budget.planning import plan as make_plan
from private_topk.pipelines.options import require, totals

__all__ = ["plan"]

_WHY_NOT = {
    "basic": "",
    "optimal": "for up to 1000 windows and with a delta",
    "bounded-range": "for exponential mechanisms and with a delta, where it beats adding up",
    "zcdp": "with a delta, where it beats adding up",
}


def plan(arguments: argparse.Namespace) -> None:
    """Print the share of one window under every accounting, and which is the largest."""
    require(arguments, "mechanism", "epsilon", "windows")
    arguments.k = 10 if arguments.k is None else arguments.k
    mechanism, spare = totals(arguments)
    found = make_plan(mechanism, arguments.k, spare, windows=arguments.windows)
    epsilon = float(arguments.epsilon)
    given = f"--epsilon {epsilon:g}" + (f" --delta {float(arguments.delta):g}" if arguments.delta else "")
    delta = float(found.total.delta)
    print(f"{arguments.mechanism}, k = {arguments.k}: epsilon {epsilon:g}, delta {delta:g} in all, over "
          f"{arguments.windows} windows that one user can be in\n")  # fmt: skip
    print(f"  {'accounting':<20}{'epsilon of a window':>22}{'delta of a window':>20}{'x basic':>9}")
    _print_shares(found)
    print(f"\nTightest: {found.best.accounting}. In a run: --privacy-unit user --horizon {arguments.windows} {given}")


def _print_shares(found: Plan) -> None:
    basic, best = found.shares["basic"].epsilon, found.best
    for name in ACCOUNTINGS:
        if name in found.shares:
            share = found.shares[name]
            _print_row(name, share.epsilon, share.delta, basic, share is best)
        else:
            print(f"  {name:<20}{'-':>22}   ({_WHY_NOT[name]})")
    if found.reference is None:
        print("  dp-accounting               not installed: pip install 'private-topk[accounting]' to compare")
    for name, epsilon in (found.reference or {}).items():
        _print_row(name, epsilon, 0, basic, False)


def _print_row(name: str, epsilon: Fraction | float, delta: Fraction | float, basic: Fraction, best: bool) -> None:
    mark = "  <- tightest" if best else ""
    print(f"  {name:<20}{float(epsilon):>22.10g}{float(delta):>20.3g}{float(epsilon / basic):>9.2f}{mark}")
