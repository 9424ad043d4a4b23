"""`private-topk plan`: what every window may spend of a total, under each accounting."""

from __future__ import annotations

import argparse
from fractions import Fraction

from private_topk.pipelines.budget.composition import ACCOUNTINGS, best_share, shares
from private_topk.pipelines.budget.reference import installed, reference_shares
from private_topk.pipelines.budget.units import Split, Window
from private_topk.pipelines.errors import InputError
from private_topk.pipelines.options import require

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
    if arguments.windows < 1:
        raise InputError(f"--windows must be at least 1, got {arguments.windows}")
    arguments.k = arguments.k or 10
    split = Split(arguments, Window(arguments.epsilon, arguments.delta, None, None))
    total = split.total
    found = shares(split.price, total, arguments.windows)
    best = best_share(found)
    given = f"--epsilon {arguments.epsilon:g}" + (f" --delta {arguments.delta:g}" if arguments.delta else "")
    print(f"{arguments.mechanism}, k = {arguments.k}: epsilon {arguments.epsilon:g}, delta {float(total.delta):g} in "
          f"all, over {arguments.windows} windows that one user can be in\n")  # fmt: skip
    print(f"  {'accounting':<20}{'epsilon of a window':>22}{'delta of a window':>20}{'x basic':>9}")
    basic = found["basic"].epsilon
    for name in ACCOUNTINGS:
        if name in found:
            _print_row(name, found[name].epsilon, found[name].delta, basic, found[name] is best)
        else:
            print(f"  {name:<20}{'-':>22}   ({_WHY_NOT[name]})")

    if installed():
        for name, share in reference_shares(split.price, total, arguments.windows).items():
            _print_row(name, share, 0, basic, False)
    else:
        print("  dp-accounting               not installed: pip install 'private-topk[accounting]' to compare")
    print(f"\nTightest: {best.accounting}. In a run: --privacy-unit user --horizon {arguments.windows} {given}")


def _print_row(name: str, epsilon: Fraction | float, delta: Fraction | float, basic: Fraction, best: bool) -> None:
    mark = "  <- tightest" if best else ""
    print(f"  {name:<20}{float(epsilon):>22.10g}{float(delta):>20.3g}{float(epsilon / basic):>9.2f}{mark}")
