"""Items by falling count, in a fraction of the time that a sort of 64-bit numbers takes.

Numbers of 16 binary digits numpy sorts by counting their digits. So differences to the largest count are sorted 16
digits at a time, and the items of some keys by how many of the counts that these keys stand for are larger.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["by_count", "by_key"]

Indices = NDArray[np.int64]

_DIGITS = 16


def by_count(items: Indices, counts: Indices) -> Indices:
    """Items in decreasing order of their counts, equal ones as they come; shape (n,)."""
    if not (counts[1:] > counts[:-1]).any():
        return items  # each key has one count, or there is nothing
    less = counts.max() - counts
    digits = int(less.max()).bit_length()
    if digits > 3 * _DIGITS:
        return items[np.argsort(less, kind="stable")]
    order = np.argsort(less.astype(np.uint16), kind="stable")
    for done in range(_DIGITS, digits, _DIGITS):
        order = order[np.argsort((less >> done).astype(np.uint16)[order], kind="stable")]
    return items[order]


def by_key(items: Indices, counts: Indices, kinds: Indices, least: Indices, widths: Indices) -> Indices | None:
    """The same of items of some keys, which fall; None where these stand for more than 65,536 counts.

    Args:
        items, counts: shape (n,) both.
        kinds: the places of the items' keys among these keys, (n,).
        least, widths: the least count of each key, and how many counts it stands for.
    """
    ends = np.cumsum(widths)
    if ends[-1] > 2**_DIGITS:
        return None
    return items[np.argsort(((ends - 1 + least)[kinds] - counts).astype(np.uint16), kind="stable")]
