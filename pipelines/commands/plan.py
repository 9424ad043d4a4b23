"""`private-topk plan`: what every window may spend of a total, under each accounting."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from private_topk.pipelines.commands.arguments import add_mechanism, asked_of
from private_topk.pipelines.commands.parser import Parser, add, flag
from private_topk.pipelines.fields import require
from private_topk.pipelines.texts import whole

if TYPE_CHECKING:
    from private_topk.budget.planning import Plan

__all__ = ["execute", "parser"]

_WHY_NOT = {
    "basic": "",
    "optimal": "for up to 1000 windows and with a delta",
    "bounded-range": "for exponential mechanisms and with a delta, where it beats adding up",
    "zcdp": "with a delta, where it beats adding up",
}
_USUAL_K = 10


def parser(words: Sequence[str] = ()) -> Parser:
    """The arguments, also those of a mechanism of one's own that the words name."""
    text = "Compute what each window may spend of a total budget."
    found = Parser(prog="private-topk plan", description=text)
    add(found, "windows", "N", "how many windows one user can be in", whole)
    add_mechanism(found.add_argument_group("privacy"), words, "the total over all windows; smaller is more private",
                  "as in the run: at most M items of every user and window")  # fmt: skip
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print the share of one window under every accounting, and which is the largest."""
    from private_topk.budget.planning import plan
    from private_topk.pipelines.drawing import mechanism_of

    parser().refuse(others)
    asked, windows = asked_of(arguments), arguments.windows
    require({**asked, **({"windows": windows} if windows is not None else {})}, "mechanism", "epsilon", "windows")
    k, (mechanism, spare_delta) = asked.get("k", _USUAL_K), mechanism_of(asked)
    found = plan(mechanism, k, spare_delta, windows=windows)
    epsilon, delta = float(asked["epsilon"]), float(asked.get("delta", 0))
    print(f"{mechanism.about.name}, k = {k}: epsilon {epsilon:g}, delta {float(found.total.delta):g} in all, over "
          f"{windows} windows that one user can be in\n")  # fmt: skip
    _print_shares(found)
    given = f"{flag('epsilon')} {epsilon:g}" + (f" {flag('delta')} {delta:g}" if delta else "")
    unit, horizon = flag("privacy_unit"), flag("horizon")
    print(f"\nTightest: {found.best.accounting}. In a run: {unit} user {horizon} {windows} {given}")


def _print_shares(found: Plan) -> None:
    from private_topk.budget.composition import ACCOUNTINGS

    print(f"  {'accounting':<20}{'epsilon of a window':>22}{'delta of a window':>20}{'x basic':>9}")
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
