"""Near names: what people type, beside what they meant; and that nothing is suggested where nothing is meant."""

from __future__ import annotations

import pytest

from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.near import did_you_mean, nearest

FLAGS = [
    f"--{name}"
    for name in "input user-column item-column time-column time-unit domain domain-column unknown-domain mechanism k "
    "epsilon delta skew gamma noise beta kbar neighbours max-items-per-user publish-counts publish-counts-delta "
    "privacy-unit horizon ledger dataset window every time-zone from to release-key release-id output overwrite runner "
    "shards quiet show-left-out".split()
]
COMMANDS = ["run", "stream", "report", "plan", "budget", "select", "mechanisms", "sample"]

MEANT = [
    (FLAGS, {
        "--user-col": "--user-column", "--user": "--user-column", "--user_column": "--user-column",
        "--User-Column": "--user-column", "--inptu": "--input", "--imput": "--input", "--inputs": "--input",
        "--epsilonn": "--epsilon", "--eps": "--epsilon", "--espilon": "--epsilon", "--epslon": "--epsilon",
        "--publish": "--publish-counts", "--publish-count": "--publish-counts", "--counts": "--publish-counts",
        "--neighbors": "--neighbours", "--max-items": "--max-items-per-user", "--maxitems": "--max-items-per-user",
        "--key": "--release-key", "--releaseid": "--release-id", "--windows": "--window", "--windwo": "--window",
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

NOTHING = [
    (FLAGS, "--n --id --x --start --end --too --period --time --date --format --algorithm --rows --items --help --top "
            "--release --file --project --temp_location --direct_num_workers --input-format --column"),
    (list(MECHANISMS), "zcdp restricted exponential geometric sparse-vector topk domain x"),
    (COMMANDS, "go start publish ledger version draw"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "meant"), MEANT)
def test_slips_are_recognised(known: list[str], meant: dict[str, str]) -> None:
    assert {word: nearest(word, known) for word in meant} == meant


@pytest.mark.parametrize(("known", "words"), NOTHING)
def test_a_wrong_guess_is_worse_than_none(known: list[str], words: str) -> None:
    assert {word: nearest(word, known) for word in words.split()} == dict.fromkeys(words.split())


@pytest.mark.parametrize("known", [FLAGS, list(MECHANISMS), COMMANDS])
def test_every_slip_of_one_letter_in_a_long_name_is_recognised_or_unclear(known: list[str]) -> None:
    """`--tiem-column` is as near to --time-column as to --item-column."""
    found = []
    for name in (name.lstrip("-") for name in known if len(name.lstrip("-")) >= 5):
        swapped = [name[:n] + name[n + 1] + name[n] + name[n + 2 :] for n in range(len(name) - 1)]
        words = {*(name[:n] + name[n + 1 :] for n in range(len(name))), *swapped} - set(known)
        found += [(name, nearest(word, [other.lstrip("-") for other in known])) for word in words]
    assert not [pair for pair in found if pair[1] not in (pair[0], None)]
    assert sum(guess is None for _, guess in found) <= len(found) / 50


def test_the_remedy_where_there_is_no_guess() -> None:
    assert did_you_mean("jiont", MECHANISMS) == "did you mean joint?"
    assert did_you_mean("zcdp", MECHANISMS, "see the list") == "see the list"
