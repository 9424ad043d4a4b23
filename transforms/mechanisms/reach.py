"""How far one user can move an order: the part of the scores that is orthogonal to (1, ..., 1)."""

from __future__ import annotations

from fractions import Fraction

from private_topk.transforms.mechanisms.mechanism import Neighbours

__all__ = ["order_reach"]


def order_reach(items: int, most: int, neighbours: Neighbours) -> Fraction:
    """Squared, of `items` scores to which a user adds numbers in [0, 1] whose squares sum to at most `most`; 1 for a
    single score, whose order is one.

    An order is the same when all scores move together, so that a move v reaches it as far as |v|**2 - (sum of v)**2 /
    items. The sum is at least q = |v|**2, no number being above 1: at most q (items - q) / items, which rises up to q =
    items / 2. And in v it is convex, so that beyond that it is largest at whole numbers: r (items - r) / items, r being
    `most` or half of the items. Under "swap" v is the difference of two such moves, neither of which is negative:
    |v|**2 is at most 2 `most`, and at a corner of [-1, 1] to the power of items it is their number, less 1 / items
    where that is odd.
    """
    if items == 1:
        return Fraction(1)
    if neighbours == "swap":
        return min(Fraction(2 * most), items - Fraction(items % 2, items))
    moved = min(most, items // 2)
    return Fraction(moved * (items - moved), items)
