"""What a refused run is told: the arithmetic, line by line, and what would fit."""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_HALF_EVEN
from fractions import Fraction

from private_topk.pipelines.budget.account import Budget, Spent
from private_topk.transforms.stated import number

__all__ = ["explain"]

_MOST_DIGITS = 60


def explain(budget: Budget, before: Spent, asked: Spent, after: Spent) -> str:
    """The message for a release that does not fit.

    Args:
        before: what the windows in question have cost one user so far; `asked`, `after`: with the new release.
    """
    total = budget.total
    kept, spare = budget.kept, total.delta - budget.kept
    lines = [f"the {budget.unit} budget of dataset {budget.dataset} does not suffice, and nothing was charged"]
    if after.adds_up:
        lines.append(_sum("epsilon", before.epsilon, asked.epsilon, after.epsilon, total.epsilon))
    else:
        lines.append("epsilons do not add up here: of Gaussian noise and its like only the rhos count (docs/budget.md)")
    if after.rest:
        lines.append(_sum("delta", before.rest, asked.rest, after.rest, kept) + " kept for releases' own delta")
    if budget.rho:
        under = f" (zCDP at epsilon {number(total.epsilon)}, delta {number(spare)})"
        lines.append(_sum("rho", before.rho, asked.rho, after.rho, budget.rho) + under)
    if after.adds_up:
        lines.append(_remedy(total.epsilon - before.epsilon))
    return "\n  ".join(lines)


def _sum(name: str, before: Fraction, asked: Fraction, after: Fraction, limit: Fraction) -> str:
    digits = 6
    while after > limit and _nearest(after, digits) == _nearest(limit, digits) and digits < _MOST_DIGITS:
        digits += 3  # 0.9 + 0.1 = 1 is not over 1: as floats they are 1.00000000000000003, which then has to be seen
    terms = f"{number(before, digits)} spent + {number(asked, digits)} asked = {number(after, digits)}"
    return f"adding up {name}: {terms}, {'over' if after > limit else 'within'} {number(limit, digits)}"


def _nearest(value: Fraction, digits: int) -> str:
    return number(value, digits, ROUND_HALF_EVEN)


def _remedy(left: Fraction) -> str:
    if left > 0:
        return f"Adding up, epsilon {number(left, rounding=ROUND_FLOOR)} is left: ask for less, or for fewer windows"
    return "Adding up, nothing is left; `private-topk budget history` lists what was spent"
