"""What a ranking is of: a window, and a group of it where there are groups."""

from __future__ import annotations

from typing import Any, NamedTuple

from private_topk.transforms.cut import window_named
from private_topk.transforms.groups import Groups
from private_topk.transforms.layout import Layout
from private_topk.transforms.windows import Period, WindowBounds

__all__ = ["Heading", "heading"]


class Heading(NamedTuple):
    """What a ranking is of: a window, and a group of it where there are groups."""

    bounds: WindowBounds
    group: str | None = None

    def label(self) -> str:
        """A name of its own among the rankings of a release."""
        return self.bounds.label(self.group)


def heading(groups: Groups | None, layout: Layout, period: Period | None, number: int, window: Any) -> Heading:  # noqa: ANN401
    """What the ranking of a number is of.

    Args:
        window: Beam's, which tells the declared one where the tables hold no more than one.
    """
    bounds = window_named(period, number // layout.parts, window, layout.dates > 1)
    return Heading(bounds, None if groups is None else groups.name(number % layout.parts))
