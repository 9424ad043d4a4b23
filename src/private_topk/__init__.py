"""Differentially private top-k rankings from Apache Beam pipelines.

The rooms beside this file are links to the folders at the root of the repository. Names load on first use, so that
what needs no Beam does not import it.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from private_topk.pipelines.preview import preview
    from private_topk.pipelines.rank import Rankings, dry_run, rank
    from private_topk.pipelines.write_rankings import WriteRankings
    from private_topk.transforms import (
        Amounts,
        CountBudget,
        Groups,
        Period,
        PrivateTopK,
        PublicDomain,
        RangeDomain,
        Ranking,
        Release,
        ReleaseKey,
        UnknownDomain,
    )
    from private_topk.transforms.mechanisms import (
        Canonical,
        CdpPeeling,
        CorrelatedGaussian,
        FastJoint,
        Gamma,
        Gaussian,
        Joint,
        JointSet,
        Laplace,
        LaplaceLimitDomain,
        LimitDomain,
        Oneshot,
        Peeling,
        PnfPeeling,
        RestrictedGumbel,
        RestrictedLaplace,
        RestrictedNormal,
        RestrictedPnf,
        TopStable,
        WeightedGaussian,
        WeightedOrder,
    )

    __version__: str

__all__ = [
    "Amounts",
    "Canonical",
    "CdpPeeling",
    "CorrelatedGaussian",
    "CountBudget",
    "FastJoint",
    "Gamma",
    "Gaussian",
    "Groups",
    "Joint",
    "JointSet",
    "Laplace",
    "LaplaceLimitDomain",
    "LimitDomain",
    "Oneshot",
    "Peeling",
    "Period",
    "PnfPeeling",
    "PrivateTopK",
    "PublicDomain",
    "RangeDomain",
    "Ranking",
    "Rankings",
    "Release",
    "ReleaseKey",
    "RestrictedGumbel",
    "RestrictedLaplace",
    "RestrictedNormal",
    "RestrictedPnf",
    "TopStable",
    "UnknownDomain",
    "WeightedGaussian",
    "WeightedOrder",
    "WriteRankings",
    "__version__",
    "dry_run",
    "preview",
    "rank",
]

_OF_TRANSFORMS = (
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
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _loaded(name)
    except AttributeError as error:  # `from private_topk import ...` would say that there is no such name
        remedy = (
            "if an earlier import was interrupted, Python cannot load the rest: restart it, in a notebook the kernel"
        )
        raise ImportError(f"{name} cannot be loaded ({error}): {remedy}") from error


def _loaded(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    _load_beam()
    if name == "preview":
        value = getattr(import_module(f"{__name__}.pipelines.preview"), name)
    elif name in ("rank", "dry_run", "Rankings"):
        value = getattr(import_module(f"{__name__}.pipelines.rank"), name)
    elif name == "WriteRankings":
        value = getattr(import_module(f"{__name__}.pipelines.write_rankings"), name)
    else:
        if name in ("PrivateTopK", "UnknownDomain"):  # transforms read no files: these let a list be a path
            import_module(f"{__name__}.pipelines.sources.domain")
        room = "transforms" if name in _OF_TRANSFORMS else "transforms.mechanisms"
        value = getattr(import_module(f"{__name__}.{room}"), name)
    return value


def _load_beam() -> None:
    """Load Beam without its warning that BigQuery's client is missing, which also gives the root logger a handler."""
    root, silent = logging.getLogger(), logging.NullHandler()

    def heard(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("apitools not found")

    root.addHandler(silent)
    root.addFilter(heard)
    try:
        import_module("apache_beam")
    finally:
        root.removeFilter(heard)
        root.removeHandler(silent)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes as long to load as all else of `--help`

    try:
        return version("private-topk")
    except PackageNotFoundError:  # a checkout on the path that was never installed
        return "unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
