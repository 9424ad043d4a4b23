"""Differentially private top-k rankings from Apache Beam pipelines.

The rooms beside this file are links to the folders at the root of the repository. Names load on first use, so that
what needs no Beam does not import it.
"""

from __future__ import annotations

from importlib import import_module
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

    __version__: str

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


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.transforms"), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes as long to load as all else of `--help`

    try:
        return version("private-topk")
    except PackageNotFoundError:  # a checkout on the path that was never installed
        return "unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
