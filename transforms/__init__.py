"""Beam transforms from rows to private rankings, and the mechanisms they run.

The Beam names load on first use: `private_topk.transforms.mechanisms` works without importing Beam.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from private_topk.transforms.domain import PublicDomain, RangeDomain, UnknownDomain
    from private_topk.transforms.groups import Groups
    from private_topk.transforms.mechanisms.noisy_counts import CountBudget
    from private_topk.transforms.metric import Amounts
    from private_topk.transforms.release import Ranking, Release, ReleaseKey
    from private_topk.transforms.top_k import PrivateTopK
    from private_topk.transforms.windows import Period, WindowBounds

__all__ = [
    "Amounts",
    "CountBudget",
    "Groups",
    "Period",
    "PrivateTopK",
    "PublicDomain",
    "RangeDomain",
    "Ranking",
    "Release",
    "ReleaseKey",
    "UnknownDomain",
    "WindowBounds",
]

_HOMES = {
    "Amounts": "metric",
    "CountBudget": "mechanisms.noisy_counts",
    "Groups": "groups",
    "Period": "windows",
    "PrivateTopK": "top_k",
    "PublicDomain": "domain",
    "RangeDomain": "domain",
    "Ranking": "release",
    "Release": "release",
    "ReleaseKey": "release",
    "UnknownDomain": "domain",
    "WindowBounds": "windows",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
