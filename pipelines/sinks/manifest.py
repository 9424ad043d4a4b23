"""The manifest: what was published and how, for anyone who reads the ranking. Nothing private."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from private_topk.pipelines.publishing import manifest_path
from private_topk.transforms.keys import Release
from private_topk.transforms.mechanisms.weighting import UNIT
from private_topk.transforms.release import Ranking
from private_topk.transforms.selection import Selection

__all__ = ["describe_release", "encode_manifest", "manifest_path"]

_NOTHING = {"guarantee": "none: made for a test, with no noise or with noise that anybody can take off"}
_PACKAGES = ("private-topk", "apache-beam", "cryptography", "fastavro", "numpy", "polars", "pyarrow", "python-flint")


def describe_release(selection: Selection, release: Release, runner: str) -> dict[str, Any]:
    """All of the manifest that is known before the job starts: the key is named where it is read."""
    mechanism = selection.mechanism
    parameters, most = mechanism.parameters(), selection.max_windows_per_user
    private = mechanism.guarantee.privacy != "none" and release.key.is_secret
    return {
        **({} if private else {"private": False}),
        "report": release.id,
        "key_id": None,
        "runner": runner,
        "mechanism": mechanism.about.name,
        "answer": mechanism.guarantee.answer,
        "parameters": parameters,
        "k": selection.k,
        "max_items_per_user": selection.max_items_per_user,
        **({} if most is None else {"max_windows_per_user": most}),
        **({} if selection.risers is None else {"against": selection.risers.describe()}),
        **_groups(selection),
        **({} if selection.amounts is None else {"amounts": selection.amounts.describe()}),
        **_weights(selection),
        "delta_of_a_shared_hash": _of_a_shared_hash(selection),
        "privacy": _NOTHING
        if not private
        else {
            "epsilon": selection.epsilon(),
            "delta": selection.delta(),
            "ranking": {"epsilon": parameters["epsilon"], "delta": parameters.get("delta", 0)},
            "noisy_counts": selection.publish_counts and selection.publish_counts.parameters(),
            "neighbours": parameters["neighbours"],
            "unit": "one user's rows within one window",
            "guarantee": "approximate" if selection.delta() else "pure",
        },
        **({"counts_rounded_to": selection.publish_counts.round_to} if selection.publish_counts else {}),
        "domain": selection.domain.describe(),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
    }


def encode_manifest(facts: dict[str, Any], rankings: Iterable[Ranking], output: str, rows: bytes) -> bytes:
    """The manifest with its windows. How many items were returned is part of what is published.

    Args:
        rows: the ranking file that it is the manifest of, which it names by its SHA-256.
    """
    windows = sorted(({
        "start": ranking.window.start and ranking.window.start.isoformat(),
        "end": ranking.window.end and ranking.window.end.isoformat(),
        **({} if ranking.group is None else {"group": ranking.group}),
        "returned": len(ranking.items),
        **_noise(ranking),
    } for ranking in rankings), key=lambda window: (window["start"] or "", window.get("group", "")))  # fmt: skip
    digest = hashlib.sha256(rows).hexdigest()
    whole = {**facts, "output": output.rpartition("/")[2], "ranking_sha256": digest, "windows": windows}
    return (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode()


def _groups(selection: Selection) -> dict[str, Any]:
    if selection.groups is None:
        return {}
    return {"groups": selection.groups.describe() | {"rankings_of_a_user": selection.rankings_of_a_user()}}


def _weights(selection: Selection) -> dict[str, Any]:
    weighting = selection.mechanism.weighting
    if weighting is None:
        return {}
    weights: dict[str, Any] = {"of_a_user_with_t_items": f"min(1, sqrt({weighting.whole_items} / t))"}
    if selection.mechanism.guarantee.publishes_weights:
        weights["noise_stddev"] = float(f"{float(weighting.noise / UNIT):.6g}")
    return {"weights": weights}


def _noise(ranking: Ranking) -> dict[str, Any]:
    if ranking.noise is None:
        return {}
    return {"noise_stddev": ranking.noise.stddev, "noise_95": ranking.noise.within_95}


def _of_a_shared_hash(selection: Selection) -> float:
    """What each other user adds to delta, at most, for the chance that two users share a hash: see docs/privacy.md."""
    bounded = selection.max_items_per_user or selection.max_windows_per_user or selection.groups is not None
    return 2.0**-64 if bounded else 0.0


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
