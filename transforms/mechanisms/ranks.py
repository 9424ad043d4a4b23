"""What a mechanism may answer with. Built-in ones are tested to; one of a user's own may not be."""

from __future__ import annotations

from typing import Any

import numpy as np

from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms.exact.histogram import Indices

__all__ = ["check_ranks"]


def check_ranks(ranks: Any, k: int, items: int, name: str, fewer: bool = False) -> Indices:  # noqa: ANN401
    """The ranks that a mechanism called `name` has drawn, or a refusal: of others, some item would be named twice.

    Args:
        items: how many there are; `ranks` must be different integers from 0 to `items` - 1.
        fewer: whether less than k may come out.

    Cost: some microseconds and O(k log k), beside a draw.
    """
    if isinstance(ranks, np.ndarray) and ranks.dtype.kind in "iu" and ranks.ndim == 1:
        ordered = sorted(ranks.tolist())
        whole = len(ordered) == k or (fewer and len(ordered) < k)
        if whole and len(set(ordered)) == len(ordered) and (not ordered or (ordered[0] >= 0 and ordered[-1] < items)):
            return ranks
    many = f"at most {k}" if fewer else f"{k}"
    raise Refusal(
        "mechanism",
        f"{name} must answer with {many} different ranks, an array of integers from 0 up to the number of items",
        "private_topk.transforms.testing.check_contract shows what else it owes",
    )
