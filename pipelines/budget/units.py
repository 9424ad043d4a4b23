"""The privacy unit of a report: what its epsilon and delta are the total of, and every window's share."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from private_topk.pipelines.budget.composition import Cost, Share, Total, best_share, rounded_down, share_under, shares
from private_topk.pipelines.budget.options import UNITS
from private_topk.pipelines.errors import InputError
from private_topk.pipelines.options import make_mechanism, require
from private_topk.transforms.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from private_topk.transforms.release import Selection

__all__ = ["LEDGER_ACCOUNTINGS", "Privacy", "Window", "cost_of", "share_out"]

LEDGER_ACCOUNTINGS = ("basic", "zcdp")
"""The accountings by which a ledger adds up, and so the only ones that may split a budget it holds."""


@dataclass(frozen=True)
class Privacy:
    """What is protected across windows.

    Args:
        unit: a key of `UNITS`.
        windows: how many windows the total is split over.
        total: of all windows together, or None where every window has its own budget.
        accounting: which composition proves the total, or None.
    """

    unit: str = "user-window"
    windows: int = 1
    total: Total | None = None
    accounting: str | None = None

    def describe(self, window: dict[str, Any]) -> dict[str, Any]:
        """The manifest's entry, from that of a single window: unit, total and share."""
        if self.total is None:
            return {**window, "unit": UNITS[self.unit]}
        pure = self.accounting == "basic" and not window["delta"]
        share = {name: window[name] for name in ("epsilon", "delta", "ranking", "noisy_counts")}
        return {
            "epsilon": float(self.total.epsilon),
            "delta": 0.0 if pure else float(self.total.delta),
            "neighbours": window["neighbours"],
            "unit": UNITS[self.unit],
            "windows": self.windows,
            "accounting": self.accounting,
            "share_of_a_window": share,
            "guarantee": "pure" if pure else "approximate",
        }


class Window(NamedTuple):
    """The budget arguments of a single window, as they would be given for it alone."""

    epsilon: float
    delta: float | None
    publish_counts: float | None
    publish_counts_delta: float | None


def share_out(
    arguments: argparse.Namespace, windows: int, held: Total | None = None, overlap: int = 1
) -> tuple[Privacy, argparse.Namespace]:
    """The privacy unit that the arguments ask for, and the arguments with the budget of a single window.

    Args:
        windows: how many windows the run publishes.
        held: the budget in a ledger, so that the shares of all runs add up to it exactly.
        overlap: how many windows the rows of one window are in: more than 1 for sliding ones (`windows_reached`).

    Raises:
        InputError: a parameter is missing, breaks its rule or does not apply.
    """
    unit, horizon = arguments.privacy_unit, arguments.horizon
    if unit == "user-window":
        if horizon is not None:
            raise InputError("--horizon needs --privacy-unit user: with user-window every window has its own budget")
        if overlap == 1:
            return Privacy(), arguments
    reached = overlap if unit == "user-window" else windows if horizon is None else horizon
    if unit == "user" and reached < windows:
        raise InputError(f"--horizon must be at least the {windows} windows of this run, got {reached}")
    split = Split(arguments, Window(*(getattr(arguments, name) for name in Window._fields)))
    total = split.total if held is None else _as_held(split.total, held)
    share = best_share(_found(split, total, reached, held is not None))
    window = split.window(share.epsilon, share.delta)
    return Privacy(unit, reached, total, share.accounting), _with(arguments, window)


class Split:
    """How a total is parted between ranking and noisy counts: by the same ratio in every window.

    Raises:
        InputError: at construction, for whatever is wrong with the arguments of the mechanism.
    """

    def __init__(self, arguments: argparse.Namespace, given: Window) -> None:
        require(arguments, "mechanism", "k", "epsilon")
        kind = MECHANISMS.get(arguments.mechanism)
        approximate = kind is not None and "delta" in {field.name for field in fields(kind)}
        # Without a delta of its own, a mechanism's delta is for composing only.
        make_mechanism(arguments if approximate else _with(arguments, given._replace(delta=None)))
        self._arguments = arguments
        epsilons = [Fraction(given.epsilon), Fraction(given.publish_counts or 0)]
        deltas = [Fraction(given.delta or 0), Fraction(given.publish_counts_delta or 0)]
        self.total = Total(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))
        if not self.total.delta < 1:
            raise InputError(f"--delta must lie strictly between 0 and 1, got {given.delta}")
        releases = [deltas[0] if approximate else Fraction(0), deltas[1]]
        self._epsilons = [part / self.total.epsilon for part in epsilons]
        self._deltas = [part / sum(releases) if part else Fraction(0) for part in releases]

    def window(self, epsilon: Fraction, delta: Fraction) -> Window:
        """The budget arguments of a window that may spend an epsilon and a delta."""
        parts = [rounded_down(part * epsilon) for part in self._epsilons]
        slips = [rounded_down(part * delta) for part in self._deltas]
        ranking, counts, ranking_delta, counts_delta = (float(part) or None for part in (*parts, *slips))
        return Window(ranking or 0.0, ranking_delta, counts, counts_delta)

    def price(self, epsilon: Fraction, delta: Fraction) -> Cost:
        """What such a window costs."""
        window = self.window(epsilon, delta)
        cost = Cost.of(make_mechanism(_with(self._arguments, window)), self._arguments.k)
        if window.publish_counts is None:
            return cost
        return cost + Cost.of_any(Fraction(window.publish_counts), Fraction(window.publish_counts_delta or 0))


def cost_of(selection: Selection) -> Cost:
    """What one window of a report costs a user who is in it."""
    cost, counts = Cost.of(selection.mechanism, selection.k), selection.publish_counts
    return cost if counts is None else cost + Cost.of_any(Fraction(counts.epsilon), Fraction(counts.delta))


def _found(split: Split, total: Total, windows: int, held: bool) -> dict[str, Share]:
    if not held or windows == 1:
        return shares(split.price, total, windows)
    found = {name: share_under(name, split.price, total, windows) for name in LEDGER_ACCOUNTINGS}
    return {name: share for name, share in found.items() if share is not None}


def _as_held(total: Total, held: Total) -> Total:
    """The total with delta parted as the ledger parts its own, so that equal totals give equal limits."""
    delta = min(total.delta, held.delta)
    parted = (held.release_delta or Fraction(0)) / held.delta if held.delta else Fraction(0)
    return Total(total.epsilon, delta, delta * parted)


def _with(arguments: argparse.Namespace, window: Window) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(arguments), **window._asdict()})
