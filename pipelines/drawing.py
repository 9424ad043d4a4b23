"""The mechanism that was asked for. Nothing here loads Beam or Arrow: `plan` and `select` start quickly."""

from __future__ import annotations

from fractions import Fraction

from private_topk.pipelines.budget.composition import check_epsilon
from private_topk.transforms.mechanisms import Mechanism, make_mechanism, mechanism_by_name, parameters_of
from private_topk.transforms.options import Options

__all__ = ["mechanism_of"]


def mechanism_of(options: Options) -> tuple[Mechanism, Fraction | float | None]:
    """The mechanism with the whole budget, and the delta that it has no use for itself. Raises Refusal."""
    check_epsilon(options["epsilon"])
    own = parameters_of(mechanism_by_name(options["mechanism"]))
    delta, bound = options.get("delta"), options.get("max_items_per_user")
    mechanism = make_mechanism(
        options["mechanism"],
        **options.get("parameters", {}),
        epsilon=options["epsilon"],
        delta=delta if "delta" in own else None,
        neighbours=options.get("neighbours"),
        max_items_per_user=bound if "max_items_per_user" in own else None,
    )
    return mechanism, None if "delta" in own else delta
