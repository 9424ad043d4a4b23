"""Near names: what people type, beside what they meant."""

from __future__ import annotations

import pytest

from private_topk.transforms.errors import did_you_mean
from private_topk.transforms.mechanisms import MECHANISMS

FLAGS = [
    f"--{name}"
    for name in "input user-column item-column time-column time-unit domain domain-column unknown-domain mechanism k "
    "epsilon delta skew gamma noise beta kbar neighbours max-items-per-user publish-counts publish-counts-delta "
    "privacy-unit horizon ledger dataset window every time-zone from to release-key release-id output overwrite runner "
    "shards quiet show-dropped-rows".split()
]
COMMANDS = ["run", "stream", "report", "plan", "budget", "select", "mechanisms", "sample"]

MEANT = [
    (FLAGS, {
        "--user-col": "--user-column", "--user": "--user-column", "--user_column": "--user-column",
        "--User-Column": "--user-column", "--inptu": "--input", "--imput": "--input", "--inputs": "--input",
        "--epsilonn": "--epsilon", "--eps": "--epsilon", "--espilon": "--epsilon", "--epslon": "--epsilon",
        "--publish": "--publish-counts", "--publish-count": "--publish-counts", "--counts": "--publish-counts",
        "--neighbors": "--neighbours", "--max-items": "--max-items-per-user", "--maxitems": "--max-items-per-user",
        "--releaseid": "--release-id", "--windows": "--window", "--windwo": "--window",
        "--form": "--from", "--mechanisms": "--mechanism", "--out": "--output", "--overwite": "--overwrite",
        "--shard": "--shards", "--unknown": "--unknown-domain", "--private-unit": "--privacy-unit",
        "--time_zone": "--time-zone", "--timezone": "--time-zone",
    }),
    (list(MECHANISMS), {
        "jiont": "joint", "Joint": "joint", "jont": "joint", "joint_set": "joint-set", "joint-sets": "joint-set",
        "laplase": "laplace", "gausian": "gaussian", "gama": "gamma", "canonicle": "canonical", "peling": "peeling",
        "one-shot": "oneshot", "top-stabel": "top-stable", "cdp": "cdp-peeling", "limit": "limit-domain",
        "fast": "fast-joint", "restricted-lapalce": "restricted-laplace",
    }),
    (COMMANDS, {"rum": "run", "steam": "stream", "reprot": "report", "buget": "budget", "mechanism": "mechanisms"}),
]  # fmt: skip


@pytest.mark.parametrize(("known", "meant"), MEANT)
def test_slips_are_recognised(known: list[str], meant: dict[str, str]) -> None:
    assert {word: did_you_mean(word, known) for word in meant} == {
        word: f"did you mean {name}?" for word, name in meant.items()
    }


@pytest.mark.parametrize("word", ["zcdp-x", "exponential", "x", "", "-" * 9, "y" * 100_000])
def test_the_remedy_where_nothing_is_like_it(word: str) -> None:
    assert did_you_mean(word, MECHANISMS, "see the list") == "see the list"
    assert did_you_mean(word, []) == ""
