"""The privacy unit of a report: what its epsilon and delta are the total of, and every window's share."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from private_topk.pipelines.budget.composition import Cost, Make, Total, best_share, share_under, shares
from private_topk.pipelines.budget.options import UNITS
from private_topk.pipelines.errors import InputError
from private_topk.pipelines.options import make_mechanism, require
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism

__all__ = ["LEDGER_ACCOUNTINGS", "Privacy", "make_privacy", "mechanism_maker"]

LEDGER_ACCOUNTINGS = ("basic", "zcdp")
"""The accountings by which a ledger adds up, and so the only ones that may split a budget it holds."""


@dataclass(frozen=True)
class Privacy:
    """What is protected, and how well.

    Args:
        unit: a key of `UNITS`.
        mechanism: as it is run in every window: its budget is the share.
        windows: how many windows the total is split over.
        total: of all windows together, or None where every window has its own budget.
        accounting: which composition proves the total, or None.
    """

    unit: str
    mechanism: Mechanism
    windows: int = 1
    total: Total | None = None
    accounting: str | None = None

    def describe(self) -> dict[str, Any]:
        """The entry of the manifest: unit, total and share."""
        own = self.mechanism.parameters()
        share = {"epsilon": own["epsilon"], "delta": own.get("delta", 0)}
        about = {"neighbours": own["neighbours"], "unit": UNITS[self.unit]}
        if self.total is None:
            return {**share, **about, "guarantee": self.mechanism.about.guarantee}
        pure = self.accounting == "basic" and share["delta"] == 0
        return {
            "epsilon": float(self.total.epsilon),
            "delta": 0 if pure else float(self.total.delta),
            **about,
            "guarantee": "pure" if pure else "approximate",
            "windows": self.windows,
            "accounting": self.accounting,
            "share": share,
        }

    def cost(self, k: int) -> Cost:
        """What one window costs a user who is in it."""
        return Cost.of(self.mechanism, k)


def make_privacy(arguments: argparse.Namespace, windows: int, held: Total | None = None) -> Privacy:
    """The unit and the mechanism that the arguments describe.

    Args:
        windows: how many windows the run publishes.
        held: the budget that a ledger holds, so that the shares of all its runs add up to it exactly.

    Raises:
        InputError: a parameter is missing, breaks its rule or does not apply.
    """
    if arguments.privacy_unit == "user-window":
        if arguments.horizon is not None:
            raise InputError("--horizon needs --privacy-unit user: with user-window every window has its own budget")
        return Privacy("user-window", make_mechanism(arguments))
    require(arguments, "mechanism", "k", "epsilon")
    reached = windows if arguments.horizon is None else arguments.horizon
    if reached < windows:
        raise InputError(f"--horizon must be at least the {windows} windows of this run, got {reached}")
    make = mechanism_maker(arguments)
    total = _total(arguments, make)
    if held is None:
        found = shares(make, arguments.k, total, reached)
    else:
        total = _as_held(total, held)
        names = LEDGER_ACCOUNTINGS if reached > 1 else LEDGER_ACCOUNTINGS[:1]
        found = {name: share_under(name, make, arguments.k, total, reached) for name in names}
        found = {name: share for name, share in found.items() if share is not None}
    share = best_share(found)
    return Privacy("user", make(Fraction(share.epsilon), Fraction(share.delta)), reached, total, share.accounting)


def mechanism_maker(arguments: argparse.Namespace) -> Make:
    """The mechanism that the arguments describe, for any epsilon and delta."""
    approximate = arguments.mechanism not in MECHANISMS or "delta" in {
        field.name for field in fields(MECHANISMS[arguments.mechanism])
    }

    def make(epsilon: Fraction, delta: Fraction) -> Mechanism:
        budget = {"epsilon": float(epsilon), "delta": float(delta) if approximate else None}
        return make_mechanism(argparse.Namespace(**{**vars(arguments), **budget}))

    return make


def _as_held(total: Total, held: Total) -> Total:
    """The total with delta parted as the ledger parts its own, so that equal totals give equal limits."""
    delta = min(total.delta, held.delta)
    parted = held.release_delta / held.delta if held.delta else Fraction(0)
    return Total(total.epsilon, delta, delta * parted)


def _total(arguments: argparse.Namespace, make: Make) -> Total:
    delta = Fraction(arguments.delta or 0)
    if not 0 <= delta < 1:
        raise InputError(f"--delta must lie strictly between 0 and 1, got {arguments.delta}")
    probe = make(arguments.epsilon, delta or Fraction(1, 2))  # checks every other parameter
    if probe.parameter("delta") and not delta:
        raise InputError(f"{arguments.mechanism} needs --delta")
    return Total(Fraction(arguments.epsilon), delta)
