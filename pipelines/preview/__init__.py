"""Previews: what a ranking would be like, before any budget is spent on one, from public knowledge of the counts alone.

Arithmetic and seeded draws, without Beam.
"""

from __future__ import annotations

from private_topk.pipelines.preview.compare import Preview, Previews, alternatives, preview
from private_topk.pipelines.preview.expected import Expected, InAmounts, PublicCounts, Reaches, Released
from private_topk.pipelines.preview.outlook import Estimate, Outlook, look
from private_topk.pipelines.preview.solving import largest_k, least_epsilon

__all__ = [
    "Estimate",
    "Expected",
    "InAmounts",
    "Outlook",
    "Preview",
    "Previews",
    "PublicCounts",
    "Reaches",
    "Released",
    "alternatives",
    "largest_k",
    "least_epsilon",
    "look",
    "preview",
]
