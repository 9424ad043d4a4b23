"""The mechanism from options. Nothing here loads Beam or Arrow, so that `plan` and `select` start quickly."""

from __future__ import annotations

from fractions import Fraction

from private_topk.pipelines.budget.composition import check_epsilon
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.registry import with_budget
from private_topk.transforms.options import Options

__all__ = ["mechanism_of"]


def mechanism_of(options: Options) -> tuple[Mechanism, Fraction | float | None]:
    """The mechanism with the whole budget, and the delta that it does not use itself. Raises Refusal."""
    check_epsilon(options["epsilon"])
    return with_budget(
        options["mechanism"],
        options["epsilon"],
        options.get("delta"),
        options.get("max_items_per_user"),
        neighbours=options.get("neighbours"),
        **options.get("parameters", {}),
    )
