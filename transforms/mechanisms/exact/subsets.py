"""Uniform subsets, exactly."""

from __future__ import annotations

from private_topk.transforms.mechanisms.exact.bits import Draw

__all__ = ["uniform_subset"]


def uniform_subset(draw: Draw, n: int, m: int) -> list[int]:
    """A uniform m-subset of range(n), in no particular order: min(m, n - m) sequential draws (Bentley & Floyd 1987)."""
    if 2 * m > n:
        left_out = set(uniform_subset(draw, n, n - m))
        return [i for i in range(n) if i not in left_out]
    chosen: set[int] = set()
    for last, i in enumerate(draw.below_all(range(n - m + 1, n + 1)), n - m):
        chosen.add(last if i in chosen else i)
    return list(chosen)
