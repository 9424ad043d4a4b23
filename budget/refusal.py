"""What a refused run is told: the arithmetic, line by line, and what would fit."""

from __future__ import annotations

from fractions import Fraction

from private_topk.budget.account import Budget, Spent

__all__ = ["explain", "number"]


def explain(budget: Budget, before: Spent, asked: Spent, after: Spent) -> str:
    """The message for a release that does not fit.

    Args:
        before: what the windows in question have cost one user so far; `asked`, `after`: with the new release.
    """
    total = budget.total
    kept, spare = budget.kept, total.delta - budget.kept
    lines = [f"the {budget.unit} budget of dataset {budget.dataset} does not suffice, and nothing was charged",
             _sum("epsilon", before.epsilon, asked.epsilon, after.epsilon, total.epsilon)]  # fmt: skip
    if after.delta:
        lines.append(_sum("delta", before.delta, asked.delta, after.delta, kept) + " kept for releases' own delta")
    if budget.rho:
        under = f" (zCDP at epsilon {number(total.epsilon)}, delta {number(spare)})"
        lines.append(_sum("rho", before.rho, asked.rho, after.rho, budget.rho) + under)
    lines.append(_remedy(total.epsilon - before.epsilon))
    return "\n  ".join(lines)


def _sum(name: str, before: Fraction, asked: Fraction, after: Fraction, limit: Fraction) -> str:
    terms = f"{number(before)} spent + {number(asked)} asked = {number(after)}"
    return f"adding up {name}: {terms}, {'over' if after > limit else 'within'} {number(limit)}"


def _remedy(left: Fraction) -> str:
    if left > 0:
        return f"Adding up, epsilon {number(left)} is left: ask for less, or for fewer windows"
    return "Adding up, nothing is left; `private-topk budget history` lists what was spent"


def number(value: Fraction) -> str:
    """A budget as people write it, to six digits."""
    return f"{float(value):.6g}"
