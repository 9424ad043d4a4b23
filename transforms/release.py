"""What is drawn in every window, and what is released of it."""

from __future__ import annotations

from dataclasses import dataclass

from private_topk.transforms.count_budget import CountBudget, NoiseSize
from private_topk.transforms.selection import Draws, Selection
from private_topk.transforms.windows import WindowBounds

__all__ = ["CountBudget", "Draws", "NoiseSize", "Ranking", "Selection"]


@dataclass(frozen=True)
class Ranking:
    """The released top items of one window. Public.

    Args:
        items: in rank order; where the mechanism answers with a set, in the order of the domain, or of the labels'
            bytes if the domain is unknown.
        k: how many were asked for. In the unknown domain fewer may be returned; that is part of the guarantee.
        answer: "sequence" or "set".
        group: of which group of the rows, where every one has a ranking.
        noisy_counts: of the items in their order, where a budget was set aside for them; may be negative. Noisy sums
            where amounts are added up, in the measure of these.
        noise: how far those may be off for their noise, in the same measure.
        noisy_weights: of a mechanism that weighs users, the noisy sums of weights that it has ranked by: no counts.
    """

    window: WindowBounds
    items: tuple[str, ...]
    k: int
    answer: str
    noisy_counts: tuple[int | float, ...] | None = None
    noise: NoiseSize | None = None
    group: str | None = None
    noisy_weights: tuple[float, ...] | None = None

    def label(self) -> str:
        """A name of its own among the rankings of a release."""
        return self.window.label(self.group)
