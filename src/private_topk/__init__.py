"""Differentially private top-k rankings from Apache Beam pipelines.

The rooms beside this file are links to the folders at the root of the repository. Names load on first use, so that
what needs no Beam does not import it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from private_topk.transforms import (
        Amounts,
        CountBudget,
        Period,
        PrivateTopK,
        PublicDomain,
        Ranking,
        Release,
        ReleaseKey,
        UnknownDomain,
    )

__all__ = [
    "Amounts",
    "CountBudget",
    "Period",
    "PrivateTopK",
    "PublicDomain",
    "Ranking",
    "Release",
    "ReleaseKey",
    "UnknownDomain",
    "__version__",
]

try:
    __version__ = version("private-topk")
except PackageNotFoundError:  # a checkout on the path that was never installed
    __version__ = "unknown"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.transforms"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
