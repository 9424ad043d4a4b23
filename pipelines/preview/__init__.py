"""Previews: what a ranking would be like, before any budget is spent on one, from public knowledge of the counts alone.

Arithmetic and seeded draws, without Beam.
"""

from __future__ import annotations

from private_topk.pipelines.preview.compare import (
    GroupsPreview,
    Preview,
    alternatives,
    largest_k,
    least_epsilon,
    preview,
)
from private_topk.pipelines.preview.expected import Expected, InAmounts, PublicCounts, Reaches, Released
from private_topk.pipelines.preview.outlook import Estimate, Outlook, look

__all__ = [
    "Estimate",
    "Expected",
    "GroupsPreview",
    "InAmounts",
    "Outlook",
    "Preview",
    "PublicCounts",
    "Reaches",
    "Released",
    "alternatives",
    "largest_k",
    "least_epsilon",
    "look",
    "preview",
]
