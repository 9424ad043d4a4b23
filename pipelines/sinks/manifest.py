"""The manifest: what was published and how, for anyone who reads the ranking. Nothing private."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from private_topk.pipelines.publishing import manifest_path
from private_topk.pipelines.sinks.formats import in_order
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.release import Ranking, Release
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import utc_text

__all__ = ["describe_release", "encode_manifest", "manifest_path"]

_NOTHING = {"guarantee": "none: made for a test, with no noise or with noise that anybody can take off"}
_PACKAGES = ("private-topk", "apache-beam", "cryptography", "fastavro", "numpy", "polars", "pyarrow", "python-flint")


def describe_release(spec: TopK, release: Release, runner: str) -> dict[str, Any]:
    """The part of the manifest that is known before the job starts; the key's id is added where the key is read."""
    mechanism = spec.mechanism
    parameters, most = mechanism.parameters(), spec.max_windows_per_user
    private = mechanism.guarantee.privacy != "none" and release.key.is_secret
    return {
        **({} if private else {"private": False}),
        "report": release.id,
        "key_id": None,
        "runner": runner,
        "mechanism": mechanism.about.name,
        "answer": mechanism.guarantee.answer,
        "parameters": parameters,
        "k": spec.k,
        "max_items_per_user": spec.max_items_per_user,
        **({} if most is None else {"max_windows_per_user": most}),
        **({} if spec.risers is None else {"against": spec.risers.describe()}),
        **_groups(spec),
        **({} if spec.amounts is None else {"amounts": spec.amounts.describe()}),
        **_weights(spec),
        "delta_of_a_shared_hash": _of_a_shared_hash(spec),
        "privacy": _NOTHING
        if not private
        else {
            "epsilon": spec.epsilon(),
            "delta": spec.delta(),
            "ranking": {"epsilon": parameters["epsilon"], "delta": parameters.get("delta", 0)},
            "noisy_counts": spec.publish_counts and spec.publish_counts.parameters(),
            "neighbours": parameters["neighbours"],
            "unit": "one user's rows within one window",
            "guarantee": "approximate" if spec.delta() else "pure",
        },
        **_counts(spec),
        "domain": spec.domain.describe(),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
    }


def encode_manifest(facts: dict[str, Any], rankings: Iterable[Ranking], output: str, rows: bytes) -> bytes:
    """The manifest with its windows. How many items were returned is part of what is published.

    Args:
        rows: the content of the ranking file, which the manifest identifies by its SHA-256.
    """
    windows = [{
        "start": ranking.window.start and utc_text(ranking.window.start),
        "end": ranking.window.end and utc_text(ranking.window.end),
        **({} if ranking.group is None else {"group": ranking.group, "group_number": ranking.group_number}),
        "returned": len(ranking.items),
        **_noise(ranking),
    } for ranking in in_order(rankings)]  # fmt: skip
    digest = hashlib.sha256(rows).hexdigest()
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    manifest = {
        **facts,
        "released": today,
        "output": output.rpartition("/")[2],
        "ranking_sha256": digest,
        "windows": windows,
    }
    return (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()


def _counts(spec: TopK) -> dict[str, Any]:
    counts = spec.publish_counts
    if counts is None:
        return {}
    hidden = {} if counts.hide_below is None else {"counts_hidden_below": counts.hide_below}
    others = {} if counts.others is None else {"others_published": True}
    return {"counts_rounded_to": counts.round_to, **hidden, **others}


def _groups(spec: TopK) -> dict[str, Any]:
    if spec.groups is None:
        return {}
    return {"groups": spec.groups.describe() | {"rankings_of_a_user": spec.rankings_of_a_user()}}


def _weights(spec: TopK) -> dict[str, Any]:
    weighting = spec.mechanism.weighting
    if weighting is None:
        return {}
    weights: dict[str, Any] = {"of_a_user_with_t_items": f"min(1, sqrt({weighting.whole_items} / t))"}
    if spec.mechanism.guarantee.publishes_weights:
        weights["noise_stddev"] = float(f"{float(weighting.noise / UNIT):.6g}")
    return {"weights": weights}


def _noise(ranking: Ranking) -> dict[str, Any]:
    if ranking.noise is None:
        return {}
    return {"noise_stddev": ranking.noise.stddev, "noise_95": ranking.noise.within_95}


def _of_a_shared_hash(spec: TopK) -> float:
    """The most that each other user adds to delta, since two users may share a hash.

    Proof. Compare two data sets under one key. Unless whoever joins shares a hash with one of the n others, they are
    neighbours as hashes too. The probability of an answer is a mean over keys: at most exp(epsilon) times that of the
    other data set, and the part of the keys where a hash is shared, at most n / 2**64. Under "swap" either of two users
    may share one: twice as many. Where no bound chooses among a user's rows, two users who count as one move scores
    no more than the one who joins: nothing is added.
    """
    bounded = spec.max_items_per_user or spec.max_windows_per_user or spec.groups is not None
    swapped = spec.mechanism.parameter("neighbours", "add-remove") == "swap"
    return 2.0 ** (-63 if swapped else -64) if bounded else 0.0


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
