"""What may be given as counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from private_topk.transforms.errors import Refusal

__all__ = ["check_counts"]


def check_counts(counts: ArrayLike, domain: str = "public") -> NDArray[np.int64]:
    """The counts as int64 of shape (d,), or a refusal. Never shows a count. Only an unknown domain may be empty.

    Raises:
        Refusal: they are not of one dimension, none, negative or 2**63 and more.
        TypeError: they are no integers.
    """
    array = np.asarray(counts)
    if array.shape == (0,) and domain == "unknown":
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.size == 0:
        raise Refusal("counts", f"must be one-dimensional and hold at least one item, got shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"counts must be integers, got dtype {array.dtype}: cast them if they are whole numbers")
    if array.dtype.kind == "i" and array.min() < 0:
        raise Refusal("counts", "must be at least 0", "a negative count was given")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise Refusal("counts", "must be below 2**63")
    return array.astype(np.int64, copy=False)
