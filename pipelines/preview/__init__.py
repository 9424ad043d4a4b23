"""Previews: what a ranking would be like, before any budget is spent on one, from public knowledge of the counts alone.

Arithmetic and seeded draws, without Beam and without files.
"""

from __future__ import annotations

from private_topk.pipelines.preview.comparing import GroupsPreview, Preview, preview
from private_topk.pipelines.preview.outlook import Estimate, Outlook, look
from private_topk.pipelines.preview.setting import Setting
from private_topk.pipelines.preview.shapes import Expected, InAmounts, PublicCounts, Released, Zipf
from private_topk.pipelines.preview.solving import Solved, largest_k, least_epsilon

__all__ = [
    "Estimate",
    "Expected",
    "GroupsPreview",
    "InAmounts",
    "Outlook",
    "Preview",
    "PublicCounts",
    "Released",
    "Setting",
    "Solved",
    "Zipf",
    "largest_k",
    "least_epsilon",
    "look",
    "preview",
]
