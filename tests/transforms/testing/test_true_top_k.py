"""What stands in for a mechanism in tests: the true answer, and refused wherever people could be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.question import Question
from private_topk.pipelines.release.describe import manifest_of
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.mechanisms import Joint, Mechanism, RandomBits, mechanism_by_name
from private_topk.transforms.release import Release
from private_topk.transforms.spec import TopK
from private_topk.transforms.testing import TrueTopK, fixed_release
from tests.pipelines.support import command, write
from tests.refusals import refused


def test_true_top_k_is_exact_for_all_small_counts() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(4)] * 4), axis=-1).reshape(-1, 4)
    for counts in grid:
        true = sorted(range(4), key=lambda n: (-counts[n], n))
        for k in (1, 2, 4):
            assert TrueTopK()(counts, k, RandomBits.fresh()).tolist() == true[:k], counts


def test_true_top_k_is_refused_as_a_mechanism_name() -> None:
    for name in ("private_topk.transforms.testing:TrueTopK", "private_topk.transforms.testing.true_top_k:TrueTopK"):
        with refused("mechanism", "protects nobody"):
            mechanism_by_name(name)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--input", "rows.csv", "--output", "out.csv", "--domain", "items.txt"],
        ["stream", "--input", "rows", "--output", "out", "--domain", "items.txt"],
        ["select", "--counts", "counts.csv"],
        ["preview", "--privacy-unit", "user", "--horizon", "4"],
    ],
)
def test_every_command_refuses_true_top_k(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", "user,item\na,tea\n")
    write(tmp_path / "items.txt", "tea\n")
    write(tmp_path / "counts.csv", "item,count\ntea,1\n")
    done = command(*words, "--mechanism", "private_topk.transforms.testing:TrueTopK", "--k", "1", "--epsilon", "1")
    assert done.status == 2 and "protects nobody" in done.err, done.err
    assert not (tmp_path / "out.csv").exists()


def test_no_budget_covers_true_top_k() -> None:
    with refused("mechanism", "true-top-k protects nobody, so no budget covers it"):
        TrueTopK().cost(1)


@pytest.mark.parametrize(
    ("mechanism", "release", "private"),
    [
        (TrueTopK(), Release.fresh(), False),
        (TrueTopK(), fixed_release(), False),
        (Joint(epsilon=1.0), fixed_release(), False),
        (Joint(epsilon=1.0), Release.fresh(), True),
    ],
)
def test_a_manifest_says_whether_the_ranking_is_private(mechanism: Mechanism, release: Release, private: bool) -> None:
    spec = Question(TopK(1, mechanism, PublicDomain.of(["a"])), release=release)
    facts = json.loads(manifest_of(spec).encode())
    assert facts.get("private", True) is private and ("privacy" in facts) is private


def test_a_fixed_release_is_the_same_everywhere_and_in_no_other_way_special() -> None:
    assert fixed_release() == fixed_release() and fixed_release().key.key_id() == "c64e311bf2b77d97"
    assert fixed_release("another").id == "another" and not fixed_release().key.is_secret
    assert Release.fresh().key.is_secret
